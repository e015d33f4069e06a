"""Attribute values and their order.

A value is a bool, a 64-bit integer, a double, a string or a timestamp (an aware
datetime; UTC microseconds). Types are strict: two values compare only when they are
of one *kind*; integers and floats are both numbers and compare exactly. `None` and
NaN are NULL: absent.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TypeAlias

from tidings.errors import EventError

Value: TypeAlias = bool | int | float | str | datetime

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


class Kind(IntEnum):
    """Values of different kinds never compare; the numbers give `sort_key` its order."""

    BOOL = 0
    NUMBER = 1
    STRING = 2
    TIME = 3


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    datetime: Kind.TIME,
}


def kind_of(value: object) -> Kind | None:
    """The kind of a value; None for NULL (absent, None, NaN) and for what is no value."""
    kind = _KINDS.get(type(value))
    if kind is Kind.NUMBER and value != value:  # NaN
        return None
    return kind


def sort_key(value: Value) -> tuple[int, Any]:
    """A total order over all values: by kind, then by value."""
    return (_KINDS[type(value)], value)


def checked_value(name: str, value: Any) -> Value | None:
    """`value` as an attribute value, or an `EventError` that names the attribute."""
    kind = type(value)
    if kind is str:
        _check_text(name, value)
    elif kind is int:
        if not INT_MIN <= value <= INT_MAX:
            raise EventError(
                f"attribute {name!r} is {value}, outside 64 bits", hint="use a float or a string"
            )
    elif kind is datetime:
        if value.tzinfo is None:
            raise EventError(
                f"attribute {name!r} is a datetime without a time zone",
                hint="use datetime.now(UTC) or .replace(tzinfo=...)",
            )
        return checked_time(value)
    elif kind not in (bool, float, type(None)):
        return _plain_value(name, value)
    result: Value | None = value
    return result


def utc(moment: datetime) -> datetime:
    """The same moment in UTC, as timestamps are kept."""
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def checked_time(moment: datetime) -> datetime:
    """The moment in UTC, or an `EventError` when UTC's calendar has no such year."""
    try:
        return utc(moment)
    except OverflowError:
        raise EventError(f"the time {moment.isoformat()} is outside the years 1 to 9999 in UTC") from None


def _check_text(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise EventError(f"attribute {name!r} holds text that is not Unicode: {error.reason}") from None


def _plain_value(name: str, value: Any) -> Value | None:
    """Subclasses (an enum of strings, a NumPy number) as their plain value."""
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return checked_value(name, plain(value))
    if isinstance(value, datetime):
        return checked_value(name, datetime.fromisoformat(value.isoformat()))
    item = getattr(value, "item", None)  # NumPy scalars
    if callable(item) and getattr(value, "shape", None) == ():
        return checked_value(name, item())
    raise EventError(
        f"attribute {name!r} is a {type(value).__name__}",
        hint="attributes are bool, int, float, str, datetime or mappings of these; put the rest in payload=",
    )


def is_null(value: object) -> bool:
    """True for an absent value: None or NaN."""
    return value is None or (type(value) is float and math.isnan(value))

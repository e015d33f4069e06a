"""Attribute values of filters, and their order.

A value is a bool, a number (a 64-bit integer, a double or, of an event, a decimal), a string or a
timestamp (an aware datetime; UTC microseconds). Types are strict: two values compare only when they
are of one *kind*; numbers compare exactly. `None` and NaN are NULL: absent. An event carries more than
these (`model.body`); a filter's constants are these without decimals.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any, TypeAlias

from tidings.errors import EventError

Value: TypeAlias = bool | int | float | str | datetime | Decimal
NUMBERS = frozenset({int, float, Decimal})

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


class Kind(IntEnum):
    """Values of different kinds never compare; the numbers give `sort_key` its order."""

    BOOL = 0
    NUMBER = 1
    STRING = 2
    TIME = 3
    OTHER = 4  # a list, or a value without an order: it exists, and no constant is of this kind


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    Decimal: Kind.NUMBER,
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
    """`value` as a constant of a filter, or an `EventError` that names it."""
    kind = type(value)
    if kind is str:
        checked_text(name, value)
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


def checked_text(name: str, value: str) -> str:
    """The text itself, or an `EventError` that names the attribute when it is not Unicode."""
    if not is_unicode(value):
        raise EventError(
            f"attribute {name!r} holds text that is not Unicode: half of a surrogate pair",
            hint="leave such characters out, or give the text as bytes",
        )
    return value


def is_unicode(text: str) -> bool:
    """Can the text be written as UTF-8? Half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
        hint="a filter compares with bool, int, float, str and datetime",
    )


def is_null(value: object) -> bool:
    """True for an absent value: None or NaN."""
    return value is None or (type(value) is float and math.isnan(value))

"""Values that JSON lacks, as text under the name of their kind, and back without loss.

One table for CloudEvents, histories and the command line: `decimal`, `uuid`, `date`, `clock` (a time of day),
`local` (a datetime without a zone), `integer` (beyond 64 bits), `duration` (microseconds), `bytes` (base64).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import msgspec

from tidings.model.value import INT_MAX, INT_MIN

_FOLD = ";fold=1"

_WRITERS: dict[type, tuple[str, Callable[[Any], str]]] = {
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
    date: ("date", date.isoformat),
    time: ("clock", lambda value: as_text_with_fold(value)),
    datetime: ("local", lambda value: as_text_with_fold(value)),
    timedelta: ("duration", lambda value: str(value // timedelta(microseconds=1))),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
}


def as_text_with_fold(value: datetime | time) -> str:
    """A moment without a zone, or a time of day: ISO 8601, and a mark for the second of two hours of one
    name."""
    return value.isoformat() + (_FOLD if value.fold else "")


def local_from(text: str) -> datetime:
    """A datetime without a zone from `as_text_with_fold`. Raises ValueError."""
    plain, mark, rest = text.partition(_FOLD)
    moment = datetime.fromisoformat(plain)
    if moment.tzinfo is not None or rest:
        raise ValueError("it has a zone")
    return moment.replace(fold=1) if mark else moment


def clock_from(text: str) -> time:
    """A time of day from `as_text_with_fold`. Raises ValueError."""
    plain, mark, rest = text.partition(_FOLD)
    if rest:
        raise ValueError("it is no time of day")
    return time.fromisoformat(plain).replace(fold=1 if mark else 0)


_READERS: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "uuid": UUID,
    "date": date.fromisoformat,
    "clock": clock_from,
    "local": local_from,
    "integer": int,
    "duration": lambda text: timedelta(microseconds=int(text)),
    "bytes": lambda text: base64.b64decode(text, validate=True),
}
TEXT_KINDS = tuple(_READERS)
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # doubles as text, as Pydantic reads them


def as_kind_and_text(value: Any) -> tuple[str, str] | None:
    """The kind and the text of a value that JSON lacks; None for any other, and for a moment with a zone."""
    cls = type(value)
    if cls is int and not INT_MIN <= value <= INT_MAX:
        return "integer", str(value)
    if cls not in _WRITERS or (cls is datetime and value.tzinfo is not None):
        return None
    kind, write = _WRITERS[cls]
    return kind, write(value)


def from_kind_and_text(kind: str, text: Any) -> Any:
    """The value again. Raises ValueError when the text is none of that kind."""
    try:
        return _READERS[kind](text)
    except (TypeError, AttributeError, InvalidOperation, OverflowError) as error:
        raise ValueError(f"{text!r} is no {kind}") from error


def json_ready(value: Any, *, is_finite: bool = True) -> Any:
    """A value as JSON encoders take it, its kind forgotten: text in place of a value that JSON lacks, in the
    form that classes read (a duration as ISO 8601 has it, a number that is none as `NaN` and `Infinity`).
    With `is_finite=False` such a number stays, for a writer that marks it."""
    cls = type(value)
    if cls is dict:
        return {name: json_ready(item, is_finite=is_finite) for name, item in value.items()}
    if cls is list or cls is tuple:
        return [json_ready(item, is_finite=is_finite) for item in value]
    if is_finite and cls is float and not math.isfinite(value):
        return NOT_FINITE[str(value)]
    if cls is int:
        return value  # JSON's numbers have any number of digits
    if cls is timedelta:
        return msgspec.to_builtins(value)
    if cls is time or (cls is datetime and value.tzinfo is None):
        return value.isoformat()
    known = as_kind_and_text(value)
    return value if known is None else known[1]

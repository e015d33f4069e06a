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

_WRITERS: dict[type, tuple[str, Callable[[Any], str]]] = {
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
    date: ("date", date.isoformat),
    time: ("clock", time.isoformat),
    datetime: ("local", datetime.isoformat),
    timedelta: ("duration", lambda value: str(value // timedelta(microseconds=1))),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
}


def _local(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError("it has a zone")
    return moment


_READERS: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "uuid": UUID,
    "date": date.fromisoformat,
    "clock": time.fromisoformat,
    "local": _local,
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
    if cls is timedelta:
        return msgspec.to_builtins(value)
    known = as_kind_and_text(value)
    return value if known is None else known[1]

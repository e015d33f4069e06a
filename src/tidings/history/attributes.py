"""An event's attributes as plain JSON values, and back without loss.

JSON has no timestamps, no infinities and no decimals. A value that it lacks is an object of one name
that begins with `$`: `{"$timestamp": "…Z"}`, `{"$number": "inf"}`, `{"$decimal": "12.50"}`, `{"$uuid": …}`,
and so on (`model.textual` has the table). A name of the user's own that begins with `$`
gets one more `$`. NaN is NULL. Everything else is plain JSON, so that people can write histories by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidings.errors import HistoryError
from tidings.model.event import MAX_NESTING
from tidings.model.textual import TEXT_KINDS, as_kind_and_text, from_kind_and_text
from tidings.model.value import utc

_TIMESTAMP = "$timestamp"
_NUMBER = "$number"
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def to_json_values(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Values that any JSON encoder takes."""
    return {_escaped(name): _to_json(value) for name, value in attributes.items()}


def from_json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes again; a value that no attribute can have is a `HistoryError`."""
    return _mapping(values, 1)


def _escaped(name: str) -> str:
    return "$" + name if name.startswith("$") else name


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return to_json_values(value)
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return {_TIMESTAMP: utc(value).isoformat().replace("+00:00", "Z")}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else {_NUMBER: "inf" if value > 0 else "-inf"}
    known = as_kind_and_text(value)
    return value if known is None else {f"${known[0]}": known[1]}


def _mapping(values: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth > MAX_NESTING:
        raise HistoryError(f"attributes nested more than {MAX_NESTING} deep")
    return {_unescaped(name): _from_json(value, depth) for name, value in values.items()}


def _unescaped(name: str) -> str:
    if not name.startswith("$"):
        return name
    if not name.startswith("$$"):
        raise HistoryError(f"attribute name {name!r}: a leading $ is written twice in a history")
    return name[1:]


def _from_json(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        if depth > MAX_NESTING:
            raise HistoryError(f"attributes nested more than {MAX_NESTING} deep")
        return [_from_json(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return _scalar(value)
    if len(value) == 1:
        if _TIMESTAMP in value:
            return _timestamp(value[_TIMESTAMP])
        if _NUMBER in value:
            return _infinity(value[_NUMBER])
        kind, text = next(iter(value.items()))
        if kind[:1] == "$" and kind[1:] in TEXT_KINDS:
            return _read(kind[1:], text)
    return _mapping(value, depth + 1)


def _read(kind: str, text: Any) -> Any:
    try:
        return from_kind_and_text(kind, text)
    except ValueError as error:
        raise HistoryError(f"{{'${kind}': {text!r}}} cannot be read: {error}") from None


def _scalar(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise HistoryError(f"an attribute is a {type(value).__name__}; attributes are JSON values")


def _timestamp(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise HistoryError(f"{text!r} is no timestamp", hint="write 2026-01-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise HistoryError(f"the timestamp {text!r} has no time zone", hint="end it with Z")
    return utc(moment)


def _infinity(text: Any) -> float:
    if text not in _INFINITIES:
        raise HistoryError(f"{{'$number': {text!r}}}: only inf and -inf are written so")
    return _INFINITIES[text]

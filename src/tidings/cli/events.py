"""Reading JSON lines and turning objects into events.

An object with `specversion` is a CloudEvent. Any other object is an event's attributes; in it
`id source type time topic` are the event's own, as everywhere. An event without an id gets the
number of its line, from 0, and one without a source the source `command line`. A body's own field of
such a name is a member of `data`: a filter reaches it as `data.id`. A member `kinds` that names nulls as
`inf` or `-inf`, as `tidings sub --json` writes it, makes them infinite.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tidings.cli.output import KINDS
from tidings.errors import EventError, InputError
from tidings.model.event import RESERVED, Event, make_event

STDIN = "-"
CHUNK = 1 << 18  # bytes read at once, if there are so many
UNKNOWN_SOURCE = "command line"
NO_NAN = 'leave it out, or give null; the text is "NaN", in double quotes'


def batches(path: str) -> Iterator[list[tuple[int, str]]]:
    """(number from 0, text) of every line, as many at once as are there; `-` is standard input.

    A line that is typed or piped is handed on at once, a file in large pieces.
    """
    if path == STDIN:
        yield from _numbered(sys.stdin.buffer)
        return
    with Path(path).open("rb") as file:
        yield from _numbered(file)


def _numbered(file: Any) -> Iterator[list[tuple[int, str]]]:
    number, rest = 0, b""
    while chunk := file.read1(CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        yield [(number + position, _text_of(line)) for position, line in enumerate(whole)]
        number += len(whole)
    if rest:
        yield [(number, _text_of(rest))]


def _text_of(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")


def lines(path: str) -> Iterator[tuple[int, str]]:
    """The same, one by one."""
    return (line for batch in batches(path) for line in batch)


JSON_LINES = "JSON lines are expected: one object on each line"


def json_object(text: str, where: str, *, hint: str | None = JSON_LINES) -> dict[str, Any]:
    """The object on a line, or an `InputError` that says where it is wrong."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error.msg} at column {error.colno}", hint=hint) from None
    except RecursionError:
        raise InputError(f"{where}: JSON nested too deeply") from None
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: a JSON object was expected, not {_name(value)}", hint=hint)
    return value


def _name(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def whole_object(path: str) -> dict[str, Any]:
    """One JSON object that fills a file (or standard input)."""
    whole = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    return json_object(_text_of(whole), "standard input" if path == STDIN else path, hint=None)


def event_id(given: Mapping[str, Any], number: int) -> str:
    """Name of this event in results: its own id, or the number of its line."""
    id = given.get("id")
    return str(number) if id is None else id if isinstance(id, str) else json.dumps(id)


def to_publish(text: str, where: str) -> tuple[dict[str, Any], Event]:
    """The object on a line and the whole event that it stands for; an `InputError` names the line."""
    given = json_object(text, where)
    try:
        return given, whole_event(given)
    except EventError as error:
        raise EventError(f"{where}: {error.message}", hint=error.hint) from None


def whole_event(given: Mapping[str, Any]) -> Event:
    """The event that a JSON object stands for; `EventError` when a part of it would be lost."""
    try:
        _refuse_losses(given, "")
    except RecursionError:
        raise EventError("an event that is nested too deeply") from None
    return event_of(given)


def _refuse_losses(value: Any, path: str) -> None:
    if isinstance(value, dict):
        for name, member in value.items():
            _refuse_losses(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for member in value:
            _refuse_losses(member, path)
    elif isinstance(value, float) and math.isnan(value):
        raise EventError(f"attribute {path!r} is NaN, which is no number in JSON", hint=NO_NAN)


def event_of(given: Mapping[str, Any], number: int = 0) -> Event:
    """The event that a JSON object stands for; `EventError` when it stands for none."""
    try:
        return _cloud_event(given, number) if "specversion" in given else _plain_event(given, number)
    except RecursionError:
        raise EventError("an event that is nested too deeply") from None


def _plain_event(given: Mapping[str, Any], number: int) -> Event:
    given = _with_infinities(given)
    return make_event(
        {name: value for name, value in given.items() if name not in RESERVED},
        source=_text(given, "source") or UNKNOWN_SOURCE,
        id=event_id(given, number),
        topic=_text(given, "topic"),
        type=_lineage(given.get("type")),
        time=_time(given.get("time")),
    )


def _with_infinities(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with its infinities; if `kinds` is an attribute of its own, the object stays as it is."""
    kinds = given.get(KINDS)
    if (
        not isinstance(kinds, dict)
        or not kinds
        or not all(kind in ("inf", "-inf") for kind in kinds.values())
    ):
        return given
    left = dict(kinds)
    restored: dict[str, Any] = {
        name: _restored(value, name, left) for name, value in given.items() if name != KINDS
    }
    return given if left else restored


def _restored(value: Any, path: str, left: dict[str, str]) -> Any:
    """The value with numbers for the nulls that `left` names by their paths, where an element of a list has
    its number; paths that were found are taken out of it."""
    if isinstance(value, dict):
        return {name: _restored(item, f"{path}.{name}", left) for name, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, f"{path}.{number}", left) for number, item in enumerate(value)]
    return float(left.pop(path)) if value is None and path in left else value


def _cloud_event(given: Mapping[str, Any], number: int) -> Event:
    """Missing members of the identity get defaults, as for plain objects; other members do not."""
    from tidings.model.cloudevents import UNTYPED, from_mapping

    whole = {"source": UNKNOWN_SOURCE, "type": UNTYPED, **given, "id": event_id(given, number)}
    event = from_mapping(whole)
    return event if "type" in given else msgspec.structs.replace(event, type=())


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise EventError(f"{name!r} is {_name(value)}", hint=f"the event's {name} is a string")
    return value


def _lineage(given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EventError(
            "'type' is neither a string nor a list of strings", hint="the type first, then its ancestors"
        )
    return tuple(names)


def _time(given: Any) -> datetime | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise EventError(f"'time' is {given!r}", hint="write it as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

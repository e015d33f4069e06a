"""From events to columns and back: the schema of `format("tidings")`.

| column | meaning |
|---|---|
| `id`, `source`, `topic`, `time` | the event's own |
| `type` | its lineage, an array of strings; as a string, the type's own name |
| `_log`, `_offset`, `_accepted` | where and when its broker took it in (read only) |
| `_lifetime`, `_key`, `_expires`, `_payload`, `_content_type` | what else an event carries |
| `_rest` | JSON: the attributes that no other column holds |
| any other | the attribute of that name: arrays, structs, decimals, dates and bytes too (`kinds.py`) |

Rules
- A declared schema is a choice: attributes without a column are left out, unless `_rest` is among the
  columns.
- A value that does not fit its column is an error that names the event and the attribute; with `_rest` it
  goes there, and its column is NULL. A number fits a wider column of numbers; no other value fits another
  kind.
- An inferred schema has what a sample of the events has, and always `_rest`: what comes later is not lost.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import msgspec

from tidings.errors import EventError, InputError, SettingsError
from tidings.model.event import FOREVER, Event, make_event
from tidings.model.textual import json_ready
from tidings.pipeline.broker.kinds import columns_of_kinds, fitted, is_plain, widened
from tidings.pipeline.broker.options import COLUMNS, ROW
from tidings.pipeline.broker.reading import Entries, LogSpan, decoded, raw_pages
from tidings.runtime.pages import StoredEntry

OWN = ("id", "source", "topic", "type", "time")
REST = "_rest"
_META: dict[str, Callable[[str, int, StoredEntry], Any]] = {
    "id": lambda log, offset, stored: stored.event.id,
    "source": lambda log, offset, stored: stored.event.source,
    "topic": lambda log, offset, stored: stored.event.topic,
    "time": lambda log, offset, stored: stored.event.time,
    "_log": lambda log, offset, stored: log,
    "_offset": lambda log, offset, stored: offset,
    "_accepted": lambda log, offset, stored: datetime.fromtimestamp(stored.accepted, UTC),
    "_lifetime": lambda log, offset, stored: stored.event.lifetime,
    "_key": lambda log, offset, stored: stored.event.key,
    "_expires": lambda log, offset, stored: stored.event.expires,
    "_payload": lambda log, offset, stored: stored.event.payload,
    "_content_type": lambda log, offset, stored: stored.event.content_type,
}
META = frozenset({*_META, "type", REST})
_META_TYPES = {
    "id": "string", "source": "string", "topic": "string", "time": "timestamp", "_log": "string",
    "_offset": "bigint", "_accepted": "timestamp", "_lifetime": "double", "_key": "string",
    "_expires": "double", "_payload": "binary", "_content_type": "string", REST: "string",
}  # fmt: skip
INFERRED = "id string, source string, topic string, type array<string>, time timestamp"
ADDED = f"{REST} string, _log string, _offset bigint"


# -- from events to columns ----------------------------------------------------------------------


class Columns:
    """Makes Arrow batches of one schema."""

    def __init__(self, schema: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.arrow = to_arrow_schema(schema, timezone="UTC")
        self._fields = list(schema.fields)
        self._check()
        self._attributes = [f.name for f in self._fields if f.name not in META]
        self._has_rest = any(f.name == REST for f in self._fields)

    def _check(self) -> None:
        for field in self._fields:
            name, kind = field.name, field.dataType.simpleString()
            if name in _META_TYPES and kind != _META_TYPES[name]:
                raise InputError(f"the column {name!r} is {_META_TYPES[name]}, not {kind}")
            if name == "type" and kind not in ("string", "array<string>"):
                raise InputError(f"the column 'type' is a string or an array of strings, not {kind}")
            if name.startswith("_") and name not in META:
                raise InputError(f"no column is called {name!r}", hint=f"there are {', '.join(sorted(META))}")

    def read(self, span: LogSpan) -> Iterator[Any]:
        """The batches of a part of a log."""
        quick = None if self._has_rest else Quick.of(self._fields)
        for page in raw_pages(span):
            with _no_collecting():
                batch = self._of_page(span.log, page, quick)
            yield batch

    def _of_page(self, log: str, page: bytes | Entries, quick: Quick | None) -> Any:
        if not isinstance(page, bytes):
            return self.batch(log, page)
        if quick is not None:
            with suppress(msgspec.ValidationError, ValueError):  # some value does not fit: look at each
                return quick.batch(log, page, self.arrow)
        return self.batch(log, decoded(page))

    def batch(self, log: str, entries: Entries) -> Any:
        import pyarrow as pa

        try:
            arrays = [self._array(pa, number, log, entries) for number in range(len(self._fields))]
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            arrays = self._with_care(pa, log, entries)
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _array(self, pa: Any, number: int, log: str, entries: Entries) -> Any:
        name, kind = self._fields[number].name, self.arrow.field(number).type
        if name in _META:
            get = _META[name]
            return pa.array([get(log, offset, stored) for offset, stored in entries], kind)
        if name == "type":
            return pa.array([_type(stored.event, kind) for _, stored in entries], kind)
        if name == REST:
            known = frozenset(self._attributes)
            return pa.array([_rest(stored.event.shared_attributes, known) for _, stored in entries], kind)
        values = [stored.event.shared_attributes.get(name) for _, stored in entries]
        if not is_plain(kind):
            return pa.array([fitted(value, kind) for value in values], kind)
        _refuse_mixture(pa, values, kind)
        return pa.array(values, kind)

    def _with_care(self, pa: Any, log: str, entries: Entries) -> list[Any]:
        """Some value does not fit: find it. With `_rest` it goes there, else it is an error."""
        columns: dict[str, list[Any]] = {field.name: [] for field in self._fields}
        for offset, stored in entries:
            kept, rest = self._fitting(pa, log, offset, stored)
            for field in self._fields:
                name = field.name
                if name in _META:
                    columns[name].append(_META[name](log, offset, stored))
                elif name == "type":
                    columns[name].append(_type(stored.event, self.arrow.field(name).type))
                elif name == REST:
                    columns[name].append(_json(rest) if rest else None)
                else:
                    columns[name].append(kept.get(name))
        return [pa.array(columns[field.name], self.arrow.field(field.name).type) for field in self._fields]

    def _fitting(
        self, pa: Any, log: str, offset: int, stored: StoredEntry
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        kept: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in stored.event.shared_attributes.items():
            if name not in self._attributes:
                rest[name] = value
                continue
            kind = self.arrow.field(name).type
            try:
                found = fitted(value, kind)
                pa.array([found], kind)
                kept[name] = found
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                if not self._has_rest:
                    raise InputError(
                        f"event {stored.event.id} of {stored.event.source} (log {log}, offset {offset}) has "
                        f"{name} = {value!r}, which does not fit the column's type {kind}",
                        hint="declare another type, or add the column `_rest string`, where such values go",
                    ) from None
                rest[name] = value
        return kept, rest


class Quick:
    """Decodes of stored entries just what the columns hold, straight into values of their kinds."""

    def __init__(self, fields: Sequence[Any], kinds: Mapping[str, Any]) -> None:
        self._names = [field.name for field in fields]
        self._places = {name: f"f{number}" for number, name in enumerate(kinds)}
        attributes = msgspec.defstruct(
            "Attributes",
            [(self._places[name], kind | None, None) for name, kind in kinds.items()],
            rename={path: name for name, path in self._places.items()},
            gc=False,
        )
        own = {"id": str, "source": str, "topic": str | None, "time": datetime | None,
            "type": tuple[str, ...],
               "payload": bytes | None, "content_type": str | None, "lifetime": float, "key": str | None,
               "expires": float | None}  # fmt: skip
        wanted = {
            "type" if name == "type" else name.removeprefix("_") for name in self._names if name in META
        }
        event = msgspec.defstruct(
            "Event",
            [
                ("attributes", attributes, msgspec.field(default_factory=attributes)),
                *((name, kind, _DEFAULTS.get(name)) for name, kind in own.items() if name in wanted),
            ],
            kw_only=True,
            gc=False,
        )
        entry = msgspec.defstruct(
            "Entry",
            [("accepted", float), ("expires_at", float | None), ("sequence", int | None), ("event", event)],
            array_like=True,
            gc=False,
        )
        pairs: Any = list[tuple[int, entry]]  # type: ignore[valid-type]
        self._decode = msgspec.msgpack.Decoder(pairs).decode

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Quick | None:
        """None: some column is of a kind that has to be looked at value by value."""
        kinds: dict[str, Any] = {}
        for field in fields:
            if field.name not in META:
                kind = _QUICK.get(field.dataType.simpleString())
                if kind is None:
                    return None
                kinds[field.name] = kind
        return cls(fields, kinds)

    def batch(self, log: str, page: bytes, arrow: Any) -> Any:
        import pyarrow as pa

        entries = self._decode(page)
        arrays = []
        for name in self._names:
            kind = arrow.field(name).type
            if name == "_log":
                values: list[Any] = [log] * len(entries)
            elif name == "_offset":
                values = [offset for offset, _ in entries]
            elif name == "_accepted":
                values = [datetime.fromtimestamp(entry.accepted, UTC) for _, entry in entries]
            elif name == "type":
                values = [_type(entry.event, kind) for _, entry in entries]
            elif name in META:
                get = attrgetter(f"event.{name.removeprefix('_')}")
                values = [get(entry) for _, entry in entries]
            else:
                get = attrgetter(f"event.attributes.{self._places[name]}")
                values = [get(entry) for _, entry in entries]
            arrays.append(pa.array(values, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow)


_QUICK = {"string": str, "bigint": int, "double": int | float, "boolean": bool, "timestamp": datetime}
_DEFAULTS: dict[str, Any] = {"id": "", "source": "", "type": (), "lifetime": 0.0}


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Of the many small objects of a page none is part of a circle: looking for circles is a third of the
    time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _type(event: Any, kind: Any) -> Any:
    if not event.type:
        return None
    return event.type[0] if str(kind) in ("string", "large_string") else list(event.type)


def _rest(attributes: Mapping[str, Any], known: frozenset[str]) -> str | None:
    if attributes.keys() <= known:
        return None
    return _json({name: value for name, value in attributes.items() if name not in known})


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(json_ready(dict(values)), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _refuse_mixture(pa: Any, values: list[Any], kind: Any) -> None:
    """Arrow takes a boolean for a number and a number for a boolean, and cuts fractions off for a column of
    integers; filters do not, so we do not."""
    kinds = {type(value) for value in values}
    kinds.discard(type(None))
    if pa.types.is_boolean(kind):
        if kinds - {bool}:
            raise TypeError
    elif bool in kinds or (pa.types.is_integer(kind) and kinds - {int}):
        raise TypeError


# -- the schema of a sample ----------------------------------------------------------------------


def inferred(events: Iterable[Event]) -> str:
    """The columns of a sample of events, as Spark writes them."""
    seen: dict[str, Any] = {}
    for event in events:
        for name, value in event.shared_attributes.items():
            if name not in META:
                seen[name] = widened(seen.get(name), value)
    return f"{INFERRED}{columns_of_kinds(seen)}, {ADDED}"


# -- from rows to events -------------------------------------------------------------------------

_UNWRITTEN = ("_log", "_offset", "_accepted")  # position in the old log; the new log assigns another


CARRIED = {"id": "event", "source": "event_source"}  # with `identity=row`: the attribute of each column
IDENTITY_HINT = (
    "the option identity says: `row` makes an identity for each row and keeps the id as the attribute "
    "`event`; `columns` takes the column, and the client's name as source; or add the column `source`"
)


def check_identity(names: Sequence[str], identity: str) -> None:
    """Refuse columns of which nothing says whose ids they are. An id is unique to its source: rows with
    the ids of several sources under one source would be repetitions of each other."""
    if identity == COLUMNS and "id" not in names:
        raise SettingsError("identity is 'columns', and the rows have no column 'id'")
    if identity == ROW:
        for name, other in CARRIED.items():
            if name in names and other in names:
                raise InputError(
                    f"the rows have a column {name!r}, which identity = 'row' would keep as {other!r}, "
                    "and a column of that name too",
                    hint="rename or drop one of them",
                )
    if not identity and "id" in names and "source" not in names:
        raise InputError(
            "the rows have a column 'id' and no column 'source', and an id is unique to its source only",
            hint=IDENTITY_HINT,
        )


def event_of(
    row: Mapping[str, Any],
    *,
    source: str,
    id: str,
    topic: str | None,
    lifetime: float,
    identity: str = COLUMNS,
) -> Event:
    """The event that a row publishes; what it does not say comes from the sink. Raises `EventError`."""
    if identity == ROW:
        row = {CARRIED.get(name, name): value for name, value in row.items()}
    elif not identity and row.get("id") and not row.get("source"):
        raise EventError(f"it has the id {row['id']!r} and no source", hint=IDENTITY_HINT)
    attributes = {
        name: _value(value) for name, value in row.items() if name not in META and value is not None
    }
    rest = row.get(REST)
    if rest is not None:
        attributes = {**_opened(rest), **attributes}
    kind = row.get("type")
    return make_event(
        attributes,
        source=row.get("source") or source,
        id=row.get("id") or id,
        topic=row.get("topic") or topic,
        type=tuple(kind) if isinstance(kind, list) else kind,
        time=_aware(row.get("time")),
        payload=row.get("_payload"),
        content_type=row.get("_content_type"),
        lifetime=_seconds(row.get("_lifetime"), lifetime),
        key=row.get("_key"),
        expires=row.get("_expires"),
    )


def _opened(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EventError(f"the column {REST} holds {text[:80]!r}", hint="a JSON object of attributes")
    return found


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _value(each) for name, each in value.items() if each is not None}
    return [_value(each) for each in value] if isinstance(value, list) else value


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _seconds(value: Any, otherwise: float) -> Any:
    """Seconds as `make_event` checks them: a column of texts may hold them too."""
    if value is None:
        return otherwise
    return FOREVER if value == math.inf else value

"""Work of a worker on one bucket of a history: the properties' own functions, over lists.

Rows come in as Arrow batches: facts as narrow rows, tables of earlier passes as encoded records.
Out go records for later passes, and for each property the number of its violations and the first.
Answers of an earlier pass travel through. A history that cannot be judged becomes a row
that says why, since an exception would arrive at the driver as a page of text.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final

import msgspec

from tidings.errors import HistoryError
from tidings.history.facts import Notice, fact_of
from tidings.history.parquet import row_of
from tidings.history.plain import PlainEngine, first_of, grouped
from tidings.history.relations import Columns, PropertyViolations, Violation
from tidings.history.schema import REDELIVERY
from tidings.pipeline.history_plan import Home, PlanNode, PlanStage
from tidings.pipeline.history_rows import row_values

RAW, ANSWER, LARGEST, PROBLEM = -1, -2, -3, -4  # tags; from KEPT on a kept table's, else what travels
KEPT: Final = 1 << 20
OUTPUT: Final = "tag int, k0 string, k1 string, k2 string, data binary"
LEAVING_ROWS: Final = 20_000  # in a batch

_encode = msgspec.msgpack.encode


@dataclass
class Orders:
    """Orders of a stage for its workers; sent once for each stage."""

    check: str  # names the check that this belongs to: what is held is prepared once for each
    answers: list[PlanNode]
    leaving: list[tuple[int, PlanNode, Home]]
    kept: list[PlanNode]
    largest: list[tuple[PlanNode, Callable[[Any], float | None]]]
    arriving: dict[int, PlanNode]  # tag -> origin of the records
    broadcast: Any = None  # a broadcast of {node id: encoded records}

    @classmethod
    def of(cls, stage: PlanStage, check: str, stored: Any) -> Orders:
        arriving = {tag: node for tag, (node, _) in stage.arriving.items()}
        arriving |= {KEPT + node.id: node for node in stage.made_here() if node.stored}
        return cls(check, stage.answers, stage.leaving, stage.kept, stage.largest, arriving, stored)


@dataclass
class RecordBucket:
    """The records that came."""

    facts: dict[type[Any], list[Any]] = field(default_factory=dict)
    tables: dict[int, list[Any]] = field(default_factory=dict)
    passing: list[Any] = field(default_factory=list)  # batches that only travel through


class _CheckState:
    """State of this process for the present check: prepared by the first bucket."""

    def __init__(self) -> None:
        self.check = ""
        self.things: dict[tuple[Any, ...], Any] = {}

    def get(self, check: str, what: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if check != self.check:
            self.check, self.things = check, {}
        if what not in self.things:
            self.things[what] = make()
        return self.things[what]


_PREPARED = _CheckState()


def judged(orders: Orders, batches: Iterable[Any]) -> Iterator[Any]:
    """The body of `mapInArrow`: one call is one bucket (or several: keys never lie across)."""
    gc.disable()  # records hold no cycles, and there are millions of them
    try:
        bucket = _read(orders, batches)
        yield from bucket.passing
        rows = _rows(orders, bucket)
    except HistoryError as error:
        rows = iter([(PROBLEM, (), _encode((error.message, error.hint)))])
    finally:
        gc.enable()
    yield from _batches(rows)


def _rows(orders: Orders, bucket: RecordBucket) -> Iterator[tuple[int, tuple[str, ...], bytes]]:
    """Everything that leaves, made before the first of it is sent, so that errors are whole."""
    making = _Making(orders, bucket)
    for node in orders.answers:
        making.answer(node)
    for node, value in orders.largest:
        seen = PlainEngine({}).largest(making.table(node), value)
        making.small.append((LARGEST, (), _encode((node.id, seen))))
    for node in orders.kept:
        making.table(node)
    for _, node, _ in orders.leaving:
        making.table(node)
    return making.rows()


class _Making:
    """The tables of one bucket, each made when it is first asked for."""

    def __init__(self, orders: Orders, bucket: RecordBucket) -> None:
        self._orders = orders
        self._bucket = bucket
        self._tables: dict[int, list[Any]] = dict(bucket.tables)
        self._came = set(orders.arriving.values())
        self.small: list[tuple[int, tuple[str, ...], bytes]] = []

    def rows(self) -> Iterator[tuple[int, tuple[str, ...], bytes]]:
        yield from self.small
        for node in self._orders.kept:
            for record in self.table(node):
                yield KEPT + node.id, (), _encode(record)
        for tag, node, home in self._orders.leaving:
            for record in self.table(node):
                yield tag, tuple([str(getattr(record, name)) for name in home]), _encode(record)

    def answer(self, node: PlanNode) -> None:
        violations = self.table(node)
        if violations:
            found = (node.id, len(violations), first_of(violations))
            self.small.append((ANSWER, (), _encode(found)))

    def table(self, node: PlanNode) -> list[Any]:
        if node.id not in self._tables:
            self._tables[node.id] = self._made(node)
        return self._tables[node.id]

    def _made(self, node: PlanNode) -> list[Any]:
        if node in self._came:
            return []  # this bucket received none of its records
        if node.how == "facts":
            return self._bucket.facts.get(node.output, [])
        assert node.make is not None
        first, key = node.inputs[0]
        records = self.table(first)
        if node.how == "group":
            return self._grouped(node, grouped(records, key))
        if node.how == "each":
            return [made for record in records for made in node.make(record)]
        index = self._index(node) if records else None
        return [made for record in records for made in node.make(index, record)]

    def _grouped(self, node: PlanNode, groups: dict[Any, list[Any]]) -> list[Any]:
        assert node.make is not None
        nodes = node.broadcast
        others = [
            self._sent_groups(each, columns) if each in nodes else grouped(self.table(each), columns, groups)
            for each, columns in node.inputs[1:]
        ]
        made: list[Any] = []
        for key, records in groups.items():
            made.extend(node.make(records, *[other.get(key, ()) for other in others]))
        return made

    def _index(self, node: PlanNode) -> Any:
        nodes, _ = node.inputs[1]
        assert node.prepare is not None
        prepare = node.prepare
        return self._hold(("index", node.id), lambda: prepare(self._sent_records(nodes)))

    def _sent_groups(self, node: PlanNode, columns: Columns) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = self._hold(
            ("groups", node.id, columns), lambda: grouped(self._sent_records(node), columns)
        )
        return found

    def _sent_records(self, node: PlanNode) -> list[Any]:
        def decoded() -> list[Any]:
            decode = msgspec.msgpack.Decoder(node.output).decode
            return [decode(each) for each in self._orders.broadcast.value[node.id]]

        found: list[Any] = self._hold(("records", node.id), decoded)
        return found

    def _hold(self, what: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        return _PREPARED.get(self._orders.check, what, make)


def _read(orders: Orders, batches: Iterable[Any]) -> RecordBucket:
    bucket = RecordBucket()
    decoders = {
        tag: (node.id, msgspec.msgpack.Decoder(node.output).decode) for tag, node in orders.arriving.items()
    }
    for batch in batches:
        tags = batch.column("tag").to_pylist() if "tag" in batch.schema.names else [RAW] * batch.num_rows
        if RAW in tags:
            _read_facts(batch, tags, bucket.facts)
        _read_records(batch, tags, decoders, bucket)
    return bucket


def _read_records(
    batch: Any,
    tags: list[int],
    decoders: Mapping[int, tuple[int, Callable[[bytes], Any]]],
    bucket: RecordBucket,
) -> None:
    others = [number for number, tag in enumerate(tags) if tag != RAW]
    if not others:
        return
    data = batch.column("data").to_pylist()
    passing: list[int] = []
    for number in others:
        tag = tags[number]
        if tag in decoders:
            table, decode = decoders[tag]
            bucket.tables.setdefault(table, []).append(decode(data[number]))
        else:
            passing.append(number)
    if passing:
        bucket.passing.append(batch.select(["tag", "k0", "k1", "k2", "data"]).take(passing))


def _read_facts(batch: Any, tags: list[int], facts: dict[type[Any], list[Any]]) -> None:
    columns = {name: _values(batch.column(name)) for name in batch.schema.names if name not in _NOT_OF_ROWS}
    notices = facts.setdefault(Notice, [])
    delivered = _notices(columns)
    for number, op in enumerate(columns["op"]):
        if op == "ntfy":
            notices.append(delivered(number))
        elif tags[number] == RAW:
            fact = _fact({name: values[number] for name, values in columns.items()})
            facts.setdefault(type(fact), []).append(fact)


_NOT_OF_ROWS: Final = ("tag", "k0", "k1", "k2", "data", "place")


def _notices(columns: Mapping[str, list[Any]]) -> Callable[[int], Notice]:
    """The notice of a row, as `fact_of` makes it: there are too many for a `Row` of each."""
    absent = [None] * len(columns["op"])
    run, process, time = columns["run"], columns["process"], columns["time"]
    subscription, source = columns.get("subscription", absent), columns.get("source", absent)
    event, sequence = columns.get("event", absent), columns.get("sequence", absent)
    reason, broker = columns.get("reason", absent), columns.get("broker", absent)

    def notice(at: int) -> Notice:
        own = subscription[at]
        return Notice(
            run[at] or "",
            process[at],
            process[at] if own is None else own,
            source[at] or "",
            event[at],
            time[at],
            reason[at] == REDELIVERY,
            sequence[at],
            broker[at] or "",
        )

    return notice


def _fact(values: dict[str, Any]) -> Any:
    more = values.pop("more", None) or {}
    row = {**values, **{name: value for name, value in more.items() if value is not None}}
    try:
        return fact_of(row_of(row_values(row), trusted=False))
    except HistoryError as error:
        what = " ".join(
            str(values[name]) for name in ("process", "subscription", "event") if values.get(name)
        )
        where = f"the {values['op']} row of {what} at {values['time']} s"
        raise HistoryError(f"{where}: {error.message}", hint=error.hint) from None


def _values(column: Any) -> list[Any]:
    """A column as Python values; names that come again and again are one object."""
    kind = str(column.type)
    if kind != "string":
        values: list[Any] = column.to_pylist()
        return values
    encoded = column.dictionary_encode()
    words = [intern(word) for word in encoded.dictionary.to_pylist()]
    return [None if position is None else words[position] for position in encoded.indices.to_pylist()]


def _batches(rows: Iterable[tuple[int, tuple[str, ...], bytes]]) -> Iterator[Any]:
    stored: list[tuple[int, tuple[str, ...], bytes]] = []
    for row in rows:
        stored.append(row)
        if len(stored) == LEAVING_ROWS:
            yield _batch(stored)
            stored = []
    if stored:
        yield _batch(stored)


def _batch(rows: list[tuple[int, tuple[str, ...], bytes]]) -> Any:
    import pyarrow as pa

    tags = pa.array([tag for tag, _, _ in rows], pa.int32())
    keys = [pa.array([k[n] if n < len(k) else None for _, k, _ in rows], pa.string()) for n in range(3)]
    data = pa.array([data for _, _, data in rows], pa.binary())
    return pa.RecordBatch.from_arrays([tags, *keys, data], ["tag", "k0", "k1", "k2", "data"])


def merged(answers: Iterable[bytes]) -> dict[int, PropertyViolations]:
    """The answers of all buckets as one for each table of violations."""
    decode = msgspec.msgpack.Decoder(tuple[int, int, Violation]).decode
    found: dict[int, PropertyViolations] = {}
    for data in answers:
        node, count, first = decode(data)
        old = found.get(node)
        if old is None or old.first is None:
            found[node] = PropertyViolations(count, first)
        else:
            found[node] = PropertyViolations(old.count + count, first_of((old.first, first)))
    return found

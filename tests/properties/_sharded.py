"""An engine that does to tables what a cluster does: every record travels as bytes, groups are
made in partitions that see nothing of one another, and the order of a table is lost.

It shows that the properties depend on nothing but the records of their own group.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tidings.history.plain import PlainEngine
from tidings.history.relations import Columns, PropertyViolations

PARTITIONS = 5


class Shards:
    """A table: encoded records, in partitions, and the type that decodes them."""

    def __init__(self, kind: type[Any], records: Iterable[Any], rng: random.Random) -> None:
        self.kind = kind
        self.partitions: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for record in records:
            rng.choice(self.partitions).append(msgspec.msgpack.encode(record))

    def records(self) -> list[Any]:
        return [record for part in self.partitions for record in self.decoded(part)]

    def decoded(self, part: list[bytes]) -> list[Any]:
        decode = msgspec.msgpack.Decoder(self.kind).decode
        return [decode(each) for each in part]


class ShardedEngine:
    def __init__(self, facts: Mapping[type[Any], list[Any]], seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self._facts = {kind: Shards(kind, records, self.rng) for kind, records in facts.items()}

    def facts(self, kind: type[Any]) -> Shards:
        return self._facts[kind]

    def is_empty(self, table: Shards) -> bool:
        return not any(table.partitions)

    lacks = is_empty

    def each(self, make: Callable[[Any], Iterable[Any]], table: Shards, *, output: type[Any]) -> Shards:
        run = _sent(make)
        return self._shards(output, [made for record in table.records() for made in run(record)])

    def group(
        self,
        make: Callable[..., Iterable[Any]],
        left: tuple[Shards, Columns],
        *rights: tuple[Shards, Columns],
        output: type[Any],
        apart: bool = False,
    ) -> Shards:
        run = _sent(make)
        if apart:  # the left ones of a key may come in several portions
            lefts, columns = left
            others = [(table.records(), keys) for table, keys in rights]
            portions = [lefts.decoded(part) for part in lefts.partitions]
            plain = PlainEngine({})
            made = [x for part in portions for x in plain.group(run, (part, columns), *others, output=output)]
            return self._shards(output, made)
        sides = [(self._shuffled(table, columns), columns) for table, columns in (left, *rights)]
        made = []
        for number in range(PARTITIONS):
            here = [(parts[number], columns) for parts, columns in sides]
            made.extend(PlainEngine({}).group(run, *here, output=output))
        return self._shards(output, made)

    def probe(
        self,
        make: Callable[[Any, Any], Iterable[Any]],
        stream: Shards,
        stored: Shards,
        prepare: Callable[[Iterable[Any]], Any],
        *,
        output: type[Any],
    ) -> Shards:
        run = _sent(make)
        made: list[Any] = []
        for part in stream.partitions:
            index = prepare(stored.records())  # each partition has its own copy
            for record in stream.decoded(part):
                made.extend(run(index, record))
        return self._shards(output, made)

    def largest(self, table: Shards, value: Callable[[Any], float | None]) -> dict[str, float]:
        return PlainEngine({}).largest(table.records(), _sent(value))

    def keep(self, table: Shards) -> None:
        pass

    def found(self, *tables: Shards) -> PropertyViolations:
        return PlainEngine({}).found(*[table.records() for table in tables])

    def _shuffled(self, table: Shards, columns: Columns) -> list[list[Any]]:
        parts: list[list[Any]] = [[] for _ in range(PARTITIONS)]
        records = table.records()
        self.rng.shuffle(records)
        for record in records:
            key = repr([getattr(record, column) for column in columns])
            parts[sum(key.encode()) % PARTITIONS].append(record)
        return parts

    def _shards(self, output: type[Any], records: Iterable[Any]) -> Shards:
        return Shards(output, records, self.rng)


def _sent(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it arrives on another machine."""
    there: Callable[..., Any] = pickle.loads(pickle.dumps(function))
    return there

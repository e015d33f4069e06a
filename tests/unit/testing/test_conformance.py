"""The checks that researchers call in their own tests pass what is sound and find every lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.unit._installing import Install, install
from tests.unit.test_extension_points import STRATEGIES

from tidings.availability.records import Append, Loaded, Record
from tidings.errors import ClosedError
from tidings.model.serialisers import JSON, MSGPACK, SERIALISERS, Serialiser
from tidings.store.memory import MemoryDisk, MemoryStore
from tidings.testing.conformance import check_serialiser, check_store, check_system

__all__ = ["install"]


def opener(kind: Callable[[MemoryDisk], MemoryStore]) -> Callable[[], MemoryStore]:
    disk = MemoryDisk()
    return lambda: kind(disk)


def test_a_sound_store_passes() -> None:
    check_store(opener(MemoryStore))


class Forgets(MemoryStore):
    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(MemoryDisk())


class Reversed(MemoryStore):
    def fetch(self, *given: int) -> list[Append]:
        return super().fetch(*given)[::-1]


class Greedy(MemoryStore):
    def fetch(self, from_offset: int, limit: int, max_bytes: int) -> list[Append]:
        return super().fetch(from_offset, limit, 1 << 30)


class Empty(MemoryStore):
    def fetch(self, *given: int) -> list[Append]:
        return []


class Forges(MemoryStore):
    def get(self, offset: int) -> Append | None:
        found = super().get(offset)
        return None if found is None else msgspec.structs.replace(found, accepted=0.0)


class Late(MemoryStore):
    async def commit(self, records: Sequence[Record]) -> None:  # type: ignore[override]
        super().commit(records)


class Backwards(MemoryStore):
    def load(self) -> Loaded:
        return msgspec.structs.replace(super().load(), next_offset=1)


class Counts(MemoryStore):
    def sizes(self) -> dict[str, int]:
        return {}


class Open(MemoryStore):
    def load(self) -> Loaded:
        try:
            return super().load()
        except ClosedError:
            return Loaded.empty()


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (Forgets, "are there when the store is opened again: next_offset is 9; found: 1"),
        (Reversed, r"fetch\(0, 2, \d+\) gives the entries from 0 on, ascending"),
        (Greedy, r"fetch\(0, 100, 1\) gives one entry"),
        (Empty, r"gives the entries from 0 on, ascending, as they were; found: \[\]"),
        (Forges, r"get\(1\) gives that entry"),
        (Late, "commit is an ordinary function and gives nothing; found: 'coroutine'"),
        (Backwards, "next_offset is 9; found: 1"),
        (Counts, "sizes gives the numbers entries, rows, bytes, commits"),
        (Open, "load of a closed store raises ClosedError"),
    ],
)
def test_a_store_that_lies_is_found(kind: Any, promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_store(opener(kind))


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
def test_the_serialisers_of_the_product_pass(content_type: str) -> None:
    found = SERIALISERS.find(content_type)
    assert found is not None
    check_serialiser(found)


OWN = SERIALISERS.find(JSON)
assert OWN is not None
ENCODE, DECODE = OWN.encode, OWN.decode


def key_error(data: bytes) -> Any:
    return {"n": 1}[data.decode("latin1")] if data in (b"", b"[") else DECODE(data)


@pytest.mark.parametrize(
    ("serialiser", "promise"),
    [
        (Serialiser("", ENCODE, DECODE), "content_type is a text"),
        (Serialiser("x/y", lambda body: None, DECODE), "gives bytes; found: None"),  # type: ignore[arg-type, return-value]
        (Serialiser("x/y", ENCODE, lambda data: [1, 2]), r"gives a dictionary; found: \[1, 2\]"),
        (Serialiser("x/y", ENCODE, lambda data: {"n": 99}), "gives the body as it was"),
        (Serialiser("x/y", ENCODE, key_error), r"decode\(b''\) raises ValueError .*, not KeyError"),
    ],
)
def test_a_serialiser_that_lies_is_found(serialiser: Serialiser, promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_serialiser(serialiser)


LIARS = f"""{STRATEGIES}
import random
from tidings.history.contracts import COMPLETE, make_contract

class Sound(Flood):
    def forward_one(self, envelope, at, came_from, now):
        for link in self.ports.neighbours.links():
            if link != came_from and self.goes():
                self.ports.send(link, Carry(envelope))
    def goes(self):
        return True

class Drops(Sound):
    count = 0
    def goes(self):
        self.count += 1
        return self.count % 3 > 0

class Draws(Sound):
    def goes(self):
        return random.random() < 0.9

CONTRACTS = (make_contract("Whole", *COMPLETE), make_contract("Legal", "legality"))

def judged(name, kind, contract="Whole"):
    return System(
        name=name, contract=contract, model="content", promise="x", graph=TREE,
        strategies=lambda site: broker_slots(site, kind()),
    )

ALL = (judged("sound", Sound), judged("drops", Drops), judged("draws", Draws, "Legal"))
"""


def test_systems_are_judged_by_their_contract_and_replayed(install: Install) -> None:
    install("liars", LIARS, systems="all = ALL", contracts="all = CONTRACTS")
    assert check_system("sound", brokers=4, events=20).published == 20
    with pytest.raises(AssertionError, match=r"drops promises .*completeness.* \(Whole\): "):
        check_system("drops", brokers=4, events=20)
    with pytest.raises(AssertionError, match="draws gives the same run for the same seed"):
        check_system("draws", brokers=4, events=20)

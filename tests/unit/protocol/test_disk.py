"""A node's disk: who waits for which record, a full disk, a failed one."""

from __future__ import annotations

from tidings.availability.records import Forget
from tidings.protocol.disk import NodeDisk
from tidings.protocol.effects import Effect, Persist
from tidings.protocol.inputs import DiskFull, Fetched, FetchFailed, Persisted, PersistFailed


class Bench:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.done: list[str] = []
        self.disk = NodeDisk(self.effects.append, stable=True)

    def persist(self, name: str) -> None:
        self.disk.persist(
            [Forget(1)],
            lambda now: self.done.append(name),
            lambda failure, now: self.done.append(f"not {name}"),
            lambda reason: self.done.append(f"unsure {name}"),
        )


def test_persisted_up_to_a_token_runs_what_waited_in_order() -> None:
    bench = Bench()
    for name in "abc":
        bench.persist(name)
    assert bench.effects == [Persist(token, (Forget(1),)) for token in (1, 2, 3)]
    bench.disk.persisted(Persisted(2), 1.0)
    assert bench.done == ["a", "b"]
    assert bench.disk.waiting == 1
    bench.disk.persisted(Persisted(3), 1.0)
    assert bench.done == ["a", "b", "c"]
    bench.disk.check()


def test_a_full_disk_is_told_to_each_that_waits_once_until_there_is_room() -> None:
    bench = Bench()
    bench.persist("a")
    bench.persist("b")
    bench.disk.disk_full(DiskFull("no room"))
    bench.disk.disk_full(DiskFull("no room"))
    assert bench.disk.full == "no room"
    assert bench.done == ["unsure a", "unsure b"]
    bench.persist("c")
    assert bench.done == ["unsure a", "unsure b", "unsure c"]
    assert [effect.token for effect in bench.effects] == [1, 2, 3], (
        "the driver keeps the order and tries again"
    )
    bench.disk.persisted(Persisted(2), 1.0)
    assert bench.disk.full is None
    assert bench.done[3:] == ["a", "b"]
    bench.disk.check()


def test_any_other_failure_is_final() -> None:
    bench = Bench()
    bench.persist("a")
    bench.persist("b")
    bench.disk.persist_failed(PersistFailed(1, "store", "input/output error"), 1.0)
    assert bench.done == ["not a", "not b"]
    assert bench.disk.failed is not None
    bench.disk.check()


def test_reads_are_answered_by_their_number() -> None:
    bench = Bench()
    seen: list[str] = []
    for name in "ab":
        bench.disk.fetch(
            1,
            10,
            lambda records, now, name=name: seen.append(name),
            lambda failure, now, name=name: seen.append(f"{name}: {failure.code}"),
        )
    bench.disk.fetch_failed(FetchFailed(2, "corrupt", "checksum"), 1.0)
    bench.disk.fetched(Fetched(1, ()), 1.0)
    assert seen == ["b: corrupt", "a"]

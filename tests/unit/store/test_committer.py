"""Group commit: order, sharing of syncs, failure, a full disk, closing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.unit.store._faulty import DiskFault, Fault, FaultyDisk
from tests.unit.store._kit import append

from tidings.availability.records import Append, Forget, Put, Record
from tidings.errors import ClosedError, StoreError
from tidings.store.committer import SKIPS, Committer
from tidings.store.memory import MemoryStore


class Heard:
    """What the callbacks said, with a way to wait for it."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.failed: list[Exception] = []
        self.full: list[Exception] = []
        self._changed = threading.Condition()

    def hearing(self, words: list[Any]) -> Callable[[Any], None]:
        def hear(word: Any) -> None:
            with self._changed:
                words.append(word)
                self._changed.notify_all()

        return hear

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, timeout=120)

    def of(self, store: MemoryStore, **options: Any) -> Committer:
        return Committer(
            store,
            on_kept=self.hearing(self.kept),
            on_failed=self.hearing(self.failed),
            **options,
        )


class Gated(MemoryStore):
    """A store whose commits wait at a gate, and which remembers the groups."""

    def __init__(self, disk: FaultyDisk | None = None) -> None:
        super().__init__(disk)
        self.gate = threading.Event()
        self.arrived = threading.Event()
        self.groups: list[list[Record]] = []

    def commit(self, records: Sequence[Record]) -> None:
        self.arrived.set()
        assert self.gate.wait(20)
        super().commit(records)
        self.groups.append(list(records))


def test_what_is_kept_is_in_the_store() -> None:
    received, store = Heard(), MemoryStore()
    committer = received.of(store)
    committer.submit(1, [append(1)])
    received.wait(lambda: received.kept == [1])
    assert store.get(1) == append(1)
    committer.close()


def test_what_gathers_during_a_sync_shares_the_next() -> None:
    received, store = Heard(), Gated()
    committer = received.of(store)
    committer.submit(1, [append(1)])
    assert store.arrived.wait(20)
    for token in range(2, 101):
        committer.submit(token, [append(token), Put("t", "k", b"%d" % token)])
    assert committer.backlog == 1 + 2 * 99
    store.gate.set()
    committer.close()
    assert received.kept == [1, 100]
    assert committer.commits == 2
    assert committer.backlog == 0
    assert [r.offset for group in store.groups for r in group if isinstance(r, Append)] == list(range(1, 101))
    assert store.load().tables == {"t": {"k": b"100"}}


def test_a_group_is_bounded_and_never_splits_a_batch() -> None:
    received, store = Heard(), Gated()
    committer = received.of(store, max_group_records=10)
    committer.submit(1, [append(1)])
    assert store.arrived.wait(20)
    committer.submit(2, [append(offset) for offset in range(2, 8)])
    committer.submit(3, [append(offset) for offset in range(8, 14)])
    committer.submit(4, [append(offset) for offset in range(14, 40)])
    store.gate.set()
    committer.close()
    assert received.kept == [1, 2, 3, 4]
    assert [len(group) for group in store.groups] == [1, 6, 6, 26]


def test_a_group_is_bounded_in_bytes_too() -> None:
    received, store = Heard(), Gated()
    committer = received.of(store, max_group_bytes=1000)
    committer.submit(1, [append(1)])
    assert store.arrived.wait(20)
    for token, size in ((2, 400), (3, 400), (4, 400), (5, 5000)):
        committer.submit(token, [append(token, payload=bytes(size))])
    committer.submit(6, [Put("t", "k", bytes(600))])
    committer.submit(7, [Put("t", "k", bytes(300))])
    store.gate.set()
    committer.close()
    assert received.kept == [1, 3, 4, 5, 7]


def test_tokens_ascend() -> None:
    received = Heard()
    committer = received.of(MemoryStore())
    committer.submit(5, [append(1)])
    with pytest.raises(ValueError, match="ascend"):
        committer.submit(5, [append(2)])
    committer.close()


def test_an_empty_batch_is_told_in_its_turn() -> None:
    received = Heard()
    committer = received.of(MemoryStore())
    committer.submit(1, [])
    committer.close()
    assert received.kept == [1]


def test_a_failure_is_told_once_and_ends_it() -> None:
    received = Heard()
    committer = received.of(MemoryStore(FaultyDisk([Fault(2, DiskFault.SYNC_ERROR)])))
    committer.submit(1, [append(1)])
    received.wait(lambda: received.kept == [1])
    committer.submit(2, [append(2)])
    received.wait(lambda: len(received.failed) == 1)
    with pytest.raises(ClosedError):
        committer.submit(3, [append(3)])
    committer.close()
    assert received.kept == [1]
    assert isinstance(received.failed[0], StoreError)


def wait_until(condition: Callable[[], bool]) -> None:
    """For what no callback tells; the test's time limit ends it."""
    while not condition():
        threading.Event().wait(0.001)


def test_a_full_disk_is_waited_out_in_order() -> None:
    received, disk = Heard(), FaultyDisk([Fault(2, DiskFault.FULL)])
    store = MemoryStore(disk)
    committer = received.of(store, retry_seconds=0.001)
    committer.submit(1, [append(1)])
    received.wait(lambda: received.kept == [1])
    committer.submit(2, [append(2)])
    wait_until(lambda: committer.is_full)
    committer.submit(3, [append(3)])
    disk.free()
    received.wait(lambda: received.kept[-1] == 3)
    assert not committer.is_full
    committer.close()
    assert [entry.offset for entry in MemoryStore(disk).load().entries] == [1, 2, 3]


def test_on_a_full_disk_what_is_forgotten_goes_first() -> None:
    """The reserve refuses the event, but takes what makes room."""
    received, disk = Heard(), FaultyDisk(capacity=10_000)
    store = MemoryStore(disk, reserve_bytes=9_000)
    committer = received.of(store, retry_seconds=0.001)
    committer.submit(1, [append(offset) for offset in range(1, 9)])
    received.wait(lambda: received.kept == [1])
    committer.submit(2, [append(9)])
    wait_until(lambda: committer.is_full)
    committer.submit(3, [Forget(1), Forget(9)])
    committer.submit(4, [Forget(2)])
    wait_until(lambda: store.get(1) is None and store.get(2) is None)
    assert received.kept == [1], "nothing is acknowledged out of turn"
    disk.free()
    received.wait(lambda: received.kept[-1] == 4)
    committer.close()
    assert [entry.offset for entry in store.load().entries] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("kind", [DiskFault.FULL, DiskFault.FULL_BUT_KEPT])
def test_a_full_disk_is_told_once_and_what_it_kept_all_the_same_is_kept_once(kind: DiskFault) -> None:
    received, disk = Heard(), FaultyDisk([Fault(2, kind)])
    committer = received.of(MemoryStore(disk), on_stalled=received.hearing(received.full), retry_seconds=0.01)
    committer.submit(1, [append(1)])
    received.wait(lambda: received.kept == [1])
    committer.submit(2, [append(2), Forget(2)])
    received.wait(lambda: len(received.full) == 1)
    committer.submit(3, [append(3)])
    disk.free()
    received.wait(lambda: received.kept[-1] == 3)
    committer.close()
    assert len(received.full) == 1
    assert [entry.offset for entry in MemoryStore(disk).load().entries] == [1, 3]


def test_closing_on_a_full_disk_leaves_the_rest_undone() -> None:
    received, disk = Heard(), FaultyDisk([Fault(1, DiskFault.FULL)])
    committer = received.of(MemoryStore(disk))
    committer.submit(1, [append(1)])
    wait_until(lambda: committer.is_full)
    committer.close()
    assert received.kept == []


def test_closing_may_abandon_what_waits() -> None:
    received, store = Heard(), Gated()
    committer = received.of(store)
    committer.submit(1, [append(1)])
    assert store.arrived.wait(20)
    committer.submit(2, [append(2)])
    threading.Timer(0.01, store.gate.set).start()
    committer.close(abandon=True)
    assert received.kept == [1]
    with pytest.raises(ClosedError):
        committer.submit(3, [append(3)])


def test_those_who_were_answered_join_those_who_wait() -> None:
    """Two publishers that publish again when they are answered share a sync, whoever came first."""
    store, received, times = Gated(), Heard(), iter(range(1_000))
    committer = received.of(store, company_seconds=20.0, clock=lambda: 100.0 * next(times))
    committer.submit(1, [append(1)])
    assert store.arrived.wait(20)
    committer.submit(2, [append(2)])
    store.gate.set()
    received.wait(lambda: received.kept == [1])
    committer.submit(3, [append(3)])
    received.wait(lambda: received.kept[-1] == 3)
    committer.close()
    assert [len(group) for group in store.groups] == [1, 2]


def test_company_that_does_not_come_is_not_waited_for_again() -> None:
    store, received, times = Gated(), Heard(), iter(range(1_000))
    committer = received.of(store, company_seconds=0.01, clock=lambda: 100.0 * next(times))
    committer.submit(1, [append(1)])
    assert store.arrived.wait(20)
    committer.submit(2, [append(2)])
    store.gate.set()
    received.wait(lambda: received.kept == [1, 2])
    assert committer._skips == SKIPS
    committer.close()

"""The disk that fails on purpose: what a store makes of each fault, at every place it can strike."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store._faulty import DiskFault, Fault, FaultyDisk
from tests.unit.store._kit import append, content

from tidings.availability.records import Append, Forget, Put, Record
from tidings.errors import CorruptionError, StoreError, StoreFullError
from tidings.store.memory import MemoryStore

COMMITS = 6


def batch(number: int) -> list[Record]:
    return [
        append(2 * number - 1),
        append(2 * number),
        Put("t", "last", b"%d" % number),
        Forget(2 * number - 3),
    ]


def run(disk: FaultyDisk, commits: int = COMMITS) -> int:
    """Commit until it fails; the number of the last acknowledged commit."""
    store = MemoryStore(disk)
    for number in range(1, commits + 1):
        try:
            store.commit(batch(number))
        except StoreError:
            return number - 1
    return commits


def expected(commits: int) -> tuple[list[Append], dict[str, dict[str, bytes]], int]:
    store = MemoryStore()
    for number in range(1, commits + 1):
        store.commit(batch(number))
    return content(store)


@given(
    at=st.integers(1, COMMITS),
    kind=st.sampled_from([DiskFault.LOST, DiskFault.TORN, DiskFault.KEPT]),
    torn_at=st.integers(0, 10_000),
    mark_lag=st.integers(0, 3),
)
def test_a_power_cut_at_any_byte_keeps_what_was_acknowledged(
    at: int, kind: DiskFault, torn_at: int, mark_lag: int
) -> None:
    disk = FaultyDisk([Fault(at, kind, torn_at)], mark_lag=mark_lag)
    acknowledged = run(disk)
    assert acknowledged == at - 1
    disk.restart()
    found = content(MemoryStore(disk))
    assert found in (expected(acknowledged), expected(acknowledged + 1)), "whole batches only"
    if kind is DiskFault.KEPT:
        assert found == expected(at)
    if kind is DiskFault.LOST:
        assert found == expected(at - 1)
    assert disk.happened == [Fault(at, kind, torn_at)]


def test_a_disk_that_is_down_stays_down_until_restarted() -> None:
    disk = FaultyDisk([Fault(2, DiskFault.LOST)])
    store = MemoryStore(disk)
    store.commit([append(1)])
    for call in (lambda: store.commit([append(2)]), lambda: store.get(1), lambda: MemoryStore(disk)):
        with pytest.raises(StoreError, match="power cut"):
            call()
    disk.restart()
    assert MemoryStore(disk).get(1) == append(1)


@pytest.mark.parametrize("mark_lag", [0, 2])
def test_every_flipped_byte_is_detected(mark_lag: int) -> None:
    """Also lengths, whose damage reads as a torn tail. Without a power cut the watermark is exact."""
    clean = FaultyDisk(mark_lag=mark_lag)
    run(clean)
    undetected = 0
    for position in range(len(clean.journal)):
        disk = FaultyDisk(mark_lag=mark_lag)
        run(disk)
        disk.crash(power=bool(mark_lag))
        disk.flip(position, random.Random(position).randrange(8))
        try:
            disk.restart()
            found = content(MemoryStore(disk))
        except CorruptionError:
            continue
        undetected += 1
        assert mark_lag, f"byte {position}"
        assert found in [expected(COMMITS - lag) for lag in range(1, mark_lag + 1)], "at most the lag is lost"
    assert undetected <= 4 * mark_lag


def test_a_cut_journal_is_detected_at_every_length() -> None:
    clean = FaultyDisk()
    run(clean)
    for length in range(len(clean.journal)):
        disk = FaultyDisk()
        run(disk)
        disk.crash(power=False)
        disk.truncate(length)
        disk.restart()
        with pytest.raises(CorruptionError, match="were acknowledged and are gone"):
            MemoryStore(disk)


@pytest.mark.parametrize("kind", [DiskFault.SYNC_ERROR, DiskFault.READ_ONLY])
def test_an_error_of_the_disk_stops_the_store_for_good(kind: DiskFault) -> None:
    disk = FaultyDisk([Fault(2, kind)])
    store = MemoryStore(disk)
    store.commit([append(1)])
    with pytest.raises(StoreError):
        store.commit([append(2)])
    with pytest.raises(StoreError, match="has stopped"):
        store.commit([append(2)])
    assert disk.writes == 2, "never tried again"
    assert store.get(1) == append(1), "reading goes on"


def test_a_read_error_is_told_and_passes() -> None:
    disk = FaultyDisk()
    store = MemoryStore(disk)
    store.commit([append(1)])
    disk.plan(Fault(disk.reads + 1, DiskFault.READ_ERROR))
    with pytest.raises(StoreError, match="read failed"):
        store.fetch(1, 10, 1000)
    assert store.fetch(1, 10, 1000) == [append(1)]


@pytest.mark.parametrize("kind", [DiskFault.FULL, DiskFault.FULL_BUT_KEPT])
def test_after_a_full_disk_the_same_batch_is_kept_once(kind: DiskFault) -> None:
    disk = FaultyDisk([Fault(2, kind)])
    store = MemoryStore(disk)
    store.commit(batch(1))
    for _ in range(3):
        with pytest.raises(StoreFullError):
            store.commit(batch(2))
        assert store.get(1) == append(1), "consumers go on"
    disk.free()
    store.commit(batch(2))
    assert content(store) == expected(2)
    disk.crash()
    assert content(store.reopened()) == expected(2)


@pytest.mark.parametrize("kind", [DiskFault.FULL, DiskFault.FULL_BUT_KEPT])
def test_after_a_full_disk_something_else_may_come_first(kind: DiskFault) -> None:
    """The refused batch was kept or not; its retry works either way."""
    disk = FaultyDisk([Fault(2, kind)])
    store = MemoryStore(disk)
    store.commit([append(1)])
    with pytest.raises(StoreFullError):
        store.commit([append(2), Put("t", "a", b"1")])
    disk.free()
    store.commit([Put("t", "b", b"2")])
    store.commit([append(2), Put("t", "a", b"1")])
    store.commit([append(3)])
    appends, tables, next_offset = content(MemoryStore(disk))
    assert [one.offset for one in appends] == [1, 2, 3]
    assert tables == {"t": {"a": b"1", "b": b"2"}}
    assert next_offset == 4


def test_a_small_disk_fills_up_and_the_reserve_is_for_making_room() -> None:
    disk = FaultyDisk(capacity=6000)
    store = MemoryStore(disk, reserve_bytes=2000)
    offset = 1
    while (disk.room() or 0) >= 2000:
        store.commit([append(offset)])
        offset += 1
    with pytest.raises(StoreFullError, match="reserve"):
        store.commit([append(offset)])
    store.commit([Forget(1), Put("t", "k", b"v")])
    assert store.sizes()["room"] == 0
    disk.free()
    store.commit([append(offset)])


def test_the_same_script_gives_the_same_bytes() -> None:
    script = [Fault(4, DiskFault.TORN, 77)]
    one, other = FaultyDisk(script), FaultyDisk(script)
    assert run(one) == run(other)
    assert one.journal == other.journal

"""Backups of a store: consistent while it commits, incremental, checked, restored into an empty place
only."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.unit.store._kit import append, content

from tidings.availability.records import Forget, Loaded, Put
from tidings.errors import CorruptionError, InputError, StoreLockedError
from tidings.store.backup import BackupSet, inspect
from tidings.store.rocks import CHECKPOINTS, RocksStore


def backups(path: Path) -> BackupSet:
    def owner(loaded: Loaded) -> tuple[str, bool]:
        return "b1", False

    return BackupSet(path, owner)


def taken(store: RocksStore, into: Path, name: str) -> tuple[int, int]:
    """Entries and copied bytes of a backup that is made while the store is open."""
    backup, copied = backups(into).take(store.checkpoint(name))
    return backup.entries, copied


def test_a_backup_of_an_open_store_is_one_moment_of_it(tmp_path: Path) -> None:
    """Each commit appends one entry and counts it in a row: a copy of two moments would disagree."""
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    stop = threading.Event()

    def publish() -> None:
        offset = 0
        while not stop.is_set():
            offset += 1
            store.commit([append(offset), Put("t", "count", str(offset).encode())])

    writer = threading.Thread(target=publish)
    writer.start()
    try:
        found = [taken(store, tmp_path / "backups", str(number)) for number in range(5)]
    finally:
        stop.set()
        writer.join()
    store.close()
    for number, (entries, _) in enumerate(found, start=1):
        path = tmp_path / f"restored-{number}"
        backups(tmp_path / "backups").restore(path, number)
        restored = RocksStore(path, reserve_bytes=0)
        kept, tables, next_offset = content(restored)
        assert [entry.offset for entry in kept] == list(range(1, entries + 1))
        assert tables.get("t", {"count": b"0"})["count"] == str(entries).encode()
        assert next_offset == entries + 1
        restored.close()


def test_a_second_backup_copies_only_what_is_new(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    store.commit([append(offset, payload=bytes(1000 * [offset % 256])) for offset in range(1, 500)])
    first = taken(store, tmp_path / "backups", "1")
    again = taken(store, tmp_path / "backups", "2")
    store.commit([append(500)])
    third = taken(store, tmp_path / "backups", "3")
    store.close()
    assert first[0] == again[0] == 499
    assert third[0] == 500
    assert again[1] < first[1] / 2, "the table is there already"
    assert 0 < third[1] < first[1] / 2
    found = backups(tmp_path / "backups")
    assert found.prune(1) == 2
    assert [each.number for each in found.backups()] == [3]
    assert found.verify().entries == 500


def test_checkpoints_of_an_earlier_process_are_removed(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    store.commit([append(1)])
    store.checkpoint("left")
    store.close()
    RocksStore(tmp_path / "store", reserve_bytes=0).close()
    assert not (tmp_path / "store" / CHECKPOINTS).exists()


def test_a_damaged_backup_is_neither_verified_nor_restored(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    store.commit([append(offset) for offset in range(1, 50)])
    taken(store, tmp_path / "backups", "1")
    store.close()
    found = backups(tmp_path / "backups")
    largest = max((tmp_path / "backups" / "files").iterdir(), key=lambda file: file.stat().st_size)
    damaged = bytearray(largest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    largest.write_bytes(damaged)
    with pytest.raises(CorruptionError, match="is damaged or gone"):
        found.verify()
    with pytest.raises(CorruptionError, match="is damaged or gone"):
        found.restore(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    largest.unlink()
    with pytest.raises(CorruptionError, match="is damaged or gone"):
        found.verify()


def test_files_that_a_broker_keeps_beside_come_along(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    store.commit([append(1)])
    (tmp_path / "store" / "webhooks.json").write_text("[1]")
    found = backups(tmp_path / "backups")
    backup, _ = found.take(store.checkpoint("1"), store=tmp_path / "store")
    store.close()
    assert [file.name for file in backup.beside] == ["webhooks.json"]
    found.prune(1)
    found.verify()
    found.restore(tmp_path / "new")
    assert (tmp_path / "new" / "webhooks.json").read_text() == "[1]"
    RocksStore(tmp_path / "new", reserve_bytes=0).close()


def test_mistakes_are_named(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    found = backups(tmp_path / "backups")
    with pytest.raises(InputError, match="no such directory"):
        found.find()
    store.commit([append(1)])
    with pytest.raises(StoreLockedError):
        found.take(tmp_path / "store")
    with pytest.raises(InputError, match="holds no backup"):
        found.find()
    taken(store, tmp_path / "backups", "1")
    with pytest.raises(InputError, match="is not empty"):
        found.restore(tmp_path / "store")
    with pytest.raises(InputError, match="holds no backup 7"):
        found.find(7)
    store.close()


def test_offsets_can_be_left_out(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    store.commit([append(1), append(2)])
    store.skip(1000)
    store.commit([append(1003)])
    store.close()
    assert inspect(tmp_path / "store").account.next_offset == 1004
    again = RocksStore(tmp_path / "store", reserve_bytes=0)
    assert [entry.offset for entry in again.fetch(0, 10, 1 << 20)] == [1, 2, 1003]
    assert again.verify() == 3
    again.close()


def test_compaction_gives_room_back(tmp_path: Path) -> None:
    import os

    store = RocksStore(tmp_path / "store", reserve_bytes=0)
    store.commit([append(offset, payload=os.urandom(1000)) for offset in range(1, 1000)])
    store.commit([Forget(offset) for offset in range(1, 990)])
    store.compact()
    assert sum(file.stat().st_size for file in (tmp_path / "store" / "db").glob("*.sst")) < 100_000
    assert store.verify() == 10
    store.close()

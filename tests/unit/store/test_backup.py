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


def two_backups(folder: Path) -> BackupSet:
    """The second has a table that the first has too, and one of its own."""
    store = RocksStore(folder / "store", reserve_bytes=0)
    for number in (1, 2):
        store.commit([append(number, payload=bytes(2000 * [number]))])
        taken(store, folder / "backups", str(number))
    store.close()
    return backups(folder / "backups")


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def tables(found: BackupSet, number: int) -> set[str]:
    return {file.sha256 for file in found.find(number).files if file.name.endswith(".sst")}


def test_a_backup_builds_on_no_damaged_file_of_an_earlier_one(tmp_path: Path) -> None:
    found = two_backups(tmp_path)
    (shared,) = tables(found, 1) & tables(found, 2)
    flip(tmp_path / "backups" / "files" / shared)
    with pytest.raises(CorruptionError, match=r"backup 1, 2 in .* is damaged or gone"):
        found.verify()
    third, _ = found.take(tmp_path / "store")
    assert shared in tables(found, third.number)
    assert found.verify().number == 3, "the file was copied again, for all three"
    found.verify(1)


def test_verify_reads_the_checksums_of_all_backups(tmp_path: Path) -> None:
    found = two_backups(tmp_path)
    manifest = next(file for file in found.find(1).files if file.name.startswith("MANIFEST"))
    assert manifest.sha256 not in {file.sha256 for file in found.find(2).files}
    flip(tmp_path / "backups" / "files" / manifest.sha256)
    with pytest.raises(CorruptionError, match="backup 1 in"):
        found.verify()
    assert found.verify(2).number == 2


def test_a_flipped_digit_in_the_record_of_a_backup_is_noticed(tmp_path: Path) -> None:
    """The time and the next offset decide where a restored log goes on."""
    found = two_backups(tmp_path)
    record = tmp_path / "backups" / "000002.json"
    text = record.read_text()
    for damaged in (text.replace('"time": "2', '"time": "3'), text.replace('"b1"', '"c1"'), text[:100], ""):
        record.write_text(damaged)
        with pytest.raises(CorruptionError, match="is no backup"):
            found.restore(tmp_path / "new")
        with pytest.raises(CorruptionError, match="is no backup"):
            found.verify()
        with pytest.raises(CorruptionError, match="is no backup"):
            found.prune(1)
        assert [each.number for each in found.backups()] == [1]
        assert found.verify(1).entries == 1
    assert found.take(tmp_path / "store")[0].number == 3, "its number is not given again"


def test_one_directory_holds_the_backups_of_one_broker(tmp_path: Path) -> None:
    """`--keep 1` of the second broker would remove all that the first has."""
    two_backups(tmp_path)
    other = BackupSet(tmp_path / "backups", lambda loaded: ("b2", False))
    with pytest.raises(InputError, match="holds backups of b1, and this is the store of b2"):
        other.take(tmp_path / "store")
    assert len(other.backups()) == 2


def test_a_record_that_is_gone_is_named(tmp_path: Path) -> None:
    found = two_backups(tmp_path)
    found.take(tmp_path / "store")
    assert found.missing() == []
    for number in (2, 3):
        (tmp_path / "backups" / f"{number:06}.json").unlink()
    assert found.missing() == [2, 3]
    found.take(tmp_path / "store")
    assert [each.number for each in found.backups()] == [1, 2]
    assert found.missing() == []
    found.prune(1)
    assert found.missing() == [], "the oldest go"


def test_a_restore_that_is_broken_off_leaves_no_store(tmp_path: Path) -> None:
    found = two_backups(tmp_path)

    def fail(folder: Path, backup: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    for place in (tmp_path / "new", tmp_path / "disk"):
        with pytest.raises(KeyboardInterrupt):
            found.restore(place, finish=fail)
    assert not (tmp_path / "new").exists()
    assert [each.name for each in (tmp_path / "disk").iterdir()] == ["lost+found"]
    device = (tmp_path / "disk").stat().st_ino
    found.restore(tmp_path / "disk")
    assert (tmp_path / "disk").stat().st_ino == device, "a disk that is mounted there stays"
    assert inspect(tmp_path / "disk").account.entries == 2


def test_what_a_killed_restore_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """Found by an attack from outside: each left a copy of the store, and on a disk of its own no restore was
    possible any more."""
    found = two_backups(tmp_path)
    (tmp_path / "disk").mkdir()
    for place, left in (
        (tmp_path / "new", tmp_path / "new.restoring-1"),
        (tmp_path / "disk", tmp_path / "disk" / "disk.restoring-1"),
    ):
        (left / "db").mkdir(parents=True)
        found.restore(place)
        assert not left.exists()
        assert inspect(place).account.entries == 2


def test_one_restore_at_a_time_goes_to_a_place(tmp_path: Path) -> None:
    found = two_backups(tmp_path)

    def again(folder: Path, backup: object) -> None:
        with pytest.raises(StoreLockedError, match=r"another restore in .* is under way"):
            found.restore(tmp_path / "new")

    found.restore(tmp_path / "new", finish=again)
    assert inspect(tmp_path / "new").account.entries == 2
    assert not list(tmp_path.glob("*.restoring-*"))


def test_backups_without_hard_links_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = two_backups(tmp_path)

    def refuse(*names: object) -> None:
        raise OSError("a read-only disk")

    monkeypatch.setattr("tidings.store.backup.os.link", refuse)
    assert found.verify().entries == 2

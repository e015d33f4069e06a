"""The durable store: owner, version, watermark, torn tails, and damage found while it is open."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.unit.store._kit import append, content

from tidings.availability.records import Forget, Put
from tidings.errors import ClosedError, CorruptionError, StoreError, StoreLockedError
from tidings.store.guard import FORMAT_KEY, entry_key, guarded
from tidings.store.rocks import RocksEngine, RocksStore
from tidings.store.watermark import Watermark


def made(path: Path, count: int = 5) -> RocksStore:
    """An open store with `count` commits of one entry each."""
    store = RocksStore(path, reserve_bytes=0)
    for offset in range(1, count + 1):
        store.commit([append(offset)])
    return store


def raw(path: Path) -> RocksEngine:
    """The engine under a closed store, for changing what no store would."""
    engine = RocksEngine(path)
    engine.open_for_writing(engine.watermark())
    return engine


def killed(path: Path, copy: Path, count: int = 5) -> Path:
    """A store as `kill -9` leaves it: copied while open and idle."""
    store = made(path, count)
    shutil.copytree(path, copy)
    store.close()
    return copy


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    store = made(tmp_path)
    with pytest.raises(StoreLockedError, match=str(tmp_path)):
        RocksStore(tmp_path)
    store.close()
    RocksStore(tmp_path).close()


def test_a_store_that_could_not_be_opened_gives_its_lock_back(tmp_path: Path) -> None:
    made(tmp_path).close()
    mark = tmp_path / "watermark"
    good = mark.read_bytes()
    mark.write_bytes(b"nonsense" * 100)
    with pytest.raises(CorruptionError, match="watermark cannot be read"):
        RocksStore(tmp_path)
    mark.write_bytes(good)
    RocksStore(tmp_path).close()


@pytest.mark.parametrize(("number", "advice"), [(2, "newer version"), (0, "older version")])
def test_another_format_is_refused_with_advice(tmp_path: Path, number: int, advice: str) -> None:
    made(tmp_path).close()
    engine = raw(tmp_path)
    engine.write([(FORMAT_KEY, guarded(FORMAT_KEY, number.to_bytes(4, "big")))])
    engine.close()
    with pytest.raises(StoreError, match=f"format {number}.*{advice}"):
        RocksStore(tmp_path)


def test_a_format_that_is_not_stated_is_damage(tmp_path: Path) -> None:
    made(tmp_path).close()
    engine = raw(tmp_path)
    engine.write([(FORMAT_KEY, None)])
    engine.close()
    with pytest.raises(CorruptionError, match="format is not stated"):
        RocksStore(tmp_path)


def test_a_place_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be opened"):
        RocksStore(tmp_path / "file")


def test_a_torn_tail_is_a_write_that_nobody_was_told_of(tmp_path: Path) -> None:
    """Cut the log at every byte of its last record: what was acknowledged before it must be there."""
    copy = killed(tmp_path / "live", tmp_path / "killed")
    log = max(copy.glob("db/*.log"))
    whole = log.read_bytes()
    last = _last_record(whole)
    _set_watermark(copy, 4)  # the fifth commit was cut off before its acknowledgement
    for cut in [*range(last, len(whole), 23), len(whole) - 1]:
        scratch = tmp_path / "torn"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(copy, scratch)
        (scratch / log.relative_to(copy)).write_bytes(whole[:cut])
        store = RocksStore(scratch, reserve_bytes=0)
        assert [entry.offset for entry in store.load().entries] == [1, 2, 3, 4]
        store.commit([append(5)])
        store.close()
        store = RocksStore(scratch)
        assert len(store.load().entries) == 5
        store.close()


def test_the_same_tail_after_its_acknowledgement_is_damage(tmp_path: Path) -> None:
    copy = killed(tmp_path / "live", tmp_path / "killed")
    log = max(copy.glob("db/*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match="commits from 5 to 5 were acknowledged and are gone"):
        RocksStore(copy)


def test_a_commit_that_was_kept_but_not_acknowledged_counts_from_now_on(tmp_path: Path) -> None:
    copy = killed(tmp_path / "live", tmp_path / "killed")
    _set_watermark(copy, 3)
    store = RocksStore(copy)
    assert len(store.load().entries) == 5
    store.close()
    assert Watermark(copy / "watermark", "x").commit == 5


@pytest.mark.parametrize("content_of_file", [None, b""])
def test_a_missing_watermark_is_damage(tmp_path: Path, content_of_file: bytes | None) -> None:
    made(tmp_path).close()
    mark = tmp_path / "watermark"
    mark.unlink() if content_of_file is None else mark.write_bytes(content_of_file)
    with pytest.raises(CorruptionError, match="watermark is missing"):
        RocksStore(tmp_path)


def test_one_slot_of_the_watermark_is_enough(tmp_path: Path) -> None:
    made(tmp_path).close()
    mark = tmp_path / "watermark"
    whole = bytearray(mark.read_bytes())
    whole[512 + 9] ^= 1
    mark.write_bytes(whole)
    store = RocksStore(tmp_path)
    assert len(store.load().entries) == 5
    store.close()


def test_a_database_that_is_gone_is_damage_and_not_a_new_store(tmp_path: Path) -> None:
    made(tmp_path).close()
    shutil.rmtree(tmp_path / "db")
    with pytest.raises(CorruptionError, match="commits from 1 to 5"):
        RocksStore(tmp_path)


def test_tables_without_their_current_file_are_damage_whatever_the_watermark_says(tmp_path: Path) -> None:
    made(tmp_path).close()
    (tmp_path / "db/CURRENT").unlink()
    (tmp_path / "watermark").unlink()
    with pytest.raises(CorruptionError, match="CURRENT is gone"):
        RocksStore(tmp_path)


def test_a_record_that_vanished_or_came_back_is_damage(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.commit([Forget(2), Put("t", "k", b"1")])
    store.close()
    for change in ((entry_key(3), None), (entry_key(2), guarded(entry_key(2), b"")), (b"rt\0k", None)):
        scratch = tmp_path.with_name("changed")
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(tmp_path, scratch)
        engine = raw(scratch)
        engine.write([change])
        engine.close()
        with pytest.raises(CorruptionError):
            RocksStore(scratch)


def test_a_sound_record_under_another_key_is_damage(tmp_path: Path) -> None:
    made(tmp_path).close()
    engine = raw(tmp_path)
    other = engine.read(entry_key(2))
    engine.write([(entry_key(3), other)])
    engine.close()
    with pytest.raises(CorruptionError, match="checksum"):
        RocksStore(tmp_path)


def test_damage_while_open_is_found_by_fetch_and_get_and_verify(tmp_path: Path) -> None:
    """A block goes bad under a running store: the scan must not just end before it."""
    store = RocksStore(tmp_path, reserve_bytes=0)
    store.commit([append(offset, payload=os.urandom(500)) for offset in range(1, 101)])
    store.close()
    store = RocksStore(tmp_path, reserve_bytes=0)
    (table,) = tmp_path.glob("db/*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    with table.open("r+b") as file:
        file.write(data)
    with pytest.raises(CorruptionError, match="damaged"):
        store.verify()
    with pytest.raises(CorruptionError, match="damaged"):
        store.fetch(1, 1000, 1 << 30)
    verdicts = [_get(store, offset) for offset in range(1, 101)]
    assert set(verdicts) == {"served", "refused"}
    store.close()


def test_reading_goes_on_while_another_thread_commits_and_forgets(tmp_path: Path) -> None:
    store = RocksStore(tmp_path, reserve_bytes=0)
    store.commit([append(offset) for offset in range(1, 50)])
    done = threading.Event()

    def write() -> None:
        for offset in range(50, 400):
            store.commit([append(offset), Forget(offset - 49)])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    rounds = 0
    while not done.is_set() or not rounds:
        page = store.fetch(0, 1000, 1 << 30)
        assert page == [append(offset) for offset in range(page[0].offset, page[-1].offset + 1)]
        assert len(page) == 49, "a snapshot: each batch as a whole"
        rounds += 1
    writer.join()
    assert [one.offset for one in store.fetch(0, 1000, 1 << 30)] == list(range(351, 400))
    store.close()


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_an_error_of_the_disk_while_opening_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    made(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StoreError, match=r"Input/output error.*look after the disk"):
            RocksStore(tmp_path)
    RocksStore(tmp_path).close()


def test_a_scan_that_outlives_the_store_says_closed(tmp_path: Path) -> None:
    made(tmp_path).close()
    engine = raw(tmp_path)
    scan = engine.scan(b"e", b"f")
    assert next(scan)[0] == entry_key(1)
    scan.close()
    engine.close()
    with pytest.raises(ClosedError):
        engine.read(b"a")


def test_what_was_forgotten_makes_room_again_by_itself(tmp_path: Path) -> None:
    def size() -> int:
        total = 0
        for table in tmp_path.glob("db/*.sst"):
            with suppress(FileNotFoundError):  # compaction may remove a table after it was listed
                total += table.stat().st_size
        return total

    store = RocksStore(tmp_path, reserve_bytes=0)
    store.commit([append(offset, payload=os.urandom(2000)) for offset in range(1, 2001)])
    store.close()
    full = size()
    store = RocksStore(tmp_path, reserve_bytes=0)
    store.commit([Forget(offset) for offset in range(1, 2001)])
    store.close()
    store = RocksStore(tmp_path, reserve_bytes=0)
    assert content(store) == ([], {}, 2001)
    waiting = threading.Event()
    while size() > full / 100:  # ends by itself, or by the test's time limit
        waiting.wait(0.01)
    store.close()


def _get(store: RocksStore, offset: int) -> str:
    try:
        found = store.get(offset)
    except CorruptionError:
        return "refused"
    return "served" if found is not None and found.offset == offset else "lost"


def _last_record(log: bytes) -> int:
    """Where the last record of a short write-ahead log begins."""
    position = last = 0
    while position + 7 <= len(log):
        last = position
        position += 7 + int.from_bytes(log[position + 4 : position + 6], "little")
    return last


def _set_watermark(path: Path, commit: int) -> None:
    (path / "watermark").unlink()
    mark = Watermark(path / "watermark", "x")
    mark.settle(commit)
    mark.close()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_store_that_was_moved_away_writes_nothing_into_the_one_in_its_place(
    tmp_path: Path, is_replaced: bool
) -> None:
    """Found by an attack from outside: a broker whose directory was renamed went on, and a backup that was
    restored in its place was destroyed with it."""
    made(tmp_path / "other", 3).close()
    first = made(tmp_path / "store")
    (tmp_path / "store").rename(tmp_path / "broken")
    if is_replaced:
        shutil.copytree(tmp_path / "other", tmp_path / "store")
    for use in (lambda: first.commit([append(6)]), lambda: first.fetch(1, 10, 1 << 20)):
        with pytest.raises(StoreError, match="was moved away or replaced while it was open"):
            use()
    first.close()
    if is_replaced:
        shutil.copytree(tmp_path / "store", tmp_path / "there")  # RocksDB refuses a name twice in one process
        with closing(RocksStore(tmp_path / "there", reserve_bytes=0)) as other:
            assert [entry.offset for entry in content(other)[0]] == [1, 2, 3]
        names = [sorted(each.name for each in (tmp_path / at / "db").iterdir()) for at in ("other", "store")]
        assert names[0] == names[1]
    else:
        assert not (tmp_path / "store").exists()
    with closing(RocksStore(tmp_path / "broken", reserve_bytes=0)) as mine:
        assert [entry.offset for entry in content(mine)[0]] == [1, 2, 3, 4, 5]

"""Real processes and real files: what was acknowledged is there after kill -9, a full disk, a failed sync."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Figures
from tests.chaos._machines import SmallDisk
from tests.unit.store._kit import append

from tidings.availability.records import Forget, Put
from tidings.errors import StoreError, StoreFullError
from tidings.store.rocks import RocksStore

ROOT = Path(__file__).parents[2]


@contextmanager
def child(mode: str, path: Path, seed: int, *under: str) -> Iterator[subprocess.Popen[str]]:
    """The committing process, killed at the end if it still runs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [*under, sys.executable, "-m", "tests.chaos._store_child", mode, str(path), str(seed)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_once(path: Path, mode: str, seed: int) -> int:
    """Let it commit for a while, kill it, and check the store; the last acknowledged offset."""
    rng = random.Random(seed)
    lines = rng.randrange(1, 60)
    acknowledged = 0
    with child(mode, path, seed) as process:
        assert process.stdout is not None
        opening = process.stdout.readline()
        assert opening.startswith("open"), opening + process.stdout.read()
        for number, line in enumerate(process.stdout):
            if number == lines:
                process.send_signal(signal.SIGKILL)
            if not line.startswith("kept "):
                pytest.fail(f"seed {seed}: the child said {line!r}")
            acknowledged = int(line.removeprefix("kept "))
    check(path, acknowledged)
    return acknowledged


def check(path: Path, acknowledged: int) -> None:
    """Everything acknowledged is there, without a gap, and each batch as a whole."""
    store = RocksStore(path, reserve_bytes=0)
    loaded = store.load()
    offsets = [entry.offset for entry in loaded.entries]
    assert offsets == list(range(1, loaded.next_offset)), "a gap"
    assert loaded.next_offset > acknowledged, "something acknowledged is lost"
    assert loaded.tables.get("state", {"last": b"0"})["last"] == b"%d" % (loaded.next_offset - 1), (
        "a torn batch"
    )
    assert store.verify() == len(offsets) + len(loaded.tables)
    store.close()


@pytest.mark.parametrize("mode", ["commit", "group"])
def test_kill_a_few_times(tmp_path: Path, mode: str) -> None:
    acknowledged = [kill_once(tmp_path, mode, seed) for seed in range(4)]
    assert acknowledged == sorted(acknowledged)
    assert acknowledged[-1] > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mode", ["commit", "group"])
def test_kill_two_hundred_times(tmp_path: Path, mode: str, figures: Figures) -> None:
    for seed in range(200):
        if seed % 20 == 0:  # a store that has grown old, and a new one, are both of interest
            shutil.rmtree(tmp_path / "store", ignore_errors=True)
        kill_once(tmp_path / "store", mode, seed)
    figures(kills=200, lost=0)


def test_files_that_may_not_grow_are_a_full_disk(tmp_path: Path) -> None:
    with child("limit", tmp_path, 1) as process:
        assert process.stdout is not None
        stated = process.stdout.read().splitlines()
        assert process.wait() == 0, stated
    kept = [int(line.split()[1]) for line in stated if line.startswith("kept")]
    assert sum("full store" in line for line in stated) == 1, stated
    assert any(line.startswith("still served") for line in stated)
    check(tmp_path, kept[-1])


@pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no sync can be made to fail"
)
def test_a_failed_sync_stops_the_store(tmp_path: Path) -> None:
    injection = "inject=fdatasync:error=EIO:when=12+"
    under = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", injection)
    with child("commit", tmp_path, 1, *under) as process:
        assert process.stdout is not None
        stated = process.stdout.read().splitlines()
    kept = [int(line.split()[1]) for line in stated if line.startswith("kept")]
    assert [line.split()[0] for line in stated[-2:]] == ["stopped", "refused"], stated
    assert "has stopped" in stated[-1], "the failed sync must not be tried again"
    assert kept
    check(tmp_path, kept[-1])


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: syncs cannot be seen")
def test_what_is_acknowledged_was_synced_before(tmp_path: Path) -> None:
    """Kills do not show a missing sync, since the kernel still has the bytes; its calls do."""
    trace = tmp_path / "calls"
    under = ("strace", "-f", "-qq", "-y", "-o", str(trace), "-e", "trace=write,fdatasync")
    with child("commit", tmp_path / "store", 1, *under) as process:
        assert process.stdout is not None
        while process.stdout.readline() and trace.read_text().count('"kept') < 20:
            continue
    is_synced, acknowledged = False, 0
    for call in trace.read_text().splitlines():
        if "write(" in call and ".log>" in call:
            is_synced = False
        elif "fdatasync(" in call and ".log>" in call:
            is_synced = True
        elif "write(1<" in call and '"kept' in call:
            assert is_synced, "acknowledged before it was synced"
            acknowledged += 1
    assert acknowledged >= 20


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[Path]:
    """A small file system of its own."""
    disk = SmallDisk(path, size)
    try:
        if not disk.is_mounted:
            pytest.skip("a small file system cannot be mounted here (not root)")
        yield path
    finally:
        disk.close()


def fill(store: RocksStore, offset: int) -> int:
    """Append until the disk is full; the first offset that did not fit."""
    rng = random.Random(offset)
    while True:
        try:
            store.commit([append(offset, payload=rng.randbytes(20_000))])
        except StoreFullError:
            return offset
        offset += 1


def test_a_full_disk_with_a_reserve_refuses_events_and_takes_the_rest(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 << 20) as disk:
        store = RocksStore(disk / "store", reserve_bytes=8 << 20)
        for offset in range(1, 21):
            store.commit([append(offset)])
        (disk / "ballast").write_bytes(b"x" * (store.sizes()["room"] + (4 << 20)))  # 4 MiB are left
        assert store.sizes()["room"] == 0
        with pytest.raises(StoreFullError, match="make room"):
            store.commit([append(21)])
        assert len(store.fetch(1, 10_000, 1 << 30)) == 20, "consumers go on"
        for number in range(100):
            store.commit([Put("progress", "ann/news", b"%d" % number), Forget(number)])
        store.close()
        store = RocksStore(disk / "store", reserve_bytes=8 << 20)
        assert store.load().tables == {"progress": {"ann/news": b"99"}}
        with pytest.raises(StoreFullError, match="make room"):
            store.commit([append(21)])
        (disk / "ballast").unlink()
        store.commit([append(21)])
        assert [one.offset for one in store.fetch(1, 10, 1 << 20)] == [21]
        store.close()


def test_a_disk_that_is_full_to_the_brim_recovers_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 << 20) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * (16 << 20))
        store = RocksStore(disk / "store", reserve_bytes=0)
        refused = fill(store, 1)
        assert len(store.fetch(1, 10_000, 1 << 30)) == refused - 1, "consumers go on"
        with pytest.raises(StoreFullError):
            store.commit([append(refused)])
        ballast.unlink()
        store.commit([append(refused)])
        store.commit([append(refused + 1)])
        store.close()
        store = RocksStore(disk / "store", reserve_bytes=0)
        assert [entry.offset for entry in store.load().entries] == list(range(1, refused + 2))
        store.close()


def test_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 << 20) as disk:
        RocksStore(disk / "store").close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StoreError, match="Read-only file system"):
            RocksStore(disk / "store")

"""Bit rot: a flipped bit anywhere in a store is detected, or harmless; never served.

The store under test has everything: table files, a manifest with several edits, a write-ahead log with many
commits, forgotten entries, rows that were overwritten, the watermark. It is copied while open and idle, which
is what `kill -9` leaves. Each case flips one bit (or cuts a file) in a fresh copy and opens it.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import Figures
from tests.unit.store._kit import append, content

from tidings.availability.records import Append, Delete, Forget, Put
from tidings.errors import CorruptionError
from tidings.store.framing import BLOCK, HEADER, record_never_written
from tidings.store.rocks import RocksStore

Content = tuple[list[Append], dict[str, dict[str, bytes]], int]
DIARY = "LOG"  # the engine's notes for people
PARTS = (".sst", ".log", "MANIFEST", "watermark")
OTHERS = "others"


def diaries(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(DIARY)]


@pytest.fixture(scope="module")
def rotten(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Content]:
    """A store as a killed process leaves it, and what it must hold."""
    path, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed") / "store"
    for first in (1, 21, 41):  # each round but the last ends in a table file
        store = RocksStore(path, reserve_bytes=0)
        for offset in range(first, first + 20):
            store.commit([append(offset), Put("progress", "ann/news", b"%d" % offset)])
            if offset == 45:  # a table and a new log in the life of one manifest, as when a buffer fills up
                cast(Any, store)._engine._current().flush(True)
        store.commit([Forget(first), Forget(first + 7), Put("told", f"{first}", b"x"), Delete("told", "1")])
        if first == 41:
            shutil.copytree(path, copy, ignore=diaries)
            wanted = content(store)
        store.close()
    return copy, wanted


def snapshot(path: Path) -> dict[str, bytes]:
    """Every file but the diary, by its name inside the store."""
    found = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith(DIARY))
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def judge(rotten: tuple[Path, Content], scratch: Path, name: str, damage: bytes | None) -> str:
    """Open a copy in which one file was replaced (None: removed): `detected`, `harmless`, or it fails."""
    original, wanted = rotten
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(original, scratch)
    (scratch / name).unlink() if damage is None else (scratch / name).write_bytes(damage)
    before = snapshot(scratch)
    try:
        store = RocksStore(scratch, reserve_bytes=0)
    except CorruptionError as error:
        if str(scratch) not in str(error):
            pytest.fail(f"the error does not name the store: {error}")
        assert snapshot(scratch) == before, f"{name}: a damaged store was changed"
        return "detected"
    try:
        assert content(store) == wanted, f"{name}: damage was served"
        store.verify()
    finally:
        store.close()
    return "harmless"


def part_of(name: str) -> str:
    return next((part for part in PARTS if part in name), OTHERS)


def flips(path: Path, step: int, rng: random.Random, parts: Iterable[str]) -> Iterator[tuple[str, int]]:
    """(file, position) for every `step`-th byte of every file, from a random start; of the files in which
    RocksDB only notes its options, every sixteenth of those."""
    for name, data in snapshot(path).items():
        if part_of(name) not in parts:
            continue
        stride = 16 * step if "OPTIONS" in name else step
        start = rng.randrange(min(stride, len(data))) if data else 0
        yield from ((name, position) for position in range(start, len(data), stride))


def rot(
    rotten: tuple[Path, Content],
    scratch: Path,
    *,
    step: int,
    seed: int,
    parts: Iterable[str] = (*PARTS, OTHERS),
) -> dict[str, Counter[str]]:
    rng = random.Random(seed)
    verdicts: dict[str, Counter[str]] = {}
    content_of = snapshot(rotten[0])
    for name, position in flips(rotten[0], step, rng, parts):
        damage = bytearray(content_of[name])
        damage[position] ^= 1 << rng.randrange(8)
        verdict = judge(rotten, scratch, name, bytes(damage))
        verdicts.setdefault(name, Counter())[verdict] += 1
    return verdicts


def check(verdicts: dict[str, Counter[str]]) -> None:
    """Where data lives, every flip is detected; elsewhere it may be harmless."""
    print({name: dict(counter) for name, counter in verdicts.items()})
    for name, counter in verdicts.items():
        if name.endswith((".sst", ".log")):
            assert set(counter) == {"detected"}, (name, counter)


def test_a_sample_of_flipped_bits(rotten: tuple[Path, Content], tmp_path: Path) -> None:
    verdicts = rot(rotten, tmp_path / "flipped", step=101, seed=4711)
    check(verdicts)
    assert sum(counter["detected"] for counter in verdicts.values()) > 50


def damaged_records(data: bytes, at: int, flip: int) -> Iterator[bytes]:
    """A file of records (checksum 4, length 2, kind 1, body), with one of them damaged at this byte."""
    position = 0
    while position + 7 < len(data):
        damage = bytearray(data)
        damage[position + at] ^= flip
        yield bytes(damage)
        position += 7 + int.from_bytes(data[position + 4 : position + 6], "little")


@pytest.mark.parametrize(("part", "at_least"), [(".log", 15), ("MANIFEST", 3)])
def test_a_length_that_reaches_past_the_end(
    rotten: tuple[Path, Content], tmp_path: Path, part: str, at_least: int
) -> None:
    """RocksDB takes such a record for a torn one and drops it with all that follows, in its log as in its
    manifest; there, the newest tables are gone and it deletes their files. All without a word."""
    name, data = max((name, data) for name, data in snapshot(rotten[0]).items() if part in name and data)
    verdicts = [
        judge(rotten, tmp_path / "flipped", name, damage) for damage in damaged_records(data, 5, 0x20)
    ]  # the high byte of the length
    assert verdicts.count("detected") >= at_least, verdicts
    assert part != ".log" or set(verdicts) == {"detected"}, verdicts


@pytest.mark.parametrize("part", [".log", "MANIFEST"])
def test_a_record_that_says_its_file_is_used_again(
    rotten: tuple[Path, Content], tmp_path: Path, part: str
) -> None:
    """RocksDB goes round for ever at such a record, and one bit makes one."""
    name, data = max((name, data) for name, data in snapshot(rotten[0]).items() if part in name and data)
    verdicts = [
        judge(rotten, tmp_path / "flipped", name, damage) for damage in damaged_records(data, 6, 0x04)
    ]
    assert len(verdicts) > 5
    assert set(verdicts) == {"detected"}, verdicts


def test_a_damaged_title_in_the_notes_on_options_is_harmless(
    rotten: tuple[Path, Content], tmp_path: Path
) -> None:
    """Read, they would end the process: it happens in the engine, where nothing can be caught."""
    name, data = max((name, data) for name, data in snapshot(rotten[0]).items() if "OPTIONS" in name)
    damage = data.replace(b"[TableOptions/BlockBasedTable", b"[TableOptions/BLockBasedTable")
    assert damage != data
    assert judge(rotten, tmp_path / "flipped", name, damage) == "harmless"


def test_blocks_and_unwritten_room_are_stepped_over(tmp_path: Path) -> None:
    file = tmp_path / "000001.log"
    whole = b"\0\0\0\0" + (BLOCK - HEADER - 3).to_bytes(2, "little") + b"\x01" + bytes(BLOCK - HEADER - 3)
    torn = b"\0\0\0\0\xff\xff\x01"
    reused = b"\0\0\0\0\x02\0\x05xx"
    for data, found in (
        (b"", None),
        (whole + b"\5\5\5" + torn, None),
        (whole + b"\5\5\5" + reused, BLOCK),
        (bytes(100) + reused, None),  # zeros reach to the end of a block
        (bytes(BLOCK) + reused, BLOCK),
    ):
        file.write_bytes(data)
        assert record_never_written(file) == found


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_file_cut_short(rotten: tuple[Path, Content], tmp_path: Path, share: float) -> None:
    for name, data in snapshot(rotten[0]).items():
        verdict = judge(rotten, tmp_path / "cut", name, data[: int(len(data) * share)])
        assert verdict == "detected" or not name.endswith((".sst", ".log")) or not data, name


def test_a_file_gone(rotten: tuple[Path, Content], tmp_path: Path) -> None:
    for name, data in snapshot(rotten[0]).items():
        verdict = judge(rotten, tmp_path / "gone", name, None)
        needed = name.endswith((".sst", ".log", "CURRENT", "watermark")) or "MANIFEST" in name
        assert verdict == "detected" or not needed or not data, name


@pytest.mark.soak
@pytest.mark.timeout(7200, method="thread")  # RocksDB at work cannot be interrupted
@pytest.mark.parametrize("part", [*PARTS, OTHERS])
def test_every_byte_flipped(
    rotten: tuple[Path, Content], tmp_path: Path, figures: Figures, part: str
) -> None:
    verdicts = rot(rotten, tmp_path / "flipped", step=1, seed=1, parts=(part,))
    check(verdicts)
    figures(flips=sum(sum(counter.values()) for counter in verdicts.values()), served=0)

"""Bit rot: a flipped bit anywhere in a store is detected, or harmless; never served.

The store under test has everything: table files, a manifest with several edits, a write-ahead log with many
commits, forgotten entries, rows that were overwritten, the watermark. It is copied while open and idle, which
is what `kill -9` leaves. Each case flips one bit (or cuts a file) in a fresh copy and opens it.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.conftest import Figures
from tests.unit.store._kit import append, content

from tidings.availability.records import Append, Delete, Forget, Put
from tidings.errors import CorruptionError
from tidings.store.rocks import RocksStore

Content = tuple[list[Append], dict[str, dict[str, bytes]], int]
DIARY = "LOG"  # the engine's notes for people


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


def flips(path: Path, step: int, rng: random.Random) -> Iterator[tuple[str, int]]:
    """(file, position) for every `step`-th byte of every file, from a random start; of the files in which
    RocksDB only notes its options, every sixteenth of those."""
    for name, data in snapshot(path).items():
        stride = 16 * step if "OPTIONS" in name else step
        start = rng.randrange(min(stride, len(data))) if data else 0
        yield from ((name, position) for position in range(start, len(data), stride))


def rot(rotten: tuple[Path, Content], scratch: Path, step: int, seed: int) -> dict[str, Counter[str]]:
    rng = random.Random(seed)
    verdicts: dict[str, Counter[str]] = {}
    content_of = snapshot(rotten[0])
    for name, position in flips(rotten[0], step, rng):
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


def damaged_lengths(data: bytes, flip: int) -> Iterator[bytes]:
    """A file of records (checksum 4, length 2, kind 1, body), with one length damaged in each."""
    position = 0
    while position + 7 < len(data):
        damage = bytearray(data)
        damage[position + 5] ^= flip  # the high byte of the length
        yield bytes(damage)
        position += 7 + int.from_bytes(data[position + 4 : position + 6], "little")


@pytest.mark.parametrize(("part", "at_least"), [(".log", 15), ("MANIFEST", 3)])
def test_a_length_that_reaches_past_the_end(
    rotten: tuple[Path, Content], tmp_path: Path, part: str, at_least: int
) -> None:
    """RocksDB takes such a record for a torn one and drops it with all that follows, in its log as in its
    manifest; there, the newest tables are gone and it deletes their files. All without a word."""
    name, data = max((name, data) for name, data in snapshot(rotten[0]).items() if part in name and data)
    verdicts = [judge(rotten, tmp_path / "flipped", name, damage) for damage in damaged_lengths(data, 0x20)]
    assert verdicts.count("detected") >= at_least, verdicts
    assert part != ".log" or set(verdicts) == {"detected"}, verdicts


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
def test_every_byte_flipped(rotten: tuple[Path, Content], tmp_path: Path, figures: Figures) -> None:
    verdicts = rot(rotten, tmp_path / "flipped", step=1, seed=1)
    check(verdicts)
    figures(flips=sum(sum(counter.values()) for counter in verdicts.values()), served=0)

"""A table as a file: whole or not at all, and the same answers in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import CorruptionError, InputError
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.numpy_matcher import NumpyMatcher
from tidings_bench import workloads

KINDS = [pytest.param(ColumnarMatcher, id="numba"), pytest.param(NumpyMatcher, id="numpy")]
COUNT = 500


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ColumnarMatcher]:
    matcher = ColumnarMatcher()
    matcher.load(workloads.filters(workloads.workload("W4"), COUNT))
    path = tmp_path_factory.mktemp("tables") / "w4.table"
    matcher.save(path, version="seven")
    return path, matcher


@pytest.mark.parametrize("kind", KINDS)
def test_an_opened_table_gives_the_same_answers(kind: Any, saved: tuple[Path, ColumnarMatcher]) -> None:
    path, matcher = saved
    opened = kind.open(path)
    for event in workloads.events(workloads.workload("W4"), 20):
        assert opened.match(event).tolist() == matcher.match(event).tolist()


def test_an_opened_table_takes_changes(saved: tuple[Path, ColumnarMatcher]) -> None:
    opened = ColumnarMatcher.open(saved[0])
    filter = next(iter(workloads.filters(workloads.workload("W4"), 1)))
    opened.remove(3)
    assert opened.add(filter) == 3
    assert opened.add(filter) == COUNT
    events = workloads.events(workloads.workload("W4"), 20)
    before = [opened.match(e).tolist() for e in events]
    opened.freeze()
    assert [opened.match(e).tolist() for e in events] == before
    with pytest.raises(KeyError):
        opened.remove(COUNT + 1)


@pytest.mark.parametrize("place", [0, 9, 40, 300, -1, -5000])
def test_a_flipped_bit_is_found(place: int, saved: tuple[Path, ColumnarMatcher], tmp_path: Path) -> None:
    data = bytearray(saved[0].read_bytes())
    data[place] ^= 4
    broken = tmp_path / "broken.table"
    broken.write_bytes(data)
    with pytest.raises((CorruptionError, InputError)):
        ColumnarMatcher.open(broken)


@pytest.mark.parametrize("kept", [0, 10, 100, 5000])
def test_a_torn_file_is_found(kept: int, saved: tuple[Path, ColumnarMatcher], tmp_path: Path) -> None:
    torn = tmp_path / "torn.table"
    torn.write_bytes(saved[0].read_bytes()[:kept])
    with pytest.raises((CorruptionError, InputError)):
        ColumnarMatcher.open(torn, verify=False)


SCRIPT = """
import sys
from tidings_bench import workloads
from tidings.matching.columnar.matcher import ColumnarMatcher
opened = ColumnarMatcher.open(sys.argv[1])
for event in workloads.events(workloads.workload("W4"), 10):
    print(*opened.match(event).tolist())
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_gives_the_same_answers(
    hash_seed: str, saved: tuple[Path, ColumnarMatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(saved[0])], capture_output=True, text=True, check=True
    ).stdout
    expected = [saved[1].match(e).tolist() for e in workloads.events(workloads.workload("W4"), 10)]
    assert [[int(h) for h in line.split()] for line in printed.splitlines()] == expected

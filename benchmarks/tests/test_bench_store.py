"""The store's benchmark: the contract of its rows, and that each engine does the same work."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tidings_bench.store import ENGINES, SIZES, _events, run


def test_rows_keep_the_contract() -> None:
    rows = list(run(quick=True))
    assert {(row["work"], row["size"], row["engine"]) for row in rows} == {
        *(("commit", size, engine) for size in SIZES for engine in ENGINES),
        *((work, 5000, engine) for work in ("open", "read") for engine in ("tidings", "sqlite")),
    }
    for row in rows:
        assert set(row) == {"work", "size", "engine", "figure", "unit", "ratio_to_best_peer"}
        assert row["figure"] > 0
        assert (row["ratio_to_best_peer"] == 1.0) or row["engine"] != "sqlite"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_keeps_what_it_commits(engine: str, tmp_path: Path) -> None:
    batch = list(itertools.islice(_events(1), 100))
    opened = ENGINES[engine](tmp_path)
    opened.commit(batch[:60])
    opened.commit(batch[60:])
    assert opened.read() == 100
    opened.close()
    if engine != "rocksdb":
        again = ENGINES[engine](tmp_path)
        assert again.read() == 100
        again.close()

"""Histories through files: any row comes back, and any bytes give rows or a `HistoryError`."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import HistoryError
from tidings.history.files import read_history, write_history
from tidings.history.schema import OPS, OUTCOMES, Row

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
times = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**63), 2**63 - 1)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
values = st.one_of(st.none(), st.booleans(), whole, st.floats(allow_nan=False), text, moments)
names = text.filter(bool) | st.sampled_from(["$timestamp", "$number", "$$", "a.b"])
attributes = st.dictionaries(
    names, st.recursive(values, lambda v: st.dictionaries(names, v, max_size=3), max_leaves=5)
)
names_of_many = st.lists(text, max_size=3).map(tuple)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


rows = st.builds(
    Row,
    run=text,
    time=times,
    process=text,
    op=st.sampled_from(sorted(OPS)),
    subscription=maybe(text),
    filter=maybe(text),
    dialect=maybe(text),
    event=maybe(text),
    source=maybe(text),
    sequence=maybe(whole),
    attributes=maybe(attributes),
    topic=maybe(text),
    type=maybe(names_of_many),
    lifetime=maybe(st.floats(min_value=0, allow_nan=False)),
    key=maybe(text),
    expires=maybe(times),
    position=maybe(text),
    reason=maybe(text),
    outcome=maybe(st.sampled_from(sorted(OUTCOMES))),
    broker=maybe(text),
    view=maybe(whole),
    members=maybe(names_of_many),
    from_=maybe(text),
)


@contextmanager
def file(ending: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / f"run.{ending}"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@settings(max_examples=60)
@given(history=st.lists(rows, max_size=5))
def test_any_row_comes_back(ending: str, history: list[Row]) -> None:
    with file(ending) as path:
        write_history(path, history)
        assert list(read_history(path)) == history


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=60) | st.just(b'{"time": 1, "process": "p", "op": "crash"}'), max_size=4))
def test_any_lines_give_rows_or_an_error(lines: list[bytes]) -> None:
    with file("jsonl") as path:
        path.write_bytes(b"\n".join(lines))
        _rows_or_error(path)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_flipped_bits_give_rows_or_an_error(ending: str) -> None:
    rng = random.Random(1)
    with file(ending) as path:
        write_history(path, [Row(time=float(n), process=f"p{n}", op="crash", event="é") for n in range(50)])
        good = path.read_bytes()
        errors = 0
        for _ in range(300):
            bad = bytearray(good)
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            path.write_bytes(bad)
            errors += _rows_or_error(path)
    assert errors > 200


def _rows_or_error(path: Path) -> int:
    try:
        problem = ""
        assert all(isinstance(row, Row) for row in read_history(path))
    except HistoryError as error:
        problem = str(error)
    assert not problem or str(path) in problem
    return bool(problem)

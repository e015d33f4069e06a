"""The cost of an event in Python calls and allocations: it may fall, not rise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings_bench import cost


def test_no_path_costs_more_than_the_table_says() -> None:
    if not cost.is_comparable():
        version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        pytest.skip(f"the table is for CPython 3.11, and this is {version}")
    stated = cost.judge(dict(cost.count()), cost.table())
    assert not stated, "\n".join([*stated, "if this is meant: tidings bench cost --write"])


def test_a_rise_a_fall_and_a_path_on_one_side_are_said() -> None:
    written = {path: {"calls": 100.0, "allocations": 50.0} for path in ("same", "risen", "fallen", "gone")}
    found = {
        "same": {"calls": 100.9, "allocations": 50.9},
        "risen": {"calls": 101.2, "allocations": 51.6},
        "fallen": {"calls": 94.0, "allocations": 47.0},
        "new": {"calls": 7.0, "allocations": 7.0},
    }
    assert cost.judge(found, written) == [
        "new: counted and not in the table",
        "risen: 101.2 calls an event, +1.2%; the table allows 100.0",
        "risen: 51.6 allocations an event, +3.2%; the table allows 50.0",
        "fallen: 94.0 calls an event, -6.0%: lower the table",
        "fallen: 47.0 allocations an event, -6.0%: lower the table",
        "gone: in the table and not counted",
    ]
    assert cost.judge({"same": {"calls": 95.1}}, {"same": {"calls": 100.0}}) == []


def test_rows_keep_the_contract_and_a_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cost,
        "count",
        lambda *paths, rounds: iter(
            [(path, {"calls": 7.5, "allocations": 3.0}) for path in paths or cost.table()]
        ),
    )
    rows = list(cost.run(only="embedded, content"))
    assert rows == [
        {"engine": "tidings", "work": work, "size": size, "figure": figure, "unit": unit}
        for work, size, figure, unit in (
            ("embedded", 1, 7.5, "calls an event"),
            ("embedded, allocations", 1, 3.0, "allocations an event"),
            ("content", 1_000, 7.5, "calls an event"),
            ("content, allocations", 1_000, 3.0, "allocations an event"),
        )
    ]
    before = cost.table()
    monkeypatch.setattr(cost, "TABLE", tmp_path / "cost.json")
    cost.TABLE.write_text('{"python": [3, 0], "calls": {"embedded": 1.0}, "allocations": {}}')
    list(cost.run(write=True, only="embedded"))
    assert cost.table() == {"embedded": {"calls": 7.5, "allocations": 3.0}}
    assert cost.is_comparable() is (sys.implementation.name == "cpython")
    assert set(before) > {"embedded"}


def test_a_path_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'TCP batch'"):
        list(cost.run(only="tcp batch"))

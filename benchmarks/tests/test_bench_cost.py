"""The cost of an event in Python calls: it may fall, not rise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings_bench import cost


def test_no_path_costs_more_calls_than_the_table_says() -> None:
    if not cost.is_comparable():
        version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        pytest.skip(f"the table of calls is for CPython 3.11, and this is {version}")
    stated = cost.judge(dict(cost.count()), cost.table())
    assert not stated, "\n".join([*stated, "if this is meant: tidings bench cost --write"])


def test_a_rise_a_fall_and_a_path_on_one_side_are_said() -> None:
    written = {"same": 100.0, "risen": 100.0, "fallen": 100.0, "gone": 100.0}
    found = {"same": 100.9, "risen": 101.2, "fallen": 94.0, "new": 7.0}
    assert cost.judge(found, written) == [
        "new: counted and not in the table",
        "risen: 101.2 calls an event, +1.2%; the table allows 100.0",
        "fallen: 94.0 calls an event, -6.0%: lower the table",
        "gone: in the table and not counted",
    ]
    assert cost.judge({"same": 95.1}, {"same": 100.0}) == []


def test_rows_keep_the_contract_and_a_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cost, "count", lambda *paths, rounds: iter([(path, 7.5) for path in paths or cost.table()])
    )
    rows = list(cost.run(only="embedded, content"))
    assert rows == [
        {"work": "embedded", "size": 1, "engine": "tidings", "figure": 7.5, "unit": cost.UNIT},
        {"work": "content", "size": 1_000, "engine": "tidings", "figure": 7.5, "unit": cost.UNIT},
    ]
    before = cost.table()
    monkeypatch.setattr(cost, "TABLE", tmp_path / "cost.json")
    cost.TABLE.write_text('{"python": [3, 0], "calls": {"embedded": 1.0}}')
    list(cost.run(write=True, only="embedded"))
    assert cost.table() == {"embedded": 7.5}
    assert cost.is_comparable() is (sys.implementation.name == "cpython")
    assert set(before) > {"embedded"}


def test_a_path_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'TCP batch'"):
        list(cost.run(only="tcp batch"))

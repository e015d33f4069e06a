"""`tidings bench pipeline` on tiny sizes: engines agree, rows have the contract's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tidings.errors import InputError, TidingsError
from tidings_bench import joins, pipeline
from tidings_bench.joins import JoinEngine

pytestmark = pytest.mark.spark

TINY = pipeline.Sizes(
    events=500, many_events=1_000, boxes=300, nested_events=100, market=200, market_events=250, files=1,
    file_rows=400, growth=(200, 400), growth_boxes=(100, 200), memory_boxes=0,
)  # fmt: skip
COLUMNS = ["work", "size", "engine", "figure", "unit", "ratio_to_best_peer"]


def test_all_engines_find_the_same_boxes(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = pipeline.best_of
    monkeypatch.setattr(pipeline, "best_of", lambda work, rounds: measured(work, 1))  # no time is judged here
    rows = list(pipeline.boxes(spark, TINY, tmp_path))
    assert all(list(row) == COLUMNS for row in rows)
    engines = {row["engine"] for row in rows if row["unit"] == "s"}
    ours = {"tidings, lists", "tidings, pairs"}
    peers = {
        "Spark, grid join",
        "DuckDB, grid join",
        "DuckDB, range join",
        "Polars, grid join",
        "Polars, join_where",
    }
    assert engines == ours | peers | {"Spark, nested-loop join (scaled from 100 events)"}
    made, areas = pipeline.points(TINY.events), pipeline.rectangles(TINY.boxes)
    (pairs,) = (row["figure"] for row in rows if row["unit"] == "pairs, the same")
    assert pairs == by_hand(made, areas)


def by_hand(made: Any, areas: Any) -> int:
    boxes = areas.to_pylist()
    return sum(
        box["x0"] <= point["x"] <= box["x1"] and box["y0"] <= point["y"] <= box["y1"]
        for point in made.to_pylist()
        for box in boxes
    )


def test_engines_that_do_not_agree_end_the_benchmark() -> None:
    right, wrong = JoinEngine("tidings, lists", lambda: (3, 2, 1)), JoinEngine("wrong", lambda: (3, 2, 0))
    with pytest.raises(TidingsError, match="do not agree"):
        list(pipeline.compared("boxes", 1, [right], [wrong], 1))


@pytest.mark.soak
def test_the_other_parts_run(spark: Any, tmp_path: Path) -> None:
    for part in (pipeline.market, pipeline.stream, pipeline.growth):
        rows = list(part(spark, TINY, tmp_path))
        assert rows
        assert all(list(row) == COLUMNS for row in rows)
        assert all(row["figure"] > 0 for row in rows)
        if part is pipeline.growth:
            plots = pipeline.plot(rows, str(tmp_path))
            assert {path.name for path in plots} == {"pipeline-events.svg", "pipeline-subscriptions.svg"}
            assert all(path.stat().st_size > 0 for path in plots)


def test_a_sample_that_differs_is_told() -> None:
    from tidings_bench.workloads import filters, record_batch, workload

    made = workload("W2")
    batch = record_batch(made, 20)
    with pytest.raises(TidingsError, match="has other matches on Spark"):
        pipeline.check_sample({n: [-1] for n in range(20)}, batch, filters(made, 50))


def test_sums_of_nothing_are_zero() -> None:
    assert joins.made((0, None, None)) == (0, 0, 0)


def test_a_part_that_does_not_exist_is_told() -> None:
    with pytest.raises(InputError, match="no part is called 'boxen'"):
        next(pipeline.run(only="boxen"))


def test_growth_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [pipeline.row("growth, events", size, "tidings", size / 1e6) for size in (1000, 2000)]
    (drawn,) = pipeline.plot(rows, str(tmp_path / "plots"))
    assert drawn.name == "pipeline-events.svg"
    assert "events" in drawn.read_text()

"""Which cells a table is cut into, and which strategy is chosen; without Spark."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from tidings.errors import InputError, SettingsError
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.pipeline.cutting import choose_cells, fullest
from tidings.pipeline.sizing import MB, choose, megabytes

COLUMNS = {"x": "n", "y": "n", "word": "s", "flag": "b"}


def spark(master: str = "local[2]", **conf: str) -> Any:
    stored = {name.replace("_", "."): value for name, value in conf.items()}
    context = SimpleNamespace(
        master=master, getConf=lambda: SimpleNamespace(get=lambda k, d=None: stored.get(k, d))
    )
    return SimpleNamespace(sparkContext=context)


def events(count: int) -> list[Event]:
    rng = random.Random(1)
    return [
        Event(
            source="s",
            id=str(n),
            body={"x": rng.random(), "y": rng.random(), "word": rng.choice("abcdef")},
        )
        for n in range(count)
    ]


def test_the_attribute_that_separates_best_is_the_axis() -> None:
    rng = random.Random(2)
    filters = [
        parse_filter(f"x > {rng.random() * 0.1:.3f} AND word = '{rng.choice('abcdef')}'") for _ in range(300)
    ]
    cells, sentence = choose_cells(filters, events(500), COLUMNS, 6)
    assert [axis.attribute for axis in cells.axes] == ["word"]
    assert "cut along word" in sentence
    assert fullest(cells, filters) < 150


def test_two_axes_are_better_for_boxes() -> None:
    rng = random.Random(3)
    corners = [(rng.random() * 0.9, rng.random() * 0.9) for _ in range(400)]
    filters = [
        parse_filter(f"x BETWEEN {x:.3f} AND {x + 0.1:.3f} AND y BETWEEN {y:.3f} AND {y + 0.1:.3f}")
        for x, y in corners
    ]
    cells, _ = choose_cells(filters, events(500), COLUMNS, 16)
    assert {axis.attribute for axis in cells.axes} == {"x", "y"}
    assert fullest(cells, filters) < 100


def test_without_events_the_filters_own_values_cut() -> None:
    filters = [parse_filter(f"x BETWEEN {n} AND {n + 1}") for n in range(100)]
    cells, _ = choose_cells(filters, [], COLUMNS, 4)
    assert 0 < min(cells.axes[0].cuts) <= max(cells.axes[0].cuts) < 101


@pytest.mark.parametrize("text", ["flag", "other = 5", "x + y > 3", "TRUE"])
def test_what_cannot_be_cut_is_told(text: str) -> None:
    with pytest.raises(InputError, match="no attribute can cut"):
        choose_cells([parse_filter(text)], events(20), COLUMNS, 4)


def test_the_strategy_follows_the_size() -> None:
    small = choose(spark(), 10 * MB, "auto", 20, cut=True)
    assert small.strategy == "everywhere"
    assert "about 10.0 MB; up to 20 MB is held by every executor (as asked)" in small.reasons[0]
    assert choose(spark(), 30 * MB, "auto", 20, cut=True).strategy == "partitioned"
    assert choose(spark(), 30 * MB, "everywhere", 20, cut=True).strategy == "everywhere"


def test_a_compiled_table_stays_whole() -> None:
    kept = choose(spark(), 30 * MB, "auto", 20, cut=False)
    assert kept.strategy == "everywhere"
    assert "cannot be cut" in kept.reasons[1]
    with pytest.raises(SettingsError, match="compiled table cannot be partitioned"):
        choose(spark(), 30 * MB, "partitioned", 20, cut=False)


@pytest.mark.parametrize(
    ("session", "most", "why"),
    [
        (spark("spark://host:7077"), 512, "half of spark.executor.memory"),
        (spark("local-cluster[2,1,1024]", spark_executor_memory="4g"), 2048, "half of spark.executor.memory"),
        (spark("yarn", spark_executor_pyspark_memory="600m"), 300, "half of spark.executor.pyspark.memory"),
    ],
)
def test_the_room_follows_the_executors(session: Any, most: int, why: str) -> None:
    decision = choose(session, MB, "auto", None, cut=True)
    assert decision.most_mb == most
    assert why in decision.reasons[0]


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 512), ("2g", 2048), ("1t", 2**20), ("2048k", 2), ("1048576", 1), ("3GB", 3072)],
)
def test_sizes_as_spark_writes_them(text: str, size: int) -> None:
    assert megabytes(text) == size


def test_what_is_no_size() -> None:
    with pytest.raises(SettingsError, match="no size"):
        megabytes("lots")

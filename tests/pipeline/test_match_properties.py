"""`match` on random tables: the embedded matcher's answer, and that of each filter as Spark SQL.

Rows have NULLs, NaN, infinities, integers beyond 2**53 and texts in mixed case; filters are random
conditions with disjunctions, negations, residuals, patterns, topics and types.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.pipeline.test_spark_sql import DDL, SCHEMA, WIDEST, Maker, event_of, rows

from tidings.algebra import can_match
from tidings.errors import FilterError
from tidings.language import parse_filter, print_expression
from tidings.language.spark import to_spark_sql
from tidings.matching.engine import MatchingEngine
from tidings.model.filter import Filter
from tidings.pipeline import match

pytestmark = pytest.mark.spark

NAMES = ("flag", "i", "j", "x", "y", "s", "u", "at", "n", "topic", "lineage")
ROWS = 50


def filters(rng: random.Random, count: int) -> dict[str, Filter]:
    """Filters by their text that a subscriber could state and that Spark can say."""
    maker, found = Maker(rng), dict[str, Filter]()
    while len(found) < count:
        text = print_expression(maker.condition(2))
        try:
            made = parse_filter(text)
            to_spark_sql(made, SCHEMA)
        except FilterError:
            continue
        if can_match(made) is not False:
            found[text] = made
    return found


def table_of(spark: Any, some: list[dict[str, Any]]) -> Any:
    frame = spark.createDataFrame(
        [(str(n), *(row[name] for name in NAMES)) for n, row in enumerate(some)], "id string, " + DDL
    )
    return frame.coalesce(1)


def answers(matched: Any) -> dict[str, list[int]]:
    assert [row["reason"] for row in matched.rejects.collect()] == []
    return {row["id"]: list(row["subscriptions"]) for row in matched.result.collect()}


def embedded(found: dict[str, Filter], some: list[dict[str, Any]]) -> dict[str, list[int]]:
    engine = MatchingEngine()
    for made in found.values():
        engine.add(made)
    return {str(n): list(engine.match(event_of(row))) for n, row in enumerate(some)}


def by_sql(frame: Any, found: dict[str, Filter]) -> dict[str, list[int]]:
    """Each filter as a column, some at a time: a select of many takes longer to plan than to run."""
    columns = [f"{to_spark_sql(made, SCHEMA)} AS f{n}" for n, made in enumerate(found.values())]
    answer: dict[str, list[int]] = {}
    for start in range(0, len(columns), WIDEST):
        for row in frame.selectExpr("id", *columns[start : start + WIDEST]).collect():
            numbers = (n for n, yes in enumerate(row[1:], start) if yes)
            answer.setdefault(row[0], []).extend(numbers)
    return answer


@pytest.fixture
def interpreted(spark: Any) -> Any:
    """Without compiling hundreds of columns, which takes longer than running them."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield spark
    spark.conf.unset("spark.sql.codegen.wholeStage")
    spark.conf.unset("spark.sql.codegen.factoryMode")


def check(spark: Any, rng: random.Random, *, count: int) -> None:
    found, some = filters(rng, count), rows(rng, ROWS)
    frame = table_of(spark, some)
    subscriptions = spark.createDataFrame(list(enumerate(found)), "id int, filter string").coalesce(1)
    expected = embedded(found, some)
    assert by_sql(frame, found) == expected
    assert answers(match(frame, subscriptions, keep=["id"])) == expected
    parted = match(frame, subscriptions, keep=["id"], strategy="partitioned")
    assert answers(parted) == expected, parted.explain()
    pairs = match(frame, subscriptions, keep=["id"], output="pairs", strategy="partitioned").result.collect()
    assert sorted((row["id"], row["subscription"]) for row in pairs) == sorted(
        (event, number) for event, numbers in expected.items() for number in numbers
    )


def test_the_embedded_matcher_and_spark_sql_say_the_same(interpreted: Any, seed: int) -> None:
    check(interpreted, random.Random(seed), count=30)


def test_also_with_many_filters(interpreted: Any) -> None:
    check(interpreted, random.Random(11), count=150)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_more_random_tables(interpreted: Any) -> None:
    for seed in range(200, 225):
        check(interpreted, random.Random(seed), count=300)

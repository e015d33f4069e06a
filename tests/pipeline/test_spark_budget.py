"""The work budget on Spark: the SQL of a filter is unknown for the same rows as everywhere."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.properties._weighted import events, filters

from tidings.language import accepts
from tidings.language.spark import to_spark_sql
from tidings.language.work import is_over

pytestmark = pytest.mark.spark

SCHEMA: dict[str, Any] = {"a": "string", "b": "string", "n": {"s": "string"}, "k": "bigint"}
DDL = "a string, b string, n struct<s: string>, k bigint"


def test_spark_gives_the_same_answer_at_the_budget(spark: Any) -> None:
    rng = random.Random(11)
    population = filters(rng, 40)
    probes = events(rng, population, 24)
    assert sum(is_over(filter, event) for filter in population for event in probes) > 20
    rows = [
        (held.get("a"), held.get("b"), (held["n"]["s"],) if "n" in held else None, held["k"])
        for held in (event.attributes for event in probes)
    ]
    frame = spark.createDataFrame(rows, DDL)
    texts = [to_spark_sql(filter, SCHEMA) for filter in population]
    answers = frame.selectExpr(*(f"({text}) AS c{number}" for number, text in enumerate(texts))).collect()
    for event, row in zip(probes, answers, strict=True):
        for filter, answer in zip(population, row, strict=True):
            assert (answer is True) == accepts(filter, event), (filter.text[:80], event.id)

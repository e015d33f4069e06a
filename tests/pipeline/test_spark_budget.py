"""The work budget on Spark: the SQL of a filter is unknown for the same rows as everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.language import accepts, parse_filter
from tidings.language.spark import to_spark_sql
from tidings.language.work import BUDGET, is_over
from tidings.model.event import make_event

pytestmark = pytest.mark.spark

FILTERS = [
    "a NOT LIKE '%y%'",  # weight 3
    "a NOT REGEXP 'zz' AND k = 1",  # weight 2
    "LENGTH(a) > 3",  # weight 1
    "a NOT LIKE '%y%' OR k = 1",  # unknown as a whole
    "a LIKE 'x%'",  # no weight
]
LENGTHS = [4, BUDGET // 3, BUDGET // 3 + 1, BUDGET // 2, BUDGET // 2 + 1, BUDGET, BUDGET + 1]


def test_spark_gives_the_same_answer_at_the_budget(spark: Any) -> None:
    population = [parse_filter(text) for text in FILTERS]
    probes = [make_event({"a": "x" * length, "k": 1}, source="s", id=str(length)) for length in LENGTHS]
    assert sum(is_over(filter, event) for filter in population for event in probes) == 5 + 3 + 1 + 5
    sql = [
        f"({to_spark_sql(filter, {'a': 'string', 'k': 'bigint'})}) AS c{n}"
        for n, filter in enumerate(population)
    ]
    frame = spark.range(len(LENGTHS)).selectExpr(
        f"repeat('x', element_at(array({', '.join(map(str, LENGTHS))}), CAST(id AS INT) + 1)) AS a",
        "1L AS k",
        "id",
    )
    answers = frame.orderBy("id").selectExpr(*sql).collect()
    assert [[answer is True for answer in row] for row in answers] == [
        [accepts(filter, event) for filter in population] for event in probes
    ]

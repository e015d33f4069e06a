"""The work budget on Spark: the SQL of a filter is unknown for the same rows as everywhere."""

from __future__ import annotations

import os
import random
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
    "LOWER(a) > 'w'",  # weight 1
    "a NOT LIKE '%y%' OR k = 1",  # k decides
    "a NOT LIKE '%y%' OR k = 2",
    "a LIKE 'x%'",  # no weight
]
LENGTHS = [4, BUDGET // 3, BUDGET // 3 + 1, BUDGET // 2, BUDGET // 2 + 1, BUDGET, BUDGET + 1]


def test_spark_gives_the_same_answer_at_the_budget(spark: Any) -> None:
    population = [parse_filter(text) for text in FILTERS]
    probes = [make_event({"a": "x" * length, "k": 1}, source="s", id=str(length)) for length in LENGTHS]
    assert sum(is_over(filter, event) for filter in population for event in probes) == 5 + 3 + 1 + 5 + 5
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


OBJECTS = "array<struct<p: bigint, s: string, t: array<string>>>"
TYPES = f"a string, b string, k bigint, n struct<s: string>, l array<string>, o {OBJECTS}"
COLUMNS = {
    "a": "string", "b": "string", "k": "bigint", "n": {"s": "string"}, "l": "array<string>", "o": OBJECTS,
}  # fmt: skip


def condition(rng: random.Random) -> str:
    """Patterns that Java's engine searches without going back, on texts and on elements."""
    number, pattern = rng.randrange(3), rng.choice(["%x%", "%y%", "%xx"])
    parts = [
        "'xx' IN l", "NOT ('x' IN l)", f"ANY(l LIKE '{pattern}')", f"ALL(l NOT LIKE '{pattern}')",
        f"ANY(o.p > {number})", f"ANY(o.p = {number} AND o.s LIKE '{pattern}')",
        f"ANY(o.p >= {number} AND a LIKE '{pattern}')", f"ANY(o.p = {number} AND ANY(o.t LIKE '{pattern}'))",
        f"ANY(l = 'xx' AND ANY(o.p = {number}))", f"LENGTH(l) > {number}", f"a LIKE '{pattern}'",
        f"LOWER(n.s) > 'w' AND b NOT LIKE '{pattern}'", f"k = {number}", "a = 'xx'",
    ]  # fmt: skip
    one, other = rng.choice(parts), rng.choice(parts)
    return rng.choice([one, f"{one} OR {other}", f"{one} AND {other}", f"NOT ({one}) OR {other}"])


def body(rng: random.Random) -> dict[str, Any]:
    texts = ["", "xx", "y", "x" * 3000, "x" * 349_000, "x" * 350_000, "x" * 1_100_000]
    element = rng.choice(["x", "xx", "y", "x" * 100])
    found: dict[str, Any] = {name: rng.choice(texts) for name in ("a", "b")}
    found["n"] = {"s": rng.choice(texts)}
    found["l"] = [element] * rng.choice([0, 1, 5, 900, 3400, 3500])
    number = rng.choice([1, 3, 300])
    found["o"] = [{"p": at % 4, "s": element, "t": [element] * rng.choice([0, 2])} for at in range(number)]
    return {"k": rng.randrange(3)} | {name: value for name, value in found.items() if rng.random() < 0.7}


def compared(spark: Any, seed: int, count: int, events: int) -> tuple[int, int]:
    """Random filters with weights on texts and lists: how many values were compared, and how many over."""
    rng = random.Random(seed)
    population = [parse_filter(condition(rng)) for _ in range(count)]
    probes = [make_event(body(rng), source="s", id=str(number)) for number in range(events)]
    rows = [tuple(each.attributes.get(name) for name in COLUMNS) for each in probes]
    sql = [f"({to_spark_sql(filter, COLUMNS)}) AS c{n}" for n, filter in enumerate(population)]
    answers = spark.createDataFrame(rows, TYPES).selectExpr(*sql).collect()
    for event, row in zip(probes, answers, strict=True):
        for filter, value in zip(population, row, strict=True):
            assert (value is True) is accepts(filter, event), (filter.text, event.attributes.keys())
    return len(population) * len(probes), sum(is_over(f, event) for f in population for event in probes)


def test_texts_and_lists_at_the_budget_give_the_same_answer_on_spark(spark: Any) -> None:
    values, over = compared(spark, 1, 20, 10)
    assert values == 200
    assert over


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_more_texts_and_lists_at_the_budget(spark: Any) -> None:
    first = int(os.environ.get("TEST_SEED", "100"))
    found = [compared(spark, first + number, 60, 25) for number in range(20)]
    print(f"{sum(f[0] for f in found)} values compared, {sum(f[1] for f in found)} over budget, none differ")

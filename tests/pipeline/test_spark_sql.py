"""`to_spark_sql` against real Spark: the SQL has the value that evaluation has, row by row.

Random expressions over typed columns are evaluated twice, here and by Spark, in a few large
selects. As expressions all three values must agree; as filters, TRUE must mean accepted.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tidings.errors import FilterError, FilterLimitError
from tidings.language import normalise, parse, print_expression
from tidings.language.evaluate import accepts, evaluate
from tidings.language.functions import FUNCTIONS, NEWER_LETTERS
from tidings.language.spark import to_spark_sql
from tidings.model import expression as e
from tidings.model.event import Event, make_event
from tidings.model.value import INT_MAX, INT_MIN

pytestmark = pytest.mark.spark

SCHEMA: dict[str, Any] = {
    "flag": "boolean", "i": "bigint", "j": "bigint", "x": "double", "y": "double", "s": "string",
    "u": "string",
    "at": "timestamp", "n": {"x": "bigint", "s": "string"}, "topic": "string",
    "type.lineage": "array<string>",
}  # fmt: skip
DDL = (
    "flag boolean, i bigint, j bigint, x double, y double, s string, u string, at timestamp, "
    "n struct<x: bigint, s: string>, topic string, `type.lineage` array<string>"
)
WIDEST = 80  # columns of one select
BIG = 2**53 + 1
NOON = datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
SUMMER = datetime(2026, 3, 8, 7, 30, tzinfo=UTC)  # the hour that New York skips
INTEGERS = [0, 1, -1, 2, 3, 7, BIG, BIG - 1, -BIG, INT_MAX, INT_MIN, INT_MIN + 1]
DOUBLES = [
    0.0,
    -0.0,
    1.0,
    1.5,
    -1.5,
    2.5,
    0.49999999999999994,
    float(BIG),
    -float(BIG),
    2.0**63,
    -(2.0**63),
    1e308,
    -1e308,
    5e-324,
]
ODD_DOUBLES = [math.inf, -math.inf, math.nan]
STRINGS = [
    "", "a", "ab", "abc", "A", "b", "é", "🙂", "a%b", "a_b", "a\\b", "a'b", 'a"b', "a\nb", "${HOME}", "$",
    "\t x \u2003", "true", "FALSE",
    "12", "-7", "+3", " 5", "1.5", "1e3", "9223372036854775807", "9223372036854775808", "a/b", "a/b/c", "/",
    "x\r\n", "a\x1f", "straſe",
    "2026-01-01T00:00:00Z", "2026-01-01 12:00:00.1234567+01:00", "2026-02-30T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59.999999999Z", "2026-06-01T00:00:00-18:00", "2026-06-01T00:00:00+18:01",
    "0000-01-01T00:00:00Z",
]  # fmt: skip
TOPICS = ["a", "a/b", "a/b/c", "b", "/", "a/é", "c/b"]
TOPIC_PATTERNS = ["a/+", "#", "a/#", "+/b", "+", "a", "+/#", "/", "a/+/c", "+/+/#"]
LIKES = ["a%", "%b", "a_b", "%", "_", "a\\%b", "a\\_b", "a\\b", "%\\", "%'%", "$%", "ab", "", "a%b%", "%\n%"]
REGEXPS = [
    "a", "^a", "b$", "^$", "a.b", "(?s)a.b", "[0-9]+", r"^\d+$", r"\s", r"^\S+$", "(?i)^STRA[k-s]E$",
    "(a|b)+c?", r"\Qa%b\E", r"[^a-c]$",
    "[[:upper:]]", r"^\W*$", "x{0,2}a", r"\.|\$\{", r"^[\w']+$", "é|\\x{1F642}", "^.$", r"a\z", "[]\\\\]",
    r"(?i:a)b",
]  # fmt: skip
TYPES = ["Cat", "Dog", "Animal"]
LINEAGES = [["Cat", "Animal"], ["Dog"], ["Animal"], [], None]


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    def some(values: list[Any]) -> Any:
        return rng.choice(values) if rng.random() < 0.85 else None

    return [
        {
            "flag": some([True, False]), "i": some(INTEGERS), "j": some(INTEGERS),
            "x": some(DOUBLES + ODD_DOUBLES),
            "y": some(DOUBLES + ODD_DOUBLES), "s": some(STRINGS), "u": some(STRINGS),
            "at": some([NOON, SUMMER]),
            "n": some([{"x": some(INTEGERS), "s": some(STRINGS)}]), "topic": some(TOPICS),
            "lineage": rng.choice(LINEAGES),
        }
        for _ in range(count)
    ]  # fmt: skip


def event_of(row: dict[str, Any]) -> Event:
    attributes = {
        name: value for name, value in row.items() if name not in ("topic", "lineage") and value is not None
    }
    return make_event(attributes, source="s", id="1", topic=row["topic"], type=tuple(row["lineage"] or ()))


class Maker:
    """Random expressions; kinds fit more often than not."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def condition(self, depth: int) -> e.Expression:
        if depth and self.rng.random() < 0.45:
            return self.rng.choice([self.negation, self.logic])(depth - 1)
        makers: list[Callable[[], e.Expression]] = [
            self.compare, self.compare, self.compare, self.among, self.between, self.text, self.text,
            self.presence, self.kind,
            lambda: e.Attribute("flag"),
        ]  # fmt: skip
        return self.rng.choice(makers)()

    def negation(self, depth: int) -> e.Expression:
        return e.Not(self.condition(depth))

    def logic(self, depth: int) -> e.Expression:
        return self.rng.choice([e.And, e.Or, e.Xor])(self.condition(depth), self.condition(depth))

    def compare(self) -> e.Expression:
        kind = self.any_kind()
        op = self.rng.choice(["=", "!=", "<", "<=", ">", ">="])
        return e.Compare(op, self.value(kind, 2), self.value(self.mostly(kind), 1))

    def among(self) -> e.Expression:
        kind = self.any_kind()
        items = tuple(self.value(self.mostly(kind), 0) for _ in range(self.rng.randint(1, 3)))
        if self.rng.random() < 0.2:
            return e.In(
                e.Attribute("topic"),
                tuple(e.Literal(p) for p in self.rng.sample(TOPIC_PATTERNS, 2)),
                self.maybe(),
            )
        return e.In(self.value(kind, 1), items, self.maybe())

    def between(self) -> e.Expression:
        kind = self.any_kind()
        return e.Between(
            self.value(kind, 1),
            self.value(self.mostly(kind), 0),
            self.value(self.mostly(kind), 0),
            self.maybe(),
        )

    def text(self) -> e.Expression:
        operand = self.value(self.mostly("string"), 1)
        if self.rng.random() < 0.3:
            topic = e.Attribute(self.rng.choice(["topic", "s"]))
            return e.TopicTest(topic, self.rng.choice(TOPIC_PATTERNS), self.maybe())
        if self.rng.random() < 0.5:
            return e.LikeTest(operand, self.rng.choice(LIKES), self.maybe())
        return e.RegexpTest(operand, self.rng.choice(REGEXPS), self.maybe())

    def presence(self) -> e.Expression:
        name = self.rng.choice(["i", "x", "n.x", "Flag", "nobody", "topic", "type", "type.lineage"])
        if self.rng.random() < 0.5:
            return e.ExistsTest(name)
        operand = self.rng.choice([e.Attribute(name), self.value(self.any_kind(), 2)])
        return e.NullTest(operand, self.maybe())

    def kind(self) -> e.Expression:
        if self.rng.random() < 0.3:
            return e.Compare(
                self.rng.choice(["=", "!="]), e.Attribute("type"), e.Literal(self.rng.choice(TYPES))
            )
        return e.TypeTest(self.rng.choice(TYPES), self.maybe())

    def maybe(self) -> bool:
        return self.rng.random() < 0.5

    def any_kind(self) -> str:
        return self.rng.choice(["integer", "double", "string", "integer", "double", "time", "boolean"])

    def mostly(self, kind: str) -> str:
        numbers = {"integer": "double", "double": "integer"}
        if kind in numbers and self.rng.random() < 0.4:
            return numbers[kind]
        return kind if self.rng.random() < 0.85 else self.any_kind()

    def value(self, kind: str, depth: int) -> e.Expression:
        if depth and self.rng.random() < 0.5:
            return self.computed(kind, depth - 1)
        constants: dict[str, list[Any]] = {
            "integer": INTEGERS, "double": DOUBLES, "string": STRINGS, "time": [NOON, SUMMER],
            "boolean": [True, False],
        }  # fmt: skip
        names = {
            "integer": ["i", "j", "n.x"],
            "double": ["x", "y"],
            "string": ["s", "u", "n.s"],
            "time": ["at"],
            "boolean": ["flag"],
        }
        if self.rng.random() < 0.4:
            return e.Literal(self.rng.choice(constants[kind]))
        return e.Attribute(
            self.rng.choice([*names[kind], "nobody"] if self.rng.random() < 0.1 else names[kind])
        )

    def computed(self, kind: str, depth: int) -> e.Expression:
        rng, value = self.rng, self.value
        if kind in ("integer", "double"):
            if rng.random() < 0.6:
                return e.Arithmetic(
                    rng.choice("+-*/%"), value(self.mostly(kind), depth), value(self.mostly(kind), depth)
                )
            number = value(self.mostly(kind), depth)
            one = rng.choice(["ABS", "FLOOR", "CEIL", "ROUND", "INT", "FLOAT"])
            return rng.choice([
                e.Negate(number), e.Call(one, (number,)), e.Call("MOD", (number, value(kind, depth))),
                e.Call(rng.choice(["LEAST", "GREATEST", "COALESCE"]),
                    (value(kind, depth), value(kind, depth))),
                e.Call("LENGTH", (value("string", depth),)),
                e.Call(rng.choice(["INT", "FLOAT"]), (value(self.any_kind(), depth),)),
            ])  # fmt: skip
        if kind == "boolean":
            return e.Call(rng.choice(["BOOL", "IS_INT", "IS_BOOL"]), (value(self.any_kind(), depth),))
        if kind == "time":
            return e.Call(rng.choice(["LEAST", "COALESCE"]), (value(kind, depth), value(kind, depth)))
        text, count, length = value("string", depth), value("integer", 0), value("integer", 0)
        return rng.choice([
            e.Call(rng.choice(["LOWER", "UPPER", "TRIM"]), (text,)),
            e.Call("CONCAT", (text, value("string", depth))),
            e.Call("CONCAT_WS",
                (text, *(value(self.mostly("string"), depth) for _ in range(rng.randint(0, 3))))),
            e.Call(rng.choice(["LEFT", "RIGHT", "SUBSTRING"]), (text, count)),
            e.Call("SUBSTRING", (text, count, length)),
            e.Call("STRING", (value(rng.choice(["integer", "boolean", "string"]), depth),)),
        ])  # fmt: skip


def expressions(seed: int, count: int) -> list[e.Expression]:
    """Random conditions that Spark can say; the share that it cannot is small."""
    maker = Maker(random.Random(seed))
    found: list[e.Expression] = []
    refused = 0
    while len(found) < count:
        condition = maker.condition(2)
        try:
            to_spark_sql(condition, SCHEMA)
            found.append(condition)
        except FilterError:
            refused += 1
    assert refused < count / 4
    return found


def select(spark: Any, table: list[dict[str, Any]], texts: list[str]) -> list[list[Any]]:
    """The values of all the texts for all the rows; wider selects than this take longer to plan
    than to run."""
    names = ("flag", "i", "j", "x", "y", "s", "u", "at", "n", "topic", "lineage")
    frame = spark.createDataFrame([tuple(row[name] for name in names) for row in table], DDL)
    answers: list[list[Any]] = [[] for _ in table]
    for start in range(0, len(texts), WIDEST):
        part = [f"{text} AS c{n}" for n, text in enumerate(texts[start : start + WIDEST])]
        for answer, row in zip(answers, frame.selectExpr(*part).collect(), strict=True):
            answer.extend(row)
    return answers


def check(spark: Any, conditions: list[e.Expression], table: list[dict[str, Any]]) -> None:
    """As expressions, and as filters in normal form."""
    filters = []
    for condition in conditions:
        try:
            filters.append(normalise(condition, text=""))
        except FilterLimitError:
            continue
    texts = [to_spark_sql(condition, SCHEMA) for condition in conditions]
    texts += [to_spark_sql(filter, SCHEMA) for filter in filters]
    answers = select(spark, table, texts)
    for row, values in zip(table, answers, strict=True):
        event = event_of(row)
        for condition, text, value in zip(conditions, texts, values, strict=False):
            expected = evaluate(condition, event.view)
            expected = expected if isinstance(expected, bool) else None
            assert value is expected, (print_expression(condition), text, row)
        for filter, value in zip(filters, values[len(conditions) :], strict=True):
            assert (value is True) is accepts(filter, event), (filter.conjunctions, row)


@pytest.fixture
def interpreted(spark: Any) -> Any:
    """Without compiling the hundreds of columns of one select, which takes longer than running it."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield spark
    spark.conf.unset("spark.sql.codegen.wholeStage")
    spark.conf.unset("spark.sql.codegen.factoryMode")


def test_random_conditions_mean_the_same_on_spark(interpreted: Any) -> None:
    check(interpreted, expressions(1, 120), rows(random.Random(2), 60))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_more_random_conditions(interpreted: Any) -> None:
    for seed in range(100, 120):
        check(interpreted, expressions(seed, 200), rows(random.Random(-seed), 100))


def test_also_when_compiled(spark: Any) -> None:
    check(spark, expressions(3, 30), rows(random.Random(4), 40))


def test_also_without_ansi_mode(interpreted: Any) -> None:
    interpreted.conf.set("spark.sql.ansi.enabled", "false")
    try:
        check(interpreted, expressions(5, 40), rows(random.Random(6), 40))
    finally:
        interpreted.conf.unset("spark.sql.ansi.enabled")


def test_every_pattern_on_every_text(interpreted: Any) -> None:
    s = e.Attribute("s")
    patterns: list[e.Expression] = [e.RegexpTest(s, pattern) for pattern in REGEXPS]
    patterns += [e.LikeTest(s, pattern) for pattern in LIKES] + [
        e.TopicTest(s, pattern) for pattern in TOPIC_PATTERNS
    ]
    (row,) = rows(random.Random(9), 1)
    check(
        interpreted,
        patterns,
        [
            {**row, "s": text}
            for text in STRINGS + TOPICS + ["Kelvin \u212a", "\u212a", "k", "STRASE", "strase"]
        ],
    )


EXACT = [
    "i = 9007199254740993", "i = 9.007199254740992e15", "i > 9.007199254740992e15", "x = 9007199254740993",
    "x < 9007199254740993",
    "i < x", "i = x", "i + j > 0", "i * j < 0", "i / j = 0", "i % j = 0", "-i > 0", "x * y > 0", "x / y > 1",
    "ABS(i) >= 0",
    "i < 9.3e18", "i >= -1e300", "x <= 9223372036854775807", "i / -1 > 0",
    "at >= TIMESTAMP '2026-01-01T12:00:00.000001Z'",
    "s = '${HOME}'", "s LIKE '$%'", "s = 'a\\\\b'", "topic = 'a/+'", "topic IN ('a/#', 'b')",
    "type IS A Animal", "type IS NOT A Cat",
    "type = 'Dog'", "n.x > 0", "N.x > 0", "Flag", "s < 'é'", "INT(s) > 0", "FLOAT(s) > 1.2", "s = 5 OR TRUE",
    "NOT s = 5",
]  # fmt: skip


def test_the_cases_that_raw_sql_would_get_wrong(interpreted: Any) -> None:
    every = [
        {**row, "i": i, "x": x}
        for row in rows(random.Random(7), 1)
        for i in INTEGERS
        for x in DOUBLES + ODD_DOUBLES
    ]
    check(interpreted, [parse(text) for text in EXACT], every + rows(random.Random(8), 60))


FUNCTION_TEXTS = [
    "LENGTH(s) > 2", "CONCAT(s, u) = 'ab'", "CONCAT_WS(s, u, n.s) LIKE 'a%'", "LOWER(s) = 'a'",
    "UPPER(s) = 'A'", "TRIM(s) = 'x'",
    "LEFT(s, i) = 'a'", "RIGHT(s, i) = 'b'", "SUBSTRING(s, i) = 'b'", "SUBSTRING(s, i, j) = 'b'",
    "ABS(i) = 1", "ABS(x) > 1",
    "INT(s) > 0", "INT(x) = 1", "INT(flag) = 1", "BOOL(s)", "BOOL(x)", "STRING(i) LIKE '-%'",
    "STRING(flag) = 'true'", "IS_INT(s)", "IS_INT(x)",
    "IS_BOOL(s)", "IS_BOOL(at)", "FLOAT(s) > 1", "FLOAT(i) > x", "FLOOR(x) = 1", "CEIL(x) = 2",
    "ROUND(x) = 3", "MOD(i, j) = 0", "MOD(x, y) > 0",
    "TIMESTAMP(s) > TIMESTAMP '2026-01-01T00:00:00Z'", "TIMESTAMP(at) = at", "LEAST(i, j) < 0",
    "GREATEST(x, y) > 0", "GREATEST(s, u) = 'b'", "COALESCE(i, j, 7) = 7", "DECIMAL(i) > 1",
]  # fmt: skip


def test_every_function_is_the_same_on_spark(interpreted: Any) -> None:
    conditions = [parse(text) for text in FUNCTION_TEXTS]
    assert {node.function for condition in conditions for node in calls(condition)} == set(FUNCTIONS)
    check(interpreted, conditions, rows(random.Random(10), 150))


def test_letters_have_the_same_case_on_spark_or_none(interpreted: Any) -> None:
    """Every letter of Unicode: the tables of Python, Java and ICU are of different ages."""
    newer = {chr(n) for n in range(0x110000) if re.match(f"[{NEWER_LETTERS}]", chr(n))}
    every = [chr(n) for n in range(1, 0x110000) if not 0xD800 <= n < 0xE000 and chr(n) not in newer]
    texts = ["x".join(every[at : at + 128]) for at in range(0, len(every), 128)]
    texts += [*sorted(newer), "ΑΣ ΟΔΟΣ", "İI", "ǅ"]
    (row,) = rows(random.Random(11), 1)
    for name in ("LOWER", "UPPER"):
        known = [evaluate(parse(f"{name}(s)"), {"s": text}) for text in texts]
        table = [{**row, "s": text, "u": value} for text, value in zip(texts, known, strict=True)]
        found = [
            value for (value,) in select(interpreted, table, [to_spark_sql(parse(f"{name}(s) = u"), SCHEMA)])
        ]
        assert found == [None if value is None else True for value in known]


def calls(node: Any) -> list[e.Call]:
    if isinstance(node, tuple):
        return [found for part in node for found in calls(part)]
    if not hasattr(node, "__struct_fields__"):
        return []
    inside = [found for name in node.__struct_fields__ for found in calls(getattr(node, name))]
    return [node, *inside] if isinstance(node, e.Call) else inside


def test_a_frame_can_be_filtered_by_its_own_schema(spark: Any) -> None:
    from pyspark.sql import Row

    frame = spark.createDataFrame(
        [
            Row(**{"Price": 2.5, "odd`name": 1, "n": Row(small=3)}),
            Row(**{"Price": float("nan"), "odd`name": 2, "n": None}),
        ]
    ).selectExpr(
        "Price",
        "`odd``name`",
        "CAST(n.small AS INT) AS small",
        "CAST(Price AS FLOAT) AS f",
        "CURRENT_DATE AS day",
    )
    sql = to_spark_sql(parse("Price > 1 AND small = 3 AND f < 3 AND \"x\" = 'x'"), frame.schema)
    assert [row["Price"] for row in frame.where(sql).collect()] == [2.5]
    assert frame.where(to_spark_sql(parse("price > 1"), frame.schema)).count() == 0  # names have case
    assert frame.where(to_spark_sql(parse("Price > 1"), frame.schema)).count() == 1  # NaN is NULL
    assert frame.where(to_spark_sql(parse("day = 1"), frame.schema)).count() == 0  # a date is no number

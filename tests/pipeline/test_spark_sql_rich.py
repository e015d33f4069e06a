"""`to_spark_sql` for lists, decimals, dates and bytes against real Spark: as evaluated, row by row."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tidings.errors import FilterError, FilterLimitError
from tidings.language import normalise, parse, print_expression
from tidings.language.evaluate import accepts, evaluate
from tidings.language.eventbridge import from_pattern
from tidings.language.lists import names_in
from tidings.language.spark import to_spark_sql
from tidings.language.work import BUDGET, cost, work_of_expression
from tidings.model import expression as e
from tidings.model.event import make_event
from tidings.model.filter import NOTHING, Filter

pytestmark = pytest.mark.spark

TYPES = {
    "i": "bigint", "x": "double", "s": "string", "d": "decimal(10,2)", "e": "decimal(38,18)",
    "w": "decimal(38,0)", "day": "date", "local": "timestamp_ntz", "at": "timestamp", "raw": "binary",
    "tags": "array<string>", "nums": "array<bigint>", "xs": "array<double>", "ds": "array<decimal(6,3)>",
    "days": "array<date>", "deep": "array<array<bigint>>",
    "lines": "array<struct<sku: string, price: decimal(8,2), q: bigint, t: array<string>, "
    "in: struct<y: double>>>",
    "n": "struct<l: array<bigint>, d: decimal(3,1)>",
}  # fmt: skip
DDL = ", ".join(f"{name} {declared}" for name, declared in TYPES.items())
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
INTEGERS = [0, 1, -1, 2, 12, 100, 2**53 + 1, 2**63 - 1]
DOUBLES = [0.0, 0.1, 1.0, 12.1, 1.5, 99.99, 1e20, -1e300, math.inf, math.nan, 2.0**53]
TEXTS = ["", "a", "b", "red", "${x}", "12.10", "a'b"]
CENTS = [Decimal(t) for t in ("0.00", "0.10", "12.10", "12.09", "1.50", "-1.00", "99.99", "999.99")]
FINE = [Decimal("12.1") + Decimal(k).scaleb(-18) for k in (-1, 0, 1)] + [Decimal("0.100000000000000006")]
WIDE = [Decimal(n) for n in (0, 12, 2**53 + 1, 2**63, 10**37, -(10**38) + 1)]
DATES = [date(2026, 1, 1), date(1969, 12, 31), date(2026, 3, 8)]


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    def some(values: list[Any]) -> Any:
        return rng.choice(values) if rng.random() < 0.8 else None

    def few(values: list[Any]) -> Any:
        return [some(values) for _ in range(rng.randint(0, 3))] if rng.random() < 0.8 else None

    def line() -> Any:
        price = some(CENTS)
        inner = some([{"y": 0.1}, {"y": math.nan}])
        return {"sku": some(TEXTS), "price": price, "q": some(INTEGERS), "t": few(TEXTS), "in": inner}

    return [
        {
            "i": some(INTEGERS), "x": some(DOUBLES), "s": some(TEXTS), "d": some(CENTS), "e": some(FINE),
            "w": some(WIDE), "day": some(DATES),
            "local": some([datetime(2026, 3, 8, 2, 30), datetime(2026, 1, 1)]),
            "at": some([NOON, datetime(2026, 1, 1, tzinfo=UTC)]), "raw": some([b"", b"a"]),
            "tags": few(TEXTS),
            "nums": few(INTEGERS), "xs": few(DOUBLES), "ds": few([Decimal("0.100"), Decimal("12.100")]),
            "days": few(DATES), "deep": few([[], [1, 2], [None, 12], [100]]),
            "lines": few([line(), line(), line()]),
            "n": some([{"l": few(INTEGERS), "d": some([Decimal("0.1"), Decimal("12.1")])}]),
        }
        for _ in range(count)
    ]  # fmt: skip


NUMBER_NAMES = [
    "i",
    "x",
    "d",
    "e",
    "w",
    "n.d",
    "nums",
    "xs",
    "ds",
    "deep",
    "lines.price",
    "lines.q",
    "lines.in.y",
    "n.l",
]
TEXT_NAMES = ["s", "tags", "lines.sku", "lines.t"]
TIME_NAMES = ["day", "local", "at", "days"]
ODD_NAMES = ["raw", "lines", "n", "missing", "tags.x"]
DECIMAL_TEXTS = [
    "12.10",
    "0.1",
    "12.1000000000000000001",
    "1E+60",
    "-1E-30",
    "99999999.995",
    "-0",
    "9007199254740993",
]


class Maker:
    """Random conditions on lists and decimals; kinds fit more often than not."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def condition(self, depth: int) -> e.Expression:
        draw = self.rng.random()
        if depth and draw < 0.2:
            return self.rng.choice([e.And, e.Or, e.Xor])(self.condition(depth - 1), self.condition(depth - 1))
        if depth and draw < 0.3:
            return e.Not(self.condition(depth - 1))
        if depth and draw < 0.75:
            inside = self.condition(depth - 1)
            if next(names_in(inside), None) is not None:
                return self.rng.choice([e.AnyOf, e.AllOf])(inside)
        return self.leaf()

    def leaf(self) -> e.Expression:
        name, constant = self.pair()
        attribute = e.Attribute(name)
        negated = self.rng.random() < 0.5
        match self.rng.randrange(8):
            case 0:
                return e.ExistsTest(name)
            case 1:
                return e.NullTest(attribute, negated)
            case 2:
                return e.In(attribute, (constant, self.pair()[1]), negated)
            case 3:
                return e.Between(attribute, constant, self.pair()[1], negated)
            case 4:
                return e.LikeTest(attribute, self.rng.choice(["a%", "%", "r_d"]), negated)
            case 5:
                op = self.rng.choice(["=", "<", ">="])
                return e.Compare(op, self.computed(), self.number())
        op = self.rng.choice(["=", "!=", "<", "<=", ">", ">="])
        return e.Compare(op, attribute, constant if self.rng.random() < 0.8 else e.Attribute(self.pair()[0]))

    def pair(self) -> tuple[str, e.Expression]:
        match self.rng.randrange(8):
            case 0 | 1:
                return self.rng.choice(TEXT_NAMES), e.Literal(self.rng.choice(TEXTS))
            case 2:
                return self.rng.choice(TIME_NAMES), e.Literal(
                    self.rng.choice([NOON, datetime(2026, 1, 1, tzinfo=UTC)])
                )
            case 3:
                return self.rng.choice(ODD_NAMES), self.number()
        return self.rng.choice(NUMBER_NAMES), self.number()

    def number(self) -> e.Expression:
        if self.rng.random() < 0.4:
            return e.Call("DECIMAL", (e.Literal(self.rng.choice(DECIMAL_TEXTS)),))
        return e.Literal(self.rng.choice([*INTEGERS, *(x for x in DOUBLES if math.isfinite(x))]))

    def computed(self) -> e.Expression:
        number = e.Attribute(self.rng.choice(NUMBER_NAMES))
        match self.rng.randrange(4):
            case 0:
                return e.Call(
                    "LENGTH",
                    (e.Attribute(self.rng.choice(["tags", "lines", "deep", "s", "n.l", "lines.t"])),),
                )
            case 1:
                return e.Arithmetic(self.rng.choice("+-*/%"), number, self.number())
            case 2:
                name = self.rng.choice(["ABS", "FLOOR", "CEIL", "ROUND", "INT", "FLOAT", "DECIMAL"])
                return e.Call(name, (number,))
        return e.Negate(number)


def expressions(seed: int, count: int) -> list[e.Expression]:
    """Those that Spark can say exactly; a decimal beside a double column is refused."""
    maker = Maker(random.Random(seed))
    found: list[e.Expression] = []
    while len(found) < count:
        condition = maker.condition(3)
        try:
            to_spark_sql(condition, TYPES)
        except FilterError as error:
            assert "form on Spark" in str(error), error  # noqa: PT017
            continue
        found.append(condition)
    return found


def event_of(row: dict[str, Any]) -> Any:
    return make_event({name: value for name, value in row.items() if value is not None}, source="s", id="1")


def filter_of(condition: e.Expression) -> Filter:
    try:
        return normalise(condition, text="")
    except FilterLimitError:
        return NOTHING


def check(
    spark: Any, conditions: list[e.Expression], table: list[dict[str, Any]], only_expressions: bool = False
) -> int:
    """As expressions, and as filters in normal form; returns how many values were compared."""
    filters = [] if only_expressions else [*map(filter_of, conditions)]
    texts = [to_spark_sql(one, TYPES) for one in [*conditions, *filters]]
    frame = spark.createDataFrame([tuple(row[name] for name in TYPES) for row in table], DDL)
    answers: list[list[Any]] = [[] for _ in table]
    for start in range(0, len(texts), 80):
        part = [f"{text} AS c{n}" for n, text in enumerate(texts[start : start + 80])]
        for answer, row in zip(answers, frame.selectExpr(*part).collect(), strict=True):
            answer.extend(row)
    for row, values in zip(table, answers, strict=True):
        event = event_of(row)
        for condition, text, value in zip(conditions, texts, values, strict=False):
            expected = evaluate(condition, event.view)
            expected = expected if isinstance(expected, bool) else None
            assert value is expected, (print_expression(condition), text, row)
        for filter, value in zip(filters, values[len(conditions) :], strict=True):
            assert filter is NOTHING or (value is True) is accepts(filter, event), (filter.conjunctions, row)
    return len(texts) * len(table)


@pytest.fixture
def interpreted(spark: Any) -> Any:
    """Without compiling the columns of one select, in a zone with gaps."""
    settings = {
        "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "America/New_York",
    }  # fmt: skip
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


WRITTEN = [
    "'red' IN tags", "NOT 'red' IN tags", "ANY(lines.price > 12.1)", "ALL(lines.price < DECIMAL('12.1'))",
    "ANY(lines.price > 1 AND lines.sku = 'a')", "ANY(lines.t = 'red' AND lines.q = 1)", "ANY(lines.q > i)",
    "ANY(lines.q = 1 AND ANY(lines.t = 'a'))", "LENGTH(lines) = 2", "LENGTH(tags) > 1", "12 IN deep",
    "ANY(n.l > 5)", "5 IN tags", "tags = 'red'", "EXISTS tags", "EXISTS raw", "raw = 'a'", "EXISTS lines",
    "ANY(EXISTS lines.sku)", "ALL(EXISTS tags)", "d = 12.10", "d = DECIMAL('12.10')", "d < 12.1", "d <= 12.1",
    "d > e", "d = i", "e = i", "w > i", "w = 9223372036854775808.0", "e > DECIMAL('12.1')", "e = 12.1",
    "e < 0.1",
    "d IN (1.5, 12)", "d BETWEEN 0.1 AND 12.1", "d * 2 = 24.2", "-d < 0", "INT(d) = 12", "INT(w) = 12",
    "day = TIMESTAMP '2026-01-01T00:00:00Z'", "day < at", "ANY(days = TIMESTAMP '2026-01-01T00:00:00Z')",
    "local >= TIMESTAMP '2026-03-08T02:30:00Z'", "ANY(ds = DECIMAL('0.1'))", "ANY(xs > 0.1)", "0.1 IN ds",
    "BOOL(d)", "IS_INT(w)", "IS_BOOL(d)", "DECIMAL(x) > 1", "DECIMAL('2') > 1",
]  # fmt: skip


def test_conditions_on_lists_and_decimals_mean_the_same_on_spark(interpreted: Any) -> None:
    written = [parse(text) for text in WRITTEN if text != "COALESCE(d, n.d) = 1"]
    assert check(interpreted, [*written, *expressions(1, 40)], rows(random.Random(2), 40)) > 5_000


def test_also_when_compiled_and_without_ansi_mode(spark: Any) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        check(spark, expressions(3, 6), rows(random.Random(4), 30))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_more_conditions_on_lists_and_decimals(interpreted: Any) -> None:
    compared = sum(
        check(interpreted, expressions(seed, 200), rows(random.Random(-seed), 100))
        for seed in range(500, 520)
    )
    print(f"{compared} values compared, none differ")


def test_patterns_with_arrays_mean_the_same_on_spark(interpreted: Any) -> None:
    patterns = [
        {"tags": ["red"]},
        {"lines": {"sku": ["a"], "q": [1]}},
        {"nums": [{"numeric": [">", 1]}], "s": ["a"]},
    ]
    table = rows(random.Random(7), 60)
    frame = interpreted.createDataFrame([tuple(row[name] for name in TYPES) for row in table], DDL)
    filters = [from_pattern(pattern) for pattern in patterns]
    found = frame.selectExpr(*(f"{to_spark_sql(f, TYPES)} AS c{n}" for n, f in enumerate(filters))).collect()
    expected = [[accepts(filter, event_of(row)) for filter in filters] for row in table]
    assert [[value is True for value in row] for row in found] == expected
    assert any(map(any, expected))


def test_a_list_over_the_work_budget_is_unknown_on_spark_too(interpreted: Any) -> None:
    condition = parse("ANY(tags LIKE '%a%b%')")
    elements, characters = work_of_expression(condition)
    longest = (BUDGET - 2 * elements[1]) // characters[1] - 2  # beside two elements
    (row,) = rows(random.Random(8), 1)
    table = [{**row, "i": 12, "tags": ["x" * (longest - 3), "aaaa"[: 3 + more]]} for more in (-1, 0, 1)]
    over = [cost(work_of_expression(condition), event_of(each).view) > BUDGET for each in table]
    assert over == [False, False, True]
    others = [
        parse(text) for text in ("i = 12 OR ANY(tags LIKE '%a%b%')", "i = 12 AND ANY(tags LIKE '%a%b%')")
    ]
    check(interpreted, [condition, e.Not(condition), *others], table)
    assert {evaluate(condition, event_of(row).view) for row in table} == {False, None}


def test_a_frame_is_filtered_by_its_own_schema(spark: Any) -> None:
    frame = spark.createDataFrame(
        [(Decimal("12.10"), [{"price": Decimal("0.10")}]), (Decimal("12.00"), None)],
        "total decimal(10,2), lines array<struct<price: decimal(4,2)>>",
    )
    sql = to_spark_sql(parse("total = DECIMAL('12.1') AND ANY(lines.price <= 0.1)"), frame.schema)
    assert frame.where(sql).count() == 1  # the double 0.1 is a little more than DECIMAL 0.1
    sql = to_spark_sql(parse("total = DECIMAL('12.1') AND ANY(lines.price <= DECIMAL('0.1'))"), frame.schema)
    assert [row["total"] for row in frame.where(sql).collect()] == [Decimal("12.10")]

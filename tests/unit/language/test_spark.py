"""Filters as Spark SQL: the text. That it means the same is proved on Spark, in tests/pipeline."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tidings.errors import FilterError
from tidings.language import parse, parse_filter
from tidings.language.functions import FUNCTIONS
from tidings.language.spark import to_spark_sql
from tidings.language.spark.functions import _WRITERS
from tidings.language.spark.regexp import java_regexp
from tidings.language.spark.text import literal, quoted
from tidings.model.expression import AnyOf, Attribute, Between, Call, Compare, Expression, Literal
from tidings.model.filter import EVERYTHING, NOTHING

SCHEMA = {
    "i": "bigint",
    "x": "double",
    "s": "string",
    "b": "boolean",
    "at": "timestamp",
    "n.x": "bigint",
    "topic": "string",
}
RICH = {"d": "decimal(10,2)", "wide": "decimal(38,0)", "tags": "array<string>", "day": "date",
        "lines": "array<struct<`odd name`: int, price: decimal(4,2)>>"}  # fmt: skip
UNKNOWN = "CAST(NULL AS BOOLEAN)"
X = "nanvl(`x`, CAST(NULL AS DOUBLE))"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("i = 5", "(`i` = 5L)"), ("i = 5.0", "(`i` = 5L)"), ("i != -5", "(NOT (`i` IN ((-5L))))"),
        ("n.x > 1", "(`n`.`x` > 1L)"),
        ("x < 5", f"({X} < 5.0D)"), ("i < 2.5", "(`i` <= 2L)"), ("i >= 2.5", "(`i` >= 3L)"),
        ("i < 1e300", "(`i` IS NOT NULL OR NULL)"),
        ("i > 1e300", "(`i` IS NULL AND NULL)"), ("x > 9007199254740993", f"({X} >= 9007199254740994.0D)"),
        ("x < 9007199254740993", f"({X} <= 9007199254740992.0D)"),
        ("x = 9007199254740993", f"({X} IS NULL AND NULL)"),
        ("s = 5", UNKNOWN), ("S = 'a'", UNKNOWN), ("nobody > 1", UNKNOWN), ("b", "(`b` = TRUE)"),
        ("NOT b", "(`b` = FALSE)"),
        ("i", UNKNOWN), ("EXISTS nobody", "FALSE"), ("EXISTS x", f"({X} IS NOT NULL)"),
        ("i IS NULL", "(NOT (`i` IS NOT NULL))"),
        ("s LIKE 'a%'", "startswith(`s`, 'a')"),
        ("s LIKE '_\\%$%'",
            rf"IF(5L * least(coalesce(length(`s`), 0), 1048577) > 1048576L, {UNKNOWN}, (`s` LIKE "
            r"'_\\%\u0024%' ESCAPE '\\'))"),
        ("s IN ('a', 'b')", "(`s` IN ('a', 'b'))"), ("i BETWEEN 1 AND 3", "((`i` >= 1L) AND (`i` <= 3L))"),
        ("type IS A Cat", UNKNOWN), ("topic = 'a/+'", r"(`topic` RLIKE '\\A(?!/\\z)a/[^/]*\\z')"),
        ("at > TIMESTAMP '1970-01-01T00:00:00.000001Z'", "(`at` > timestamp_micros(1L))"),
        ("i = 1 OR s = 'x'", "((`i` = 1L) OR (`s` = 'x'))"), ("i + 1 > 2", "(try_add(`i`, 1L) > 2L)"),
        ("i / 2 = 1", "((`i` div 2L) = 1L)"),
    ],
)  # fmt: skip
def test_the_sql_of_a_filter(text: str, sql: str) -> None:
    assert to_spark_sql(parse_filter(text), SCHEMA) == sql


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("d < 12.1", "(`d` <= CAST('12.09' AS DECIMAL(10,2)))"), ("d = 12.1", "(`d` IS NULL AND NULL)"),
        ("d = DECIMAL('12.10')", "(`d` = CAST('12.10' AS DECIMAL(10,2)))"),
        ("d < 1e9", "(`d` IS NOT NULL OR NULL)"), ("d > 99999999.995", "(`d` IS NULL AND NULL)"),
        ("i > DECIMAL('1.05')", "(`i` >= 2L)"), ("x > DECIMAL('0.1')", f"({X} >= 0.1D)"),
        ("d > i", "(CAST(`d` AS DECIMAL(21,2)) > CAST(`i` AS DECIMAL(21,2)))"),
        ("day > at", "(timestamp_micros(unix_date(`day`) * 86400000000L) > `at`)"),
    ],
)  # fmt: skip
def test_the_sql_of_decimals_and_dates(text: str, sql: str) -> None:
    assert to_spark_sql(parse(text), SCHEMA | RICH) == sql


def test_the_condition_on_elements_is_written_once() -> None:
    condition = AnyOf(Compare(">", Attribute("lines.odd name"), Literal(7)))
    sql = to_spark_sql(condition, SCHEMA | RICH)
    within = "(NOT forall(coalesce(`lines`, array(NULL)), v1 -> (NOT (CAST(v1.`odd name` AS BIGINT) > 7L))))"
    assert within in sql
    assert "aggregate" in sql  # the work budget counts elements


@pytest.mark.parametrize("declared", ["array<", "array<int", "struct<a>", "array<int>>"])
def test_a_type_that_is_none_is_refused(declared: str) -> None:
    with pytest.raises(FilterError, match="is no type of Spark"):
        to_spark_sql(parse("i = 1"), {"i": declared})


def test_always_and_never() -> None:
    assert to_spark_sql(EVERYTHING, {}) == "TRUE"
    assert to_spark_sql(NOTHING, {}) == "FALSE"


def test_an_expression_may_be_given_too() -> None:
    assert to_spark_sql(parse("i < j"), {"i": "bigint", "j": "bigint"}) == "(`i` < `j`)"
    assert to_spark_sql(parse("i + 1"), SCHEMA) == UNKNOWN  # no condition


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("a", "'a'"),
        ("a'b", r"'a\'b'"),
        ("a\\b", r"'a\\b'"),
        ("${HOME}", r"'\u0024{HOME}'"),
        ("a\nb", r"'a\u000ab'"),
        ("é", "'é'"),
    ],
)
def test_text_is_quoted_so_that_nothing_in_it_is_read(text: str, sql: str) -> None:
    assert quoted(text) == sql


def test_constants() -> None:
    values: list[Any] = [True, -1, 2**63 - 1, -(2**63), 1.5, -0.0, float("inf"), float("nan"), None]
    assert [literal(value).text for value in values] == [
        "TRUE", "(-1L)", "9223372036854775807L", "(-9223372036854775808L)", "1.5D", "0.0D",
        "CAST('Infinity' AS DOUBLE)", "NULL", "NULL",
    ]  # fmt: skip
    assert literal(datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)).text == "timestamp_micros(-1L)"


def test_names_are_quoted_level_by_level() -> None:
    assert to_spark_sql(parse_filter("n.x > 1"), {"n": {"x": "int"}}) == "(CAST(`n`.`x` AS BIGINT) > 1L)"
    odd = SimpleNamespace(
        fields=[SimpleNamespace(name="a.b`c", dataType=SimpleNamespace(simpleString=lambda: "bigint"))]
    )
    assert to_spark_sql(Attribute("a.b`c"), odd) == UNKNOWN
    assert to_spark_sql(parse_filter("b"), {"b": "boolean", "${x}y"[1:]: "string"}) == "(`b` = TRUE)"
    with pytest.raises(FilterError, match="cannot be quoted"):
        to_spark_sql(parse_filter("b"), {"${x}": "string"})


def test_the_lineage_column_can_be_named() -> None:
    schema = {"kinds": "array<string>"}
    sql = to_spark_sql(parse_filter("type IS A Cat"), schema, lineage="kinds")
    assert sql == "IF(size(`kinds`) > 0, array_contains(`kinds`, 'Cat'), CAST(NULL AS BOOLEAN))"
    assert to_spark_sql(parse_filter("type = 'Cat'"), schema, lineage="kinds") == "(get(`kinds`, 0) = 'Cat')"
    assert "`type.lineage`" in to_spark_sql(parse_filter("type IS A Cat"), {"type.lineage": "array<string>"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s REGEXP '\\\\bx'", "word boundary"), ("s REGEXP '\\\\pL'", "Unicode class"),
        ("s REGEXP '(?m)^a'", "flag m"),
        ("s REGEXP '(?i)é'", "beyond ASCII"), ("STRING(x) = '1'", "STRING of a double"),
        ("COALESCE(i, x) = 1", "bigint and a double"),
        ("COALESCE(i, s) = 1", "two kinds"), ("GREATEST(i, x) = 1", "bigint and a double"),
        ("m > 1", "Spark's type map"), ("d < x", "decimal\\(10,2\\) with a double"),
        ("COALESCE(d, i) = 1", "bigint and a decimal"), ("STRING(d) = '1'", "STRING of a decimal"),
        ("DECIMAL(s) > 1", "DECIMAL of a string"), ("d < wide", "decimal\\(10,2\\) with a decimal"),
        ("ANY(tags.x = 1)", "'tags' is a list, and 'tags.x' is another"),
    ],
)  # fmt: skip
def test_what_spark_cannot_say_exactly_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(FilterError, match=problem):
        to_spark_sql(parse_filter(text), SCHEMA | RICH | {"m": "map<string,int>", "tags.x": "bigint"})


def test_a_decimal_constant_is_written_beside_an_operand_alone() -> None:
    with pytest.raises(FilterError, match="comparisons and arithmetic alone"):
        to_spark_sql(parse("INT(DECIMAL('1.05')) = i"), SCHEMA)


def test_what_is_not_asked_about_may_be_of_any_type() -> None:
    assert to_spark_sql(parse_filter("i = 1"), SCHEMA | {"d": "map<string,int>"}) == "(`i` = 1L)"


def test_other_dialects_and_schemas_are_refused() -> None:
    with pytest.raises(FilterError, match="dialect 'cesql' has no form"):
        to_spark_sql(parse_filter("i = 1", dialect="cesql"), SCHEMA)
    with pytest.raises(FilterError, match="a schema cannot be a int"):
        to_spark_sql(parse_filter("i = 1"), 5)


def test_every_function_has_a_form() -> None:
    assert set(_WRITERS) == set(FUNCTIONS)
    with pytest.raises(FilterError, match="no function NOPE"):
        to_spark_sql(Call("NOPE", ()), SCHEMA)


def test_the_sql_grows_no_faster_than_the_filter() -> None:
    def length(depth: int) -> int:
        node: Expression = Attribute("x")
        for _ in range(depth):
            node = Call("FLOAT", (Call("INT", (Between(node, Literal(1.0), Literal(2.0)),)),))
        return len(to_spark_sql(Between(node, Literal(1.0), Literal(2.0)), SCHEMA))

    assert length(20) < 25 * length(1)


def test_a_lambda_never_hides_a_column() -> None:
    sql = to_spark_sql(parse("LEFT(V2, v1) = 'a'"), {"v1": "bigint", "V2": "string"})
    assert sql.count(" -> ") == 1
    assert "v3 ->" in sql


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("", ""), ("a.c", r"a[\x00-\x09\x0b-\x{10ffff}]c"), ("^a$", r"\Aa\z"),
        ("(?s).", r"[\x00-\x{10ffff}]"), ("a|b*?", "a|(?:b)*"),
        ("(?P<n>x)+", "(?:(?:x))+"), (r"\Qa.b\E+", r"a\x2e(?:b)+"), ("a{,3}", r"a\x7b,3\x7d"),
        ("x{2,3}?", "(?:x){2,3}"),
        (r"[^\]a-]", r"[^\x2d\x5da]"), ("[[:digit:]x]", "[0-9x]"), (r"[\D]", r"[\x00-/:-\x{10ffff}]"),
        ("(?i)k", "[Kk\u212a]"),
        ("(?i:a)b", "(?:[Aa])b"), (r"\x41\x{42}\103", "ABC"), (r"\a\v", r"\x07\x0b"), (r"\D", "[^0-9]"),
        ("(?i)[a&&b]", r"[\x26A-Ba-b]"),
        ("(?i)1", "1"), ("(?i)日", "日"), (r"\A\z", r"\A\z"), ("[]a]", r"[\x5da]"),
        ("[[:^digit:]]", r"[\x00-/:-\x{10ffff}]"),
    ],
)  # fmt: skip
def test_regular_expressions_are_written_for_java(pattern: str, java: str) -> None:
    assert java_regexp(pattern) == java


@pytest.mark.parametrize(
    ("pattern", "what"), [(r"\C", "single byte"), (r"\PN", "Unicode class"), (r"a\Q\E", "empty quotation")]
)
def test_regular_expressions_that_java_reads_differently(pattern: str, what: str) -> None:
    with pytest.raises(FilterError, match=what):
        java_regexp(pattern)

"""The normal form: what becomes a constraint, what stays a residual, what is dropped."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidings.language import normalise, parse, parse_filter, print_filter
from tidings.model.constraint import (
    Equals,
    Exists,
    IsA,
    Like,
    Missing,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.expression import Attribute, Call, Compare, Not
from tidings.model.filter import Conjunction

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("a = 5", Equals("a", 5)),
        ("a = 5.0", Equals("a", 5)),
        ("a != 5", NotOneOf("a", (5,))),
        ("NOT a = 5", NotOneOf("a", (5,))),
        ("a < 5", Range("a", None, 5, False, True)),
        ("NOT a < 5", Range("a", 5, None)),
        ("5 < a", Range("a", 5, None, True)),
        ("5 >= a", Range("a", None, 5)),
        ("a BETWEEN 1 AND 2.5", Range("a", 1, 2.5)),
        ("a BETWEEN 2 AND 2", Equals("a", 2)),
        ("a > 'x'", Range("a", "x", None, True)),
        ("a >= TIMESTAMP '2026-01-01T00:00:00Z'", Range("a", JANUARY, None)),
        ("a IN (3, 1, 3, 1.0)", OneOf("a", (1, 3))),
        ("a IN ('x', 1, TRUE)", OneOf("a", (True, 1, "x"))),
        ("a IN (7)", Equals("a", 7)),
        ("a NOT IN (2, 1)", NotOneOf("a", (1, 2))),
        ("NOT (a NOT IN (2, 1))", OneOf("a", (1, 2))),
        ("a IN (1, 1 / 0)", Equals("a", 1)),
        ("flag", Equals("flag", True)),
        ("NOT flag", Equals("flag", False)),
        ("flag != TRUE", Equals("flag", False)),
        ("flag NOT IN (FALSE)", Equals("flag", True)),
        ("a LIKE 'te%'", Prefix("a", "te")),
        ("a LIKE 'te%%'", Prefix("a", "te")),
        ("a LIKE '%'", Prefix("a", "")),
        ("a LIKE 'te'", Equals("a", "te")),
        (r"a LIKE '50\%'", Equals("a", "50%")),
        ("a LIKE 'a%b'", Like("a", "a%b")),
        ("a LIKE 'a%%b_%'", Like("a", "a%b_%")),
        ("a NOT LIKE 'te%'", Like("a", "te%", True)),
        ("a NOT LIKE 'te'", NotOneOf("a", ("te",))),
        ("a REGEXP 'x+'", Regexp("a", "x+")),
        ("NOT a REGEXP 'x+'", Regexp("a", "x+", True)),
        ("EXISTS a", Exists("a")),
        ("NOT EXISTS a", Missing("a")),
        ("a IS NULL", Missing("a")),
        ("NOT a IS NULL", Exists("a")),
        ("topic = 'a/+/b'", TopicIs("topic", "a/+/b")),
        ("topic != 'a/#'", TopicIs("topic", "a/#", True)),
        ("topic = 'a/b'", Equals("topic", "a/b")),
        ("topic MATCHES 'a/b'", Equals("topic", "a/b")),
        ("other = 'a/+'", Equals("other", "a/+")),
        ("place MATCHES 'a/+'", TopicIs("place", "a/+")),
        ("place NOT MATCHES 'a/+'", TopicIs("place", "a/+", True)),
        ("type IS A Trade", IsA.of("Trade")),
        ("NOT type IS A Trade", IsA.of("Trade", True)),
        ("type = 'Trade'", Equals("type", "Trade")),
        ("a = 2 + 3 * 4", Equals("a", 14)),
        ("a = CONCAT('x', 'y')", Equals("a", "xy")),
        # several on one attribute
        ("a > 1 AND a >= 3 AND a < 9", Range("a", 3, 9, False, True)),
        ("a >= 5 AND a <= 5", Equals("a", 5)),
        ("a >= 5 AND a != 5", Range("a", 5, None, True)),
        ("a > 5 AND a != 3", Range("a", 5, None, True)),
        ("a IN (1, 2, 3) AND a > 1 AND a != 3", Equals("a", 2)),
        ("a != 1 AND a != 2", NotOneOf("a", (1, 2))),
        ("a LIKE 'a%' AND a LIKE 'ab%'", Prefix("a", "ab")),
        ("a LIKE 'ab%' AND a >= 'aa' AND a < 'b'", Prefix("a", "ab")),
        ("a LIKE '%' AND a != 'x'", NotOneOf("a", ("x",))),
        ("EXISTS a AND a > 1", Range("a", 1, None, True)),
        ("a = 1 OR a = 3 OR a IN (2, 3)", OneOf("a", (1, 2, 3))),
        ("a = 1 AND a = 1", Equals("a", 1)),
    ],
)
def test_a_condition_becomes_one_constraint(text: str, constraint: object) -> None:
    filter = parse_filter(text)
    assert filter.conjunctions == (Conjunction((constraint,)),)  # type: ignore[arg-type]
    # equal in Python is not enough: 1 equals True, and 5 equals 5.0
    assert repr(filter.conjunctions[0].constraints[0]) == repr(constraint)


@pytest.mark.parametrize(
    "text",
    [
        "FALSE", "NOT TRUE", "5", "'TRUE'", "1 / 0 = 1", "NOT (1 / 0 = 1)", "a = 1 / 0", "a > TRUE", "a + 1",
        "-a",
        "a BETWEEN 5 AND 1", "a BETWEEN 1 AND 'x'", "a NOT IN (1, 'x')", "a NOT IN (1, 1 / 0)",
        "a = 1 AND a = 2", "a = 1 AND a = '1'", "a = 1 AND a = TRUE", "a > 1 AND a < 1", "a > 1 AND a <= 1",
        "a > 1 AND a > 'x'", "a IS NULL AND a = 1", "EXISTS a AND a IS NULL", "a LIKE 'a%' AND a LIKE 'b%'",
        "a LIKE 'b%' AND a < 'b'", "a LIKE 'b%' AND a > 'c'", "a REGEXP 'x' AND a NOT REGEXP 'x'",
        "type IS A T AND type IS NOT A T", "a NOT LIKE '%'", "topic NOT MATCHES '#'", "flag AND NOT flag",
        "flag != TRUE AND flag != FALSE", "a = 5 AND a + 1", "topic = CONCAT('a/', '+')",
    ],
)  # fmt: skip
def test_what_can_never_be_true_has_no_conjunction(text: str) -> None:
    assert parse_filter(text).is_never_true


@pytest.mark.parametrize(
    "text",
    [
        "TRUE",
        "NOT FALSE",
        "TRUE OR a = 1",
        "1 < 2",
        "'abc' LIKE 'a%'",
        "NULLISH IS NULL OR EXISTS NULLISH OR TRUE",
    ],
)
def test_what_is_always_true_is_one_empty_conjunction(text: str) -> None:
    assert parse_filter(text).conjunctions == (Conjunction(),)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a = 1 OR b = 2", "a = 1 OR b = 2"),
        ("NOT (a = 1 AND b = 2)", "a != 1 OR b != 2"),
        ("NOT (a = 1 OR b = 2)", "a != 1 AND b != 2"),
        ("a AND (b OR c)", "(a = TRUE AND b = TRUE) OR (a = TRUE AND c = TRUE)"),
        ("a NOT BETWEEN 1 AND 5", "a > 5 OR a < 1"),
        ("a NOT BETWEEN 1 AND 'x'", "a > 'x' OR a < 1"),
        ("a XOR b", "(a = FALSE AND b = TRUE) OR (a = TRUE AND b = FALSE)"),
        ("NOT (a XOR b)", "(a = FALSE AND b = FALSE) OR (a = TRUE AND b = TRUE)"),
        ("a IN (b, 'x', 'y')", "a = b OR a IN ('x', 'y')"),
        ("a NOT IN (b, 'x')", "a != 'x' AND a != b"),
        ("'x' IN (a, b)", "a = 'x' OR b = 'x'"),
        ("5 BETWEEN low AND high", "high >= 5 AND low <= 5"),
        ("a BETWEEN b AND 5", "a <= 5 AND a >= b"),
        ("topic IN ('a/#', 'b', 'c')", "topic IN ('b', 'c') OR topic MATCHES 'a/#'"),
        ("topic NOT IN ('a/#', 'b')", "topic != 'b' AND topic NOT MATCHES 'a/#'"),
        ("topic != CONCAT('a/', '+')", "topic LIKE '%'"),
        ("b = 1 AND a = 2", "a = 2 AND b = 1"),
        ("(a = 1 AND b = 2) OR (b = 2 AND a = 1)", "a = 1 AND b = 2"),
        ("a LIKE 'a%' AND a > 'aa'", "a LIKE 'a%' AND a > 'aa'"),
    ],
)
def test_the_normal_form(text: str, printed: str) -> None:
    assert print_filter(parse_filter(text)) == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a + 1 > 3", "a + 1 > 3"),
        ("NOT a + 1 > 3", "a + 1 <= 3"),
        ("NOT a = b", "a != b"),
        ("NOT LENGTH(a) > 3 AND a LIKE 'x%'", "a LIKE 'x%' AND LENGTH(a) <= 3"),
        ("NOT (a % 2 IN (0, 1))", "(a % 2) NOT IN (0, 1)"),
        ("NOT (a + b BETWEEN 1 AND 2)", "(a + b) NOT BETWEEN 1 AND 2"),
        ("NOT LOWER(a) LIKE 'x'", "LOWER(a) NOT LIKE 'x'"),
        ("(a + b) IS NULL", "(a + b) IS NULL"),
        ("a + 1 > 3 AND a + 1 > 3", "a + 1 > 3"),
    ],
)
def test_what_no_index_can_hold_stays_a_residual(text: str, printed: str) -> None:
    assert print_filter(parse_filter(text)) == printed


def test_a_residual_may_be_negated() -> None:
    called = Call("BOOL", (Attribute("a"),))
    assert parse_filter("NOT BOOL(a)").conjunctions == (Conjunction((), (Not(called),)),)


def test_residuals_that_python_takes_for_equal_are_both_kept() -> None:
    filter = parse_filter("a + 1 = b AND a + 1.0 = b")
    assert len(filter.conjunctions[0].residuals) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 AND b = 2", "b = 2 AND a = 1"),
        ("a = 1 OR b = 2", "b = 2.0 OR a = 1"),
        ("NOT (a < 5 OR b)", "b = FALSE AND 5 <= a"),
        ("a IN ('x', 'y')", "a = 'y' OR a = 'x'"),
        ("a + 1 > b AND LENGTH(c) = 2", "LENGTH(c) = 2 AND a + 1 > b"),
        ("a LIKE 'x%' AND a != 'xy' AND a NOT LIKE '%z'", "a NOT LIKE '%z' AND a != 'xy' AND a LIKE 'x%'"),
    ],
)
def test_the_order_of_writing_leaves_no_trace(one: str, other: str) -> None:
    assert parse_filter(one).digest == parse_filter(other).digest


def test_the_text_is_kept_as_written() -> None:
    text = "  b=2   and a=1 "
    assert parse_filter(text).text == text
    assert normalise(parse("a = 1"), text="as said").text == "as said"


def test_a_cesql_filter_is_one_residual_of_that_dialect() -> None:
    filter = parse_filter("a = 1 AND b = 2", dialect="cesql")
    ((constraints, residuals),) = [(c.constraints, c.residuals) for c in filter.conjunctions]
    assert constraints == ()
    assert residuals == (parse("a = 1 AND b = 2"),)
    assert filter.dialect == "cesql"
    assert filter.digest != parse_filter("a = 1 AND b = 2").digest


def test_a_filter_is_read_once() -> None:
    assert parse_filter("a = 1 AND c = 77") is parse_filter("a = 1 AND c = 77")


def test_a_comparison_turned_round_keeps_computed_sides_in_place() -> None:
    assert parse_filter("a + 1 = b").conjunctions[0].residuals == (parse("a + 1 = b"),)
    assert isinstance(parse("a + 1 = b"), Compare)

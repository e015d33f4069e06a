"""Text from expressions and filters."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tidings.errors import FilterError
from tidings.language import (
    parse,
    parse_filter,
    print_constraint,
    print_expression,
    print_filter,
    print_value,
)
from tidings.model.constraint import Prefix
from tidings.model.event import make_event
from tidings.model.expression import And, Attribute, Compare, Literal, Negate, Not, Or
from tidings.model.filter import EVERYTHING, NOTHING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"), (0, "0"), (-0.0, "-0.0"), (1e22, "1e+22"), (-(2**63), "-9223372036854775808"),
        (0.1, "0.1"), ("it's", r"'it\'s'"), ("a\\", r"'a\\'"), ('"', "'\"'"),
        (datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), "TIMESTAMP '2026-01-01T00:00:00.000001Z'"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))), "TIMESTAMP '2025-12-31T23:00:00Z'"),
    ],
)  # fmt: skip
def test_values(value: Any, text: str) -> None:
    assert print_value(value) == text
    found = parse(text)
    assert isinstance(found, Literal)
    assert repr(found.value) == repr(value) or found.value == value


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, (1,), b"x"])
def test_what_is_no_value_cannot_be_printed(value: Any) -> None:
    with pytest.raises(FilterError, match="cannot stand in a filter"):
        print_value(value)


@pytest.mark.parametrize(
    "text",
    [
        "a", "a = 1", "NOT a", "NOT (a = 1)", "NOT (NOT a)", "a AND b AND c", "a AND (b OR c)",
        "(a XOR b) OR c",
        "-a", "-(-a)", "-(5)", "-5 + a", "a - -5", "a - (b - c)", "a - b - c", "a * (b + c)", "a * b + c",
        "a / (b * c)", "(a + b) IN (1, 2)", "a NOT IN (b, 'x')", "a BETWEEN b + 1 AND c",
        "a NOT BETWEEN 1 AND 2",
        "(a = b) = c", "(a LIKE 'x') IS NULL", "LENGTH(a) > 3", "CONCAT() = ''", "EXISTS `a b`", "`and` = 1",
        "type IS A 'T'", "type IS NOT A 'T'", "a REGEXP 'x'", "a NOT MATCHES 'a/+'", "a IS NOT NULL",
    ],
)  # fmt: skip
def test_expressions_print_as_they_were_written(text: str) -> None:
    assert print_expression(parse(text)) == text


def test_a_negated_number_is_not_a_negative_number() -> None:
    assert print_expression(Negate(Literal(5))) == "-(5)"
    assert parse("-(5)") == Negate(Literal(5))
    assert parse("-5") == Literal(-5)


def test_mixed_logic_is_always_bracketed() -> None:
    a, b, c = map(Attribute, "abc")
    assert print_expression(Or(And(a, b), c)) == "(a AND b) OR c"
    assert print_expression(And(a, Not(Compare("=", b, c)))) == "a AND NOT (b = c)"


def test_filters() -> None:
    assert print_filter(EVERYTHING) == "TRUE"
    assert print_filter(NOTHING) == "FALSE"
    filter = parse_filter("NOT (price < 10 AND name LIKE 'x%') AND LENGTH(name) > 2")
    text = "(name NOT LIKE 'x%' AND LENGTH(name) > 2) OR (price >= 10 AND LENGTH(name) > 2)"
    assert print_filter(filter) == text
    assert parse_filter(text).digest == filter.digest


def test_a_cesql_filter_prints_as_its_expression() -> None:
    filter = parse_filter("NOT (a = 1) OR b", dialect="cesql")
    assert print_filter(filter) == "NOT (a = 1) OR b"
    assert parse_filter(print_filter(filter), dialect="cesql").digest == filter.digest


def test_a_prefix_that_like_cannot_say_is_printed_as_a_range() -> None:
    constraint = Prefix("a", "C:\\")
    filter = parse_filter(print_constraint(constraint))
    for value in ("C:\\", "C:\\x", "C:", "C:]", "C:[", "D"):
        event = make_event({"a": value}, source="s", id="1")
        assert filter.conjunctions[0].constraints[0].accepts(event["a"]) is constraint.accepts(value)


@pytest.mark.parametrize(
    "text",
    [
        "(a AND (b AND c)) = TRUE",
        "COALESCE(a AND (b AND (c AND d)), x OR (y OR z))",
        "NOT ((a XOR (b XOR c)) = flag)",
        "(a=1 OR b=1 OR c=1) AND (d=1 OR e=1 OR f=1) AND (g=1 OR h=1 OR i=1) AND (j=1 OR k=1 OR l=1)",
        " AND ".join(f"(a{n} > 1 AND a{n} < 5 OR b{n} = 2)" for n in range(7)),
        "LENGTH(a) > 1 OR " + "NOT (" * 14 + "x + 1 > 2" + ")" * 14 + " AND b",
    ],
)
@pytest.mark.parametrize("dialect", ["tidings", "cesql"])
def test_what_is_printed_parses_within_the_limits_to_the_same_digest(text: str, dialect: str) -> None:
    filter = parse_filter(text, dialect=dialect)
    assert parse_filter(print_filter(filter), dialect=dialect).digest == filter.digest

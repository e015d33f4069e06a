"""What texts say: shapes, precedence, literals, names."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import FilterSyntaxError
from tidings.language.functions import FUNCTIONS
from tidings.language.parser import parse
from tidings.language.printer import print_expression
from tidings.model.expression import (
    And,
    Attribute,
    Between,
    Call,
    Compare,
    ExistsTest,
    In,
    LikeTest,
    Literal,
    Negate,
    Not,
    NullTest,
    RegexpTest,
    TopicTest,
    TypeTest,
)

A, B = Attribute("a"), Attribute("b")
ONE, TWO = Literal(1), Literal(2)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a", A),
        ("a = 1", Compare("=", A, ONE)),
        ("a <> 1", Compare("!=", A, ONE)),
        ("1 <= a", Compare("<=", ONE, A)),
        ("a.b.c3", Attribute("a.b.c3")),
        ("a LIKE 'x%'", LikeTest(A, "x%")),
        ("a not like 'x%'", LikeTest(A, "x%", True)),
        ("a IN (1, b)", In(A, (ONE, B))),
        ("a NOT IN (2)", In(A, (TWO,), True)),
        ("a BETWEEN 1 AND 2", Between(A, ONE, TWO)),
        ("a NOT BETWEEN 1 AND 2 AND b", And(Between(A, ONE, TWO, True), B)),
        ("EXISTS a", ExistsTest("a")),
        ("EXISTS (a)", ExistsTest("a")),
        ("a IS NULL", NullTest(A)),
        ("a IS NOT NULL", NullTest(A, True)),
        ("a REGEXP 'x+'", RegexpTest(A, "x+")),
        ("a NOT REGEXP 'x+'", RegexpTest(A, "x+", True)),
        ("topic MATCHES 'x/#'", TopicTest(Attribute("topic"), "x/#")),
        ("a NOT MATCHES '+'", TopicTest(A, "+", True)),
        ("type IS A Trade", TypeTest("Trade")),
        ("type is not a 'com.x Trade'", TypeTest("com.x Trade", True)),
        ("type IS A com.x.Trade", TypeTest("com.x.Trade")),
        ("length(a)", Call("LENGTH", (A,))),
        ("-a", Negate(A)),
        ("true", Literal(True)),
        ("FALSE", Literal(False)),
    ],
)
def test_shapes(text: str, expression: Any) -> None:
    assert parse(text) == expression


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a OR b AND c", "a OR (b AND c)"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("a XOR b OR c", "a XOR (b OR c)"),
        ("NOT a AND b", "NOT a AND b"),
        ("a + b * c - d", "a + b * c - d"),
        ("(a + b) * c", "(a + b) * c"),
        ("a - (b - c)", "a - (b - c)"),
        ("a - b - c", "a - b - c"),
        ("- a * b", "(-a) * b"),
        ("a + 1 > b AND c", "a + 1 > b AND c"),
        ("a = b < c", "(a = b) < c"),
        ("a % 2 = 0", "a % 2 = 0"),
    ],
)
def test_precedence_that_both_dialects_share(text: str, grouped: str) -> None:
    assert print_expression(parse(text)) == grouped
    assert print_expression(parse(text, dialect="cesql")) == grouped


@pytest.mark.parametrize(
    ("text", "tidings", "cesql"),
    [
        ("NOT a = b", "NOT (a = b)", "(NOT a) = b"),
        ("NOT a LIKE 'x'", "NOT (a LIKE 'x')", "(NOT a) LIKE 'x'"),
        ("a + b IN (1)", "(a + b) IN (1)", "a + (b IN (1))"),
        ("a = b LIKE 'x'", "(a = b) LIKE 'x'", "a = (b LIKE 'x')"),
    ],
)
def test_precedence_that_the_dialects_do_not_share(text: str, tidings: str, cesql: str) -> None:
    assert print_expression(parse(text)) == tidings
    assert print_expression(parse(text, dialect="cesql")) == cesql


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("007", 7), ("+5", 5), ("-5", -5), ("- 5", -5), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0),
        ("1E-3", 0.001), ("2.5e+3", 2500.0), ("-.5", -0.5), ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("'x'", "x"), ('"x"', "x"), (r"'it\'s'", "it's"), ("'it''s'", "it's"), (r'"a\"b"', 'a"b'),
        ('"a""b"', 'a"b'),
        (r"'a\\b'", r"a\b"), (r"'a\%b'", r"a\%b"), (r"'a\nb'", r"a\nb"), ("'a\nb'", "a\nb"), ("'é'", "é"),
        ("''", ""),
        (r"""'a\"b'""", r"a\"b"),
        ("TIMESTAMP '2026-01-31T12:00:00Z'", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("timestamp('2026-01-31T12:00:00.000001+01:00')", datetime(2026, 1, 31, 11, 0, 0, 1, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_literals(text: str, value: Any) -> None:
    found = parse(text)
    assert found == Literal(value)
    assert type(found.value) is type(value)  # type: ignore[union-attr]


def test_minus_minus_is_a_double_negation() -> None:
    assert parse("--10") == Negate(Literal(-10))
    assert parse("- - a") == Negate(Negate(A))
    assert print_expression(parse("--10")) == "-(-10)"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("_x1", "_x1"), ("1abc", "1abc"), ("Ünï", "Ünï"), ("`a b`", "a b"), ("`a``b`", "a`b"),
        ("data.`odd name`.x", "data.odd name.x"), ("`AND`", "AND"), ("`1.5`", "1.5"), ("a.1", "a.1"),
        ("is", "is"), ("between", "between"), ("timestamp", "timestamp"), ("matches", "matches"), ("a", "a"),
    ],
)  # fmt: skip
def test_names(text: str, name: str) -> None:
    assert parse(text) == Attribute(name)


def test_our_own_keywords_remain_names_where_no_operator_stands() -> None:
    expected = Between(Attribute("between"), Attribute("is"), Attribute("matches"))
    assert parse("between BETWEEN is AND matches") == expected
    assert parse("null", dialect="cesql") == Attribute("null")


def test_keywords_and_function_names_are_case_insensitive_and_attributes_are_not() -> None:
    assert parse("Abc = 1 aNd nOt lower(Abc) LiKe 'x'") == And(
        Compare("=", Attribute("Abc"), ONE), Not(LikeTest(Call("LOWER", (Attribute("Abc"),)), "x"))
    )


def test_a_long_chain_is_balanced_and_keeps_its_order() -> None:
    names = [f"a{n}" for n in range(200)]
    for word in ("AND", "OR", "XOR"):
        text = f" {word} ".join(names)
        expression = parse(text)
        assert print_expression(expression) == text
        assert depth(expression) <= 9


def depth(node: Any) -> int:
    return 1 + max(depth(node.left), depth(node.right)) if hasattr(node, "left") else 0


def test_an_attribute_may_be_called_like_a_type_test_but_only_type_has_types() -> None:
    assert parse("a = 1") == Compare("=", A, ONE)
    with pytest.raises(FilterSyntaxError, match="IS A follows the word type only"):
        parse("kind IS A Trade")


def test_the_page_lists_the_functions_that_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    listed = re.search(r"Functions: `([A-Z_ ]+)`", page)
    assert listed
    assert set(listed[1].split()) == set(FUNCTIONS)

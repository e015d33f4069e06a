"""The dialect `cesql`: casts, 32-bit integers, zero values, the list of errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidings.language.cesql import accepts, evaluate, event_attributes
from tidings.model.event import make_event
from tidings.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    ExistsTest,
    Expression,
    In,
    LikeTest,
    Literal,
    Negate,
    Not,
    NullTest,
    Or,
    RegexpTest,
    TopicTest,
    TypeTest,
    Xor,
)

MISSING = Attribute("nobody")
ZERO_DIVISION = Arithmetic("/", Literal(1), Literal(0))
BIG = 2147483647


def call(name: str, *arguments: Any) -> Call:
    return Call(name, tuple(x if isinstance(x, (Attribute, Negate)) else Literal(x) for x in arguments))


def lit(op: str, left: Any, right: Any) -> Compare:
    return Compare(op, Literal(left), Literal(right))


def arith(op: str, left: Any, right: Any) -> Arithmetic:
    return Arithmetic(op, Literal(left), Literal(right))


@pytest.mark.parametrize(
    ("expression", "value", "errors"),
    [
        # equality casts the left side to the type of the right one
        (lit("=", "7", 7), True, []), (lit("=", 7, "7"), True, []), (lit("=", 7, "07"), False, []),
        (lit("=", "07", 7), True, []), (lit("!=", "seven", 7), False, ["cast"]),
        (lit("=", 3, True), True, []),
        # order is for integers
        (lit("<", "9", "10"), True, []), (lit(">", True, 0), True, []), (lit("<", "x", 1), False, ["cast"]),
        # a missing attribute: the zero value of what the operator returns
        (MISSING, False, ["missingAttribute"]), (Negate(MISSING), 0, ["missingAttribute"]),
        (Arithmetic("+", MISSING, Literal("x")), 0, ["missingAttribute"]),
        (Compare("!=", MISSING, MISSING), False, ["missingAttribute"]),
        (LikeTest(MISSING, "%", negated=True), False, ["missingAttribute"]),
        (In(MISSING, (Literal(1),), negated=True), False, ["missingAttribute"]),
        (call("LENGTH", MISSING), 0, ["missingAttribute"]),
        (call("UPPER", MISSING), "", ["missingAttribute"]),
        (call("BOOL", MISSING), False, ["missingAttribute"]), (Not(MISSING), False, ["missingAttribute"]),
        # an operand that failed: zero as well, and its error is kept
        (Compare("!=", Literal(1), ZERO_DIVISION), False, ["math"]),
        (Not(Compare("=", Literal(1), ZERO_DIVISION)), False, ["math"]),
        (Arithmetic("+", ZERO_DIVISION, MISSING), 0, ["math", "missingAttribute"]),
        (Or(Compare("=", Literal(0), ZERO_DIVISION), Literal(True)), False, ["math"]),
        # casts that fail
        (Not(Literal("maybe")), True, ["cast"]), (Not(Literal(0)), True, ["cast"]),
        (Arithmetic("+", Literal("4x"), Literal(6)), 6, ["cast"]), (Negate(Literal("x")), 0, ["cast"]),
        (call("LEFT", "abc", "x"), "", ["cast"]),
        # logic
        (And(Literal("true"), Literal(5)), True, []), (And(Literal(False), MISSING), False, []),
        (Or(Literal(1), MISSING), True, []), (Xor(Literal("TRUE"), Literal(False)), True, []),
        (And(Literal(True), MISSING), False, ["missingAttribute"]),
        (Xor(MISSING, Literal(True)), False, ["missingAttribute"]),
        # 32 bits
        (arith("+", BIG, 1), 0, ["math"]), (arith("*", 65536, 65536), 0, ["math"]),
        (Negate(Literal(2147483648)), -2147483648, []),
        (Negate(Negate(Literal(2147483648))), 0, ["math"]), (arith("/", -2147483648, -1), 0, ["math"]),
        (arith("/", -7, 2), -3, []), (arith("%", -7, 2), -1, []), (Literal(2147483648), 0, ["parse"]),
        (lit("=", "2147483648", 1), False, ["cast"]),
        (And(Literal(False), lit("=", 1, 9999999999)), False, ["parse"]),
        # IN casts the items to the type on the left
        (In(Literal(1), (Literal("x"), Literal("1"))), True, ["cast"]),
        (In(Literal(1), (Literal("x"),)), False, ["cast"]),
        (In(Literal("1"), (MISSING, Literal(1)), negated=True), False, ["missingAttribute"]),
        (In(Literal(3), (Literal(1), Literal(2)), negated=True), True, []),
        # functions
        (call("NOPE", MISSING), False, ["missingFunction"]), (call("LENGTH"), False, ["missingFunction"]),
        (call("FLOAT", 1), False, ["missingFunction"]), (call("CONCAT", 1, True, "x"), "1truex", []),
        (call("ABS", Negate(Literal(2147483648))), BIG, ["math"]), (call("ABS", "-4"), 4, []),
        (call("LENGTH", 1234), 4, []), (call("TRIM", "\u00a0x\x1f"), "x\x1f", []),
        (call("SUBSTRING", "abc", 9), "", ["functionEvaluation"]),
        (call("RIGHT", "abc", -1), "abc", ["functionEvaluation"]),
        (call("SUBSTRING", "abc", 0, -1), "", ["functionEvaluation"]),
        (call("INT", "2147483648"), 0, ["cast"]),
        (call("IS_INT", "12"), True, []), (call("IS_INT", "2147483648"), False, []),
        (call("IS_BOOL", "x"), False, []),
        # what our grammar adds
        (Between(Literal("5"), Literal(1), Literal(9)), True, []),
        (Between(MISSING, Literal(1), Literal(2), negated=True), False, ["missingAttribute"]),
        (NullTest(MISSING), True, []), (NullTest(Literal(1)), False, []),
        (NullTest(ZERO_DIVISION), False, ["math"]),
        (RegexpTest(Literal(15), "^1"), True, []),
        (TopicTest(Literal("a/b"), "a/+", negated=True), False, []),
    ],
)  # fmt: skip
def test_expression(expression: Expression, value: Any, errors: list[str]) -> None:
    result, names = evaluate(expression, {})
    assert (result, names) == (value, errors)
    assert type(result) is type(value)


def test_names_are_read_in_any_case() -> None:
    attributes = {"StockName": "IBM", "hop": "3"}
    assert evaluate(Attribute("stockNAME"), attributes) == ("IBM", [])
    assert evaluate(Attribute("HOP"), attributes) == ("3", [])
    assert evaluate(ExistsTest("Stockname"), attributes) == (True, [])


def test_required_attributes_always_exist() -> None:
    for name in ("id", "SOURCE", "Type", "specversion"):
        assert evaluate(ExistsTest(name), {}) == (True, [])
    assert evaluate(ExistsTest("time"), {}) == (False, [])
    assert evaluate(Attribute("specversion"), {}) == ("1.0", [])


@pytest.mark.parametrize(
    ("held", "seen"),
    [
        (True, True), (7, 7), ("x", "x"), (1.5, "1.5"), (2**40, "1099511627776"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    ],
)  # fmt: skip
def test_other_kinds_are_seen_as_text(held: Any, seen: Any) -> None:
    assert evaluate(Attribute("x"), {"x": held}) == (seen, [])


@pytest.mark.parametrize("nothing", [None, float("nan"), {"a": 1}, [1]])
def test_what_is_no_value_is_missing(nothing: Any) -> None:
    assert evaluate(Attribute("x"), {"x": nothing}) == (False, ["missingAttribute"])


def test_an_event_of_ours_shows_its_topic_as_subject_and_its_lineage() -> None:
    event = make_event({"a": {"b": 1}}, source="s", id="1", topic="news", type=("Cat", "Animal"))
    seen = event_attributes(event)
    assert evaluate(Attribute("subject"), seen) == ("news", [])
    assert evaluate(Attribute("A.B"), seen) == (1, [])
    assert evaluate(TypeTest("Animal"), seen) == (True, [])
    assert evaluate(TypeTest("Cat"), {"type": "Cat"}) == (True, [])
    own = make_event({"subject": "my own"}, source="s", id="1", topic="news")
    assert evaluate(Attribute("subject"), event_attributes(own)) == ("my own", [])


def test_a_filter_needs_true_and_no_error() -> None:
    assert accepts(lit("=", 1, 1), {})
    assert not accepts(Literal("true"), {})
    assert not accepts(In(Literal(1), (Literal("x"), Literal("1"))), {})  # true, with an error

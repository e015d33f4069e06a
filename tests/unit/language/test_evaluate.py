"""The dialect `tidings`: three-valued logic, strict kinds, exact numbers."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from tidings.errors import FilterError
from tidings.language.evaluate import accepts, compiled, evaluate
from tidings.model.constraint import Equals, Range
from tidings.model.event import Event, make_event
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
from tidings.model.filter import EVERYTHING, NOTHING, Conjunction, Filter
from tidings.model.value import INT_MAX, INT_MIN

T, F, U = Literal(True), Literal(False), Attribute("nobody")
a = Attribute("a")


def value(expression: Expression, **view: Any) -> Any:
    return evaluate(expression, view)


def math_of(left: Any, op: str, right: Any) -> Any:
    return value(Arithmetic(op, Literal(left), Literal(right)))


@pytest.mark.parametrize(
    ("left", "right", "both", "either", "one"),
    [
        (T, T, True, True, False), (T, F, False, True, True), (T, U, None, True, None),
        (F, F, False, False, False), (F, U, False, None, None), (U, U, None, None, None),
    ],
)  # fmt: skip
def test_logic_has_three_values(
    left: Expression, right: Expression, both: bool | None, either: bool | None, one: bool | None
) -> None:
    for x, y in ((left, right), (right, left)):
        assert value(And(x, y)) is both
        assert value(Or(x, y)) is either
        assert value(Xor(x, y)) is one


@pytest.mark.parametrize("odd", [Literal(1), Literal("true"), Literal(0.0)])
def test_what_is_no_boolean_is_unknown_in_logic(odd: Expression) -> None:
    assert value(Not(odd)) is None
    assert value(And(odd, T)) is None
    assert value(And(odd, F)) is False
    assert value(Or(odd, T)) is True
    assert value(Xor(odd, T)) is None


@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [
        (1, "=", 1.0, True), (1, "!=", 1.5, True), (2, "<", 10, True), ("2", "<", "10", False),
        (9007199254740993, "=", 9007199254740992.0, False),
        (9007199254740993, ">", 9007199254740992.0, True),
        (INT_MAX, "<", 9.223372036854775807e18, True),
        (True, "=", True, True), (True, "!=", False, True), (True, "<", False, None),
        (True, "=", 1, None), (1, "=", "1", None), ("a", "<", 5, None), ("é", ">", "z", True),
        (datetime(2026, 1, 1, tzinfo=UTC), "<", datetime(2026, 1, 2, tzinfo=UTC), True),
        (datetime(2026, 1, 1, tzinfo=UTC), "=", "2026-01-01T00:00:00Z", None),
        (math.inf, ">", INT_MAX, True), (math.nan, "=", math.nan, None),
    ],
)  # fmt: skip
def test_comparison_is_strict_about_kinds_and_exact_about_numbers(
    left: Any, op: str, right: Any, expected: bool | None
) -> None:
    assert value(Compare(op, Attribute("x"), Attribute("y")), x=left, y=right) is expected


def test_a_missing_attribute_makes_a_comparison_unknown() -> None:
    for op in ("=", "!=", "<", "<=", ">", ">="):
        assert value(Compare(op, U, Literal(1))) is None
        assert value(Compare(op, Literal(1), U)) is None


@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [
        (7, "/", 2, 3), (-7, "/", 2, -3), (7, "/", -2, -3), (-7, "%", 3, -1), (7, "%", -3, 1),
        (7.0, "/", 2, 3.5), (-7.5, "%", 2, -1.5), (1, "/", 0, None), (1, "%", 0, None), (1.0, "/", 0, None),
        (INT_MAX, "+", 1, None), (INT_MIN, "-", 1, None), (INT_MAX, "*", 2, None), (INT_MIN, "/", -1, None),
        (INT_MIN, "%", -1, 0), (1e308, "*", 10, None), (math.inf, "-", 1, None), (5, "%", math.inf, 5.0),
        (INT_MAX, "+", 1.0, 2.0**63), ("1", "+", 1, None), (True, "+", 1, None), (1, "-", None, None),
    ],
)  # fmt: skip
def test_arithmetic(left: Any, op: str, right: Any, expected: Any) -> None:
    result = math_of(left, op, right)
    assert result == expected
    assert type(result) is type(expected)


def test_minus() -> None:
    assert value(Negate(a), a=5) == -5
    assert value(Negate(a), a=INT_MIN) is None
    assert value(Negate(a), a="5") is None
    assert value(Negate(a)) is None


def test_in_is_a_chain_of_equals() -> None:
    among = In(a, (Literal(1), Literal("x"), U))
    assert value(among, a=1.0) is True
    assert value(among, a=2) is None  # 'x' and the missing one compare as unknown
    assert value(In(a, (Literal(1), Literal(2))), a=3) is False
    assert value(In(a, (Literal(1), Literal(2)), negated=True), a=3) is True
    assert value(In(a, (Literal(1), Literal("x")), negated=True), a=3) is None
    assert value(In(a, (Literal(1),), negated=True)) is None
    assert value(In(a, (Attribute("b"), Literal(2))), a=5, b=5) is True


def test_between_is_closed_and_may_be_empty() -> None:
    assert value(Between(a, Literal(1), Literal(5)), a=5) is True
    assert value(Between(a, Literal(5), Literal(1)), a=3) is False
    assert value(Between(a, Literal(1), Literal(5), negated=True), a=6) is True
    assert value(Between(a, Literal(1), Literal(5)), a="3") is None
    assert value(Between(a, Literal(7), Literal("x"), negated=True), a=5) is True  # below 7 is enough


def test_text_tests_ask_for_text() -> None:
    assert value(LikeTest(a, "a%"), a="abc") is True
    assert value(LikeTest(a, "a%", negated=True), a="abc") is False
    assert value(LikeTest(a, "1%"), a=12) is None
    assert value(RegexpTest(a, "^a.c$"), a="abc") is True
    assert value(RegexpTest(a, "b", negated=True)) is None
    assert value(TopicTest(a, "x/+"), a="x/y") is True
    assert value(TopicTest(a, "x/#", negated=True), a="z") is True


def test_a_wildcard_in_a_topic_literal_is_a_pattern() -> None:
    topic = Attribute("topic")
    wild = Literal("a/+")
    assert value(Compare("=", topic, wild), topic="a/b") is True
    assert value(Compare("=", wild, topic), topic="a/b") is True
    assert value(Compare("!=", topic, wild), topic="a/b") is False
    assert value(In(topic, (wild, Literal("c"))), topic="a/b") is True
    assert value(In(topic, (wild, Literal("c")), negated=True), topic="a/b/c") is True
    assert value(Compare("=", a, wild), a="a/b") is False  # any other attribute compares as text


def test_presence() -> None:
    assert value(ExistsTest("a"), a=0) is True
    assert value(ExistsTest("a"), a=math.nan) is False
    assert value(ExistsTest("a")) is False
    assert value(NullTest(a)) is True
    assert value(NullTest(a, negated=True), a="") is True
    assert value(NullTest(Arithmetic("/", a, Literal(0))), a=1) is True


def test_types_are_tested_by_lineage() -> None:
    event = make_event(source="s", id="1", type=("Cat", "Animal"))
    assert evaluate(TypeTest("Animal"), event.view) is True
    assert evaluate(TypeTest("Dog"), event.view) is False
    assert evaluate(TypeTest("Dog", negated=True), event.view) is True
    assert value(TypeTest("Dog", negated=True)) is None  # no type at all
    assert evaluate(NullTest(Attribute("type.lineage")), event.view) is False


def test_functions_are_called_with_known_values_of_the_right_kind() -> None:
    assert value(Call("LENGTH", (a,)), a="abc") == 3
    assert value(Call("LENGTH", (a,)), a=123) is None
    assert value(Call("LENGTH", (a,))) is None
    assert value(Call("LEFT", (a, Literal(-1))), a="abc") is None
    assert value(Call("COALESCE", (a, Literal(7)))) == 7


def test_an_unknown_function_is_named_with_its_nearest() -> None:
    with pytest.raises(FilterError, match=r"LENGHT.*did you mean LENGTH"):
        evaluate(Call("LENGHT", (a,)), {})
    with pytest.raises(FilterError, match="LENGTH cannot be called with 2 arguments"):
        evaluate(Call("LENGTH", (a, a)), {})


def test_equal_looking_literals_are_not_mistaken_for_one_another() -> None:
    one, yes = Compare("=", a, Literal(1)), Compare("=", a, Literal(True))
    assert one == yes  # to Python they are the same value
    assert [value(one, a=1), value(yes, a=1)] == [True, None]
    assert [value(one, a=True), value(yes, a=True)] == [None, True]


def test_a_program_is_made_once() -> None:
    expression = Compare("=", a, Literal(1))
    assert compiled(expression) is compiled(expression)


def event(**attributes: Any) -> Event:
    return make_event(attributes, source="s", id="1")


def test_a_filter_accepts_through_its_normal_form() -> None:
    residual = Compare("<", a, Attribute("b"))
    filter = Filter(
        "",
        (
            Conjunction((Equals("name", "x"), Range("a", 0, None)), (residual,)),
            Conjunction((Equals("name", "y"),)),
        ),
    )
    assert accepts(filter, event(name="x", a=1, b=2))
    assert not accepts(filter, event(name="x", a=2, b=2))
    assert not accepts(filter, event(name="x", a=1))  # the residual is unknown
    assert accepts(filter, event(name="y"))
    assert accepts(EVERYTHING, event())
    assert not accepts(NOTHING, event())


def test_a_cesql_filter_accepts_only_true_without_errors() -> None:
    casts = Filter("hop < 10", (Conjunction((), (Compare("<", Attribute("HOP"), Literal(10)),)),), "cesql")
    assert accepts(casts, event(hop="5"))
    assert not accepts(casts, event(hop="x"))
    assert not accepts(casts, event())
    subject = Filter("", (Conjunction((), (Compare("=", Attribute("subject"), Literal("a/b")),)),), "cesql")
    assert accepts(subject, make_event(source="s", id="1", topic="a/b"))
    truthy = Filter("hop", (Conjunction((), (Attribute("hop"),)),), "cesql")
    assert not accepts(truthy, event(hop=1))  # the value must be a boolean

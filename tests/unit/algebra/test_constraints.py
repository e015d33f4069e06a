"""Single constraints: implication, disjointness, and what two of them come to."""

from __future__ import annotations

import pytest
from tests.unit.algebra._constraints import (
    combine,
    decide_disjoint,
    decide_implies,
    disjoint,
    implies,
    intersect,
)

from tidings.model.constraint import (
    Constraint,
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


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Equals("a", 5), Range("a", 1, 5)),
        (Equals("a", 1), Equals("a", 1.0)),
        (Equals("a", False), NotOneOf("a", (True,))),
        (NotOneOf("a", (True,)), Equals("a", False)),
        (OneOf("a", (1, "x")), Exists("a")),
        (Range("a", 2, 3), NotOneOf("a", (1, 4))),
        (Prefix("a", "ab"), Range("a", "ab", "ac", False, True)),
        (Range("a", "ab", "ac", False, True), Prefix("a", "ab")),
        (Prefix("a", "ab"), Prefix("a", "a")),
        (Like("a", "ab%c"), Prefix("a", "ab")),
        (Like("a", "%_"), Like("a", "_%")),
        (Like("a", "%a_%"), Like("a", "_%")),
        (Like("a", "a%b%"), Like("a", "%b%")),
        (Prefix("a", "x"), Like("a", "%")),
        (Equals("a", "abc"), Like("a", "_b_")),
        (Equals("a", "abc"), Regexp("a", "a.c")),
        (Regexp("a", "^abc"), Prefix("a", "abc")),
        (Prefix("a", "abc"), Regexp("a", "^abc")),
        (Regexp("a", "^ab.*z$"), Prefix("a", "ab")),
        (Regexp("a", "x+y"), Regexp("a", "x+y")),
        (TopicIs("topic", "a/b"), TopicIs("topic", "a/+")),
        (TopicIs("topic", "a/+/#"), TopicIs("topic", "a/#")),
        (TopicIs("topic", "a/#"), TopicIs("topic", "#")),
        (Equals("type", "Cat"), IsA.of("Cat")),
        (IsA.of("Cat"), Exists("type")),
        (Equals("a", 5), Exists("a")),
        (Range("a", 5, 1), Missing("a")),
    ],
)
def test_implied(narrow: Constraint, wide: Constraint) -> None:
    assert implies(narrow, wide)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Equals("a", True), Equals("a", 1)),
        (Range("a", 1, 2), Range("a", 1, 2, low_open=True)),
        (NotOneOf("a", (5,)), Exists("b")),
        (Exists("a"), NotOneOf("a", (5,))),
        (Missing("a"), NotOneOf("a", (5,))),
        (Like("a", "%b%"), Like("a", "a%b%")),
        (TopicIs("topic", "#"), TopicIs("topic", "+/#")),
        (TopicIs("topic", "a/#"), TopicIs("topic", "a/+/#")),
        (IsA.of("Cat"), Equals("type", "Cat")),
        (Exists("type"), IsA.of("Cat", negated=True)),
        (Regexp("a", "^ab.*z$"), Equals("a", "abz")),
    ],
)
def test_not_implied(narrow: Constraint, wide: Constraint) -> None:
    assert decide_implies(narrow, wide) in (False, None)
    assert not implies(narrow, wide)


def test_regular_expressions_may_be_undecided() -> None:
    assert decide_implies(Regexp("a", "^x[0-9]+$"), Regexp("a", "[0-9]$")) is None
    assert decide_disjoint(Regexp("a", "^[0-9]+$"), Regexp("a", "^[a-z]+$")) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Equals("a", 1), Equals("a", True)),
        (Equals("a", 1), Prefix("a", "1")),
        (Missing("a"), Exists("a")),
        (Range("a", None, 1, high_open=True), Range("a", 1, None)),
        (Like("a", "a%"), Like("a", "b%")),
        (Like("a", "%a"), Like("a", "%b")),
        (Like("a", "_"), Like("a", "__%")),
        (Regexp("a", "^ab.*c"), Prefix("a", "b")),
        (Regexp("a", "a+b"), Regexp("a", "a+b", negated=True)),
        (TopicIs("topic", "a/+"), TopicIs("topic", "b/#")),
        (Equals("type", "Cat"), IsA.of("Cat", negated=True)),
    ],
)
def test_disjoint(one: Constraint, other: Constraint) -> None:
    assert disjoint(one, other)
    assert intersect(one, other) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Range("a", 1, None), Range("a", None, 5), (Range("a", 1, 5),)),
        (Range("a", 1, 5), Equals("a", 3), (Equals("a", 3),)),
        (OneOf("a", (1, 2, 3)), Range("a", 2, None), (OneOf("a", (2, 3)),)),
        (Range("a", 1, 5), NotOneOf("a", (3,)), (Range("a", 1, 5), NotOneOf("a", (3,)))),
        (Range("a", 1, 5), NotOneOf("a", (5,)), (Range("a", 1, 5, high_open=True),)),
        (Prefix("a", "a"), Range("a", "ab", None), (Range("a", "ab", "b", high_open=True),)),
        (Prefix("a", "a"), Prefix("a", "ab"), (Prefix("a", "ab"),)),
        (Range("a", "x", None, low_open=True), Range("a", None, "z"), (Range("a", "x", "z", low_open=True),)),
        (Exists("a"), Range("a", 1, 5), (Range("a", 1, 5),)),
        (OneOf("a", ("cat", "dog")), Like("a", "%t"), (Like("a", "%t"), OneOf("a", ("cat", "dog")))),
        (Prefix("a", "a"), Like("a", "ab%", negated=True), None),
        (IsA.of("Cat"), IsA.of("Dog", True), (IsA.of("Cat"), IsA.of("Dog", True))),
    ],
)
def test_intersection(one: Constraint, other: Constraint, expected: tuple[Constraint, ...] | None) -> None:
    found = intersect(one, other)
    if expected is None:
        expected = (one, other)
    assert found is not None
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_constraints_on_different_attributes_are_independent() -> None:
    assert not implies(Equals("a", 1), Equals("b", 1))
    assert not disjoint(Equals("a", 1), Equals("b", 2))
    assert intersect(Equals("b", 1), Equals("a", 1)) == (Equals("a", 1), Equals("b", 1))


def test_a_whole_conjunction_is_combined() -> None:
    ranges = (Range("a", 1, None), Range("a", None, 9), NotOneOf("a", (9,)), Equals("b", True))
    assert combine(ranges) == (Range("a", 1, 9, high_open=True), Equals("b", True))
    assert combine((*ranges, Equals("b", False))) is None

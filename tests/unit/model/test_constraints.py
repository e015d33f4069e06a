"""Constraints: the values that each accepts."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

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
from tidings.model.event import LINEAGE
from tidings.model.filter import EVERYTHING, NOTHING, Conjunction, Filter
from tidings.model.value import Kind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)
CAT = ("Cat", "Animal")

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (Equals("a", 1), [1, 1.0], [True, "1", 2, None, math.nan]),
    (Equals("a", True), [True], [1, 1.0, False, "true"]),
    (Equals("a", NOON), [NOON], [LATER, "2026-01-01T12:00:00Z"]), (Equals("a", ""), [""], [None, " "]),
    (Equals("a", 2**53 + 1), [2**53 + 1], [2.0**53, float(2**53 + 1)]),
    (OneOf("a", (1, "x", True)), [1, 1.0, "x", True], [0, "y", False, None]),
    (NotOneOf("a", (5,)), [4, 5.5, math.inf], [5, 5.0, "x", True, None]),
    (NotOneOf("a", (5, "x")), [], [5, 4, "x", "y", None]),
    (Range("a", 1, 5), [1, 5, 2.5], [0, 6, True, "3", None, math.nan]),
    (Range("a", 1, 5, True, True), [2], [1, 1.0, 5]),
    (Range("a", None, 5), [-math.inf, 5], [5.1, math.inf]),
    (Range("a", "b", None), ["b", "c", "é"], ["a", "B", 5]),
    (Range("a", NOON, None, low_open=True), [LATER], [NOON]),
    (Range("a", 2**53 + 1, None), [2**53 + 1], [2.0**53]),
    (Prefix("a", "ab"), ["ab", "abc"], ["a", "b", 5, None]), (Like("a", "a_c"), ["abc"], ["ac", 5]),
    (Like("a", "a_c", negated=True), ["ac", ""], ["abc", 5, None]), (Regexp("a", "^x"), ["xy"], ["yx", 5]),
    (Regexp("a", "^x", negated=True), ["yx"], ["xy", 5, None]),
    (TopicIs("topic", "a/+"), ["a/b"], ["a", 5, None]),
    (TopicIs("topic", "a/+", negated=True), ["a"], ["a/b", 5, None]),
    (Exists("a"), [0, "", False, NOON, CAT], [None, math.nan]),
    (Missing("a"), [None, math.nan], [0, "", False, NOON, CAT]),
    (IsA.of("Animal"), [CAT], [("Dog",), None, "Animal"]),
    (IsA.of("Animal", negated=True), [("Dog",)], [CAT, None, "Dog"]),
]  # fmt: skip


@pytest.mark.parametrize(("constraint", "accepted", "refused"), CASES)
def test_what_it_accepts(constraint: Constraint, accepted: list[Any], refused: list[Any]) -> None:
    assert [value for value in accepted if not constraint.accepts(value)] == []
    assert [value for value in refused if constraint.accepts(value)] == []


def test_every_constraint_is_tried_above() -> None:
    assert {type(constraint) for constraint, _, _ in CASES} == set(Constraint.__args__)


def test_a_range_knows_its_kind() -> None:
    assert Range("a", None, 5).kind is Kind.NUMBER
    assert Range("a", "x", None).kind is Kind.STRING
    assert Range("a", NOON, LATER).kind is Kind.TIME


def test_is_a_looks_at_the_lineage() -> None:
    assert IsA.of("Cat").attribute == LINEAGE


def test_filters_know_the_trivial_cases_and_their_digest() -> None:
    assert EVERYTHING.is_always_true
    assert NOTHING.is_never_true
    assert not NOTHING.is_always_true
    one = Filter("a = 1", (Conjunction((Equals("a", 1),)),))
    same = Filter(" a=1 ", (Conjunction((Equals("a", 1),)),))
    other = Filter("a = TRUE", (Conjunction((Equals("a", True),)),))
    assert one.digest == same.digest
    assert one.digest != other.digest  # although Python takes 1 for True
    assert one.digest != Filter("a = 1", one.conjunctions, "cesql").digest
    assert str(one) == "a = 1"


def test_a_filter_survives_the_wire() -> None:
    filter = Filter("x", tuple(Conjunction((constraint,)) for constraint, _, _ in CASES))
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(filter), type=Filter)
    assert read == filter
    assert read.digest == filter.digest
    assert repr(read.conjunctions[2]) == repr(filter.conjunctions[2])  # a time is still a time

"""Cuts and intervals: where a kind has neighbours, and where it has none."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidings.algebra import intervals as iv
from tidings.algebra.intervals import BOTTOM, EMPTY, FULL, TOP
from tidings.model.value import Kind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_string_has_a_next_one() -> None:
    assert iv.after("a") == iv.before("a\0")
    assert iv.between("a", "a\0", True, True) == EMPTY
    assert iv.between("", None, False, False) == FULL


def test_a_time_has_a_next_one() -> None:
    tick = timedelta(microseconds=1)
    assert iv.between(NOON, NOON + tick, True, True) == EMPTY
    assert iv.between(NOON, None, True, False) == iv.between(NOON + tick, None, False, False)
    assert iv.between(iv.FIRST_TIME, iv.LAST_TIME, False, False) == FULL
    assert iv.between(iv.LAST_TIME, None, True, False) == EMPTY


def test_there_are_two_booleans() -> None:
    assert iv.complement(iv.points([True])) == iv.points([False])
    assert iv.points([True, False]) == FULL
    assert iv.values_of(Kind.BOOL, FULL) == [False, True]


def test_numbers_are_dense() -> None:
    above = math.nextafter(1.0, 2.0)
    assert iv.between(1, 2, True, True) != EMPTY
    for low, high in (
        (1.0, above),
        (2**53, 2**53 + 1),
        (sys.float_info.max, math.inf),
        (-math.inf, -sys.float_info.max),
    ):
        between = iv.between(low, high, True, True)
        assert between != EMPTY
        assert low < iv.some_value(Kind.NUMBER, between[0]) < high  # type: ignore[operator]
    assert iv.number_between(2**53, 2**53 + 2) == 2**53 + 1
    assert not iv.within(
        FULL, iv.union(iv.between(None, 1.0, False, False), iv.between(above, None, False, False))
    )


def test_infinity_is_the_last_number() -> None:
    assert iv.between(math.inf, None, True, False) == EMPTY
    assert iv.between(-math.inf, math.inf, False, False) == FULL
    assert iv.between(math.inf, None, False, False) == iv.points([math.inf])


@pytest.mark.parametrize(
    ("prefix", "after"),
    [("a", "b"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("a/", "a0")],
)
def test_a_prefix_is_one_interval(prefix: str, after: str) -> None:
    assert iv.prefixed(prefix) == ((iv.before(prefix), (0, after, 0)),)


def test_nothing_lies_above_the_last_character() -> None:
    assert iv.prefixed("\U0010ffff")[0][1] == TOP
    assert iv.prefixed("") == FULL


def test_intervals_that_touch_are_joined() -> None:
    joined = iv.union(iv.between(1, 2, False, True), iv.between(2, 3, False, False))
    assert joined == iv.between(1, 3, False, False)
    apart = iv.union(iv.between(1, 2, False, True), iv.between(2, 3, True, False))
    assert len(apart) == 2
    assert iv.complement(apart)[1] == iv.point(2)


@pytest.mark.parametrize(
    ("kind", "interval"),
    [
        (Kind.NUMBER, (BOTTOM, TOP)),
        (Kind.NUMBER, (BOTTOM, iv.before(-1.7e308))),
        (Kind.NUMBER, (iv.after(2**63 - 1), TOP)),
        (Kind.NUMBER, (iv.after(1.7e308), TOP)),
        (Kind.NUMBER, (iv.after(1), iv.before(2))),
        (Kind.NUMBER, (iv.after(1), iv.after(2))),
        (Kind.NUMBER, (iv.after(-math.inf), iv.before(math.inf))),
        (Kind.STRING, (iv.after("a"), iv.before("b"))),
        (Kind.TIME, (BOTTOM, iv.before(NOON))),
        (Kind.BOOL, iv.point(True)),
    ],
)
def test_some_value_is_inside(kind: Kind, interval: Any) -> None:
    value = iv.some_value(kind, interval)
    assert interval[0] <= iv.before(value)
    assert iv.after(value) <= interval[1]

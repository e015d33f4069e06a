"""Values: kinds, order, and what may be an attribute."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest

from tidings.errors import EventError
from tidings.model.value import INT_MAX, INT_MIN, Kind, checked_value, is_null, kind_of, sort_key, utc

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOL), (1, Kind.NUMBER), (1.5, Kind.NUMBER), (math.inf, Kind.NUMBER), ("", Kind.STRING),
        (NOON, Kind.TIME),
        (None, None), (math.nan, None), ((), None), (b"", None), ([], None), ({}, None),
    ],
)  # fmt: skip
def test_the_kind_of_a_value(value: Any, kind: Kind | None) -> None:
    assert kind_of(value) is kind


def test_the_order_is_by_kind_then_value() -> None:
    values = [NOON, "b", "a", 2, 1.5, -math.inf, True, False]
    assert sorted(values, key=sort_key) == [False, True, -math.inf, 1.5, 2, "a", "b", NOON]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Colour.RED, "red"), (Size.BIG, 3), (np.int64(5), 5), (np.float64(1.5), 1.5), (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))), NOON), (None, None),
        (INT_MAX, INT_MAX), (INT_MIN, INT_MIN),
    ],
)  # fmt: skip
def test_what_is_kept_is_plain(given: Any, kept: Any) -> None:
    value = checked_value("x", given)
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (INT_MAX + 1, "outside 64 bits"), (INT_MIN - 1, "outside 64 bits"),
        (datetime(2026, 1, 1), "without a time zone"),
        ("\ud800", "not Unicode"), ([1], "is a list"), (b"x", "is a bytes"), (1j, "is a complex"),
        (np.array([1, 2]), "is a ndarray"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "outside the years"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_attribute_says_why(given: Any, problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        checked_value("x", given)


def test_null() -> None:
    assert is_null(None)
    assert is_null(math.nan)
    assert not any(is_null(value) for value in (0, "", False, math.inf))


def test_utc_keeps_the_moment() -> None:
    east = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert utc(east) == east
    assert utc(east).tzinfo is UTC
    assert utc(NOON) is NOON

"""A packed filter is the same filter: its meaning, its text, its digest; and it takes a quarter
of the room."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from tests.properties._random import filters as random_filters

from tidings.language import parse_filter
from tidings.model.constraint import Equals
from tidings.model.filter import EVERYTHING, NOTHING, Conjunction, Filter
from tidings.model.packed import pack, unpack

TEXTS = (
    "price BETWEEN 1 AND 2.5 AND symbol = 'IBM' AND NOT flag",
    "a IN (1, 2.0, 'x', TRUE) OR b NOT IN ('p', 'q')",
    "at > TIMESTAMP '2026-01-01T00:00:00.000001Z' AND EXISTS c AND NOT EXISTS d",
    "topic = 'market/+/oil/#' AND type IS NOT A 'Quote' AND name LIKE 'a%b' AND other NOT LIKE '_c%'",
    "price * qty > 5000 AND LENGTH(symbol) <= 4 AND bid < ask",
    "name REGEXP 'x+y' AND starts LIKE 'abc%'",
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_packed_filter_is_the_same(text: str) -> None:
    filter = parse_filter(text)
    again = unpack(pack(filter))
    assert again == filter
    assert again.digest == filter.digest
    assert repr(again) == repr(filter)  # in Python 1 equals 1.0 and True; here they differ


@settings(deadline=None, max_examples=100)
@given(random_filters)
def test_so_is_any_other(filter: Filter) -> None:
    again = unpack(pack(filter))
    assert repr(again) == repr(filter)
    assert again.digest == filter.digest


def test_the_ends_of_the_scale() -> None:
    assert unpack(pack(EVERYTHING)) == EVERYTHING
    assert unpack(pack(NOTHING)) == NOTHING
    assert unpack(pack(parse_filter("a = 1", dialect="cesql"))).dialect == "cesql"


@pytest.mark.parametrize("value", ["half \ud800", 1 << 70], ids=["half a character", "beyond 64 bits"])
def test_what_no_encoding_takes_is_kept_as_it_is(value: object) -> None:
    filter = Filter("", (Conjunction((Equals("a", value),)),))
    assert unpack(pack(filter)) is filter


def test_it_is_packed_once_for_all_who_keep_it() -> None:
    filter = parse_filter("price BETWEEN 1 AND 2 AND symbol = 'IBM' AND qty > 17 AND venue = 'X'")
    packed = pack(filter)
    assert packed is pack(filter)
    assert isinstance(packed, bytes)
    assert sys.getsizeof(packed) < 300

"""Digests: what is left of them, and when a Bloom filter is the smaller one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_lab.recovery.epidemic.digests import (
    BITS,
    HASHES,
    bloom_of,
    is_in,
    smaller,
    with_given,
    without,
)
from tidings_lab.recovery.epidemic.messages import Bloom

ENTRIES = st.sets(st.tuples(st.sampled_from(["S", "T"]), st.integers(0, 5000)), max_size=60)


@settings(deadline=None)
@given(ENTRIES)
def test_a_bloom_filter_holds_all_that_was_put_in(entries: set[tuple[str, int]]) -> None:
    bloom = bloom_of(entries)
    assert all(is_in(bloom, entry) for entry in entries)


def test_a_bloom_filter_hardly_ever_says_yes_wrongly() -> None:
    assert pytest.approx(HASHES, abs=0.5) == BITS * 0.69  # as many as serve best
    bloom = bloom_of([("S", number) for number in range(1000)])
    wrong = sum(is_in(bloom, ("S", number)) for number in range(1000, 21_000))
    assert wrong <= 4


def test_the_smaller_one_is_used() -> None:
    dense = {"S": tuple(range(100))}  # one byte a counter
    sparse = {"S": tuple(range(70_000, 70_400))}  # five
    assert smaller(dense) is None
    found = smaller(sparse)
    assert found is not None
    assert len(msgspec.msgpack.encode(found)) < len(msgspec.msgpack.encode(sparse))


def test_what_was_answered_leaves_a_digest() -> None:
    assert without({"S": (1, 2), "T": (3,)}, {("S", 1), ("T", 3)}) == {"S": (2,)}
    bloom = bloom_of([("S", 1), ("S", 2)])
    half = with_given(bloom, {("S", 1)})
    assert half is not None
    assert not is_in(half, ("S", 1))
    assert is_in(half, ("S", 2))
    assert with_given(half, {("S", 2)}) is None


def test_a_filter_of_another_make_holds_nothing() -> None:
    assert not is_in(Bloom(b"", 15, 1), ("S", 1))
    assert not is_in(Bloom(b"\xff\xff", 3, 1), ("S", 1))

"""Merged filters accept at least what their parts accept; exact ones accept no more."""

from __future__ import annotations

import math
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._algebra_oracle import (
    accepts,
    choices,
    filters,
    pattern_constraints,
    simple_constraints,
    typed_choices,
    typed_constraints,
)

from tidings.algebra import Space, merge, merge_all, perfect_merge, zone_of
from tidings.algebra.wording import worded
from tidings.language import parse_filter
from tidings.model.constraint import Range
from tidings.model.filter import Conjunction, Filter

SIMPLE = st.one_of(simple_constraints("a"), simple_constraints("b"))
MIXED = st.one_of(SIMPLE, pattern_constraints("a", regexps=True))


@settings(max_examples=200, deadline=None)
@given(filters(MIXED, conjunctions=2, size=2), filters(MIXED, conjunctions=2, size=2))
def test_a_merge_accepts_what_either_accepts(one: Filter, other: Filter) -> None:
    merged = merge(one, other)
    assert len(merged.filter.conjunctions) <= max(len(one.conjunctions), len(other.conjunctions))
    assert merged.error == 1.0 if merged.exact else merged.error > 1.0
    for choice in choices((one, other), ["", "a", "b", "ab", "ba", "a/b", "/"]):
        either = accepts(one, choice) or accepts(other, choice)
        assert accepts(merged.filter, choice) is either or not (merged.exact or either)


@settings(max_examples=150, deadline=None)
@given(filters(typed_constraints(), size=2), filters(typed_constraints(), size=2))
def test_a_merge_of_types_accepts_what_either_accepts(one: Filter, other: Filter) -> None:
    merged = merge(one, other)
    for choice in typed_choices():
        either = accepts(one, choice) or accepts(other, choice)
        assert accepts(merged.filter, choice) is either or not (merged.exact or either)


@settings(max_examples=100, deadline=None)
@given(st.lists(filters(SIMPLE, size=2), min_size=1, max_size=5), st.integers(1, 3))
def test_merge_all_reaches_its_target_and_accounts_for_every_filter(given: list[Filter], target: int) -> None:
    merges = merge_all(given, target)
    assert len(merges) <= target
    assert sorted(position for merged in merges for position in merged.sources) == list(range(len(given)))
    for choice in choices(given):
        for merged in merges:
            wanted = any(accepts(given[position], choice) for position in merged.sources)
            assert accepts(merged.filter, choice) is wanted or not (merged.exact or wanted)


def sides() -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(0, 9), st.integers(1, 6)).map(lambda side: (side[0], side[0] + side[1]))


def rectangle(x: tuple[int, int], y: tuple[int, int]) -> Filter:
    conjunction = Conjunction((Range("x", *x), Range("y", *y)))
    return Filter(worded([conjunction]), (conjunction,))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(rectangle, sides(), sides()), min_size=2, max_size=4), st.integers(0, 2**32))
def test_the_stated_error_is_the_ratio_of_volumes(given: list[Filter], seed: int) -> None:
    space = Space.of({"x": (0, 16), "y": (0, 16)})
    (merged,) = merge_all(given, 1, space=space)
    points = np.random.default_rng(seed).random((20_000, 2)) * 16
    inside = zone_of(merged.filter, space).holds(points).mean()
    union = np.any([zone_of(part, space).holds(points) for part in given], axis=0).mean()
    assert math.isclose(merged.error, inside / union, rel_tol=0.25)
    assert not merged.exact or merged.error == 1.0


@settings(max_examples=200, deadline=None)
@given(filters(MIXED, conjunctions=2, size=2))
def test_wording_parses_to_the_same_filter(one: Filter) -> None:
    finite = [c for c in one.conjunctions if "inf" not in repr(c)]
    read = parse_filter(worded(finite))
    for choice in choices((one,), ["a", "b", "ab", "ba", "a/b", "/"]):
        assert accepts(read, choice) is accepts(Filter("", tuple(finite)), choice)


def test_merging_a_grid_of_random_rectangles_is_the_same_in_every_run() -> None:
    rng = random.Random(7)
    corners = [(rng.randrange(10), rng.randrange(10)) for _ in range(12)]
    given = [rectangle((x, x + 2), (y, y + 2)) for x, y in corners]
    space = Space.of({"x": (0, 16), "y": (0, 16)})
    first, second = merge_all(given, 4, space=space), merge_all(given, 4, space=space)
    assert [(m.filter.text, m.sources, m.error) for m in first] == [
        (m.filter.text, m.sources, m.error) for m in second
    ]


def test_perfect_merge_is_none_when_the_union_cannot_be_said() -> None:
    assert perfect_merge(rectangle((0, 1), (0, 1)), rectangle((2, 3), (4, 5))) is None

"""Covering, overlap and intersection against an oracle that tries every event of a small domain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._algebra_oracle import (
    SHORT_STRINGS,
    accepts,
    choices,
    common_event,
    counterexample,
    filters,
    longer_strings,
    pattern_constraints,
    simple_constraints,
    typed_choices,
    typed_constraints,
)

from tidings.algebra import decide_covers, decide_overlaps, intersect
from tidings.model.constraint import Constraint
from tidings.model.filter import Filter

SIMPLE = st.one_of(simple_constraints("a"), simple_constraints("b"))
ONE_ATTRIBUTE = simple_constraints("a")
PATTERNED = st.one_of(pattern_constraints("a"), pattern_constraints("a"), simple_constraints("a"))
WITH_REGEXPS = st.one_of(
    pattern_constraints("a", regexps=True), simple_constraints("a"), simple_constraints("b")
)


def assert_decided(wide: Filter, narrow: Filter, more: list[str] | None = None) -> None:
    found = counterexample(wide, narrow, more or [])
    verdict = decide_covers(wide, narrow)
    if more and verdict is False and found is None:
        found = counterexample(wide, narrow, longer_strings())
    assert verdict is (found is None), (verdict, found)


@settings(max_examples=700, deadline=None)
@given(filters(ONE_ATTRIBUTE), filters(ONE_ATTRIBUTE))
def test_covers_is_sound_and_complete_on_one_attribute(wide: Filter, narrow: Filter) -> None:
    assert_decided(wide, narrow)


@settings(max_examples=700, deadline=None)
@given(filters(SIMPLE), filters(SIMPLE))
def test_covers_is_sound_and_complete_for_conjunctions(wide: Filter, narrow: Filter) -> None:
    assert_decided(wide, narrow)


@settings(max_examples=500, deadline=None)
@given(filters(SIMPLE, conjunctions=4, size=2), filters(SIMPLE, conjunctions=2))
def test_covers_is_sound_and_complete_for_disjunctions(wide: Filter, narrow: Filter) -> None:
    assert_decided(wide, narrow)


@settings(max_examples=300, deadline=None)
@given(filters(PATTERNED, size=2), filters(PATTERNED, size=2))
def test_covers_decides_like_and_topics(wide: Filter, narrow: Filter) -> None:
    assert_decided(wide, narrow, SHORT_STRINGS)


@settings(max_examples=300, deadline=None)
@given(filters(WITH_REGEXPS, conjunctions=3), filters(WITH_REGEXPS, conjunctions=2))
def test_covers_is_sound_with_regexps_in_disjunctions(wide: Filter, narrow: Filter) -> None:
    found = counterexample(wide, narrow, SHORT_STRINGS)
    assert found is None or decide_covers(wide, narrow) is not True, found


@settings(max_examples=300, deadline=None)
@given(filters(typed_constraints()), filters(typed_constraints()))
def test_covers_decides_types_and_their_lineages(wide: Filter, narrow: Filter) -> None:
    missed = any(accepts(narrow, c) and not accepts(wide, c) for c in typed_choices())
    assert decide_covers(wide, narrow) is not missed


@settings(max_examples=150, deadline=None)
@given(filters(typed_constraints(), conjunctions=3), filters(typed_constraints()))
def test_covers_is_sound_for_disjunctions_of_types(wide: Filter, narrow: Filter) -> None:
    missed = any(accepts(narrow, c) and not accepts(wide, c) for c in typed_choices())
    verdict = decide_covers(wide, narrow)
    assert verdict is None or verdict is not missed


@settings(max_examples=300, deadline=None)
@given(filters(SIMPLE, conjunctions=2), filters(SIMPLE, conjunctions=2))
def test_overlaps_is_decided_for_simple_constraints(one: Filter, other: Filter) -> None:
    assert decide_overlaps(one, other) is (common_event(one, other) is not None)


@settings(max_examples=150, deadline=None)
@given(filters(PATTERNED, size=2), filters(PATTERNED, size=2))
def test_overlaps_is_decided_for_like_and_topics(one: Filter, other: Filter) -> None:
    found = common_event(one, other, SHORT_STRINGS)
    verdict = decide_overlaps(one, other)
    if verdict and found is None:
        found = common_event(one, other, longer_strings())
    assert verdict is (found is not None), (verdict, found)


@settings(max_examples=150, deadline=None)
@given(filters(WITH_REGEXPS, conjunctions=2), filters(WITH_REGEXPS, conjunctions=2))
def test_overlaps_never_says_no_wrongly(one: Filter, other: Filter) -> None:
    found = common_event(one, other, SHORT_STRINGS)
    assert found is None or decide_overlaps(one, other) is not False


@settings(max_examples=300, deadline=None)
@given(filters(SIMPLE, conjunctions=3), filters(SIMPLE, conjunctions=3))
def test_intersection_accepts_what_both_accept(one: Filter, other: Filter) -> None:
    both = intersect(one, other)
    for choice in choices((one, other)):
        assert accepts(both, choice) is (accepts(one, choice) and accepts(other, choice))


@settings(max_examples=150, deadline=None)
@given(filters(WITH_REGEXPS, conjunctions=2), filters(WITH_REGEXPS, conjunctions=2))
def test_intersection_with_patterns_accepts_what_both_accept(one: Filter, other: Filter) -> None:
    both = intersect(one, other)
    for choice in choices((one, other), SHORT_STRINGS):
        assert accepts(both, choice) is (accepts(one, choice) and accepts(other, choice))


@settings(max_examples=150, deadline=None)
@given(filters(typed_constraints(), conjunctions=2), filters(typed_constraints(), conjunctions=2))
def test_intersection_of_types_accepts_what_both_accept(one: Filter, other: Filter) -> None:
    both = intersect(one, other)
    for choice in typed_choices():
        assert accepts(both, choice) is (accepts(one, choice) and accepts(other, choice))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("constraints", "most", "more"),
    [(SIMPLE, 1, []), (SIMPLE, 4, []), (PATTERNED, 1, SHORT_STRINGS)],
    ids=["conjunctions", "disjunctions", "patterns"],
)
def test_covers_is_decided_on_many_more(
    constraints: st.SearchStrategy[Constraint], most: int, more: list[str]
) -> None:
    @settings(max_examples=20_000, deadline=None)
    @given(filters(constraints, conjunctions=most, size=2), filters(constraints, size=2))
    def check(wide: Filter, narrow: Filter) -> None:
        assert_decided(wide, narrow, more)

    check()

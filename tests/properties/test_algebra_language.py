"""The algebra against the language: whole filters with residuals, patterns and types on random events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._random import events, filters

from tidings.algebra import covered_by_union, decide_covers, decide_overlaps, intersect, merge
from tidings.language import accepts, parse_filter, print_filter
from tidings.model.event import Event
from tidings.model.filter import Filter

SOME_EVENTS = st.lists(events(), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(filters, filters, SOME_EVENTS)
def test_relations_hold_on_every_event(one: Filter, other: Filter, found: list[Event]) -> None:
    covered, common = decide_covers(one, other), decide_overlaps(one, other)
    union = covered_by_union(other, [one])
    for event in found:
        first, second = accepts(one, event), accepts(other, event)
        assert not (covered and second and not first)
        assert not (union.covered and second and not first)
        assert not (common is False and first and second)


@settings(max_examples=120, deadline=None)
@given(filters, filters, SOME_EVENTS)
def test_intersections_and_merges_mean_what_they_say(one: Filter, other: Filter, found: list[Event]) -> None:
    both, merged = intersect(one, other), merge(one, other)
    for event in found:
        first, second = accepts(one, event), accepts(other, event)
        assert accepts(both, event) is (first and second)
        assert accepts(merged.filter, event) is (first or second) or not (merged.exact or first or second)


@settings(max_examples=150, deadline=None)
@given(filters, filters, SOME_EVENTS)
def test_their_text_parses_to_the_same_meaning(one: Filter, other: Filter, found: list[Event]) -> None:
    stated = [Filter(print_filter(part), part.conjunctions) for part in (one, other)]
    for made in (intersect(*stated), merge(*stated).filter):
        read = parse_filter(made.text)
        for event in found:
            assert accepts(read, event) is accepts(made, event), made.text


@settings(max_examples=80, deadline=None)
@given(filters)
def test_every_filter_covers_itself_and_nothing_covers_less(one: Filter) -> None:
    assert decide_covers(one, one) is True
    assert decide_covers(one, Filter("FALSE", ())) is True

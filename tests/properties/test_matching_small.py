"""The plain-Python index gives what the oracle gives, under adding and removing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._random import conditions, events, filters

from tidings.errors import FilterLimitError
from tidings.language import normalise
from tidings.matching.explain import explain
from tidings.matching.naive import NaiveMatcher
from tidings.matching.small import SmallMatcher
from tidings.model.event import Event
from tidings.model.expression import Expression
from tidings.model.filter import Filter


def _agree(population: list[Filter], removed: set[int], probes: list[Event]) -> None:
    small, naive = SmallMatcher(), NaiveMatcher()
    for filter in population:
        assert small.add(filter) == naive.add(filter)
    for handle in sorted(removed & set(range(len(population)))):
        small.remove(handle)
        naive.remove(handle)
    for filter in population[:2]:
        assert small.add(filter) == naive.add(filter)
    assert small.match_batch(probes) == naive.match_batch(probes)


@settings(max_examples=80)
@given(
    st.lists(filters, max_size=12), st.sets(st.integers(0, 11), max_size=6), st.lists(events(), max_size=4)
)
def test_small_is_naive_for_any_constraints(
    population: list[Filter], removed: set[int], probes: list[Event]
) -> None:
    _agree(population, removed, probes)


@settings(max_examples=60)
@given(
    st.lists(conditions, max_size=6), st.sets(st.integers(0, 5), max_size=3), st.lists(events(), max_size=4)
)
def test_small_is_naive_for_any_expressions(
    texts: list[Expression], removed: set[int], probes: list[Event]
) -> None:
    population = []
    for condition in texts:
        try:
            population.append(normalise(condition, text=""))
        except FilterLimitError:
            continue
    _agree(population, removed, probes)


@settings(max_examples=100)
@given(filters, events())
def test_an_explanation_agrees_with_matching(filter: Filter, event: Event) -> None:
    naive = NaiveMatcher()
    naive.add(filter)
    explanation = explain(event, filter)
    assert explanation.accepted is bool(naive.match(event))
    assert str(explanation)
    for trace in explanation.conjunctions:
        assert all((part.reason is None) is part.held for part in (*trace.constraints, *trace.residuals))

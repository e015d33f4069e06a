"""The classical indexes give what the oracle gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import _edges
from tests.properties._random import events, filters

from tidings.matching.naive import NaiveMatcher
from tidings.model.constraint import Equals, Range
from tidings.model.event import Event, make_event
from tidings.model.filter import Conjunction, Filter
from tidings_bench import workloads
from tidings_lab.matching.boxes import BoxMatcher
from tidings_lab.matching.counting import CountingMatcher
from tidings_lab.matching.tree import TreeMatcher

KINDS = [CountingMatcher, TreeMatcher, BoxMatcher]


def _agree(kind: Any, population: list[Filter], removed: set[int], probes: list[Event]) -> None:
    index, naive = kind(), NaiveMatcher()
    for filter in population:
        assert index.add(filter) == naive.add(filter)
    index.maintain(10)
    for handle in sorted(removed & set(range(len(population)))):
        index.remove(handle)
        naive.remove(handle)
    for filter in population[:2]:
        assert index.add(filter) == naive.add(filter)
    assert index.match_batch(probes) == naive.match_batch(probes)
    assert index.stats()["filters"] == naive.stats()["filters"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(
    st.lists(filters, max_size=12), st.sets(st.integers(0, 11), max_size=6), st.lists(events(), max_size=4)
)
def test_an_index_is_naive_for_any_filters(
    kind: Any, population: list[Filter], removed: set[int], probes: list[Event]
) -> None:
    _agree(kind, population, removed, probes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4", "W4hot", "W4shared", "W4unseen"])
def test_an_index_is_naive_on_the_workloads(kind: Any, name: str) -> None:
    made = workloads.workload(name)
    _agree(kind, list(workloads.filters(made, 400)), set(range(0, 400, 9)), workloads.events(made, 12))


numbers = st.one_of(_edges.numbers, _edges.numbers, st.sampled_from((math.inf, -math.inf)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=6),
    st.lists(numbers, min_size=1, max_size=4),
)
def test_boxes_compare_exactly(kind: Any, sides: list[tuple[Any, Any, bool]], values: list[Any]) -> None:
    population = [
        Filter("", (Conjunction((Range("x", low, high, is_open, not is_open), Equals("y", low))),))
        if number % 2
        else Filter("", (Conjunction((Range("x", low, high, is_open, is_open),)),))
        for number, (low, high, is_open) in enumerate(sides)
    ]
    probes = [make_event({"x": value, "y": values[0]}, source="s", id="1") for value in values]
    _agree(kind, population, set(), [*probes, make_event({"x": True}, source="s", id="2")])


def test_a_tree_of_boxes_of_three_levels_is_naive() -> None:
    made = workloads.workload("W1")
    _agree(BoxMatcher, list(workloads.filters(made, 5000)), {1, 2, 3}, workloads.events(made, 4))

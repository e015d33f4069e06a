"""The columnar matcher gives what the oracle gives: with Numba and without, under any changes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import _edges
from tests.properties._random import conditions, events, filters

from tidings.errors import FilterLimitError
from tidings.language import normalise
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.numpy_matcher import NumpyMatcher
from tidings.matching.naive import NaiveMatcher
from tidings.model.event import Event, make_event
from tidings.model.expression import Expression
from tidings.model.filter import Filter
from tidings_bench import workloads

KINDS = [pytest.param(ColumnarMatcher, id="numba"), pytest.param(NumpyMatcher, id="numpy")]


def _same(matcher: Any, oracle: NaiveMatcher, probes: list[Event]) -> None:
    for event in probes:
        assert list(matcher.match(event)) == oracle.match(event), event
    batch, expected = matcher.match_batch(probes), oracle.match_batch(probes)
    assert list(batch.offsets) == list(expected.offsets)
    assert list(batch.handles) == list(expected.handles)


def _loaded(kind: Any, population: list[Filter]) -> tuple[Any, NaiveMatcher]:
    matcher, oracle = kind(), NaiveMatcher()
    assert list(matcher.load(population)) == [oracle.add(filter) for filter in population]
    return matcher, oracle


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(st.lists(filters, max_size=12), st.lists(events(), max_size=4))
def test_a_frozen_table_is_naive(kind: Any, population: list[Filter], probes: list[Event]) -> None:
    matcher, oracle = _loaded(kind, population)
    _same(matcher, oracle, probes)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(st.lists(conditions, max_size=6), st.lists(events(), max_size=4))
def test_any_expressions_are_naive(kind: Any, texts: list[Expression], probes: list[Event]) -> None:
    population = []
    for condition in texts:
        try:
            population.append(normalise(condition, text=""))
        except FilterLimitError:
            continue
    matcher, oracle = _loaded(kind, population)
    _same(matcher, oracle, probes)


steps = st.one_of(
    st.tuples(st.just("add"), filters),
    st.tuples(st.just("remove"), st.integers(0, 8)),
    st.tuples(st.just("maintain"), st.integers(1, 40)),
    st.tuples(st.just("freeze"), st.none()),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("merge"), st.none()),
)


def _step(matcher: Any, oracle: NaiveMatcher, alive: list[int], step: tuple[str, Any]) -> None:
    op, argument = step
    if op == "add":
        handle = matcher.add(argument)
        assert handle == oracle.add(argument)
        alive.append(handle)
    elif op == "remove" and alive:
        handle = alive.pop(argument % len(alive))
        matcher.remove(handle)
        oracle.remove(handle)
    elif op == "maintain":
        matcher.maintain(argument)
    elif op == "freeze":
        matcher.freeze()
    elif op in ("begin", "merge") and matcher._work is None:
        if op == "begin":
            matcher.begin_freeze()
        else:
            matcher.begin_merge()
        matcher.maintain(1)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(
    st.lists(filters, max_size=6), st.lists(steps, max_size=20), st.lists(events(), min_size=1, max_size=3)
)
def test_any_changes_are_naive(
    kind: Any, population: list[Filter], changes: list[tuple[str, Any]], probes: list[Event]
) -> None:
    matcher, oracle = _loaded(kind, population)
    alive = list(range(len(population)))
    for change in changes:
        _step(matcher, oracle, alive, change)
        _same(matcher, oracle, probes[:1])
    _same(matcher, oracle, probes)
    matcher.freeze()
    _same(matcher, oracle, probes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["W1", "W2", "W2s", "W3", "W4", "W4hot", "W4shared", "W4unseen"])
def test_the_workloads_are_naive(kind: Any, name: str) -> None:
    made = workloads.workload(name)
    population = list(workloads.filters(made, 600))
    matcher, oracle = kind(), NaiveMatcher()
    matcher.load(population[:400], sample=workloads.events(made, 50, start=500))
    for filter in population[:400]:
        oracle.add(filter)
    probes = workloads.events(made, 12)
    _same(matcher, oracle, probes)
    for handle in range(0, 400, 7):
        matcher.remove(handle)
        oracle.remove(handle)
    for filter in population[400:]:
        assert matcher.add(filter) == oracle.add(filter)
    _same(matcher, oracle, probes)
    matcher.freeze()
    _same(matcher, oracle, probes)
    expected = oracle.match_batch(probes)
    columns = matcher.match_batch(workloads.record_batch(made, 12))
    assert list(columns.offsets) == list(expected.offsets)
    assert list(columns.handles) == list(expected.handles)


texts = st.one_of(_edges.texts, st.sampled_from(("\U0010ffff\U0010ffff", "b")))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=1, max_size=6), st.lists(texts, max_size=4), st.data())
def test_order_and_prefixes_of_text_are_by_code_point(
    kind: Any, known: list[str], later: list[str], data: st.DataObject
) -> None:
    from tidings.model.constraint import Equals, NotOneOf, Prefix, Range
    from tidings.model.filter import Conjunction

    def some(text: str) -> list[Filter]:
        forms = (
            Equals("t", text), Prefix("t", text), NotOneOf("t", (text,)), Range("t", text, None, True),
            Range("t", None, text, False, True), Range("t", text, text + "z"),
        )  # fmt: skip
        return [Filter("", (Conjunction((form,)),)) for form in forms]

    matcher, oracle = _loaded(kind, [f for text in known for f in some(text)])
    for filter in (f for text in later for f in some(text)):
        assert matcher.add(filter) == oracle.add(filter)
    probes = [
        make_event({"t": data.draw(st.one_of(texts, st.sampled_from(known)))}, source="s", id="1")
        for _ in range(3)
    ]
    _same(matcher, oracle, probes)
    matcher.freeze()
    _same(matcher, oracle, probes)


numbers = st.one_of(_edges.numbers, _edges.numbers, st.sampled_from((math.inf, -math.inf, math.nan)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5), st.lists(numbers, min_size=1, max_size=5)
)
def test_integers_and_doubles_compare_exactly(
    kind: Any, pairs: list[tuple[Any, Any]], values: list[Any]
) -> None:
    from tidings.model.constraint import Equals, NotOneOf, OneOf, Range
    from tidings.model.filter import Conjunction

    population = []
    for low, high in pairs:
        if low == low and high == high:
            forms = (
                Equals("n", low), OneOf("n", (low, high)), NotOneOf("n", (low,)), Range("n", low, high),
                Range("n", low, high, True, True), Range("n", None, high, False, True),
                Range("n", low, None, True),
            )  # fmt: skip
            population += [Filter("", (Conjunction((form,)),)) for form in forms]
    matcher, oracle = _loaded(kind, population)
    _same(matcher, oracle, [make_event({"n": value}, source="s", id="1") for value in [*values, *pairs[0]]])


@pytest.mark.parametrize("kind", KINDS)
def test_more_attributes_than_entries_can_name(kind: Any) -> None:
    """Entries name slots by one byte, and some of its values mean something else."""
    from tidings.model.constraint import Equals, Range
    from tidings.model.filter import Conjunction

    pairs = [(Range(f"a{n % 290}", n / 7, n / 7 + 0.4), Equals(f"a{(n + 31) % 290}", 3)) for n in range(1200)]
    alone = [(Range("a0", n / 40, n / 40 + 0.01),) for n in range(6000)]  # more bounds than edges
    population = [Filter("", (Conjunction(some),)) for some in (*pairs, *alone)]
    matcher, oracle = _loaded(kind, population)
    assert len(matcher.slots) > 256
    probes = []
    for turn in range(30):
        stored = {f"a{n}": (n * 7 + turn * 13) % 150 + 0.005 for n in range(0, 290, 1 + turn % 3)}
        probes.append(make_event(stored | {f"a{(turn * 40) % 290}": 3}, source="s", id="1"))
    assert any(oracle.match(event) for event in probes)
    _same(matcher, oracle, probes)

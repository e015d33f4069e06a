"""A filter that cannot match matches no drawn event: contradictions of computed conditions at the edges."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import _edges
from tests.properties._random import TIMES, TOPIC_PATTERNS, TOPICS, conditions, events, filters

from tidings.algebra import can_match, covers, decide_overlaps, redundant
from tidings.language import accepts
from tidings.language.normalise import normalise
from tidings.model import expression as e
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter

NAMES = ("a", "b")
NUMBERS = (0, 1, -1, 1.5, -0.0, 2**53, 2**53 + 1, 2.0**53, float("inf"), float("-inf"), 1e308)
OTHERS = (
    None, float("nan"), [], [1, "a"], [[0]], True, False, "", "a", "ab", *TIMES, b"a",
    Decimal("0.1"), Decimal(2**53 + 1), Decimal("Infinity"),
)  # fmt: skip
ONE_ARGUMENT = (
    "LENGTH",
    "ABS",
    "FLOOR",
    "ROUND",
    "INT",
    "FLOAT",
    "DECIMAL",
    "STRING",
    "LOWER",
    "BOOL",
    "TIMESTAMP",
)
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")

drawn_values = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(OTHERS), _edges.numbers, _edges.texts)


@st.composite
def edge_events(draw: st.DrawFn) -> Event:
    found = {name: draw(drawn_values) for name in NAMES if draw(st.integers(0, 5))}
    return make_event(
        found, source="s", id="1", topic=draw(st.none() | st.sampled_from(TOPICS)),
        time=draw(st.none() | st.sampled_from(TIMES)), type=draw(st.none() | st.just("Cat")),
    )  # fmt: skip


_attributes = st.sampled_from((*NAMES, "time", "topic")).map(e.Attribute)
_constants = st.one_of(
    st.sampled_from(NUMBERS[:8]), st.sampled_from(("", "a", "ab", True, False, *TIMES)), _edges.numbers
).map(e.Literal)


def _terms() -> st.SearchStrategy[e.Expression]:
    call = st.builds(lambda name, part: e.Call(name, (part,)), st.sampled_from(ONE_ARGUMENT), _attributes)
    sides = st.one_of(_attributes, _constants)
    made = st.builds(e.Arithmetic, st.sampled_from("+-*/%"), _attributes, sides)
    return st.one_of(_attributes, _attributes, call, made, _attributes.map(e.Negate))


@st.composite
def contradictory(draw: st.DrawFn) -> Filter:
    """Two to four conditions on two terms: they often exclude each other, and often just not."""
    terms = draw(st.lists(_terms(), min_size=1, max_size=2))
    term, side = st.sampled_from(terms), st.one_of(st.sampled_from(terms), _constants)
    condition = st.one_of(
        st.builds(e.Compare, st.sampled_from(OPERATORS), term, side),
        st.builds(e.Compare, st.sampled_from(OPERATORS), side, term),
        st.builds(e.Between, term, side, side, st.booleans()),
        st.builds(e.In, term, st.lists(side, min_size=1, max_size=2).map(tuple), st.booleans()),
        st.builds(e.LikeTest, term, st.sampled_from(("a%", "b%", "%a", "a", "_")), st.booleans()),
        st.builds(e.NullTest, term, st.booleans()),
        st.builds(e.TopicTest, term, st.sampled_from(TOPIC_PATTERNS), st.booleans()),
    )
    condition = st.one_of(
        condition, condition, condition.map(e.Not), st.builds(e.Compare, st.just("="), condition, condition)
    )
    whole = draw(condition)
    for more in draw(st.lists(condition, min_size=1, max_size=3)):
        whole = e.And(whole, more)
    return normalise(whole, text="drawn")


@settings(max_examples=600, deadline=None)
@given(contradictory(), st.lists(edge_events(), min_size=4, max_size=12))
def test_no_drawn_event_matches_a_filter_that_cannot_match(filter: Filter, found: list[Event]) -> None:
    verdict = can_match(filter)
    assert decide_overlaps(filter, filter) is verdict
    if verdict is False:
        assert not any(accepts(filter, event) for event in found)


@settings(max_examples=200, deadline=None)
@given(conditions, st.lists(events(), min_size=1, max_size=8))
def test_no_event_matches_a_condition_that_cannot_match(condition: e.Expression, found: list[Event]) -> None:
    filter = normalise(condition, text="drawn")
    if can_match(filter) is False:
        assert not any(accepts(filter, event) for event in found)


@settings(max_examples=200, deadline=None)
@given(contradictory(), contradictory(), st.lists(edge_events(), min_size=4, max_size=12))
def test_no_drawn_event_matches_two_filters_without_a_common_one(
    one: Filter, other: Filter, found: list[Event]
) -> None:
    verdict = decide_overlaps(one, other)
    assert decide_overlaps(other, one) is verdict
    if verdict is False:
        assert not any(accepts(one, event) and accepts(other, event) for event in found)


@settings(max_examples=150, deadline=None)
@given(st.lists(filters, min_size=1, max_size=7), st.lists(events(), min_size=1, max_size=6))
def test_redundant_filters_can_be_dropped_together(some: list[Filter], found: list[Event]) -> None:
    some = [*some, some[0]]
    dropped = redundant(some)
    kept = [filter for position, filter in enumerate(some) if position not in dropped]
    for event in found:
        assert any(accepts(filter, event) for filter in kept) is any(
            accepts(filter, event) for filter in some
        )
    for position, cover in dropped.items():
        assert cover not in dropped
        assert can_match(some[position]) is False if cover is None else covers(some[cover], some[position])
    assert not any(covers(one, other) for one in kept for other in kept if one is not other)

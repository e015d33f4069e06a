"""What was told, against a set of (filter, log, offset)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.availability.delivered_ranges import KEEP_SECONDS, MAX_SPANS, DeliveredRange, DeliveredRanges
from tidings.model.constraint import Equals
from tidings.model.event import Event, make_event
from tidings.model.filter import Conjunction, Filter

FILTERS = {name: Filter(f"kind = '{name}'", (Conjunction((Equals("kind", name),)),)) for name in "xy"}
TEXTS = {filter.text: filter for filter in FILTERS.values()}


def accepts(filter: Filter, event: Event) -> bool:
    return filter.conjunctions[0].constraints[0].accepts(event.get("kind"))


def event(kind: str) -> Event:
    return make_event({"kind": kind}, source="s", id="1")


def restarted(delivered: DeliveredRanges) -> DeliveredRanges:
    return DeliveredRanges.decode(delivered.encode(), lambda text, dialect: TEXTS[text])


spans = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from("ab"), st.integers(1, 12), st.integers(1, 12))
)


@given(spans)
def test_told_is_what_a_set_says(plan: list[tuple[str, str, int, int]]) -> None:
    delivered, oracle = DeliveredRanges(), set[tuple[str, str, int]]()
    for name, log, start, stop in plan:
        delivered.add(FILTERS[name], log, start, stop)
        oracle |= {(name, log, offset) for offset in range(start, stop)}
        delivered = restarted(delivered)
    for name in "xy":
        for log in "ab":
            for offset in range(14):
                assert delivered.was_delivered(event(name), log, offset, accepts) == (
                    (name, log, offset) in oracle
                )
    for one in delivered.spans:
        assert not any(one.joins(other) for other in delivered.spans if other is not one), (
            "merged as far as it goes"
        )


@given(spans, st.sampled_from("ab"), st.integers(1, 12))
def test_pruning_changes_nothing_above(plan: list[tuple[str, str, int, int]], log: str, first: int) -> None:
    delivered, pruned = DeliveredRanges(), DeliveredRanges()
    for name, of, start, stop in plan:
        delivered.add(FILTERS[name], of, start, stop)
        pruned.add(FILTERS[name], of, start, stop)
    pruned.prune(log, first)
    for name in "xy":
        for offset in range(first, 14):
            assert pruned.was_delivered(event(name), log, offset, accepts) == delivered.was_delivered(
                event(name), log, offset, accepts
            )
    assert all(span.stop > first for span in pruned.spans if span.log == log)


def test_at_the_bound_it_may_tell_twice_but_never_loses() -> None:
    delivered = DeliveredRanges(max_spans=3)
    for start in (10, 20, 30, 40, 50):
        delivered.add(FILTERS["x"], "a", start, start + 2)
    assert [span.start for span in delivered.spans] == [30, 40, 50]
    assert delivered.given_up == 2
    assert not delivered.was_delivered(event("x"), "a", 10, accepts)
    assert not delivered.was_delivered(event("x"), "a", 45, accepts), "nothing was merged across a hole"
    assert restarted(delivered).given_up == 2


def test_a_change_of_filter_tells_only_the_difference() -> None:
    delivered = DeliveredRanges()
    delivered.add(FILTERS["x"], "a", 1, 100)
    assert delivered.was_delivered(event("x"), "a", 50, accepts)
    assert not delivered.was_delivered(event("y"), "a", 50, accepts)
    assert not delivered.was_delivered(event("x"), "a", 100, accepts)
    assert not delivered.was_delivered(event("x"), "b", 50, accepts)


def test_one_meaning_in_two_texts_is_one_span() -> None:
    delivered = DeliveredRanges()
    delivered.add(FILTERS["x"], "a", 1, 5)
    delivered.add(Filter("'x' = kind", FILTERS["x"].conjunctions), "a", 5, 9)
    assert [(span.start, span.stop) for span in delivered.spans] == [(1, 9)]


def test_an_ended_subscription_is_remembered_for_seven_days() -> None:
    delivered = DeliveredRanges()
    assert not delivered.is_over(1e12), "a living one is never over"
    delivered.end(1000.0)
    delivered = restarted(delivered)
    assert not delivered.is_over(1000.0 + KEEP_SECONDS - 1)
    assert delivered.is_over(1000.0 + KEEP_SECONDS)
    delivered.resume()
    assert not delivered.is_over(1e12)
    assert KEEP_SECONDS == 7 * 86400


def test_spans_join_only_within_a_log() -> None:
    assert not DeliveredRange(FILTERS["x"], "a", 1, 5).joins(DeliveredRange(FILTERS["x"], "b", 1, 5))


@given(spans)
def test_several_logs_at_once_are_the_same_as_one_by_one(plan: list[tuple[str, str, int, int]]) -> None:
    one_by_one, at_once = DeliveredRanges(), DeliveredRanges()
    for step, (name, _, start, stop) in enumerate(plan):
        token = [("a", start, stop), ("b", start, stop + step % 3), ("c", start, stop + step % 2)]
        for log, begin, end in token:
            one_by_one.add(FILTERS[name], log, begin, end)
        at_once.add_all(FILTERS[name], token)
        assert sorted(map(repr, at_once.spans)) == sorted(map(repr, one_by_one.spans))


def test_a_token_of_many_logs_looks_at_each_span_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """16,384 logs in a token of anybody stopped a broker for half a minute: each was compared with all."""
    looked: list[DeliveredRange] = []
    joins = DeliveredRange.joins

    def counted(span: DeliveredRange, other: DeliveredRange) -> bool:
        looked.append(span)
        return joins(span, other)

    monkeypatch.setattr(DeliveredRange, "joins", counted)
    delivered = DeliveredRanges()
    delivered.add(FILTERS["x"], "log 1", 0, 5)
    delivered.add_all(FILTERS["x"], ((f"log {number}", 0, number + 1) for number in range(16_384)))
    assert len(looked) <= 1
    assert len(delivered.spans) == MAX_SPANS
    assert min(span.stop for span in delivered.spans) == 16_384 - MAX_SPANS + 1

"""Lifetimes and the queue of ends, against a dictionary (BAL-2: availability 0, Δ and forever)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.availability.lifetime import ExpiryQueue, available, expired, remaining
from tidings.availability.records import Append, Entry, entry_of
from tidings.model.event import FOREVER, make_event


def made(lifetime: float, expires_at: float | None = None) -> Append:
    event = make_event({}, source="s", id="1", lifetime=lifetime)
    return Append(1, event, accepted=100.0, expires_at=expires_at)


@pytest.mark.parametrize(
    ("lifetime", "expires_at", "now", "is_available", "is_expired", "left"),
    [
        (0, None, 100.0, False, False, 0.0),
        (10, None, 109.9, True, False, pytest.approx(0.1)),
        (10, None, 110.0, False, False, 0.0),
        (FOREVER, None, 1e12, True, False, math.inf),
        (FOREVER, 105.0, 104.0, True, False, 1.0),
        (FOREVER, 105.0, 105.0, False, True, 0.0),
        (10, 200.0, 150.0, False, False, 0.0),
        (10, 105.0, 99.0, True, False, 6.0),
    ],
)
def test_availability(
    lifetime: float, expires_at: float | None, now: float, is_available: bool, is_expired: bool, left: float
) -> None:
    for entry in (made(lifetime, expires_at), entry_of(made(lifetime, expires_at))):
        assert available(entry, now) == is_available
        assert expired(entry, now) == is_expired
        assert remaining(entry, now) == left


ends = st.one_of(st.integers(0, 20).map(float), st.just(math.inf))
steps = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 10), ends),
    st.tuples(st.just("discard"), st.integers(1, 10)),
    st.tuples(st.just("collect"), st.integers(0, 4), ends),
)


@given(st.lists(steps))
def test_the_queue_is_a_sorted_dictionary(plan: list[tuple]) -> None:
    queue, oracle = ExpiryQueue(), dict[int, float]()
    for step in plan:
        match step:
            case ("add", offset, end):
                queue.add(offset, end)
                oracle[offset] = end
            case ("discard", offset):
                queue.discard(offset)
                oracle.pop(offset, None)
            case ("collect", budget, now):
                due = sorted(
                    (end, offset) for offset, end in oracle.items() if end <= now and end != math.inf
                )
                assert queue.collect(now, budget) == [offset for _, offset in due[:budget]]
                for _, offset in due[:budget]:
                    del oracle[offset]
        oracle = {offset: end for offset, end in oracle.items() if end != math.inf}
        assert len(queue) == len(oracle)
        assert queue.next_at() == min(oracle.values(), default=None)


def test_it_is_rebuilt_from_the_index() -> None:
    entries = [
        Entry(offset, "s", str(offset), 0.0, ends_at)
        for offset, ends_at in ((1, 9.0), (2, math.inf), (3, 4.0))
    ]
    queue = ExpiryQueue(entries)
    assert queue.next_at() == 4.0
    assert queue.collect(100.0, 10) == [3, 1]
    assert queue.next_at() is None


def test_memory_follows_what_is_in_the_queue() -> None:
    queue = ExpiryQueue()
    for offset in range(10_000):
        queue.add(offset, 1e9 + offset)
        queue.discard(offset - 5)
    assert len(queue) == 5
    assert len(queue.heap) < 200

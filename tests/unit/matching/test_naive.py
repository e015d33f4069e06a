"""The oracle itself, on cases that a reader can check by eye."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.matching.matcher import Matcher, Matches
from tidings.matching.naive import Handles, NaiveMatcher
from tidings.model.event import Event, make_event


def event(**attributes: Any) -> Event:
    return make_event(attributes, source="s", id="1")


def test_every_filter_that_accepts_is_named_once_in_order() -> None:
    matcher: Matcher = NaiveMatcher()
    texts = ["a = 1", "a = 1 OR a > 0", "FALSE", "TRUE", "b = 1"]
    assert [matcher.add(parse_filter(text)) for text in texts] == [0, 1, 2, 3, 4]
    assert matcher.match(event(a=1)) == [0, 1, 3]
    assert matcher.match(event(b=1)) == [3, 4]


def test_a_batch_is_offsets_and_handles() -> None:
    matcher = NaiveMatcher()
    matcher.add(parse_filter("a = 1"))
    matcher.add(parse_filter("a > 0"))
    assert matcher.match_batch([event(a=1), event(), event(a=2)]) == Matches([0, 2, 2, 3], [0, 1, 1])


def test_a_removed_handle_is_unknown_until_it_is_given_again() -> None:
    matcher = NaiveMatcher()
    everything = parse_filter("TRUE")
    for _ in range(4):
        matcher.add(everything)
    matcher.remove(2)
    matcher.remove(0)
    assert matcher.match(event()) == [1, 3]
    with pytest.raises(KeyError):
        matcher.remove(2)
    assert [matcher.add(everything) for _ in range(3)] == [0, 2, 4]
    assert matcher.stats() == {"engine": "naive", "filters": 5}
    assert matcher.maintain(100) == 0


def test_handles_come_back_smallest_first() -> None:
    handles = Handles()
    assert [handles.take() for _ in range(3)] == [0, 1, 2]
    handles.give_back(2)
    handles.give_back(0)
    assert [handles.take() for _ in range(3)] == [0, 2, 3]

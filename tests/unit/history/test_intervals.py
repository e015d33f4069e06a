"""Pairing up subscriptions and unsubscriptions."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from tests.unit.history.play import Play

from tidings.errors import HistoryError
from tidings.history.facts import Operation, facts_of
from tidings.history.intervals import Interval, intervals_of, pair_up
from tidings.history.schema import crash_row

INF = math.inf


def operations(play: Play) -> list[Operation]:
    found: list[Operation] = facts_of(play.rows)[Operation]
    return found


def intervals(play: Play) -> list[Interval]:
    return list(intervals_of(operations(play)))


def spans(play: Play) -> list[tuple[float, float]]:
    return [(each.start, each.end) for each in intervals(play)]


def test_a_usub_ends_the_latest_open_sub_of_its_name() -> None:
    play = Play().sub(1, "p", "x = 1").usub(3, "p").sub(5, "p", "x = 1")
    assert spans(play) == [(1, 3), (5, INF)]
    two = (
        Play().sub(1, "p", "x = 1", "one").sub(2, "p", "x = 2", "two").usub(3, "p", "one").usub(4, "p", "two")
    )
    assert spans(two) == [(1, 3), (2, 4)]


def test_subscribing_again_resumes_and_a_crash_ends_all() -> None:
    assert spans(Play().sub(1, "p", "x = 1").sub(4, "p", "x = 2").usub(6, "p")) == [(1, 4), (4, 6)]
    crashed = Play().sub(1, "p", "x = 1", "one").sub(2, "p", "x = 1", "two").row(crash_row, 5, "p")
    assert spans(crashed) == [(1, 5), (2, 5)]


def test_refused_operations_did_nothing() -> None:
    assert spans(Play().sub(1, "p", "x = 1", outcome="refused")) == []
    assert spans(Play().sub(1, "p", "x = 1").usub(2, "p", outcome="refused").usub(5, "p")) == [(1, 5)]


def test_an_unknown_sub_may_be_on_and_an_unknown_usub_may_have_ended_it() -> None:
    (maybe,) = intervals(Play().sub(1, "p", "x = 1", outcome="unknown").usub(4, "p"))
    assert (maybe.sure, maybe.end) == (False, 4)
    (doubtful,) = intervals(Play().sub(1, "p", "x = 1").usub(2, "p", outcome="unknown").usub(3, "p"))
    assert (doubtful.sure, doubtful.sure_end, doubtful.end) == (True, 2, 3)
    (open_end,) = intervals(Play().sub(1, "p", "x = 1").usub(2, "p", outcome="unknown"))
    assert (open_end.sure_end, open_end.end) == (2, INF)
    twice = Play().sub(1, "p", "x = 1").usub(2, "p", outcome="unknown").usub(3, "p", outcome="unknown")
    assert intervals(twice)[0].sure_end == 2


def since(play: Play) -> list[float]:
    return [each.since for each in intervals(play)]


def test_a_durable_subscription_stands_while_it_is_detached() -> None:
    assert since(Play().sub(1, "p", "x = 1").usub(3, "p", detach=True).sub(5, "p", "x = 1")) == [1, 1]
    assert since(Play().sub(1, "p", "x = 1").row(crash_row, 3, "p").sub(5, "p", "x = 1")) == [1, 1]
    assert since(Play().sub(1, "p", "x = 1").sub(5, "p", "x = 1")) == [1, 1]


def test_what_ended_or_changed_or_is_doubtful_does_not_stand() -> None:
    assert since(Play().sub(1, "p", "x = 1").usub(3, "p").sub(5, "p", "x = 1")) == [1, 5]
    assert since(Play().sub(1, "p", "x = 1").usub(3, "p", detach=True).sub(5, "p", "x = 2")) == [1, 5]
    unsure = Play().sub(1, "p", "x = 1", outcome="unknown").sub(5, "p", "x = 1")
    assert since(unsure) == [1, 5]
    doubtful = Play().sub(1, "p", "x = 1").usub(2, "p", outcome="unknown").sub(5, "p", "x = 1")
    assert since(doubtful) == [1, 5]


def test_resuming_without_a_filter_keeps_the_old_one() -> None:
    play = Play().sub(1, "p", "x = 1").usub(3, "p", detach=True).sub(5, "p", "x = 1").changed(2, filter=None)
    assert [each.filter for each in intervals(play)] == ["x = 1", "x = 1"]
    with pytest.raises(HistoryError, match="no filter"):
        intervals(Play().sub(5, "p", "x = 1").changed(0, filter=None))


def test_operations_of_one_instant_are_read_as_they_make_sense() -> None:
    """Whatever the order of the rows: the old one ends, the new one begins."""
    play = (
        Play().sub(1, "p", "x = 1", "one").usub(5, "p", "one").sub(5, "p", "x = 2", "one").usub(9, "p", "one")
    )
    for rows in permutations(play.rows):
        assert spans(play._changed(list(rows))) == [(1, 5), (5, 9)]
        assert [pair.sub is None for pair in pair_up(operations(play._changed(list(rows))))] == [False, False]
    at_once = Play().sub(5, "p", "x = 1").usub(5, "p")
    for rows in permutations(at_once.rows):
        assert spans(at_once._changed(list(rows))) == [(5, 5)]


def test_a_row_without_a_subscription_speaks_of_the_only_one() -> None:
    play = Play().sub(1, "p", "x = 1").pub(2, "e").told(3, "p", "e").usub(4, "p")
    for position in (0, 2, 3):
        play = play.changed(position, subscription=None)
    assert play.check(contract="Intermediary").broken == []
    other = play.sub(0, "q", "x = 1").usub(9, "q").changed(4, subscription=None).changed(5, subscription=None)
    assert other.check(contract="Intermediary").broken == ["completeness"]  # q has its own
    both = other.told(3, "q", "e").changed(6, subscription=None)
    assert both.check().broken == []


def test_where_two_intervals_touch_either_filter_will_do() -> None:
    play = Play().sub(1, "p", "x = 1").sub(5, "p", "x = 2").pub(2, "old", {"x": 1}).pub(3, "new", {"x": 2})
    assert play.told(5, "p", "old").told(5, "p", "new").check()["legality"].holds is True
    assert play.told(5.1, "p", "old").check()["legality"].holds is False

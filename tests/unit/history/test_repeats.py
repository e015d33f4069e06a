"""Which rows called redeliveries a history bears out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.history.play import Play

from tidings.history.schema import crash_row, nack_row, suspect_row


def play(*, end: bool = True) -> Play:
    """One event, told to p at 2."""
    begun = Play().sub(0, "p", "x = 1", broker="b1").pub(1, "a").told(2, "p", "a", broker="b1")
    return begun.usub(3, "p", detach=True) if end else begun


def again(begun: Play, time: float = 9, who: str = "p", broker: str = "b1") -> list[str]:
    """What is broken when the event is told once more, and that is called a redelivery."""
    begun.sub(time - 1, who, "x = 1", "p", broker=broker)
    return begun.told(time, who, "a", "p", redelivery=True, broker=broker).check(contract="Tidings").broken


def test_committed_events_that_come_again_are_told_twice() -> None:
    assert again(play()) == ["minimality"]
    assert again(play(), broker="b2") == ["minimality"]


def test_what_was_given_back_or_left_uncommitted_may_come_again() -> None:
    assert again(play().row(nack_row, 3, "p", "p", "a")) == []
    assert again(play().row(nack_row, 3, "p", "other", "a")) == ["minimality"]
    twice = play().row(nack_row, 3, "p", "p", "a").told(5, "p", "a", redelivery=True)
    assert "minimality" in again(twice.usub(6, "p", detach=True)), "it was given back once"


def test_a_client_that_never_left_may_have_crashed() -> None:
    assert again(play(end=False)) == []
    assert again(play(end=False).row(crash_row, 4, "p")) == []


@pytest.mark.parametrize(
    ("broken_off", "verdict"),
    [
        ((crash_row, 4, "b1"), []),
        ((crash_row, 4, "b2"), ["minimality"]),
        ((crash_row, 1.5, "b1"), ["minimality"]),
        ((suspect_row, 4, "p", "b1"), []),
        ((suspect_row, 4, "p", "b2"), ["minimality"]),
        ((suspect_row, 4, "q", "b1"), ["minimality"]),
        ((suspect_row, 9.5, "p", "b1"), ["minimality"]),
    ],
)
def test_a_broker_that_was_lost_may_not_have_heard_the_commit(
    broken_off: tuple[Any, ...], verdict: list[str]
) -> None:
    assert again(play().row(*broken_off)) == verdict


def test_a_group_gives_on_what_a_member_without_a_word_had() -> None:
    """The other member hears of it before the first one says, if ever, that it lost its broker."""
    assert again(play(end=False), who="q") == []
    assert again(play(), who="q") == ["minimality"]
    assert again(play().row(suspect_row, 20, "p", "b1"), who="q") == []


def test_a_first_notification_is_none_whatever_it_is_called() -> None:
    """Found by a user: after a restart every row was called a redelivery, and disorder passed for order."""
    begun = Play().sub(0, "p", "x = 1").pub(1, "a").pub(2, "b")
    begun.told(3, "p", "b", redelivery=True).told(4, "p", "a", redelivery=True)
    assert begun.check().broken == ["fifo"]

"""What a client knows to have been told under a name, when it comes back to it with the same filter or
another."""

from __future__ import annotations

import pytest

from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Position, SubscriptionId
from tidings.protocol.client_subscription import ClientSubscription
from tidings.protocol.messages import Deliver
from tidings.protocol.resume_tokens import MOST, ResumeTokens


def listening(filter: str, *, after: dict[str, int] | None = None) -> ClientSubscription:
    subscription = ClientSubscription(
        1, 1, SubscriptionId("s", "n"), parse_filter(filter), DeliveryOptions(durable=True),
        named=True, window=1, auto=True, after=after or {},
    )  # fmt: skip
    subscription.is_resumed = True  # a broker was asked for it
    return subscription


def told(of: ClientSubscription, x: int, offset: int) -> bool:
    event = make_event({"x": x}, source="p", id=str(offset))
    return of.was_delivered(Deliver(1, 1, event, Position("log", offset)))


def test_the_same_filter_goes_on_from_the_token() -> None:
    tokens = ResumeTokens(8)
    tokens.leave(listening("x < 5", after={"log": 7}))
    back = listening("x < 5")
    tokens.resume(back)
    assert back.after == {"log": 7}
    assert not back.delivered


def test_another_filter_was_told_what_the_first_wanted() -> None:
    tokens = ResumeTokens(8)
    tokens.leave(listening("x < 5", after={"log": 7}))
    back = listening("x < 9")
    tokens.resume(back)
    assert not back.after
    assert told(back, x=1, offset=7)
    assert not told(back, x=6, offset=7), "the first did not want it"
    assert not told(back, x=1, offset=8), "it came later"


def test_an_application_that_says_where_to_begin_hears_again_what_it_asks_for() -> None:
    tokens = ResumeTokens(8)
    tokens.leave(listening("x < 5", after={"log": 7}))
    back = listening("x < 9", after={"log": 2})
    tokens.resume(back)
    assert back.after == {"log": 2}
    assert not told(back, x=1, offset=7)


def test_one_that_was_ended_begins_anew() -> None:
    tokens = ResumeTokens(8)
    ended = listening("x < 5", after={"log": 7})
    ended.must_end = True
    tokens.leave(ended)
    back = listening("x < 9")
    tokens.resume(back)
    assert not told(back, x=1, offset=7)


def test_several_filters_of_a_name_are_remembered_and_no_more_than_that() -> None:
    tokens = ResumeTokens(8)
    for number in range(MOST + 2):
        one = listening(f"x = {number}")
        tokens.resume(one)
        one.after = {"log": number + 1}
        tokens.leave(one)
    back = listening("x >= 0")
    tokens.resume(back)
    assert [told(back, x=n, offset=1) for n in range(MOST + 2)] == [False, False] + [True] * MOST


def committed_ahead(tokens: ResumeTokens) -> ClientSubscription:
    """A subscription that has committed an event beyond its token."""
    first = listening("x < 5")
    tokens.resume(first)
    first.after = {"log": 7}
    first.commits_ahead(Position("log", 9))
    return first


def committed(of: ClientSubscription) -> bool:
    event = make_event({"x": 1}, source="p", id="9")
    return of.was_committed(Deliver(1, 1, event, Position("log", 9)))


@pytest.mark.parametrize(
    ("ends", "filter", "after", "expected"),
    [
        (False, "x < 5", {}, True),
        (False, "x < 9", {}, True),
        (False, "x < 5", {"log": 2}, False),  # the application says where to begin
        (True, "x < 5", {}, True),
        (True, "x < 9", {}, False),  # it was ended, and begins anew
    ],
)
def test_commits_beyond_the_token_are_forgotten_when_the_application_asks_for_them(
    ends: bool, filter: str, after: dict[str, int], expected: bool
) -> None:
    tokens = ResumeTokens(8)
    first = committed_ahead(tokens)
    first.must_end = ends
    tokens.leave(first)
    back = listening(filter, after=after)
    tokens.resume(back)
    assert committed(back) is expected

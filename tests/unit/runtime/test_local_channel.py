"""Publishes and deliveries of a local client that pass its machine by."""

from __future__ import annotations

from random import Random
from typing import Any

from tidings.model.event import Event, make_event
from tidings.model.subscription import Position
from tidings.protocol import messages as msg
from tidings.protocol.client import Client
from tidings.protocol.effects import CallFailed
from tidings.protocol.messages import AckMode
from tidings.runtime.local_channel import LocalChannel


def opened() -> tuple[LocalChannel, list[Any]]:
    """A channel, and what it sent."""
    channel = LocalChannel(Client("c", "", rng=Random(1), incarnation="i"))
    sent: list[Any] = []
    channel.send = sent.extend
    return channel, sent


def events(count: int) -> list[Event]:
    return [make_event({}, source="c", id="-") for _ in range(count)]


def publish(channel: LocalChannel, call: int, count: int) -> list[Any]:
    """Publish so many; the answers, as they come."""
    answers: list[Any] = []
    channel.publish(call, events(count), [True] * count, AckMode.AUTO, answers.extend)
    return answers


def test_events_are_numbered_in_order_and_answered_together() -> None:
    channel, sent = opened()
    answers = publish(channel, 1, 3)
    assert [(each.call, each.event.id, each.sequence) for each in sent] == [
        (1, "i-1", 1), (2, "i-2", 2), (3, "i-3", 3),
    ]  # fmt: skip
    assert channel.receive(msg.PublishedAll(1, 2))
    assert not answers
    assert channel.receive(msg.Published(3, Position("b", 7)))
    assert answers == [None, None, None]


def test_a_refusal_is_the_answer_of_its_event_alone() -> None:
    channel, _ = opened()
    answers = publish(channel, 5, 2)
    assert channel.receive(msg.Refused(6, "full", "no room"))
    assert channel.receive(msg.Published(5))
    assert answers == [None, CallFailed(6, "full", "no room", "i-2")]


def test_an_answer_for_the_machine_goes_to_the_machine() -> None:
    channel, _ = opened()
    assert not channel.receive(msg.Refused(9, "full", "no room"))
    assert not channel.receive(msg.Welcome("b", "b"))


def test_unanswered_events_are_sent_again_on_the_next_link() -> None:
    channel, sent = opened()
    answers = publish(channel, 1, 3)
    channel.receive(msg.Published(2))
    sent.clear()
    channel.resume()
    assert [each.event.id for each in sent] == ["i-1", "i-3"]
    channel.receive(msg.PublishedAll(1, 3))
    assert len(answers) == 3


def test_all_are_answered_when_the_link_has_ended() -> None:
    channel, _ = opened()
    answers = publish(channel, 1, 2)
    channel.receive(msg.Published(1))
    channel.fail("refused", "you are out")
    assert answers == [None, CallFailed(2, "refused", "you are out", "i-2")]


def test_live_events_are_taken_together_and_give_their_credit_back() -> None:
    channel, sent = opened()
    taken: list[tuple[Event, ...]] = []
    channel.take_by(4, taken.append)
    some = tuple(events(3))
    assert channel.receive(msg.DeliverAll(4, 10, some))
    assert channel.receive(msg.Deliver(4, 13, some[0]))
    assert taken == [some, some[:1]]
    assert sent == [msg.AckAll(4, 10, 3), msg.Credit(4, 3), msg.AckAll(4, 13, 1), msg.Credit(4, 1)]


def test_events_of_the_log_and_of_other_subscriptions_go_to_the_machine() -> None:
    channel, sent = opened()
    taken: list[tuple[Event, ...]] = []
    channel.take_by(4, taken.append)
    [event] = events(1)
    assert not channel.receive(msg.Deliver(4, 1, event, Position("b", 1)))
    assert not channel.receive(msg.DeliverAll(5, 1, (event,)))
    channel.take_by(4, None)
    assert not channel.receive(msg.Deliver(4, 2, event))
    assert not taken
    assert not sent

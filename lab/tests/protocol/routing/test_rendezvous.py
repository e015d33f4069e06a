"""Rendezvous trees and enrolment, one broker alone: what it says, to whom, and when again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.roles import KeyLookup
from tidings.protocol.slots import Overlay, Ports, Recovery, Routing
from tidings_lab.assignment.rendezvous import ByTopic
from tidings_lab.routing.direct import ToAccess
from tidings_lab.routing.keyed import MOST_HOPS, TreeSettings
from tidings_lab.routing.match_at_rendezvous import MatchAtRendezvous
from tidings_lab.routing.rendezvous import RendezvousTrees
from tidings_lab.routing.rendezvous_messages import (
    Climb,
    Descend,
    Enrol,
    Enrolled,
    Graft,
    Grafted,
    KeyUnwanted,
    KeyWanted,
    Prune,
)

KEY = "topic:a"
SETTINGS = TreeSettings(retry_seconds=1.0, tries=2, refresh_seconds=10.0, children_seconds=30.0)


class Ways(Overlay, KeyLookup):
    """Keys lead where the test says; nowhere else: we are responsible."""

    def __init__(self) -> None:
        self.ways: dict[str, str] = {}
        self.doubts: list[str] = []

    def next_hop(self, key: str) -> str | None:
        return self.ways.get(key)

    def reach(self, peer: str, message: Message, address: str = "") -> None:
        self.ports.send(peer, message, Channel.DATAGRAM)

    def doubted(self, peer: str, now: float) -> None:
        self.doubts.append(peer)


class Alone:
    def __init__(self, routing: Routing, **ways: str) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.taken: list[Envelope] = []
        ports = Ports()
        ports.name, ports.rng, ports.recording = "me", Random(1), False
        ports.send, ports.events = self._send, self  # type: ignore[assignment]
        self.overlay = Ways()
        self.overlay.bind(ports)
        self.overlay.ways.update({f"topic:{topic}": hop for topic, hop in ways.items()})
        ports.offer(self.overlay, Recovery(), ByTopic(), routing)
        self.routing: Any = routing
        routing.bind(ports)
        self.now = 0.0

    def _send(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None:
        assert channel is Channel.DATAGRAM
        self.sent.append((to, message))

    def arrived(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        self.taken += envelopes

    def received(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        self.arrived(envelopes, came_from, now)

    def take(self) -> list[tuple[str, Message]]:
        sent, self.sent = self.sent, []
        self.routing.check()
        return sent

    def subscribe(
        self, text: str = "x > 0", keys: Iterable[str] = (KEY,), *, ends: bool = False
    ) -> list[Any]:
        subscription = Subscription(SubscriptionId("s", "n"), parse_filter(text), DeliveryOptions())
        change = self.routing.interest_removed if ends else self.routing.interest_added
        change(subscription, tuple(keys), self.now)
        return self.take()

    def receive(self, sender: str, message: Message) -> list[tuple[str, Message]]:
        self.routing.on_message(sender, message, self.now)
        return self.take()

    def wait(self, seconds: float) -> list[tuple[str, Message]]:
        until = self.now + seconds
        while (due := self.routing.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.routing.on_timer(self.now)
        self.now = until
        return self.take()

    def move(self, topic: str, hop: str | None) -> list[tuple[str, Message]]:
        """The way to a topic's key changes."""
        self.overlay.ways.pop(f"topic:{topic}", None)
        if hop is not None:
            self.overlay.ways[f"topic:{topic}"] = hop
        self.routing.ways_changed(self.now)
        return self.take()

    def publish(self, *keys: str, number: int = 1) -> list[tuple[str, Message]]:
        self.routing.forward_one(envelope(number, "me"), keys or (KEY,), None, self.now)
        return self.take()


def envelope(number: int = 1, origin: str = "far", x: float = 1.0) -> Envelope:
    return Envelope(make_event({"x": x}, source="press", id=str(number), topic="a"), origin)


def trees(**options: Any) -> RendezvousTrees:
    return RendezvousTrees(SETTINGS, **options)


def graft(version: int, life: str = "L", filters: Any = None) -> Graft:
    return Graft(KEY, (life, version), filters)


def kinds(sent: list[tuple[str, Message]]) -> list[tuple[str, str]]:
    return [(to, type(message).__name__) for to, message in sent]


# -- trees -----------------------------------------------------------------------------------------


def test_the_first_subscription_grafts_and_the_last_one_prunes() -> None:
    alone = Alone(trees(), a="up")
    assert kinds(alone.subscribe()) == [("up", "Graft")]
    assert alone.subscribe("x > 1") == [], "it is in the tree already"
    assert alone.subscribe(ends=True) == []
    assert kinds(alone.subscribe("x > 1", ends=True)) == [("up", "Prune")]
    assert alone.routing.trees() == {}


def test_a_graft_is_repeated_until_it_is_acknowledged_then_refreshed() -> None:
    alone = Alone(trees(), a="up")
    ((_, first),) = alone.subscribe()
    assert kinds(alone.wait(1.5)) == [("up", "Graft")]
    assert alone.overlay.doubts == []
    ((_, again),) = alone.wait(1.0)
    assert alone.overlay.doubts == ["up"], "two in vain"
    assert isinstance(first, Graft)
    alone.receive("up", Grafted(KEY, first.version))
    assert alone.wait(0.9), "an answer to an earlier one is no answer"
    assert isinstance(again, Graft)
    ((_, last),) = alone.wait(1.0)
    assert isinstance(last, Graft)
    alone.receive("up", Grafted(KEY, last.version))
    assert alone.wait(7.9) == []
    assert kinds(alone.wait(2.1)) == [("up", "Graft")], "said again in time"


def test_a_child_makes_a_forwarder_and_is_forgotten_when_it_is_silent() -> None:
    alone = Alone(trees(), a="up")
    assert kinds(alone.receive("child", graft(1))) == [("child", "Grafted"), ("up", "Graft")]
    assert alone.routing.trees() == {KEY: ("up", ("child",), False)}
    assert alone.routing.table_size() == 1
    sent = alone.wait(31.0)
    assert kinds(sent)[-1] == ("up", "Prune")
    assert alone.routing.trees() == {}


def test_late_words_of_a_child_change_nothing_and_those_of_a_new_life_do() -> None:
    alone = Alone(trees(), a="up")
    alone.receive("child", graft(5))
    alone.receive("child", Prune(KEY, ("L", 4)))
    assert alone.routing.trees()[KEY][1] == ("child",), "an older word"
    alone.receive("child", graft(1, "M"))
    assert kinds(alone.receive("child", Prune(KEY, ("M", 2)))) == [("up", "Prune")]
    assert alone.receive("child", Prune(KEY, ("M", 3))) == [], "it is gone already"


def test_where_the_way_changes_the_tree_follows() -> None:
    alone = Alone(trees(), a="up")
    alone.subscribe()
    assert kinds(alone.move("a", "other")) == [("up", "Prune"), ("other", "Graft")]
    assert kinds(alone.move("a", None)) == [("other", "Prune")], "now we are the root"
    assert alone.routing.trees() == {KEY: (None, (), True)}
    assert kinds(alone.move("a", "newcomer")) == [("newcomer", "Graft")], "and now its child"


# -- events ----------------------------------------------------------------------------------------


def test_an_event_climbs_by_one_message_while_its_ways_are_one() -> None:
    alone = Alone(trees(), a="up", b="up", c="aside")
    sent = alone.publish(KEY, "topic:b", "topic:c")
    assert [(to, message.keys) for to, message in sent if isinstance(message, Climb)] == [
        ("up", (KEY, "topic:b")), ("aside", ("topic:c",)),
    ]  # fmt: skip
    ((to, message),) = alone.receive("below", Climb((KEY,), envelope(2), 3))
    assert isinstance(message, Climb)
    assert (to, message.hops) == ("up", 4)
    assert alone.taken == [], "nobody takes it on its way up"
    assert alone.receive("below", Climb((KEY,), envelope(3), MOST_HOPS)) == []
    assert alone.routing.dropped == 1


def test_the_root_sends_it_down_and_each_takes_it_once() -> None:
    alone = Alone(trees())
    alone.subscribe()
    alone.receive("child", graft(1))
    assert kinds(alone.receive("below", Climb((KEY,), envelope(), 2))) == [("child", "Descend")]
    assert len(alone.taken) == 1
    assert alone.receive("below", Climb((KEY,), envelope(), 2)) == []
    assert alone.receive("other", Descend((KEY,), envelope())) == []
    assert len(alone.taken) == 1


def test_who_published_it_passes_it_down_and_does_not_take_it_again() -> None:
    alone = Alone(trees(), a="up")
    alone.subscribe()
    alone.receive("child", graft(1))
    assert kinds(alone.publish()) == [("up", "Climb")]
    assert kinds(alone.receive("up", Descend((KEY,), envelope(1, "me")))) == [("child", "Descend")]
    assert alone.taken == []


def test_in_two_trees_a_broker_takes_an_event_once_and_passes_it_on_in_both() -> None:
    alone = Alone(trees(), a="up", b="up")
    alone.subscribe(keys=(KEY, "topic:b"))
    alone.receive("child", graft(1))
    alone.receive("child", Graft("topic:b", ("L", 2)))
    sent = alone.receive("up", Descend((KEY, "topic:b"), envelope()))
    assert sent == [("child", Descend((KEY, "topic:b"), envelope()))], "as one message"
    assert len(alone.taken) == 1
    assert alone.receive("up", Descend(("topic:b",), envelope())) == []


def test_an_event_for_a_tree_that_is_left_goes_nowhere() -> None:
    alone = Alone(trees(), a="up")
    assert alone.receive("up", Descend((KEY,), envelope())) == []
    assert alone.taken == []


def test_on_the_path_events_descend_only_where_they_are_wanted_and_grafts_say_what_is() -> None:
    wide, narrow = parse_filter("x > 0"), parse_filter("x > 5")
    alone = Alone(trees(on_path=True), a="up")
    ((_, first),) = alone.subscribe("x > 3")
    assert isinstance(first, Graft)
    assert [f.text for f in first.filters or ()] == ["x > 3"]
    assert kinds(alone.receive("low", graft(1, filters=(narrow,)))) == [("low", "Grafted")], "covered by ours"
    sent = alone.receive("high", graft(1, filters=(wide,)))
    assert [f.text for m in sent if isinstance(m[1], Graft) for f in m[1].filters or ()] == ["x > 0"]
    assert kinds(alone.receive("up", Descend((KEY,), envelope(1, x=2.0)))) == [("high", "Descend")]
    assert kinds(alone.receive("up", Descend((KEY,), envelope(2, x=6.0)))) == [
        ("low", "Descend"),
        ("high", "Descend"),
    ]
    assert alone.routing.table_size() == 2
    alone.receive("high", graft(2, filters=None))
    assert kinds(alone.receive("up", Descend((KEY,), envelope(3, x=-1.0)))) == [("high", "Descend")]
    sent = alone.receive("high", Prune(KEY, ("L", 3)))
    assert [f.text for m in sent if isinstance(m[1], Graft) for f in m[1].filters or ()] == ["x > 3"]


def test_people_are_told_over_which_links_an_event_is_wanted() -> None:
    tree = Alone(trees(on_path=True), a="up")
    tree.receive("child", graft(1, filters=(parse_filter("x > 3"),)))
    assert tree.routing.wants("child", envelope(x=5.0).event)
    assert not tree.routing.wants("child", envelope(x=1.0).event)
    assert not tree.routing.wants("up", envelope(x=5.0).event)
    root = Alone(MatchAtRendezvous(SETTINGS))
    root.receive("via", Enrol(KEY, "b1", ("L", 1), (parse_filter("x > 3"),), 2))
    assert root.routing.wants("b1", envelope(x=5.0).event)
    assert not root.routing.wants("b1", envelope(x=1.0).event)


# -- keys that nobody wants ------------------------------------------------------------------------


def test_a_root_without_a_tree_quenches_publishers_until_somebody_comes() -> None:
    root = Alone(trees(quenched=(KEY,)))
    assert kinds(root.receive("below", Climb((KEY,), envelope(), 2, "at far"))) == [("far", "KeyUnwanted")]
    assert kinds(root.receive("child", graft(1))) == [("child", "Grafted"), ("far", "KeyWanted")]
    assert kinds(root.receive("below", Climb((KEY,), envelope(2), 2))) == [("child", "Descend")]


def test_a_root_that_is_one_no_more_takes_its_word_back() -> None:
    root = Alone(trees(quenched=(KEY,)))
    root.receive("below", Climb((KEY,), envelope(), 2))
    assert root.move("a", "newcomer") == [("far", KeyWanted(KEY))]


def test_a_publisher_that_is_quenched_sends_nothing_for_a_while() -> None:
    alone = Alone(trees(quenched=(KEY,)), a="up")
    alone.receive("up", KeyUnwanted(KEY, 5.0))
    assert alone.publish(number=1) == []
    alone.now = 6.0
    assert kinds(alone.publish(number=2)) == [("up", "Climb")]
    alone.receive("up", KeyUnwanted(KEY, 5.0))
    alone.receive("up", KeyWanted(KEY))
    assert kinds(alone.publish(number=3)) == [("up", "Climb")]


# -- enrolment -------------------------------------------------------------------------------------


def test_subscriptions_are_enrolled_until_it_is_acknowledged_and_refreshed() -> None:
    alone = Alone(MatchAtRendezvous(SETTINGS), a="up")
    ((to, first),) = alone.subscribe()
    assert to == "up"
    assert isinstance(first, Enrol)
    assert (first.access, len(first.filters)) == ("me", 1)
    assert not alone.routing.agreed("up")
    assert kinds(alone.wait(1.5)) == [("up", "Enrol")]
    alone.receive("root", Enrolled(KEY, first.version))
    assert alone.routing.agreed("up")
    assert kinds(alone.wait(10.0)) == [("up", "Enrol")]
    ((_, gone),) = alone.subscribe(ends=True)
    assert isinstance(gone, Enrol)
    assert gone.filters == ()
    alone.receive("root", Enrolled(KEY, gone.version))
    assert alone.wait(100.0) == []


def test_the_broker_of_a_key_matches_and_sends_to_each_taker_once() -> None:
    root = Alone(MatchAtRendezvous(SETTINGS))
    filters = (parse_filter("x > 0"), parse_filter("x > 0.5"))
    assert kinds(root.receive("via", Enrol(KEY, "b1", ("L", 1), filters, 2, "at b1"))) == [("b1", "Enrolled")]
    root.receive("via", Enrol(KEY, "b2", ("L", 1), (parse_filter("x < 0"),), 2))
    root.subscribe("x > 0")
    assert root.routing.table_size() == 4
    assert root.receive("via", Climb((KEY,), envelope(), 2)) == [("b1", ToAccess(envelope()))]
    assert len(root.taken) == 1
    assert root.receive("via", Climb((KEY,), envelope(2, "b1"), 2)) == [], "it told its own clients"
    root.receive("via", Enrol(KEY, "b1", ("L", 0), ()))
    assert root.routing.table_size() == 4, "an older word"
    root.receive("via", Enrol(KEY, "b1", ("L", 2), ()))
    assert root.routing.table_size() == 2
    root.wait(31.0)
    assert root.routing.table_size() == 1, "b2 did not say it again; we did"


def test_when_another_broker_is_responsible_the_copies_move_there() -> None:
    root = Alone(MatchAtRendezvous(SETTINGS))
    root.receive("via", Enrol(KEY, "b1", ("L", 7), (parse_filter("x > 0"),), 2, "at b1"))
    ((to, moved),) = root.move("a", "newcomer")
    assert to == "newcomer"
    assert isinstance(moved, Enrol)
    assert (moved.access, moved.version, moved.address) == ("b1", ("L", 7), "at b1")
    assert root.routing.table_size() == 0


def test_what_comes_straight_is_taken_once() -> None:
    alone = Alone(MatchAtRendezvous(SETTINGS), a="up")
    alone.receive("root", ToAccess(envelope()))
    alone.receive("old root", ToAccess(envelope()))
    assert len(alone.taken) == 1
    assert kinds(alone.publish(number=9)) == [("up", "Climb")]
    assert alone.receive("below", Climb((KEY,), envelope(5), MOST_HOPS + 1)) == []
    assert alone.routing.dropped == 1


@pytest.mark.parametrize("count", [1, 5])
def test_hermes_enrols_what_its_trees_want(count: int) -> None:
    alone = Alone(trees(enrolled=True), a="up")
    for number in range(count):
        alone.subscribe(f"x > {number}")
    sent = alone.wait(1.1)
    (enrol,) = [message for _, message in sent if isinstance(message, Enrol)]
    assert len(enrol.filters) == count

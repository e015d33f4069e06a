"""What comes to a peer of topics that are not its own."""

from __future__ import annotations

from random import Random

import pytest

from tidings.model.event import make_event
from tidings.protocol.membership.messages import PeerLeave
from tidings.protocol.membership.tables import KnownMember
from tidings.protocol.membership.topics import StaticTables, TopicTables
from tidings.protocol.messages import Envelope
from tidings.protocol.routing.topic_gossip import GossipEvents, GossipSettings, TopicGossip
from tidings.protocol.slots import Membership, Ports
from tidings.testing.ports import AloneStrategy


def rumour(topic: str, id: int = 1) -> GossipEvents:
    return GossipEvents(Envelope(make_event({}, topic=topic, source="p", id=str(id)), "p"))


def peer(membership: Membership, **settings: int) -> AloneStrategy:
    alone = AloneStrategy(TopicGossip(("a",), settings=GossipSettings(**settings)))
    alone.routing.ports.offer(membership)
    membership.bind(alone.routing.ports)
    return alone


def test_a_peer_that_takes_us_for_another_is_told() -> None:
    alone = peer(TopicTables())
    alone.receive("x", rumour("b/c"))
    assert alone.take() == [("x", PeerLeave(0, ("b/c", "b", "/")))]
    assert (alone.routing.late, alone.routing.parasites) == (1, 0)
    assert not alone.passed


def test_one_that_does_not_believe_it_breaks_the_promise() -> None:
    alone = peer(TopicTables(), corrections=2)
    for number in range(2):
        alone.receive("x", rumour("b", number))
    with pytest.raises(AssertionError, match="do not include"):
        alone.receive("x", rumour("b", 3))


def test_after_we_left_a_group_all_may_have_to_be_told_once_more() -> None:
    alone = peer(TopicTables(), corrections=1)
    alone.receive("x", rumour("b"))
    alone.subscribe("topic = 'b'")
    alone.unsubscribe("topic = 'b'")
    alone.receive("x", rumour("b", 2))
    assert (alone.routing.late, alone.routing.parasites) == (2, 0)


def test_with_given_tables_there_is_nothing_to_correct() -> None:
    alone = peer(StaticTables({}, {}))
    with pytest.raises(AssertionError, match="do not include"):
        alone.receive("x", rumour("b"))


def test_who_is_told_forgets_whatever_life_it_knew_us_by() -> None:
    """And says so to others, who were told the same of that life."""
    tables = TopicTables(topics=("b",))
    ports = Ports()
    ports.name, ports.rng = "x", Random(1)
    ports.send = lambda *_: None
    tables.bind(ports)
    tables.join("b", 0.0)
    tables.known["me"] = KnownMember(("b",), 7, 0.0)
    tables.views["b"].add("me")
    tables.on_message("me", PeerLeave(0, ("b", "/")), 0.0)
    assert tables.view("b") == ()
    assert tables.known["me"].topics == ()
    assert tables.known["me"].incarnation == 8

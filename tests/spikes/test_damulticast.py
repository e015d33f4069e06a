"""Spike: gossip over two topics without brokers (daMulticast, DAM-6): no parasite ever.

A slot per scope: membership knows a table for its own topic and one for the supertopic. An event of
`a/b` is gossiped among those of `a/b`; some elect themselves to hand it up to processes of `a`.
"""

from __future__ import annotations

import math

from tests.spikes._stage import Stage

from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Membership, Routing
from tidings.simulation.topology import Overlay

TOPICS = {f"p{n}": "a/b" if n < 60 else "a" for n in range(80)}
WATCHERS = {f"q{n}": "c" for n in range(10)}  # of another topic: they must see nothing
EVERYBODY = TOPICS | WATCHERS


class Gossip(Message, frozen=True):
    envelope: Envelope
    topic: str  # the group that it travels in


class Tables(Membership):
    """Everybody of a topic; a real one has partial views."""

    name = "tables"

    def view(self, scope: str = "") -> tuple[str, ...]:
        return tuple(name for name, topic in EVERYBODY.items() if topic == scope)


class TopicGossip(Routing):
    name = "topic gossip"
    messages = (Gossip,)

    def __init__(self, topic: str, c: int = 5, g: int = 5) -> None:
        self.topic = topic
        self.parent = topic.rpartition("/")[0]
        self.c = c
        self.g = g
        self.seen: set[tuple[str, str]] = set()
        self.received = 0

    def forward(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        self.seen.add(envelope.event.identity)
        members = self.ports.membership.view(self.topic)
        fan_out = math.floor(math.log(len(members)) + self.c)
        for peer in self.ports.membership.sample(fan_out, self.topic):
            self.ports.send(peer, Gossip(envelope, self.topic), Channel.DATAGRAM)
        if self.parent and self.ports.rng.random() < self.g / len(members):  # self-election
            for peer in self.ports.membership.sample(3, self.parent):
                self.ports.send(peer, Gossip(envelope, self.parent), Channel.DATAGRAM)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        assert isinstance(message, Gossip)
        self.received += 1
        if message.envelope.event.identity not in self.seen:
            self.ports.events.arrived(message.envelope, sender, now)


def test_an_event_of_a_subtopic_reaches_both_groups_and_nobody_else() -> None:
    overlay = Overlay(tuple(EVERYBODY), ())
    stage = Stage(
        overlay,
        lambda name, _: {"membership": Tables(), "routing": TopicGossip(EVERYBODY[name])},
        seed=11,
    )
    for name, topic in EVERYBODY.items():
        stage.want(name, f"topic MATCHES '{topic}/#'")
    stage.run(1.0)
    stage.say("p0", "e1", {}, topic="a/b")
    stage.run(5.0)
    reached = [name for name in TOPICS if stage.heard(name) == ["e1"]]
    assert len(reached) >= 0.97 * len(TOPICS)
    assert all(len(stage.heard(name)) <= 1 for name in EVERYBODY)
    assert all(stage.nodes[name].slots["routing"].received == 0 for name in WATCHERS)  # type: ignore[attr-defined]

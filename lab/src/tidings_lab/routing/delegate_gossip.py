"""Gossip down a tree of delegates: PMcast and hpcast (Eugster and Guerraoui 2002).

Rules
- A publisher sends to delegates on the highest level. A peer that hears an event for the first time gossips
  it on each level that it stands on, from the top down, one round apart, and no more (infect and die).
- On a level it draws floor(ln S + c) of those who gossip there; drawing itself is a turn lost.
- PMcast leaves out subtrees and peers without interest in the event's topic; membership knows the interests.
  A delegate gets what its subtree wants, so it may get what it does not want itself (`parasites`).
"""

from __future__ import annotations

import math

import msgspec

from tidings.history.schema import recv_row
from tidings.model.event import Event
from tidings.model.subscription import Subscription
from tidings.model.topic import ROOT
from tidings.protocol.effects import Channel, Record
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.routing.topic_gossip import GossipEvents, Identity
from tidings.protocol.topic_graph import TopicGraph, groups_of, over
from tidings_lab.membership.delegate_tree import DelegateTree


class DelegateSettings(msgspec.Struct, frozen=True, kw_only=True):
    c: float = 5.0
    round_seconds: float = 0.05  # between one level and the next
    remembered: int = 100_000  # events that are known again


class DelegateGossip(OneByOne):
    name = "gossip among delegates"
    messages = (GossipEvents,)

    def __init__(
        self, position: int, tree: DelegateTree, *, topics: tuple[str, ...], graph: TopicGraph,
        settings: DelegateSettings
    ) -> None:  # fmt: skip
        self.settings, self.graph = settings, graph
        self._levels = tree.levels_of(position)
        self._given = topics
        self._wanted: dict[str, int] = {}
        self._seen: dict[Identity, None] = {}
        self._due: list[tuple[float, int, Envelope]] = []  # when, level
        self._is_arriving = False
        self.received = self.parasites = self.late = self.payloads = self.handed_up = 0

    # -- interest --------------------------------------------------------------------------------

    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._given, *self._wanted)))

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        for topic in groups_of(subscription.filter):
            self._wanted[topic] = self._wanted.get(topic, 0) + 1

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        for topic in groups_of(subscription.filter):
            self._wanted[topic] -= 1
            if not self._wanted[topic]:
                del self._wanted[topic]

    def wanted_elsewhere(self, event: Event) -> bool:
        return True

    # -- the way of an event ---------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if not isinstance(message, GossipEvents):
            return
        event = message.envelope.event
        self.received += 1
        self.parasites += not any(self.graph.includes(topic, event.topic or ROOT) for topic in self.topics())
        if self.ports.recording:
            self.ports.emit(Record(recv_row(now, self.ports.name, event, sender)))
        if event.identity in self._seen:
            return
        self._is_arriving = True
        self.ports.events.received((message.envelope,), sender, now)
        self._is_arriving = False

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if envelope.event.identity in self._seen:
            return
        self._seen[envelope.event.identity] = None
        while len(self._seen) > self.settings.remembered:
            del self._seen[next(iter(self._seen))]
        if not self._is_arriving:
            self.handed_up += self._gossip(0, envelope)
        for step, level in enumerate(self._levels):
            if step:
                self._due.append((now + step * self.settings.round_seconds, level, envelope))
            else:
                self._gossip(level, envelope)

    def _gossip(self, level: int, envelope: Envelope) -> int:
        """Gossip an event; the number of copies sent."""
        pool = self.ports.members.view(over(str(level), envelope.event.topic or ROOT))
        fan = min(len(pool), math.floor(math.log(len(pool)) + self.settings.c)) if pool else 0
        others = [name for name in self.ports.rng.sample(pool, fan) if name != self.ports.name]
        for name in others:
            self.ports.send(name, GossipEvents(envelope), Channel.DATAGRAM)
        self.payloads += len(others)
        return len(others)

    # -- time --------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return min((at for at, _, _ in self._due), default=None)

    def on_timer(self, now: float) -> None:
        due = [each for each in self._due if each[0] <= now]
        self._due = [each for each in self._due if each[0] > now]
        for _, level, envelope in due:
            self._gossip(level, envelope)

"""Peers of a topic hierarchy in the event-driven simulator: groups, events, crashes, newcomers, and what came
of them.

    peers = Peers({"/": 10, "a": 100, "a/b": 1000}, seed=1, loss=0.15)
    peers.run(20)                       # tables fill
    heard = peers.publish("a/b")        # one event, and who heard it
    heard.reached("a")                  # part of the live peers of that group

Static tables (`static=True`) are those of the paper's simulation: drawn once, never repaired. One hop takes
one round (`ROUND` seconds), so that times can be compared with `rounds.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from tidings.protocol.inputs import Received
from tidings.protocol.membership.topics import StaticTables
from tidings.protocol.messages import Publish
from tidings.protocol.routing.topic_gossip import GossipEvents
from tidings.protocol.topic_graph import TopicGraph, over
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.world import World
from tidings.systems import find_system

ROUND = 0.01  # seconds of one hop


class EventOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one event."""

    topic: str
    began: float
    times: dict[str, float]  # by peer: when it first heard
    groups: dict[str, tuple[str, ...]]  # the live peers of each topic
    messages: dict[str, int]  # that were sent meanwhile, by the name of their class
    payloads: int  # messages with the event itself
    handed_up: int  # of these, between groups
    parasites: int

    def reached(self, topic: str) -> float:
        group = self.groups.get(topic, ())
        return sum(name in self.times for name in group) / len(group) if group else 1.0

    def last_round(self, topic: str) -> int | None:
        times = [self.times[name] for name in self.groups.get(topic, ()) if name in self.times]
        return round((max(times) - self.began) / ROUND) if times else None

    @property
    def payloads_per_delivery(self) -> float:
        return self.payloads / max(1, len(self.times) - 1)


class Peers:
    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        seed: int = 1,
        loss: float = 0.0,
        static: bool = False,
        system: str = "damulticast",
        gossip: dict[str, Any] | None = None,
        tables: dict[str, Any] | None = None,
        supers: dict[str, tuple[str, ...]] | None = None,
        more: dict[str, Any] | None = None,
        check: bool = False,
        record: bool = False,
    ) -> None:
        self.sizes = dict(sizes)
        self.gossip = gossip or {}
        self.graph = TopicGraph(supers)
        self.topics: dict[str, tuple[str, ...]] = {
            f"{topic}:{n}": (topic,) for topic, size in sizes.items() for n in range(size)
        }
        self._rng = Random(f"{seed}/peers")
        options: dict[str, Any] = {
            "topics": self.topics, "gossip": self.gossip, "supers": supers or {}, **(more or {}),
        }  # fmt: skip
        takes = find_system(system).options
        if "tables" in takes:
            options["tables"] = tables or {}
        if static and "membership" in takes:
            options["membership"] = lambda name: StaticTables({}, self._members)
        self._members: dict[str, int] = {}  # of each group, when tables are static
        settings = SimulationSettings(link_seconds=ROUND, check=check)
        overlay = OverlayGraph(tuple(self._mixed(list(self.topics))), ())
        self.world = World(system, overlay, seed=seed, settings=settings, options=options, record=record)
        self.world.simulation.plan(FaultPlan(Rates(loss=loss)))
        self._clients: set[str] = set()
        self._next = 0
        if static and "membership" in takes:
            self.draw_tables()

    def _mixed(self, names: list[str]) -> list[str]:
        """Shuffle the names: newcomers ask the first ones, which then are of any topic."""
        self._rng.shuffle(names)
        return names

    @property
    def now(self) -> float:
        return self.world.simulation.now

    def run(self, seconds: float) -> None:
        self.world.run(self.now + seconds)

    def node(self, name: str) -> Any:
        return self.world.simulation.hosts[name].machine

    def is_up(self, name: str) -> bool:
        return self.world.simulation.hosts[name].up

    def alive(self, topic: str) -> tuple[str, ...]:
        return tuple(name for name, topics in self.topics.items() if topic in topics and self.is_up(name))

    # -- fixed tables ----------------------------------------------------------------------------

    def draw_tables(self, c: float = 5.0) -> None:
        """New static tables for every peer, uniformly at random: for each group a peer is in, for those above
        it, and of all peers where its algorithm uses one."""
        routings = {name: self.node(name).slots["routing"] for name in self.topics}
        groups: dict[str, list[str]] = {}
        for name, routing in routings.items():
            for group in routing.topics():
                groups.setdefault(group, []).append(name)
        self._members.clear()
        self._members.update({group: len(names) for group, names in groups.items()})
        everybody = list(self.topics)
        for name, routing in routings.items():
            tables = (
                {"": tuple(_others(everybody, name, routing.across, self._rng))} if routing.across else {}
            )
            for group in routing.topics():
                fan = min(math.floor(math.log(len(groups[group])) + c), len(groups[group]) - 1)
                tables[group] = tuple(_others(groups[group], name, fan, self._rng))
                for up in routing.graph.supers(group):
                    if up in groups:
                        count = routing.contacts(len(groups[up]))
                        tables[over(group, up)] = tuple(self._rng.sample(groups[up], count))
            self.node(name).slots["membership"].tables = tables

    # -- what happens -----------------------------------------------------------------------------

    def crash(self, names: list[str]) -> None:
        for name in names:
            self.world.simulation.crash(name)

    def arrive(self, topic: str) -> str:
        """A newcomer joins a group."""
        self._next += 1
        name = f"{topic}:new{self._next}"
        self.topics[name] = (topic,)
        self.world.add_broker(name)
        return name

    def publish(self, topic: str, *, at: str | None = None, seconds: float = 3.0) -> EventOutcome:
        """One event of a topic, by a peer of its group unless told otherwise; then let time pass."""
        at = at or self._rng.choice(self.alive(topic))
        client = f"client of {at}"
        if client not in self._clients:
            self._clients.add(client)
            self.world.add_client(client, at)
            self.run(0.1)
        simulation = self.world.simulation
        before, counted = simulation.sent, self._counters()
        times: dict[str, float] = {}

        def handled(name: str, item: Any, now: float) -> None:
            if type(item) is Received and isinstance(item.message, GossipEvents | Publish):
                times.setdefault(name, now)

        simulation.on_handled = handled
        self.world.publish(client, {}, topic=topic)
        self.run(seconds)
        simulation.on_handled = None
        after = self._counters()
        payloads, handed_up, parasites = (b - a for a, b in zip(counted, after, strict=True))
        groups = {each: self.alive(each) for each in self.sizes}
        return EventOutcome(
            topic=topic, began=times[at], times=times, groups=groups, payloads=payloads, handed_up=handed_up,
            parasites=parasites, messages=dict(simulation.sent - before),
        )  # fmt: skip

    def _counters(self) -> tuple[int, int, int]:
        found = [self.node(name).slots["routing"] for name in self.topics]
        return (
            sum(r.payloads for r in found),
            sum(r.handed_up for r in found),
            sum(r.parasites for r in found),
        )

    def contacts_above(self, topic: str) -> float:
        """The part of the live peers of a group that have a live contact above it."""
        ups = [over(topic, up) for up in self.graph.supers(topic)]
        sound = [
            any(self.is_up(contact) for up in ups for contact in self.node(name).slots["membership"].view(up))
            for name in self.alive(topic)
        ]
        return sum(sound) / len(sound) if sound else 1.0


def _others(group: list[str], name: str, count: int, rng: Random) -> list[str]:
    chosen = rng.sample(group, min(count + 1, len(group)))
    return [other for other in chosen if other != name][:count]

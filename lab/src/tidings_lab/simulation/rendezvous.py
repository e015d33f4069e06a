"""Systems of rendezvous at any size: nodes join, keys are looked up, trees grow, events go through them,
nodes vanish.

    ring = Ring("scribe", 1000, seed=1)          # a thousand nodes have joined
    ring.routes(2000).within                       # the part that kept to the bound
    ring.subscribe(1000, groups=50)              # a client each, by Zipf's law
    ring.publish(100)                            # and what came of it

A node's name decides its id, so a seed also names the nodes. `routes` reads what nodes know and sends no
message.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec

from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.workloads import zipf_weights
from tidings.simulation.world import World
from tidings_lab.overlay.prefix_state import between, id_of

JOINS = 100.0  # nodes that join in a second, at most
SPACING = 0.02  # seconds between two events
SETTLE = 5.0  # seconds after which what was begun is done
EVENT_MESSAGES = ("Climb", "Descend", "ToAccess")


class Routes(msgspec.Struct, frozen=True):
    """Ways to random keys from random nodes."""

    hops: tuple[int, ...]
    wrong: int  # that ended at a node which is not responsible, or gone
    bound: int  # the least whole number not under log of N to the base 2^b, plus one

    @property
    def within(self) -> float:
        """The part that kept to the bound, and ended where it should."""
        return (sum(hops <= self.bound for hops in self.hops) - self.wrong) / len(self.hops)

    @property
    def mean(self) -> float:
        return sum(self.hops) / len(self.hops)


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of some events."""

    events: int
    due: int
    missing: int
    extra: int  # told to who did not want it, or twice
    messages: dict[str, int]  # between nodes that carried an event

    @property
    def is_exact(self) -> bool:
        return not self.missing and not self.extra

    @property
    def per_event(self) -> float:
        return sum(self.messages.values()) / self.events


class RendezvousNetwork:
    def __init__(
        self,
        system: str,
        count: int,
        *,
        seed: int = 1,
        calm: bool = True,
        overlay: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        check: bool = False,
        seconds_between: Callable[[str, str], float] | None = None,
    ) -> None:
        self.count = count
        self.rng = Random(f"{seed}/ring")
        self.filters: dict[str, str] = {}  # by client
        self._groups = 0
        names = tuple(f"{seed}.{number}" for number in range(count))
        joining = max(0.5, count / JOINS)
        knobs: dict[str, Any] = {"join_seconds": joining, "proximity": False}  # all nodes are equally far
        if calm:  # no node vanishes: probes are left out of what is counted, but for once at the end
            knobs |= {"beat_seconds": 4 * joining + 60.0, "merge_seconds": 1e6}
        self.world = World(
            system,
            OverlayGraph(names, ()),
            seed=seed,
            settings=SimulationSettings(check=check),
            options={"overlay": knobs | (overlay or {}), **(options or {})},
            record=False,
        )
        self.world.simulation.seconds_between = seconds_between
        self.run(joining + SETTLE)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.simulation.now + seconds)

    def up(self) -> list[str]:
        return [name for name, host in self.world.simulation.hosts.items() if host.up and host.is_broker]

    def node(self, name: str) -> Any:
        return self.world.simulation.hosts[name].machine

    # -- the overlay ---------------------------------------------------------------------------

    def routes(self, count: int) -> Routes:
        up = self.up()
        order = sorted((id_of(name), name) for name in up)
        bits = self.node(up[0]).slots["overlay"].settings.digit_bits
        hops, wrong = [], 0
        for _ in range(count):
            key = f"key {self.rng.getrandbits(64)}"
            took, end = self.walk(self.rng.choice(up), key)
            hops.append(took)
            wrong += end != _responsible(order, id_of(key))
        return Routes(tuple(hops), wrong, math.ceil(math.log(len(up), 2**bits)) + 1)

    def responsible(self, key: str) -> str:
        """The node whose id is nearest to a key's."""
        return _responsible(sorted((id_of(name), name) for name in self.up()), id_of(key))

    def walk(self, at: str, key: str) -> tuple[int, str]:
        """Hops to where a key leads from a node, by what each one on the way knows now."""
        hosts = self.world.simulation.hosts
        took = 0
        while took <= len(hosts):
            hop = self.node(at).slots["overlay"].next_hop(key)
            if hop is None or not hosts[hop].up:
                return took, at if hop is None else ""
            at, took = hop, took + 1
        return took, ""

    def vanish(self, share: float) -> list[str]:
        """A part of the nodes without clients goes without a word."""
        taken = {client.partition("@")[2] for client in self.filters}
        free = [name for name in self.up() if name not in taken]
        gone = self.rng.sample(free, round(share * len(self.up())))
        for name in gone:
            self.world.simulation.crash(name)
        return gone

    def known(self) -> float:
        """Nodes that a node knows, in the mean."""
        up = self.up()
        return sum(len(self.node(name).slots["overlay"].peers()) for name in up) / len(up)

    # -- subscriptions and events ----------------------------------------------------------------

    def subscribe(
        self, count: int, *, groups: int = 50, exponent: float = 1.0, brokers: int | None = None
    ) -> None:
        """So many clients, each at a node drawn at random, subscribe to one group each."""
        where = self.up()[:brokers]
        weights = zipf_weights(groups, exponent)
        start = self.world.simulation.now
        for number in range(count):
            broker = self.rng.choice(where)
            client = f"c{len(self.filters)}@{broker}"
            group = self.rng.choices(range(groups), weights)[0]
            low = round(self.rng.random() * 0.75, 3)
            text = f"topic = 't{group}' AND type IS A 'T{group}' AND group = {group} AND x > {low}"
            self.filters[client] = text
            self.world.add_client(client, broker)
            action = partial(self.world.subscribe, client, "n", text)
            self.world.simulation.call_at(start + 2.0 * number / count + 0.01, action)
        self._groups = groups
        self.run(2.0 + SETTLE)

    def publish(self, count: int) -> DeliveryOutcome:
        """Events of groups drawn evenly, from anywhere among the subscribers' nodes."""
        simulation = self.world.simulation
        before, start = simulation.sent, simulation.now
        received_before = {client: len(self.world.applications[client].received) for client in self.filters}
        expected: Counter[tuple[str, int]] = Counter()
        clients = list(self.filters)
        for number in range(count):
            fields = self._drawn(number)
            expected.update((client, number) for client in self._takers(fields))
            action = partial(self._publish, self.rng.choice(clients), fields)
            simulation.call_at(start + SPACING * (number + 1), action)
        self.run(SPACING * count + SETTLE)
        received: Counter[tuple[str, int]] = Counter()
        for client in clients:
            for notification in self.world.applications[client].received[received_before[client] :]:
                received[client, notification.event.attributes["number"]] += 1
        sent = simulation.sent - before
        return DeliveryOutcome(
            events=count,
            due=sum(expected.values()),
            missing=sum((expected - received).values()),
            extra=sum((received - expected).values()),
            messages={kind: sent[kind] for kind in EVENT_MESSAGES if sent[kind]},
        )

    def _drawn(self, number: int) -> dict[str, Any]:
        group = self.rng.randrange(self._groups)
        attributes = {"x": self.rng.random(), "group": group, "number": number}
        return {"attributes": attributes, "topic": f"t{group}", "type": (f"T{group}", "T")}

    def _takers(self, fields: dict[str, Any]) -> list[str]:
        event = make_event(source="-", id="-", **fields)
        return [
            client
            for client, text in self.filters.items()
            if f"'{fields['topic']}'" in text and accepts(parse_filter(text), event)
        ]

    def _publish(self, client: str, fields: dict[str, Any]) -> None:
        self.world.publish(client, fields["attributes"], topic=fields["topic"], type=fields["type"])


def _responsible(order: list[tuple[int, str]], id: int) -> str:
    """The node nearest to an id on the ring, of nodes in the order of their ids."""
    position = bisect_left(order, (id, ""))
    beside = (order[position - 1], order[position % len(order)])
    return min(beside, key=lambda each: (between(each[0], id), each[0]))[1]

"""A stage for spikes: nodes of any composition, without clients.

`Ear` is a delivery of the simplest kind: told what to want and what to say by the test, it notes
every event that it hears. Strategies under test go into the other slots; `node.py` is what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidings.language import accepts, parse_filter
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription, SubscriptionId
from tidings.protocol.inputs import Received
from tidings.protocol.interest import Match
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.node import Node
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.slots import Delivery
from tidings.simulation.simulator import Simulation, SimulationSettings
from tidings.simulation.topology import OverlayGraph


class Want(Message, frozen=True):
    filter: Filter


class Say(Message, frozen=True):
    event: Event


class Ear(Delivery):
    """Hears what it wants; `received` is all that it was told, in order."""

    name = "ear"
    messages = (Want, Say)

    def __init__(self) -> None:
        self.wanted: list[Filter] = []
        self.received: list[str] = []
        self.said = 0

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Want):
            self.wanted.append(message.filter)
            id = SubscriptionId(self.ports.name, f"n{len(self.wanted)}")
            self.ports.events.interested(Subscription(id, message.filter), now)
        elif isinstance(message, Say):
            self.said += 1
            self.ports.events.accepted(Envelope(message.event, self.ports.name, sequence=self.said), now)

    def deliver(self, envelopes: Sequence[Envelope], matches: Sequence[Match], now: float) -> None:
        for envelope in envelopes:
            if any(accepts(filter, envelope.event) for filter in self.wanted):
                self.received.append(envelope.event.id)


class Stage:
    """Nodes, links and what happens on them."""

    def __init__(
        self, overlay: OverlayGraph, compose: Callable[[str, tuple[str, ...]], dict[str, Any]], seed: int = 1
    ) -> None:
        self.simulation = Simulation(seed, SimulationSettings(check=True))
        self.ears: dict[str, Ear] = {}
        self.nodes: dict[str, Node] = {}
        neighbours = overlay.neighbours()
        for name in overlay.brokers:
            self.simulation.add(name, lambda n=name: self._node(n, compose(n, tuple(neighbours[n]))))
        for a, b in overlay.links:
            self.simulation.connect(a, b)
        self.run(1.0)

    def _node(self, name: str, slots: dict[str, Any]) -> Node:
        listener = self.ears[name] = Ear()
        slots.setdefault("overlay", StaticOverlay(()))
        node = Node(name, delivery=listener, rng=self.simulation.rng(name), **slots)
        self.nodes[name] = node
        return node

    def want(self, name: str, text: str) -> None:
        self.tell(name, Want(parse_filter(text)))

    def say(self, name: str, id: str, attributes: dict[str, Any], **fields: Any) -> None:
        self.tell(name, Say(make_event(attributes, source=name, id=id, **fields)))

    def tell(self, name: str, message: Message) -> None:
        self.simulation.input(name, Received("test", message))

    def run(self, seconds: float) -> None:
        self.simulation.run(self.simulation.now + seconds)

    def received(self, name: str) -> list[str]:
        return self.ears[name].received

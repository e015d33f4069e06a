"""Spike: every broker knows every subscription, and each hop decides only which links lead on.

Gryphon's link matching: the event crosses a link exactly when a matching subscriber lies behind it.
"""

from __future__ import annotations

from random import Random

from tests.spikes._stage import Stage

from tidings.matching.small import SmallMatcher
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.assignment.policies import AllBrokers
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.routing.seen import Forward
from tidings.protocol.slots import Ports, Routing
from tidings.simulation.topology import Overlay, hops_from, minimal_subtree, random_tree


class Everywhere(Message, frozen=True):
    filter: Filter
    broker: str


class LinkMatching(Routing):
    name = "link matching"
    messages = (Everywhere, Forward)

    def __init__(self, next_hop: dict[str, str]) -> None:
        self.next_hop = next_hop  # broker -> the link that leads there

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self.matcher = SmallMatcher()
        self.link_of: dict[int, str] = {}

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        assert self.ports.name in at  # all brokers hold it
        self._spread(Everywhere(subscription.filter, self.ports.name), None)

    def _spread(self, message: Everywhere, came_from: str | None) -> None:
        if message.broker != self.ports.name:
            self.link_of[self.matcher.add(message.filter)] = self.next_hop[message.broker]
        for link in self.ports.overlay.links():
            if link != came_from:
                self.ports.send(link, message)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Everywhere):
            self._spread(message, sender)
        elif isinstance(message, Forward):
            self.ports.events.arrived(message.envelope, sender, now)

    def forward(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        links = {self.link_of[handle] for handle in self.matcher.match(envelope.event)}
        for link in sorted(links - {came_from}):
            self.ports.send(link, Forward(envelope))


def _next_hops(overlay: Overlay, name: str) -> dict[str, str]:
    table = overlay.neighbours()
    hops: dict[str, str] = {}
    for link in table[name]:
        without = {broker: [n for n in near if name not in (broker, n)] for broker, near in table.items()}
        hops |= dict.fromkeys(hops_from(without, link), link)
    return hops


def test_an_event_crosses_exactly_the_links_with_a_taker_behind() -> None:
    overlay = random_tree(12, Random(4), fan_out=3)

    def compose(name: str, near: tuple[str, ...]) -> dict[str, object]:
        return {
            "overlay": StaticOverlay(near),
            "assignment": AllBrokers(overlay.brokers),
            "routing": LinkMatching(_next_hops(overlay, name)),
        }

    stage = Stage(overlay, compose)
    for number, broker in enumerate(overlay.brokers):
        stage.want(broker, f"k = {number % 3}")
    stage.run(2.0)
    for k in range(3):
        before = stage.simulation.sent["Forward"]
        stage.say("b5", f"e{k}", {"k": k})
        stage.run(2.0)
        takers = [broker for number, broker in enumerate(overlay.brokers) if number % 3 == k]
        assert all(stage.heard(broker) == [f"e{k}"] for broker in takers)
        crossed = stage.simulation.sent["Forward"] - before
        assert crossed == len(minimal_subtree(overlay, ["b5", *takers]))

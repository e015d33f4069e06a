"""One strategy alone: ports that write down what it sends and what it passes on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tidings.language import parse_filter
from tidings.matching.engine import MatchingEngine
from tidings.model.event import make_event
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement, DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.effects import Channel
from tidings.protocol.inputs import LinkDown, LinkUp
from tidings.protocol.interest import InterestTable
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Overlay, Ports, Recovery, Routing


class LinksOverlay(Overlay):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def links(self) -> tuple[str, ...]:
        return self.names


class AloneStrategy:
    """A routing strategy with links to `names`, all of them up."""

    def __init__(self, routing: Routing, names: str = "abc", *, name: str = "me", seed: int = 1) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.channels: list[Channel] = []
        self.passed: list[tuple[Envelope, str]] = []
        ports = Ports()
        ports.name, ports.rng, ports.recording = name, Random(seed), False
        ports.send, ports.events = self._send, self  # type: ignore[assignment]
        ports.offer(routing, LinksOverlay(tuple(names)), Recovery())
        ports.interest = InterestTable(MatchingEngine())
        self.routing: Any = routing
        routing.bind(ports)
        for link in names:
            routing.on_input(LinkUp(link), 0.0)
        self.take()

    def _send(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None:
        self.sent.append((to, message))
        self.channels.append(channel)

    def arrived(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        for envelope in envelopes:
            self.passed.append((envelope, came_from))
            self._forward(envelope, None, came_from, now)

    def _forward(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        matches = (self.routing.ports.interest.match(envelope.event),)
        self.routing.forward((envelope,), matches, at, came_from, now)

    def received(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        self.arrived(envelopes, came_from, now)

    def take(self) -> list[tuple[str, Message]]:
        """Messages sent since the last call."""
        sent, self.sent = self.sent, []
        return sent

    def to(self) -> list[str]:
        return [link for link, _ in self.take()]

    def receive(self, link: str, message: Message) -> None:
        self.routing.on_message(link, message, 0.0)
        self.routing.check()

    def down(self, link: str) -> None:
        self.routing.on_input(LinkDown(link), 0.0)

    def subscribe(self, text: str, at: tuple[str, ...] = ("me",)) -> None:
        self.routing.interest_added(subscription(text), at, 0.0)
        self.routing.check()

    def unsubscribe(self, text: str, at: tuple[str, ...] = ("me",)) -> None:
        self.routing.interest_removed(subscription(text), at, 0.0)
        self.routing.check()

    def publish(self, at: tuple[str, ...] | None = None, **attributes: Any) -> None:
        self._forward(envelope(**attributes), at, None, 0.0)


def filter_of(text: str) -> Filter:
    return parse_filter(text)


def subscription(text: str) -> Subscription:
    return Subscription(SubscriptionId("s", text), parse_filter(text), DeliveryOptions())


def advertisement(text: str) -> Advertisement:
    return Advertisement("s", parse_filter(text))


def envelope(**attributes: Any) -> Envelope:
    return Envelope(make_event(attributes, source="s", id="1"), "me")

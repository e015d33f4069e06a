"""Spike: lost events come back along the route that later ones recorded (COS-6).

Recovery owns two headers: the counter per source, and the brokers that an event crossed. A gap in
the counters starts a pull that walks the route backward; the first cache that holds the event answers.
"""

from __future__ import annotations

from typing import Any

import msgspec
from tests.spikes._stage import Stage

from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.routing.covering import SubscriptionForwarding
from tidings.protocol.slots import Recovery
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.topology import line

COUNTER, ROUTE = "recovery.counters", "recovery.route"


class Pull(Message, frozen=True):
    source: str
    number: int
    route: tuple[str, ...]  # what is left of the way back, nearest first
    asker: str


class Back(Message, frozen=True):
    envelope: Envelope


class PublisherPull(Recovery):
    name = "publisher pull"
    messages = (Pull, Back)
    headers = frozenset({COUNTER, ROUTE})

    def __init__(self) -> None:
        self.cache: dict[tuple[str, int], Envelope] = {}
        self.expected: dict[str, int] = {}
        self.lost: dict[tuple[str, int], tuple[str, ...]] = {}
        self.retry_at: float | None = None

    def observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope:
        headers: dict[str, Any] = dict(envelope.headers)
        source, number = envelope.event.source, envelope.sequence or 0
        headers[COUNTER] = number
        headers[ROUTE] = (*headers.get(ROUTE, ()), self.ports.name)
        envelope = msgspec.structs.replace(envelope, headers=headers)
        self.cache[source, number] = envelope
        back = tuple(reversed(headers[ROUTE][:-1]))
        for missing in range(self.expected.setdefault(source, number), number):
            self.lost[source, missing] = back
        self.expected[source] = max(self.expected[source], number + 1)
        self.lost.pop((source, number), None)
        if self.lost:
            self.retry_at = now + 0.05 if self.retry_at is None else self.retry_at
        return envelope

    def admit(self, envelope: Envelope, came_from: str, now: float) -> bool:
        return (envelope.event.source, envelope.sequence or 0) not in self.cache

    def on_timer(self, now: float) -> None:
        self.retry_at = now + 0.2 if self.lost else None
        for (source, number), back in self.lost.items():
            self.ports.send(back[0], Pull(source, number, back[1:], self.ports.name), Channel.DATAGRAM)

    def next_deadline(self) -> float | None:
        return self.retry_at

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Back):
            event = message.envelope.event
            if (event.source, message.envelope.sequence) in self.lost:
                self.ports.events.arrived(message.envelope, sender, now)
        elif isinstance(message, Pull):
            held = self.cache.get((message.source, message.number))
            if held is not None:
                self.ports.send(message.asker, Back(held), Channel.DATAGRAM)
            elif message.route:
                onward = msgspec.structs.replace(message, route=message.route[1:])
                self.ports.send(message.route[0], onward, Channel.DATAGRAM)


def test_what_links_lose_comes_back() -> None:
    stage = Stage(
        line(4),
        lambda _, near: {
            "overlay": StaticOverlay(near),
            "routing": SubscriptionForwarding(),
            "recovery": PublisherPull(),
        },
    )
    stage.want("b3", "price > 0")
    stage.run(1.0)
    stage.say("b0", "e1", {"price": 1})
    stage.run(1.0)
    stage.simulation.plan(FaultPlan(Rates(loss=0.2), rates_until=stage.simulation.now + 3.0))
    for number in range(2, 100):
        stage.say("b0", f"e{number}", {"price": number})
        stage.run(0.02)
    stage.run(3.0)
    stage.say("b0", "e100", {"price": 100})  # a pull does not notice the loss of the last event
    stage.run(2.0)
    assert stage.simulation.fired["loss"] > 20
    assert sorted(stage.heard("b3")) == sorted({f"e{n}" for n in range(1, 101)})

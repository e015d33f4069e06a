"""Spike: organisations that send merged subscriptions straight to producers, and events down a tree.

Quality notification service (VIR5-7, VIR5-8): each organisation reduces its subscriptions by containment
before it tells others; a producer builds a diffusion tree over the takers, whose fan-out each can bear,
and every notify carries the subtree below it (header `routing.subtree`).
"""

from __future__ import annotations

import msgspec
from tests.spikes._stage import Stage

from tidings.algebra import covers
from tidings.language import accepts
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Routing
from tidings.simulation.topology import Overlay

SUBTREE = "routing.subtree"
ORGANISATIONS = tuple(f"o{n}" for n in range(9))


class ChangeSubscription(Message, frozen=True):
    merged: tuple[Filter, ...]


class NotifyTree(Message, frozen=True):
    envelope: Envelope


class MergeAndDiffuse(Routing):
    name = "diffusion trees"
    messages = (ChangeSubscription, NotifyTree)
    headers = frozenset({SUBTREE})

    def __init__(self, fan_out: int = 2) -> None:
        self.fan_out = fan_out
        self.external: dict[str, tuple[Filter, ...]] = {}
        self.merged: tuple[Filter, ...] = ()
        self.changes_sent = 0

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        new = subscription.filter
        if any(covers(old, new) for old in self.merged):
            return  # nobody else has to know
        self.merged = (*(old for old in self.merged if not covers(new, old)), new)
        for other in ORGANISATIONS:
            if other != self.ports.name:
                self.changes_sent += 1
                self.ports.send(other, ChangeSubscription(self.merged), Channel.DATAGRAM)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, ChangeSubscription):
            self.external[sender] = message.merged
        elif isinstance(message, NotifyTree):
            self.ports.events.arrived(message.envelope, sender, now)

    def forward(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is None:
            takers = tuple(o for o, merged in sorted(self.external.items())
                           if any(accepts(f, envelope.event) for f in merged))  # fmt: skip
        else:
            takers = tuple(envelope.headers[SUBTREE])
        for part in range(min(self.fan_out, len(takers))):
            child, *below = takers[part :: self.fan_out]
            onward = msgspec.structs.replace(envelope, headers={**envelope.headers, SUBTREE: tuple(below)})
            self.ports.send(child, NotifyTree(onward), Channel.DATAGRAM)


def test_merged_subscriptions_travel_once_and_events_go_down_a_tree() -> None:
    stage = Stage(Overlay(ORGANISATIONS, ()), lambda *_: {"routing": MergeAndDiffuse()})
    for name in ORGANISATIONS[1:]:
        stage.want(name, "class = 'Enterprise/Holder'")
        stage.run(0.5)
        stage.want(name, "class = 'Enterprise/Holder' AND accuracy <= 0.5")  # contained: sends nothing
    stage.run(1.0)
    routing = {name: node.slots["routing"] for name, node in stage.nodes.items()}
    assert all(routing[name].changes_sent == 8 for name in ORGANISATIONS[1:])  # type: ignore[attr-defined]
    stage.say("o0", "q1", {"class": "Enterprise/Holder", "accuracy": 0.9})
    stage.run(1.0)
    assert all(stage.heard(name) == ["q1"] for name in ORGANISATIONS[1:])
    assert stage.simulation.sent["NotifyTree"] == 8  # every consumer once

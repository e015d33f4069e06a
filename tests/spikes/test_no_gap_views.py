"""Spike: distributors that agree on a view, and keep what not everybody has (UAR-7, UAR-8).

Membership installs views by propose, acknowledge, install. Recovery buffers each event until every
member of the view has it; when its sender is gone, whoever has it passes it on: no gap.
"""

from __future__ import annotations

from tests.spikes._stage import Stage

from tidings.protocol.inputs import Input, LinkDown
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.routing.seen import Forward
from tidings.protocol.slots import Membership, Recovery, Routing
from tidings.simulation.topology import Overlay

GROUP = ("d0", "d1", "d2", "d3")


class Propose(Message, frozen=True):
    number: int
    members: tuple[str, ...]


class Agree(Message, frozen=True):
    number: int


class Install(Message, frozen=True):
    number: int
    members: tuple[str, ...]


class Views(Membership):
    name = "agreed views"
    messages = (Propose, Agree, Install)

    def __init__(self) -> None:
        self.installed: list[tuple[str, ...]] = [GROUP]
        self.proposed: tuple[str, ...] = ()
        self.agreed: set[str] = set()

    def view(self, scope: str = "") -> tuple[str, ...]:
        return self.installed[-1]

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, LinkDown) and input.peer in self.view():
            left = tuple(member for member in self.view() if member != input.peer)
            if self.ports.name == left[0]:  # the coordinator is the first that is left
                self.proposed, self.agreed = left, {self.ports.name}
                self._tell_others(Propose(len(self.installed), left))

    def _tell_others(self, message: Message) -> None:
        for member in self.proposed:
            if member != self.ports.name:
                self.ports.send(member, message)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Propose):
            self.ports.send(sender, Agree(message.number))
        elif isinstance(message, Agree):
            self.agreed.add(sender)
            if self.agreed == set(self.proposed):
                self._tell_others(Install(message.number, self.proposed))
                self._install(self.proposed)
        elif isinstance(message, Install):
            self._install(message.members)

    def _install(self, members: tuple[str, ...]) -> None:
        self.installed.append(members)
        for envelope in self.ports.recovery.lookup(()):  # weak synchrony: no flush, old events follow
            self.ports.routing.forward(envelope, None, None, 0.0)


class Buffer(Recovery):
    """Holds every event; a real one forgets what is stable."""

    name = "stability buffer"

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], Envelope] = {}

    def admit(self, envelope: Envelope, came_from: str, now: float) -> bool:
        return envelope.event.identity not in self.held

    def observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope:
        self.held[envelope.event.identity] = envelope
        return envelope

    def lookup(self, ids: object) -> tuple[Envelope, ...]:
        return tuple(self.held.values())


class ToAll(Routing):
    name = "distributor multicast"
    messages = (Forward,)

    def forward(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        for member in self.ports.membership.view() if came_from is None else ():
            if member != self.ports.name:
                self.ports.send(member, Forward(envelope))

    def on_message(self, sender: str, message: Message, now: float) -> None:
        assert isinstance(message, Forward)
        if self.ports.recovery.admit(message.envelope, sender, now):
            self.ports.events.arrived(message.envelope, sender, now)


def test_figure_6_what_one_survivor_has_all_survivors_get() -> None:
    pairs = tuple((a, b) for a in GROUP for b in GROUP if a < b)
    stage = Stage(
        Overlay(GROUP, pairs),
        lambda _, near: {
            "overlay": StaticOverlay(near),
            "membership": Views(),
            "recovery": Buffer(),
            "routing": ToAll(),
        },
    )
    for name in GROUP:
        stage.want(name, "EXISTS m")
    stage.say("d0", "m1", {"m": 1})
    stage.run(1.0)
    for name in ("d2", "d3"):  # d0 crashes after its m2 has left for d1 only
        stage.simulation.links[("d0", name)].cut[("d0", name)] += 1
    stage.simulation.plan_rough()
    stage.say("d0", "m2", {"m": 2})
    stage.run(0.02)
    stage.simulation.crash("d0")
    stage.simulation.notice("d0")
    stage.run(3.0)
    for name in GROUP[1:]:
        assert stage.heard(name) == ["m1", "m2"], name
        assert stage.nodes[name].slots["membership"].view() == ("d1", "d2", "d3")  # type: ignore[attr-defined]

"""Flooding: every event crosses every link, on any graph (Baldoni et al. 2002, 5.3).

A broker passes an event to all its links but the one it came from; an event that was here
before is dropped, by the highest number of its origin (`fifo=True`, enough when no link loses
order) or by a window of numbers.
"""

from __future__ import annotations

from tidings.model.event import Event
from tidings.protocol.inputs import Input, Started
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.duplicates import (
    NUMBER,
    DuplicateFilter,
    Forward,
    LastNumberFilter,
    Numbering,
    NumberWindow,
)
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.slots import Ports


class Flooding(OneByOne):
    name = "flooding"
    messages = (Forward,)
    headers = frozenset({NUMBER})

    def __init__(self, *, fifo: bool = False, window: int = 4096) -> None:
        self._seen: DuplicateFilter = LastNumberFilter() if fifo else NumberWindow(window)
        self.fifo = fifo

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._numbering = Numbering(f"{ports.name}.{ports.rng.getrandbits(32):08x}")

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):  # a restarted broker must not reuse numbers
            self._numbering = Numbering(f"{self.ports.name}.{self.ports.rng.getrandbits(32):08x}")

    def on_message(self, sender: str, message: Message, now: float) -> None:
        assert isinstance(message, Forward)
        envelope = message.envelope
        origin, number = envelope.headers[NUMBER]
        if origin == self._numbering.incarnation or not self._seen.is_new(origin, number):
            return
        self.ports.events.received((envelope,), sender, now)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if NUMBER not in envelope.headers:  # ours, or one that recovery brought back
            envelope = self._numbering.numbered(envelope)
        for link in self._links():
            if link == came_from:
                continue
            for leaving in self.ports.passage.outgoing((envelope,), link, now):
                self.ports.send(link, Forward(leaving))

    def table_size(self) -> int:
        """No filters: flooding needs none."""
        return 0

    def wanted_elsewhere(self, event: Event) -> bool:
        return bool(self._links())

    def _links(self) -> tuple[str, ...]:
        return self.ports.neighbours.links()

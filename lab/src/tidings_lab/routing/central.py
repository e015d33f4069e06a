"""Notifications through one service: brokers match, and the service alone knows who is to be told.

Filter-driven assignment with the third way of Virgillito 2003, 2.4.4: a broker holds the filters of its cells
under references, and hands a matched event with the references of its takers to the notification service,
which knows at which access brokers they are and sends one copy to each. Brokers need not know subscribers,
and every notification passes the service.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from tidings.model.subscription import Subscription
from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Ports
from tidings_lab.routing.direct import Hold, MatchAtTarget, ToAccess, ToTarget


class Refer(Message, frozen=True, tag="Refer"):
    """To the service: the client of this reference is at this broker, too, or is not any more."""

    reference: str
    access: str
    count: int  # +1 or -1


class ToService(Message, frozen=True, tag="ToService"):
    """A matched event, and the references of its takers."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope
    references: tuple[str, ...]


class CentralNotification(MatchAtTarget):
    name = "match at target, central notification"
    messages: ClassVar[tuple[type[Message], ...]] = (Hold, ToTarget, ToAccess, Refer, ToService)

    def __init__(self, service: str) -> None:
        self.service = service

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._places: dict[str, Counter[str]] = {}  # at the service: by reference, how many at which broker

    def table_size(self) -> int:
        return super().table_size() + sum(len(positions) for positions in self._places.values())

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._change_everywhere(subscription, at, +1, now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._change_everywhere(subscription, at, -1, now)

    def _change_everywhere(
        self, subscription: Subscription, at: tuple[str, ...], count: int, now: float
    ) -> None:
        """The service hears of it first: an event that matches needs its place."""
        reference = subscription.filter.digest
        refer = Refer(reference, self.ports.name, count)
        if self.service == self.ports.name:
            self._refer(refer)
        else:
            self.ports.send(self.service, refer, Channel.DATAGRAM)
        self._hold_at(at, Hold(subscription.filter, reference, count), now)

    def _refer(self, refer: Refer) -> None:
        positions = self._places.setdefault(refer.reference, Counter())
        positions[refer.access] += refer.count
        if positions[refer.access] <= 0:
            del positions[refer.access]
        if not positions:
            del self._places[refer.reference]

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Refer):
            self._refer(message)
        elif isinstance(message, ToService):
            self._dispatch(message, sender, now)
        elif isinstance(message, ToTarget):
            self._at_target(message.envelope, now)
        else:
            super().on_message(sender, message, now)

    def _at_target(self, envelope: Envelope, now: float) -> None:
        """Match, and leave the rest to the service."""
        references = tuple(self._filters_of.takers(envelope.event))
        if not references:
            return
        matched = ToService(envelope, references)
        if self.service == self.ports.name:
            self._dispatch(matched, self.ports.name, now)
        else:
            self.ports.send(self.service, matched, Channel.DATAGRAM)

    def _dispatch(self, matched: ToService, sender: str, now: float) -> None:
        envelope = matched.envelope
        found = {access for reference in matched.references for access in self._places.get(reference, ())}
        for access in sorted(found - {envelope.origin}):
            if access == self.ports.name:
                self.ports.events.arrived((envelope,), sender, now)
            else:
                self.ports.send(access, ToAccess(envelope), Channel.DATAGRAM)

    def check(self) -> None:
        super().check()
        assert all(count > 0 for positions in self._places.values() for count in positions.values())

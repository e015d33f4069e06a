"""Delivery at a distributor: clients are served while it is in the majority of its group, and not otherwise.

A distributor that is not sends its clients away, and takes in none; they go to another one. The log that
clients see has the group's name, so that a publisher sends again to the next distributor what the last one
did not acknowledge (Mathur et al. 1995, 4.1: publishers fail over as subscribers do). Streams are numbered by
their publishers: what comes twice that way is recognised.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tidings.matching.matcher import Matcher
from tidings.protocol.client_failover import KeepaliveReply, KeepaliveRequest
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import CloseLink
from tidings.protocol.inputs import Input, ViewChanged
from tidings.protocol.messages import Hello, Message, Welcome

AWAY = "this distributor is not in the majority of its group"


class DistributorDelivery(ExactlyOnce):
    name = "while in the majority"
    messages: ClassVar[tuple[type[Message], ...]] = (*ExactlyOnce.messages, KeepaliveRequest, KeepaliveReply)

    def __init__(self, matcher: Matcher, settings: DeliverySettings | None = None, *, group: str) -> None:
        super().__init__(matcher, settings)
        self._group = group

    def on_input(self, input: Input, now: float) -> None:
        super().on_input(input, now)
        if isinstance(input, ViewChanged) and not input.serves:
            for address in list(self._registry.sessions):
                self.ports.emit(CloseLink(address, AWAY))

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, KeepaliveRequest):
            self.ports.send(sender, KeepaliveReply(message.number))
        elif isinstance(message, Hello) and not self.ports.members.is_serving:
            self.ports.emit(CloseLink(sender, AWAY))
        elif not isinstance(message, KeepaliveReply):
            super().on_message(sender, message, now)

    def _welcome(self) -> Welcome:
        return Welcome(self.ports.name, self._group, event_bytes=self.ports.event_bytes)

    def subscribers(self) -> int:
        """Number of subscriptions that this distributor serves: its own subscribers alone."""
        return len(self._registry.states)


def serving(matcher: Matcher, group: str, **settings: object) -> DistributorDelivery:
    return DistributorDelivery(
        matcher, msgspec.convert({**settings, "allow_block": False}, DeliverySettings), group=group
    )

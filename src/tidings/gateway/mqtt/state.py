"""State of an MQTT session: its subscriptions, and the messages in flight to its client."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from tidings.errors import TidingsError
from tidings.gateway.mqtt.packets import PublishPacket, SubscriptionRequest
from tidings.model.event import Event
from tidings.model.subscription import Notification, Position
from tidings.runtime.listener import Listener

if TYPE_CHECKING:
    from tidings.gateway.mqtt.shares import SharedSubscription


class InFlightMessage(msgspec.Struct):
    """A message on its way to the client."""

    publish: PublishPacket
    subscription: MqttSubscription | None  # None: the broker needs no answer about it
    tag: int
    position: Position | None = None
    is_received: bool = False  # QoS 2: PUBREC came, PUBREL was sent
    is_sent: bool = True  # False: the journal does not hold it yet
    lender: Listener[Event] | None = None  # to which the broker delivered it, when not to `subscription`
    has_room: bool = True  # does it count in the client's receive maximum?
    expires: float = 0.0  # of the process's clock; 0: never

    def __post_init__(self) -> None:
        if (left := self.publish.properties.get("message_expiry")) is not None:
            self.expires = monotonic() + left

    def to_send_again(self) -> PublishPacket:
        """With DUP, and the expiry that is left: its delivery has begun, so it is sent though none is."""
        self.publish.dup = True
        if self.expires:
            self.publish.properties["message_expiry"] = max(ceil(self.expires - monotonic()), 0)
        return self.publish

    def settle(self) -> None:
        """Acknowledge the event to the broker.

        The session that lent it may have ended: then it is delivered again.
        """
        if self.lender is not None:
            with contextlib.suppress(TidingsError):
                self.lender.settle(self.tag)
        elif self.subscription is not None:
            self.subscription.listener.settle(self.tag)


class MqttSubscription:
    """One subscription."""

    def __init__(
        self,
        wish: SubscriptionRequest,
        ids: list[int],
        listener: Listener[Event],
        share: SharedSubscription | None = None,
        *,
        began: float,
    ) -> None:
        self.wish = wish
        self.ids = ids  # subscription identifiers, of version 5
        self.listener = listener
        self.share = share
        self.began = datetime.fromtimestamp(began, UTC)  # events from before it are retained ones
        self.task: asyncio.Task[None] | None = None
        self.is_new = False  # a SUBSCRIBE was sent again: what is retained is due
        self.is_pushed = False  # what comes is written without being taken
        self.parked: tuple[Notification, int] | None = None  # taken, and waits for room
        self.retained: asyncio.Task[None] | None = None  # sends what is retained, after a SUBSCRIBE again


class StoredMqttSubscription(msgspec.Struct, omit_defaults=True):
    """A subscription as it outlives the process."""

    wish: SubscriptionRequest
    ids: list[int] = []
    user: list[tuple[str, str]] = []
    name: str = ""  # of the durable subscription at the broker; empty: as earlier versions named it
    began: float = 0.0  # when it was subscribed to first
    replaces: StoredMqttSubscription | None = None  # ends when this one is open

    @property
    def size(self) -> int:
        return len(self.wish.filter.encode()) + sum(len(stated.encode()) for _, stated in self.user)

"""Hooks: the interface that the courier calls back, which the delivery strategy implements."""

from __future__ import annotations

from typing import Protocol

from tidings.protocol.delivery.pending import PendingPublish
from tidings.protocol.delivery.subscription_state import SubscriptionState


class Hooks(Protocol):
    """What the courier asks of the strategy that owns it."""

    def read(self, state: SubscriptionState, now: float) -> None:
        """There is room: read on in the log."""

    def unblocked(self, pending: PendingPublish) -> None:
        """No subscription blocks this publish any longer."""

    def close(self, state: SubscriptionState, code: str, reason: str, now: float) -> None:
        """End the subscription and tell its members why."""

    def touched(self, state: SubscriptionState, now: float) -> None:
        """Its progress changed, or the figures of what it lost."""

    def delivered(self, state: SubscriptionState, now: float) -> None:
        """An event was dispatched to a durable subscription."""

    def dead_letter_subscribers(self, state: SubscriptionState) -> list[SubscriptionState]:
        """Who hears the dead letters of this subscription."""

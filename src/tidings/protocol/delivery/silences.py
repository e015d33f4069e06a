"""Silences: positions up to which a durable subscription has no event to receive, so that its token advances
too."""

from __future__ import annotations

from collections.abc import Callable

from tidings.model.subscription import Position
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.messages import Message, Silence


def tell_silences(state: SubscriptionState, send: Callable[[str, Message], None]) -> None:
    """The token of a durable subscription advances also over what is not for it."""
    for position in silences(state):
        for member in state.members:
            send(member.address, Silence(member.ref, position))


def silences(state: SubscriptionState) -> list[Position]:
    """The positions that its members do not know of yet."""
    if state.unacked or state.queue:
        return []
    silent: list[Position] = []
    for cursor in state.cursors:
        floor = cursor.floor()
        if floor > cursor.silent_below and cursor.start is not None:
            cursor.silent_below = floor
            silent.append(Position(cursor.log, floor - 1))
    return silent

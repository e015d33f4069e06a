"""A publish between its arrival and its acknowledgement."""

from __future__ import annotations

from tidings.model.event import Event
from tidings.protocol.delivery.moved import Moved


class Arrival:
    """Acknowledged when it is kept (if it is to be), was told, and no subscription blocks."""

    __slots__ = (
        "accepted", "blocked", "event", "expires_at", "followers", "moved", "number", "offset", "sequence", "told",
        "waiters",
    )  # fmt: skip

    def __init__(self, event: Event, number: int, sequence: int | None, accepted: float) -> None:
        self.event = event
        self.number = number  # orders publishes and subscribes of this node
        self.sequence = sequence
        self.accepted = accepted
        self.expires_at = None if event.expires is None else accepted + event.expires
        self.offset: int | None = None  # None: not kept in the log
        self.waiters: list[tuple[str, int]] = []  # address and call of those who wait for the answer
        self.followers: list[Arrival] = []  # later ones of the same source that need no disk
        self.blocked = 0  # subscriptions with policy `block` that have no room for it
        self.moved: Moved | None = None  # its publisher was elsewhere before
        self.told = False

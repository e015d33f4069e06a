"""Base of routing strategies that forward one event at a time, and gain nothing by a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from tidings.protocol.interest import Match
from tidings.protocol.messages import Envelope
from tidings.protocol.slots import Routing


class OneByOne(Routing):
    def forward(
        self,
        envelopes: Sequence[Envelope],
        matches: Sequence[Match],
        at: tuple[str, ...] | None,
        came_from: str | None,
        now: float,
    ) -> None:
        for envelope in envelopes:
            self.forward_one(envelope, at, came_from, now)

    @abstractmethod
    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        """Send the event on; `came_from` is None at the broker that accepted it."""

"""Retention of a broker's log as operators see it: bytes, free bytes, the oldest offset, and who pins it.

Rules
- Looking at the store and at all durable subscriptions costs time, so an answer is kept for `LOOK_SECONDS`.
- With too many durable subscriptions the pins are left out; `tidings admin pins` still names them.
- A broker whose disk has little room left is not ready: a balancer sends publishers elsewhere before it
  refuses.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.model.subscription import DeliveryOptions

if TYPE_CHECKING:
    from tidings.runtime.server import Server
    from tidings.runtime.settings import RetentionSettings

LOOK_SECONDS = 1.0
SHOWN = 10  # pins among the metrics
DURABLES = 2_000  # more make a look take milliseconds of the event loop


class RetentionFigures:
    """Figures of one broker's store and log."""

    def __init__(self, server: Server, settings: RetentionSettings, *, on_disk: bool) -> None:
        self._server, self._settings, self._on_disk = server, settings, on_disk
        self._found: dict[str, Any] = {}
        self._looked_at = -inf

    def figures(self, now: float) -> dict[str, Any]:
        if now - self._looked_at >= LOOK_SECONDS or now < self._looked_at:
            self._found, self._looked_at = self._look(), now
        return self._found

    def _look(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._on_disk:  # a store in memory, or over a network, would hold up the event loop
            sizes = self._server.store.sizes()
            found = {"store bytes": sizes["bytes"], "store free bytes": sizes["room"]}
        if (pins := self._server.node.inspect("pins", DURABLES)) is not None:
            found |= {"log oldest offset": pins["oldest"], "log next offset": pins["next"]}
            found["log pins"] = pins["pins"][:SHOWN]
            if pins["accepted"] is not None:
                found["log oldest accepted"] = pins["accepted"]
        return found

    def problems(self, now: float) -> list[str]:
        """Why the store should get no more events, if so."""
        free, least = self.figures(now).get("store free bytes"), self._settings.warn_free_bytes
        if free is None or not least or free >= least:
            return []
        return [
            f"the disk of the store has {free} bytes free, fewer than retention.warn_free_bytes ({least}): "
            "make room, or see who pins the log (tidings admin pins)"
        ]


def capped(options: DeliveryOptions, settings: RetentionSettings) -> DeliveryOptions:
    """Options of a durable subscription within the operator's caps."""
    if not options.durable:
        return options
    changes: dict[str, Any] = {}
    for field, cap in (
        ("keep_seconds", settings.subscription_seconds), ("keep_events", settings.subscription_events),
    ):  # fmt: skip
        requested = getattr(options, field)
        if cap and (requested is None or requested > cap):
            changes[field] = cap
    return msgspec.structs.replace(options, **changes) if changes else options

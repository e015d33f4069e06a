"""The other end of a gateway's client, as operators see it.

A client of a gateway lives in the broker's process, and outlives its connection where its session does: an
MQTT session that stays, or what a gateway keeps for the next request of a principal.
"""

from __future__ import annotations

import msgspec


class ClientPeer(msgspec.Struct):
    """Connection behind a local client. `is_connected` is None where no connection carries it by its nature:
    a webhook, a will."""

    address: str = ""
    is_connected: bool | None = None
    since: float | None = None  # the latest connection's beginning
    is_pooled: bool = False  # serves single requests of a principal; it is no session between them

    def connect(self, address: str, now: float) -> None:
        """A connection from this address carries the client from now on."""
        self.address, self.is_connected, self.since = address, True, now

    def leave(self) -> None:
        """No connection carries the client any more."""
        self.address, self.is_connected = "", False

    @property
    def is_shown(self) -> bool:
        return self.is_connected is True or not self.is_pooled

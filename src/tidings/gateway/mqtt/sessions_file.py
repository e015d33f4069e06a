"""MQTT sessions as the file of the gateway holds them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tidings.gateway.mqtt.session import Kept
from tidings.security.principal import Principal


class Key(NamedTuple):
    """The session that a connection means. Groups, rules and proofs of a user change; these do not."""

    tenant: str
    user: str
    client_id: str


def key_of(principal: Any, client_id: str) -> Key:
    return Key(getattr(principal, "tenant", ""), principal.name, client_id)


class Written(msgspec.Struct):
    """A session as the file holds it."""

    owner: Principal
    client_id: str
    expiry: int
    left_at: float | None
    subscriptions: dict[str, Kept]
    session: str = ""  # the name of its exchanges in the journal

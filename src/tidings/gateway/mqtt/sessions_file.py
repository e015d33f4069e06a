"""MQTT sessions as the file of the gateway holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tidings.errors import StoreError
from tidings.gateway.mqtt.events import filters_of
from tidings.gateway.mqtt.session import Kept
from tidings.model.decoding import UNREADABLE
from tidings.security.principal import Principal


class Key(NamedTuple):
    """The session that a connection means. Groups, rules and proofs of a user change; these do not."""

    tenant: str
    user: str
    client_id: str


def key_of(principal: Any, client_id: str) -> Key:
    return Key(getattr(principal, "tenant", ""), principal.name, client_id)


def read(file: Path) -> list[Written]:
    """The sessions of the file. Raises `StoreError`. Earlier versions wrote every user property of a SUBSCRIBE."""
    try:
        listed = msgspec.json.decode(file.read_bytes(), type=list[Written])
    except (OSError, *UNREADABLE) as error:
        raise StoreError(
            f"{file} cannot be read: {error}", hint="restore it, or move it away to begin without"
        ) from None
    for kept in (each for written in listed for each in written.subscriptions.values()):
        kept.user = filters_of(kept.user)
    return listed


class Written(msgspec.Struct):
    """A session as the file holds it."""

    owner: Principal
    client_id: str
    expiry: int
    left_at: float | None
    subscriptions: dict[str, Kept]
    session: str = ""  # the name of its exchanges in the journal

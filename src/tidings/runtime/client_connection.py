"""One client's connection as the broker serves it, and the owner that its use is charged to."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tidings.runtime.admission import LOCAL
from tidings.runtime.client_ingress import ClientIngress
from tidings.runtime.connection import Connection
from tidings.runtime.fairness import Fairness
from tidings.runtime.sessions import PrincipalSession


class ClientConnection:
    """The connection of one client with its gate and its session."""

    __slots__ = (
        "address",
        "asked_at",
        "connection",
        "ingress",
        "owner",
        "principal",
        "requested",
        "session",
        "share",
    )

    def __init__(
        self,
        address: str,
        connection: Connection,
        ingress: ClientIngress,
        session: PrincipalSession,
        fairness: Fairness,
    ) -> None:
        self.address = address
        self.connection = connection
        self.ingress = ingress
        self.session = session
        self.principal = session.principal
        self.owner = owner_of(self.principal, connection.visit.address if connection.visit else LOCAL)
        self.share = fairness.join(self.owner, connection)  # of the loop's time
        self.requested = 0  # a publish whose answer is timed; 0: none
        self.asked_at = 0.0


def owner_of(principal: Any, address: str) -> Hashable:
    """The key under which a principal's use is counted over all its connections; an anonymous one
    by address."""
    if principal is None or getattr(principal, "is_anonymous", True):
        return address
    owner: Hashable = principal.owner
    return owner

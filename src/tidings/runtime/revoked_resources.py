"""Holds and staged events of principals that have lost their rights.

Both outlive the connection that made them, so the end of a session does not end them. Rules
- `GRACE_SECONDS` after a session was ended for cause: a hold stays as far as its principal may read what it
  holds, by a session that it has open again or by the users file; otherwise it ends. Staged events are
  forgotten: they were checked by the earlier rights, and a batch that is not committed is staged again.
- The same at the start, for holds whose users the file does not let in any more. A principal that comes by
  token or certificate cannot be looked up; its holds end when no session renews them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidings.errors import RefusedError
from tidings.model.event import TENANT_MARK
from tidings.model.filter import NOTHING, Filter
from tidings.model.subscription import OWNER_MARK
from tidings.protocol.inputs import PrincipalRevoked
from tidings.runtime.sessions import until_of
from tidings.security.principal import Principal, ProofMethod
from tidings.security.rules import Action

if TYPE_CHECKING:
    from tidings.runtime.secured import Secured
    from tidings.runtime.server import Server

GRACE_SECONDS = (
    0.4  # for a client that comes back with another proof; with `sessions.LOOK_SECONDS` under a second
)


class RevokedResources:
    """Ends holds and staged events at one broker."""

    def __init__(self, server: Server, secured: Secured) -> None:
        self._server = server
        self._secured = secured
        server.sessions.on_ended = self._on_ended

    def start(self, *, others: bool) -> None:
        """`others`: may principals come that the users file does not hold?"""
        users = self._secured.guard.users
        owners = {
            name.partition(TENANT_MARK)[0]
            for name in self._server.node.log_holds()
            if TENANT_MARK in name and OWNER_MARK not in name
        }
        for name in sorted(owners):
            user = users.users.get(name)
            if user is None and others:
                continue
            by_password = Principal(name, ProofMethod.SCRAM)
            allowed = NOTHING if user is None or user.disabled else self._by_file(by_password)
            self._server.hand(
                PrincipalRevoked(name + TENANT_MARK, allowed, staged=user is None or user.disabled)
            )

    def _on_ended(self, principal: Any) -> None:
        if isinstance(principal, Principal) and not principal.is_anonymous:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._disown, principal)

    def _disown(self, principal: Principal) -> None:
        scope = principal.name + TENANT_MARK  # of every principal that has a password
        if principal.means is not ProofMethod.SCRAM:
            scope = self._secured.guard.scopes(principal)[1]
        self._server.hand(PrincipalRevoked(scope, self._allowed(principal)))

    def _allowed(self, principal: Principal) -> Filter:
        """Filter of events that the owner may read now."""
        for other in self._open():
            if other.owner == principal.owner:
                return self._secured.guard.right(other, Action.SUBSCRIBE).filter
        until = until_of(principal)
        if until is not None and until <= self._server.clock.now():
            return NOTHING
        return self._by_file(principal)

    def _by_file(self, principal: Principal) -> Filter:
        try:
            refreshed = self._secured.refreshed(principal)
        except RefusedError:
            return NOTHING
        return self._secured.guard.right(refreshed, Action.SUBSCRIBE).filter

    def _open(self) -> Iterator[Principal]:
        return (each for each in self._server.sessions.principals() if isinstance(each, Principal))

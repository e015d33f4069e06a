"""HTTP sessions: for each principal a bus for publishing and queries, kept while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tidings.runtime.bus import Bus
from tidings.runtime.local_clients import LocalClientHost, LocalClients, note_connection, peer_of

IDLE_SECONDS = 60.0


class HttpSession:
    """One principal's session. `local_clients` gives further clients of the principal."""

    def __init__(self, host: LocalClientHost, principal: Any) -> None:
        self.principal = principal
        self.local_clients = LocalClients(host, principal)
        self.bus = self.local_clients.bus(client_name(principal, "http"))
        self.users = 0
        self.idle_since = 0.0

    def client(self, name: str) -> Bus:
        return self.local_clients.bus(client_name(self.principal, name))


def client_name(principal: Any, name: str) -> str:
    """A client's name that is this principal's to use."""
    return f"{getattr(principal, 'name', principal)}/{name}"


class HttpSessions:
    """Opened for a client's first request, closed when the client was idle for a while."""

    def __init__(self, host: LocalClientHost) -> None:
        self._host = host
        self._http_sessions: dict[Any, HttpSession] = {}
        self._opening = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._tidying: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def of(self, principal: Any, peer: str = "") -> AsyncIterator[HttpSession]:
        """The session of a principal for one request, stream or socket from this address."""
        async with self._opening:
            await self._tidy()
            session = self._http_sessions.get(principal)
            if (
                session is None or session.bus.state == "refused"
            ):  # its session has ended; who uses it closes it
                session = HttpSession(self._host, principal)
                await session.bus.open()
                self._http_sessions[principal] = session
        session.users += 1
        peer_of(session.bus).is_pooled = True
        note_connection(session.bus, peer)
        try:
            yield session
        finally:
            session.users -= 1
            session.idle_since = self._host.clock.now()
            if not session.users:
                peer_of(session.bus).leave()
                if self._http_sessions.get(principal) is not session:
                    await session.bus.close()
                else:
                    self._tidy_later()

    def _tidy_later(self) -> None:
        """An idle session ends though no other request comes."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._begin_tidying)

    def _begin_tidying(self) -> None:
        self._timer = None
        self._tidying = asyncio.create_task(self.tidy(), name="tidings idle http sessions")

    async def tidy(self) -> None:
        """End the sessions that were idle for long enough; look again while others are idle."""
        async with self._opening:
            await self._tidy()
        if any(not session.users for session in self._http_sessions.values()):
            self._tidy_later()

    async def _tidy(self) -> None:
        now = self._host.clock.now()
        for principal, session in list(self._http_sessions.items()):
            is_broken = session.bus.state == "refused"
            if not session.users and (is_broken or now - session.idle_since > IDLE_SECONDS):
                del self._http_sessions[principal]
                await session.bus.close()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._tidying is not None:
            await self._tidying
        if self._timer is not None:
            self._timer.cancel()
        for session in self._http_sessions.values():
            await session.bus.close()
        self._http_sessions.clear()

"""Handshake of incoming connections: none has an identity before it is done.

Rules
- Before that, frames are small, few kinds are understood, and time is bounded. Of those who wait, the
  number is bounded too: when there are too many, the one that waits longest has to go (`admission.py`).
- A denied connection is told why (`SessionDenied`), and closed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from functools import partial
from typing import Any

from tidings.errors import RefusedError, TidingsError
from tidings.protocol.messages import Message, tag_of
from tidings.runtime.admission import AdmittedConnection
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.messages import HANDSHAKE, AuthChallenge, AuthResponse, OpenSession, SessionDenied
from tidings.security.interfaces import (
    BROKER,
    CLIENT,
    AuthenticationExchange,
    AuthenticationRequest,
    AuthenticationResult,
    Authenticator,
)
from tidings.wire.codec import Codec

MOST_STEPS = 8  # frames of a proof; no mechanism needs more
LONGEST_NAME = 200


class PendingHandshake:
    """One connection that has not authenticated."""

    __slots__ = ("connection", "conversation", "open", "steps", "timer")

    def __init__(self, connection: Connection, timer: asyncio.TimerHandle) -> None:
        self.connection = connection
        self.timer = timer
        self.open: OpenSession | None = None
        self.conversation: AuthenticationExchange | None = None
        self.steps = 0


Admit = Callable[[Connection, OpenSession, AuthenticationResult], None]


class Handshake:
    """Receives every new connection; an authenticated one goes on to `admit`."""

    def __init__(
        self,
        composition: str,
        authenticator: Authenticator,
        settings: NetworkSettings,
        coalescer: WriteCoalescer,
        admit: Admit,
    ) -> None:
        self._composition = composition
        self._authenticator = authenticator
        self._settings = settings
        self._coalescer = coalescer
        self._admit = admit
        self._codec = Codec(HANDSHAKE, max_frame_bytes=settings.handshake_frame_bytes)
        self._waiting: dict[Connection, PendingHandshake] = {}  # in the order in which they came
        self.steer: Callable[[Connection, OpenSession], bool] | None = (
            None  # hands public ones over (`unit.py`)
        )
        self.figures = {"handshakes refused": 0, "handshakes too slow": 0, "handshakes evicted": 0}

    def connection(self, visit: AdmittedConnection, facts: dict[str, Any] | None = None) -> Connection:
        """The protocol of a new connection that was admitted; `facts` of the far end stand for the
        transport's own."""
        connection = Connection(
            self._codec,
            self._coalescer,
            receive=self._receive,
            lost=self._lost,
            most_bytes=self._settings.handshake_frame_bytes,
            made=self._made,
        )
        connection.visit, connection.facts = visit, facts
        return connection

    def public_connection(self, visit: AdmittedConnection) -> Connection:
        """The same at the public address of a unit: the first frame says whether it stays (`steer`)."""
        return self.connection(visit, {})

    def __len__(self) -> int:
        return len(self._waiting)

    def _made(self, connection: Connection) -> None:
        if connection.visit is not None:
            connection.visit.end = partial(self._crowded_out, connection)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._settings.handshake_seconds, self._too_slow, connection)
        self._waiting[connection] = PendingHandshake(connection, timer)

    def _crowded_out(self, connection: Connection, reason: str) -> None:
        self.figures["handshakes evicted"] += 1
        connection.end(reason)

    def _too_slow(self, connection: Connection) -> None:
        self.figures["handshakes too slow"] += 1
        self._deny(connection, RefusedError("it took too long to say who it is"))

    def _lost(self, connection: Connection, reason: str) -> None:
        waiting = self._waiting.pop(connection, None)
        if waiting is not None:
            waiting.timer.cancel()

    def _receive(self, connection: Connection, messages: list[Message]) -> None:
        waiting = self._waiting.get(connection)
        if waiting is None:
            return  # it was denied
        try:
            if len(messages) > 1 or connection.pending:
                raise RefusedError("more than one frame before the welcome")
            self._step(waiting, messages[0])
        except TidingsError as error:
            self._deny(connection, error)

    def _step(self, waiting: PendingHandshake, message: Message) -> None:
        waiting.steps += 1
        if isinstance(message, OpenSession) and waiting.open is None:
            self._check(message)
            connection = waiting.connection
            if connection.facts == {} and self.steer is not None and self.steer(connection, message):
                return
            waiting.open = message
            waiting.conversation = self._authenticator.begin(self._on_request(waiting.connection, message))
            answer = waiting.conversation.step(message.proof)
        elif (
            isinstance(message, AuthResponse)
            and waiting.conversation is not None
            and waiting.steps <= MOST_STEPS
        ):
            answer = waiting.conversation.step(message.data)
        else:
            raise RefusedError(f"a {tag_of(type(message))} has no place in the handshake")
        if isinstance(answer, AuthenticationResult):
            assert waiting.open is not None
            self._lost(waiting.connection, "")
            if waiting.connection.visit is not None:
                waiting.connection.visit.serve()
            self._admit(waiting.connection, waiting.open, answer)
        else:
            waiting.connection.send(AuthChallenge(answer))

    def _check(self, open: OpenSession) -> None:
        if open.role not in (CLIENT, BROKER):
            raise RefusedError(f"{open.role!r} is neither {CLIENT} nor {BROKER}")
        if not open.name or len(open.name) > LONGEST_NAME or not open.name.isprintable():
            raise RefusedError(f"a name has 1 to {LONGEST_NAME} characters that can be printed")
        if open.role == BROKER and "#" in open.name:
            raise RefusedError(f"the name of a broker holds no #: {open.name!r}")
        if open.role == BROKER and open.composition != self._composition:
            raise RefusedError(
                f"this broker runs {self._composition!r}, not {open.composition!r}",
                hint="all brokers of a network run one composition",
            )

    def _on_request(self, connection: Connection, open: OpenSession) -> AuthenticationRequest:
        peer = connection.info("peername")
        host = str(peer[0]) if isinstance(peer, tuple) else str(peer or "")
        return AuthenticationRequest(
            open.role,
            open.name,
            open.mechanism,
            open.tenant,
            peer=host,
            is_loopback=not isinstance(peer, tuple) or _is_loopback(host),
            is_tls=connection.info("ssl_object") is not None,
            certificate=_certificate(connection),
        )

    def _deny(self, connection: Connection, error: TidingsError) -> None:
        self.figures["handshakes refused"] += 1
        connection.send(SessionDenied(error.code, str(error)))
        self._lost(connection, "")
        connection.finish(str(error))

    def close(self) -> None:
        for connection in list(self._waiting):
            connection.end("the broker stops")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _certificate(connection: Connection) -> Any:
    found = connection.info("peercert")
    return found or None

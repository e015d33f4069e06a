"""Opening a connection to a broker: as a client, or as a broker that joins.

An address is `tidings://host:port`, or just `host:port`; several are divided by commas, each with a scheme
or with that of the one before it. `tidings+tls://` means TLS. A denial by the broker is a `RefusedError` and
is not worth another try with the same credentials; everything else is an `UnreachableError`, and is. A
certificate that cannot be trusted, and a broker that speaks TLS where none was asked for, are a `TlsError`:
another try ends in the same way until an operator acts.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tidings.errors import SettingsError, TidingsError, TlsError, UnreachableError, WireError
from tidings.protocol.messages import Message, tag_of
from tidings.runtime.connection import Connection, Lost, NetworkSettings, WriteCoalescer
from tidings.runtime.failures import error_of
from tidings.runtime.messages import AuthChallenge, AuthResponse, OpenSession, SessionDenied, SessionOpened
from tidings.security.interfaces import Credentials
from tidings.wire.codec import Codec

PORT = 7117
MOST_PORT = 65_535
SCHEMES = {"tidings": False, "tidings+tls": True}


class Address(NamedTuple):
    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tidings{'+tls' if self.tls else ''}://{host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    """`tidings://host:port,host2:port2` as addresses. Raises `SettingsError`.

    Each address may have its scheme; one without takes that of the address before it.
    """
    if "@" in text:  # before any part of it is in a message
        raise SettingsError(
            f"a broker's address holds no name and password: …@{text.rpartition('@')[2]}",
            hint="leave them out, and give connect(credentials=PasswordCredentials(name, password)), from "
            "tidings.security.credentials; commands read TIDINGS_USER and TIDINGS_PASSWORD_FILE",
        )
    found: list[Address] = []
    tls = False
    for part in text.split(","):
        scheme, divider, position = part.strip().rpartition("://")
        if divider:
            tls = _tls_of(scheme)
        found.append(_parse_one(position.rstrip("/"), tls))
    return found


def _tls_of(scheme: str) -> bool:
    if scheme not in SCHEMES:
        raise SettingsError(
            f"no broker can be reached by {scheme}://", hint=f"one of {', '.join(s + '://' for s in SCHEMES)}"
        )
    return SCHEMES[scheme]


def port_of(text: str) -> int | None:
    """The port that a text names; None when it names none. Signs that only look like digits are none."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 6
    return int(text) if is_number and int(text) <= MOST_PORT else None


def _parse_one(part: str, tls: bool) -> Address:
    host, bracket, port = part.rpartition("]:") if part.startswith("[") else part.rpartition(":")
    if not bracket:
        host, port = part, str(PORT)
    host = host.strip("[]")
    number = port_of(port)
    if not host or number is None:
        raise SettingsError(f"{part!r} is no broker's address", hint="write host:port")
    return Address(host, number, tls)


class RetryDelays:
    """Pause between two tries: longer each time, with jitter so that clients do not retry at the
    same moment."""

    def __init__(self, settings: NetworkSettings, rng: Random) -> None:
        self._settings = settings
        self._rng = rng
        self._pause = 0.0

    def reset(self) -> None:
        self._pause = 0.0

    def next(self) -> float:
        first, slow = self._settings.retry_seconds, self._settings.slow_retry_seconds
        self._pause = min(max(2 * self._pause, first), slow)
        return self._pause * self._rng.uniform(0.5, 1.0)


class OpenedConnection(NamedTuple):
    """A connection that was let in, and what came right behind the welcome."""

    connection: Connection
    opened: SessionOpened
    early: list[Message]


class _DialHandshake:
    """The side of the one who connects."""

    def __init__(self, credentials: Credentials) -> None:
        self.done: asyncio.Future[SessionOpened] = asyncio.get_running_loop().create_future()
        self.early: list[Message] = []
        self._credentials = credentials

    def receive(self, connection: Connection, messages: list[Message]) -> None:
        for position, message in enumerate(messages):
            if self.done.done():
                self.early.extend(messages[position:])
                connection.hold("early")
                return
            try:
                self._receive(connection, message)
            except TidingsError as error:
                self._fail(error)

    def _receive(self, connection: Connection, message: Message) -> None:
        if isinstance(message, AuthChallenge):
            connection.send(AuthResponse(self._credentials.answer(message.data)))
        elif isinstance(message, SessionOpened):
            self._credentials.finish(message.server_final)
            self.done.set_result(message)
        elif isinstance(message, SessionDenied):
            self._fail(error_of(message.code, message.reason))
        else:
            self._fail(WireError(f"a {tag_of(type(message))} before the welcome"))

    def lost(self, connection: Connection, reason: str) -> None:
        self._fail(UnreachableError(reason))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def dial(
    address: Address,
    say: Callable[[], OpenSession],
    codec: Codec,
    coalescer: WriteCoalescer,
    settings: NetworkSettings,
    *,
    credentials: Credentials,
    lost: Lost,
    most_bytes: int,
    tls: ssl.SSLContext | None = None,
) -> OpenedConnection:
    """Connect and be let in. Raises `RefusedError` or `UnreachableError`.

    The connection holds what arrives until its `receive` is set and "early" is released.
    """
    handshake = _DialHandshake(credentials)
    loop = asyncio.get_running_loop()

    def protocol() -> Connection:
        return Connection(
            codec, coalescer, receive=handshake.receive, lost=handshake.lost, most_bytes=most_bytes
        )

    context = (tls or ssl.create_default_context()) if address.tls else None
    connection: Connection | None = None
    try:
        async with asyncio.timeout(settings.connect_seconds):
            _, connection = await loop.create_connection(protocol, address.host, address.port, ssl=context)
            connection.send(say())
            opened = await handshake.done
    except (OSError, TimeoutError) as error:
        _leave(connection, handshake)
        if isinstance(error, ssl.SSLCertVerificationError):
            raise _untrusted(error, address) from None
        why = _why(error, address, settings)
        raise UnreachableError(f"{address} cannot be reached: {why}") from None
    except UnreachableError as error:  # the far end closed the connection, or sent no frame of ours
        _leave(connection, handshake)
        if not address.tls and await _speaks_tls(address, settings):
            raise TlsError(
                f"{address} speaks TLS and was dialled without it",
                hint=f"write {address._replace(tls=True)}",
            ) from None
        raise UnreachableError(f"{address} did not let us in: {error}") from None
    except BaseException:
        _leave(connection, handshake)
        raise
    if connection.is_over:
        raise UnreachableError(f"{address} closed the connection")
    connection.lost = lost
    return OpenedConnection(connection, opened, handshake.early)


def _why(error: OSError | TimeoutError, address: Address, settings: NetworkSettings) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "no broker listens there"
    why = str(error)
    if not why:
        is_late = isinstance(error, TimeoutError)
        why = f"no answer within {settings.connect_seconds:g} s" if is_late else "the far end closed it"
    return f"{why}; does it speak TLS? Without, its address is tidings://" if address.tls else why


def _untrusted(error: ssl.SSLCertVerificationError, address: Address) -> TlsError:
    return TlsError(
        f"the certificate of {address} is not accepted: {error.verify_message}",
        hint="trust its authority (TIDINGS_AUTHORITY, or connect's tls=), and dial a host that it names",
    )


async def _speaks_tls(address: Address, settings: NetworkSettings) -> bool:
    """Whether a TLS handshake succeeds there. A broker with TLS closes a plain connection without a word."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(settings.connect_seconds):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


def _leave(connection: Connection | None, handshake: _DialHandshake) -> None:
    if connection is not None:
        connection.end("the handshake failed")
    if handshake.done.done() and not handshake.done.cancelled():
        handshake.done.exception()  # the caller reports it

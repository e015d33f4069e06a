"""Member of a unit: one of several broker processes on a machine that share one public address.

    supervisor (processes.py) ── public socket, inherited by all ──┬── NAME-1 ── joined on loopback ──┐
                                                                   ├── NAME-2 ────────────────────────┤
                                                                   └── NAME-3 ────────────────────────┘

Rules
- Every client has a home: the process that the part of its name before the first `/` hashes to. Any process
  may accept a connection; it reads the first frame, and hands the connection over when the home is another
  one. So a client that returns reaches its durable subscriptions, and consumers `workers/1`, `workers/2`
  share a process.
- A plain connection is handed over as its descriptor. A TLS connection stays where its keys are: that
  process relays the bytes through a pair of sockets, and hands over the other end.
- The home authenticates the client, with the address and certificate that the accepting process saw.
  Hand-overs come by sockets in a folder that only this user can open.
- Other brokers are at home at the first process. Processes of the unit prove themselves to one another by a
  secret that the supervisor gave them.
- A home that does not run makes the client try again: it is restarted meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.errors import RefusedError
from tidings.runtime.admission import SocketListener
from tidings.runtime.connection import Connection
from tidings.runtime.messages import OpenSession
from tidings.security.interfaces import (
    BROKER,
    AuthenticationExchange,
    AuthenticationRequest,
    AuthenticationResult,
    Authenticator,
)

if TYPE_CHECKING:
    from tidings.runtime.server import Server

log = logging.getLogger("tidings.broker")

MECHANISM = "unit"
NONCE_BYTES = 32
LARGEST = 128 << 10  # bytes of a hand-over; a certificate and a first frame are smaller
RETRY_SECONDS, RETRIES = 0.02, 100  # while the home's queue is full


class UnitMember(msgspec.Struct, frozen=True, kw_only=True):
    """Place of one process in its unit."""

    unit: str  # name of the unit
    number: int  # of this process, from 0
    count: int
    folder: str  # of the sockets for hand-overs
    secret: bytes
    sockets: tuple[int, ...]  # descriptors of the public listening sockets
    parent: str = ""  # address of the process that this one joins; empty: it is the first

    @property
    def name(self) -> str:
        return member_name(self.unit, self.number)

    def home_of(self, open: OpenSession) -> int:
        return 0 if open.role == BROKER else home_of(open.name, self.count)

    def path_of(self, number: int) -> str:
        return str(Path(self.folder) / str(number + 1))

    def check_group(self, group: str) -> None:
        """Refuse a consumer of a group whose home is another process: there would be one group in each."""
        if (home := home_of(group, self.count)) != self.number:
            raise RefusedError(
                f"the consumer group {group!r} lives in process {member_name(self.unit, home)} of this unit",
                hint=f"name its consumers {group}/1, {group}/2 and so on: they are connected to that process",
            )


def member_name(unit: str, number: int) -> str:
    return f"{unit}-{number + 1}"


def home_of(name: str, count: int) -> int:
    """The process where a client of this name lives: a hash of what stands before the first `/`."""
    digest = blake2b(name.partition("/")[0].encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


# -- processes of the unit to one another --------------------------------------------------------------


def _proof(secret: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, role + nonces, "sha256")


class UnitCredentials:
    """Credentials of a process of the unit that joins another: both prove that they know the unit's
    secret."""

    mechanism = MECHANISM

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._nonce = b""

    def first(self) -> bytes:
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        return self._nonce

    def answer(self, challenge: bytes) -> bytes:
        nonces = self._nonce + challenge[:NONCE_BYTES]
        if not hmac.compare_digest(challenge[NONCE_BYTES:], _proof(self._secret, b"accepts", nonces)):
            raise RefusedError("the process that listens there is not one of this unit")
        return _proof(self._secret, b"joins", nonces)

    def finish(self, server_final: bytes) -> None:
        """The challenge has proved the other end."""


class UnitAuthenticator:
    """Authenticator of a process in a unit: its siblings by the unit's secret, all others as `inner`
    decides."""

    def __init__(self, secret: bytes, inner: Authenticator) -> None:
        self._secret, self._inner = secret, inner

    def begin(self, request: AuthenticationRequest) -> AuthenticationExchange:
        if request.role == BROKER and request.mechanism == MECHANISM and request.is_loopback:
            return _SiblingExchange(self._secret)
        return self._inner.begin(request)


class _SiblingExchange:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._nonces = b""

    def step(self, data: bytes) -> bytes | AuthenticationResult:
        if not self._nonces:
            if len(data) != NONCE_BYTES:
                raise RefusedError(f"a process of a unit begins with {NONCE_BYTES} bytes")
            own = secrets.token_bytes(NONCE_BYTES)
            self._nonces = data + own
            return own + _proof(self._secret, b"accepts", self._nonces)
        if not hmac.compare_digest(data, _proof(self._secret, b"joins", self._nonces)):
            raise RefusedError("this is no process of the unit")
        return AuthenticationResult(None)


# -- the public address --------------------------------------------------------------------------------


class HandedOver(msgspec.Struct, frozen=True):
    """A connection on its way to its home, beside its descriptor."""

    frame: bytes  # the first one
    peer: tuple[Any, ...] | None
    is_tls: bool
    certificate: dict[str, Any] | None


class UnitListeners:
    """The public address of a unit as one of its processes serves it."""

    def __init__(self, member: UnitMember, server: Server, tls: ssl.SSLContext | None) -> None:
        self._member, self._server, self._tls = member, server, tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox: socket.socket | None = None
        self.figures = {"connections handed over": 0, "connections taken over": 0}

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        path = self._member.path_of(self._member.number)
        with suppress(FileNotFoundError):
            Path(path).unlink()  # of this process's earlier life
        inbox = self._inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        inbox.bind(path)
        loop.add_reader(inbox.fileno(), self._take)
        server = self._server
        server.check_group = self._member.check_group
        server.handshake.steer = self._steer
        options: dict[str, Any] = {
            "tls": self._tls,
            "handshake_seconds": server.network.handshake_seconds,
            "backlog": server.resources.listen_backlog,
        }
        made = server.handshake.public_connection
        for descriptor in self._member.sockets:
            public = socket.socket(fileno=os.dup(descriptor))
            server.listeners.append(SocketListener(public, made, server.admission, **options))

    def close(self) -> None:
        if self._inbox is not None:
            asyncio.get_running_loop().remove_reader(self._inbox.fileno())
            self._inbox.close()
            self._inbox = None
        for task in self._tasks:
            task.cancel()

    # -- away ------------------------------------------------------------------------------------

    def _steer(self, connection: Connection, open: OpenSession) -> bool:
        """Hand the connection over when its home is another process. False: it stays."""
        home = self._member.home_of(open)
        if home == self._member.number:
            return False
        certificate = connection.info("peercert") or None
        handed = HandedOver(
            connection.codec.encode(open),
            connection.info("peername") or None,
            connection.info("ssl_object") is not None,
            certificate,
        )
        transport, leave = connection.detach()
        self._spawn(self._hand_over(home, msgspec.msgpack.encode(handed), transport, leave, handed.is_tls))
        return True

    async def _hand_over(
        self, home: int, data: bytes, transport: asyncio.Transport, leave: Callable[[], None], is_tls: bool
    ) -> None:
        near: socket.socket | None = None
        if is_tls:
            near, far = socket.socketpair()
            near.setblocking(False)
            descriptor = far.detach()
        else:
            descriptor = os.dup(transport.get_extra_info("socket").fileno())
        try:
            await self._send(self._member.path_of(home), data, descriptor)
        except OSError as error:
            log.info("process %s is not there yet: %s", member_name(self._member.unit, home), error.strerror)
            if near is not None:
                near.close()
            near = None
        else:
            self.figures["connections handed over"] += 1
        finally:
            os.close(descriptor)
        if near is None:  # the home has the connection, or it is closed and the client tries again
            transport.abort()
            leave()
        else:
            await _relay(transport, near, leave)

    async def _send(self, path: str, data: bytes, descriptor: int) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
            out.connect(path)
            for _ in range(RETRIES):
                with suppress(BlockingIOError):
                    socket.send_fds(out, [data], [descriptor])
                    return
                await asyncio.sleep(RETRY_SECONDS)
        raise BlockingIOError(errno.EAGAIN, "its queue of connections is full")

    # -- home ------------------------------------------------------------------------------------

    def _take(self) -> None:
        """A sibling hands a connection over."""
        assert self._inbox is not None
        with suppress(BlockingIOError):
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._inbox, LARGEST, 1)
                for descriptor in descriptors:
                    opened = socket.socket(fileno=descriptor)
                    self._spawn(self._begin(opened, msgspec.msgpack.decode(data, type=HandedOver)))

    async def _begin(self, opened: socket.socket, handed: HandedOver) -> None:
        server = self._server
        opened.setblocking(False)
        visit = server.admission.enter(handed.peer, lambda reason: None)
        if visit is None:
            opened.close()
            return
        facts = {
            "peername": handed.peer,
            "ssl_object": True if handed.is_tls else None,
            "peercert": handed.certificate,
        }
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.connect_accepted_socket(
                lambda: server.handshake.connection(visit, facts), opened
            )
        except OSError as error:
            log.debug("a connection that was handed over ended before it began: %s", error)
            visit.leave()
            opened.close()
            return
        self.figures["connections taken over"] += 1
        connection.data_received(handed.frame)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _RelayEnd(asyncio.Protocol):
    """One end of a relay: all bytes go to the other end, as fast as that takes them."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self.other: asyncio.Transport | None = None
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.close()
        self._ended()


async def _relay(transport: asyncio.Transport, near: socket.socket, leave: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    outer, inner = _RelayEnd(leave), _RelayEnd(lambda: None)
    made, _ = await loop.connect_accepted_socket(lambda: inner, near)
    outer.other, inner.other = made, transport
    transport.set_protocol(outer)
    transport.resume_reading()


def public_sockets(positions: Sequence[tuple[str, int]], backlog: int) -> list[socket.socket]:
    """Listening sockets for the processes of a unit to inherit. Raises `OSError`."""
    made: list[socket.socket] = []
    try:
        for host, port in positions:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(found):
                one = socket.socket(family, kind, protocol)
                made.append(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind(address)
                one.listen(backlog)
    except OSError:
        for one in made:
            one.close()
        raise
    return made

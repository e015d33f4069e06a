"""Admission of connections, over all listeners of one process: how many, from where, and who goes when it is
full.

Rules
- A connection that has not said enough yet is *waiting*: before its handshake is done, before its HTTP
  request is complete, before its CONNECT. A bounded number may wait, in all and from one address; when one
  more comes, the oldest that waits has to go, of the address that has the most. So a silent client makes room
  for a new one, and never keeps it out.
- Connections in all stay below the process's limit on descriptors by a reserve, which the health page, the
  store and links to other brokers use. One address may have most of them, not all.
- A network of IPv6 (64 bits) counts as one address: its owner has 2**64 of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

log = logging.getLogger("tidings.broker")

LOCAL = "local"  # stands for the address of what comes by no network


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs of admission, each with its price."""

    waiting: int = 1024  # connections that have not proved or asked anything yet; each holds a descriptor
    waiting_per_address: int = 256  # the same from one address; behind a proxy all come from one
    connections: int = 0  # in all; 0: what the limit on descriptors allows, without the reserve
    reserved_descriptors: int = 128  # for health pages, the store, files and links to other brokers
    share_per_address: float = 0.75  # of all connections that one address may have


def admission_settings(network: Any) -> AdmissionSettings:
    """Admission as the settings of a broker's network say (`NetworkSettings`)."""
    return AdmissionSettings(
        waiting=network.handshakes,
        waiting_per_address=network.handshakes_per_address,
        reserved_descriptors=network.reserved_descriptors,
    )


class AdmittedConnection:
    """One connection, as admission counts it."""

    __slots__ = ("_admission", "address", "end", "is_over", "is_waiting")

    def __init__(self, admission: Admission, address: str, end: Callable[[str], None]) -> None:
        self._admission = admission
        self.address = address
        self.end = end  # called with the reason when it has to go
        self.is_waiting = True
        self.is_over = False

    def serve(self) -> None:
        """Mark the visit as authenticated, or as one with a request: it no longer makes way for others."""
        self._admission.set_waiting(self, False)

    def wait(self) -> None:
        """The request was answered; the peer may send another one or none."""
        self._admission.set_waiting(self, True)

    def leave(self) -> None:
        """Release the visit. A second call has no effect."""
        self._admission.leave(self)


class Admission:
    """Counts the connections of one process, and says which of them has to go."""

    def __init__(self, settings: AdmissionSettings | None = None, *, descriptors: int | None = None) -> None:
        settings = settings or AdmissionSettings()
        limit = descriptor_limit() if descriptors is None else descriptors
        most = max(limit - settings.reserved_descriptors, limit // 2, 1)
        self.most = min(settings.connections or most, most)
        self.most_per_address = max(1, int(self.most * settings.share_per_address))
        self.most_waiting = min(settings.waiting, max(1, self.most // 2))
        self.most_waiting_per_address = min(settings.waiting_per_address, self.most_waiting)
        self._open: dict[str, int] = {}  # by address
        self._waiting: dict[str, dict[AdmittedConnection, None]] = {}  # by address, the oldest first
        self._waiting_count = 0
        self._count = 0
        self.figures = {"connections evicted": 0, "connections refused": 0}

    def __len__(self) -> int:
        return self._count

    @property
    def waiting(self) -> int:
        return self._waiting_count

    def enter(self, peer: Any, end: Callable[[str], None]) -> AdmittedConnection | None:
        """A connection came from this peer (as the socket names it); None: there is no room for it."""
        address = address_of(peer)
        if not self._has_room(address):
            self.figures["connections refused"] += 1
            return None
        visit = AdmittedConnection(self, address, end)
        self._count += 1
        self._open[address] = self._open.get(address, 0) + 1
        self._add_waiting(visit)
        return visit

    def _has_room(self, address: str) -> bool:
        """Make room for one more, when that is possible."""
        own = self._waiting.get(address)
        if self._open.get(address, 0) >= self.most_per_address:
            return self._evict(own)
        if own is not None and len(own) >= self.most_waiting_per_address:
            return self._evict(own)
        if self._count >= self.most or self._waiting_count >= self.most_waiting:
            return self._evict(max(self._waiting.values(), key=len, default=None))
        return True

    def _evict(self, some: dict[AdmittedConnection, None] | None) -> bool:
        if not some:
            return False
        oldest = next(iter(some))
        self.leave(oldest)
        self.figures["connections evicted"] += 1
        oldest.end("others wait to come in")
        return True

    def set_waiting(self, visit: AdmittedConnection, is_waiting: bool) -> None:
        if visit.is_over or visit.is_waiting is is_waiting:
            return
        if is_waiting:
            self._add_waiting(visit)
        else:
            self._drop_waiting(visit)
        visit.is_waiting = is_waiting

    def _add_waiting(self, visit: AdmittedConnection) -> None:
        self._waiting.setdefault(visit.address, {})[visit] = None
        self._waiting_count += 1

    def _drop_waiting(self, visit: AdmittedConnection) -> None:
        own = self._waiting[visit.address]
        del own[visit]
        if not own:
            del self._waiting[visit.address]
        self._waiting_count -= 1

    def leave(self, visit: AdmittedConnection) -> None:
        if visit.is_over:
            return
        visit.is_over = True
        if visit.is_waiting:
            self._drop_waiting(visit)
        self._count -= 1
        self._open[visit.address] -= 1
        if not self._open[visit.address]:
            del self._open[visit.address]


def address_of(peer: Any) -> str:
    """The address by which a peer is counted; of IPv6 its network of 64 bits."""
    if not isinstance(peer, tuple) or not peer:
        return LOCAL
    host = str(peer[0]).partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        if not address.is_loopback:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def descriptor_limit() -> int:
    """The descriptors that this process may have open; a large number where there is no such limit."""
    try:
        import resource
    except ImportError:  # not on this system
        return 1 << 20
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


Factory = Callable[[AdmittedConnection], asyncio.Protocol]
AT_ONCE = 16  # connections accepted in one turn of the loop; more lets those who are here wait
PAUSE_SECONDS = 0.1  # after the system had no descriptor left, although there is a reserve


class SocketListener:
    """A listening socket: each connection is admitted before a byte of it is read, a TLS
    handshake included."""

    def __init__(
        self,
        bound: socket.socket,
        factory: Factory,
        admission: Admission,
        *,
        tls: ssl.SSLContext | None = None,
        handshake_seconds: float = 10.0,
        backlog: int = 1024,
    ) -> None:
        self._socket = bound
        self._factory = factory
        self._admission = admission
        self._tls = tls
        self._handshake_seconds = handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_open = True
        bound.setblocking(False)
        bound.listen(backlog)
        self._loop.add_reader(bound.fileno(), self._accept)

    @property
    def name(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                opened, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no connection can be accepted: %s", error.strerror or error)
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(PAUSE_SECONDS, self._accept_again)
                return
            self._admit(opened, peer)

    def _accept_again(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _admit(self, opened: socket.socket, peer: Any) -> None:
        opened.setblocking(False)
        visit = self._admission.enter(peer, lambda reason: None)
        if visit is None:
            opened.close()
            return
        task = self._loop.create_task(self._open(opened, visit))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

        def end(reason: str) -> None:
            task.cancel(reason)

        visit.end = end

    async def _open(self, opened: socket.socket, visit: AdmittedConnection) -> None:
        """Make a transport of the socket. The protocol ends the visit, once there is one."""
        try:
            options: dict[str, Any] = {}
            if self._tls is not None:
                options = {"ssl": self._tls, "ssl_handshake_timeout": self._handshake_seconds}
            await self._loop.connect_accepted_socket(lambda: self._factory(visit), opened, **options)
        except (OSError, ssl.SSLError) as error:  # also a handshake that took too long
            log.debug("a connection of %s ended before it began: %s", visit.address, error)
            visit.leave()
            opened.close()
        except asyncio.CancelledError:  # crowded out, or the listener was closed
            visit.leave()
            opened.close()

    def close(self) -> None:
        """Accept no more connections; accepted ones stay, but for unfinished handshakes."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            for task in list(self._opening):
                task.cancel()


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of the host. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
    except OSError:
        for one in made:
            one.close()
        raise
    return made


async def listeners_at(
    host: str, port: int, factory: Factory, admission: Admission, **options: Any
) -> list[SocketListener]:
    """Listeners at every address of the host; `options` are those of `SocketListener`. Raises `OSError`."""
    return [SocketListener(bound, factory, admission, **options) for bound in await bound_sockets(host, port)]


def streamed(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter, AdmittedConnection], Awaitable[None]],
    limit: int,
) -> Factory:
    """A factory for connections that a coroutine reads and writes as streams; `limit` is the
    reader's buffer."""

    def made(visit: AdmittedConnection) -> asyncio.Protocol:
        async def begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            visit.end = lambda reason: writer.transport.abort()
            try:
                if not visit.is_over:  # else it had to go before it began
                    await serve(reader, writer, visit)
            finally:
                visit.leave()

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=limit), begun)

    return made

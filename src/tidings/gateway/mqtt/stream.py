"""Bytes of one MQTT connection, over TCP or a WebSocket.

Rules
- While a sink is set, bytes that come are handed to it at once, without a turn of the event loop; no bytes
  at all are the end. Without one
  they wait for `read`, and the peer is not read from when many wait.
- A peer that does not read what is written to it is not read from either.
- A connection that the broker ends brings no more bytes, at once: its session does not wait for the peer.
  Written bytes have `LINGER_SECONDS` to leave; then the connection is aborted, since a peer that does not
  read would keep it open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from tidings.runtime.admission import AdmittedConnection, Factory

MOST_UNREAD = 2**16  # bytes that wait for `read`; more pause the peer
LINGER_SECONDS = 1.0  # for the last bytes; more keeps unread sockets, less loses the reason of an end

Sink = Callable[[bytes], None]


class Wire(Protocol):
    """Interface of the connection below: TCP, or a WebSocket."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool: ...

    def get_write_buffer_size(self) -> int: ...

    def get_extra_info(self, name: str) -> Any: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class ByteStream:
    """Both directions of one connection."""

    def __init__(self) -> None:
        self.wire: Wire
        self.sink: Sink | None = None
        self.is_over = False  # no more bytes come
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self.is_paused = False  # is the peer not read from?
        self.pauses = 0  # so far
        self.is_full = False  # does the peer not read?
        self._lingering: asyncio.TimerHandle | None = None  # aborts the connection
        self._is_lost = False  # is the connection below gone?
        self._lost: asyncio.Future[None] | None = None
        self._reading: asyncio.Future[None] | None = None
        self._draining: list[asyncio.Future[None]] = []

    # -- from the peer -----------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self.sink is not None and not self._unread:
            self.sink(data)
            return
        if self.is_over:
            return
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > MOST_UNREAD:
            self._pause()
        self._wake()

    def feed_eof(self) -> None:
        """No more bytes come."""
        self.is_over = True
        self._wake()
        self.resume_writing()
        if self.sink is not None:
            self.sink(b"")

    async def read(self) -> bytes:
        """The bytes that came; none at the end."""
        while not self._unread and not self.is_over:
            self._reading = asyncio.get_running_loop().create_future()
            await self._reading
        return self.take()

    def take(self) -> bytes:
        """The bytes that came and were not read, without waiting."""
        data = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread, self._unread_bytes = [], 0
        if self.is_paused and not self.is_full:
            self.is_paused = False
            self.wire.resume_reading()
        return data

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    def _pause(self) -> None:
        if not self.is_paused and not self.is_over:
            self.is_paused = True
            self.pauses += 1
            self.wire.pause_reading()

    # -- to the peer -------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self.is_full = True
        self._pause()

    def resume_writing(self) -> None:
        self.is_full = False
        if self.is_paused and self._unread_bytes <= MOST_UNREAD:
            self.is_paused = False
            if not self.is_over:
                self.wire.resume_reading()
        waiting, self._draining = self._draining, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def drained(self) -> None:
        """Wait until few bytes wait for the peer. Raises `ConnectionResetError` when it is gone."""
        if self.is_over:
            raise ConnectionResetError("the peer is gone")
        if self.is_full:
            future = asyncio.get_running_loop().create_future()
            self._draining.append(future)
            await future

    def unsent(self) -> int:
        """Bytes that the system has not taken."""
        return self.wire.get_write_buffer_size()

    # -- the end -----------------------------------------------------------------------------------

    def end(self) -> None:
        """Close the connection after what was written, and abort it when that does not leave. No more bytes
        come."""
        if self._lingering is None and not self._is_lost:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.wire.abort)
            self.wire.close()
        self.feed_eof()

    def lost(self) -> None:
        """The connection below is gone."""
        self._is_lost = True
        if self._lingering is not None:
            self._lingering.cancel()
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        self.feed_eof()

    async def ended(self) -> None:
        """Wait until the connection below is gone."""
        if not self._is_lost:
            self._lost = asyncio.get_running_loop().create_future()
            await self._lost


class TurnWrites:
    """Connections with bytes to write at the end of this turn of the loop. They are written one after the
    other, so that a peer that is woken by the first write finds the others written."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []  # the first one has `flush_all` called soon

    def flush_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for flush in waiting:
            flush()


class TcpStream(ByteStream, asyncio.Protocol):
    """A connection by TCP, with or without TLS. `serve` is run for it."""

    def __init__(
        self,
        serve: Callable[[ByteStream, AdmittedConnection], Awaitable[None]],
        visit: AdmittedConnection,
        most_unsent: int,
    ) -> None:
        super().__init__()
        self._serve = serve
        self._visit = visit
        self._most_unsent = most_unsent
        self._task: asyncio.Task[None] | None = None

    data_received = ByteStream.feed

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, made)  # of another event loop it is no subclass
        transport.set_write_buffer_limits(high=self._most_unsent)
        self.wire = transport
        self._visit.end = lambda reason: transport.abort()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            if not self._visit.is_over:  # else it had to go before it began
                await self._serve(self, self._visit)
        finally:
            self.end()
            await self.ended()
            self._visit.leave()

    def eof_received(self) -> bool:
        self.feed_eof()
        return self.wire.get_extra_info("sslcontext") is None  # TLS has no half-closed connections

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # why it ended: the other side is gone in any case
        self.lost()


def streams(serve: Callable[[ByteStream, AdmittedConnection], Awaitable[None]], most_unsent: int) -> Factory:
    """A factory for connections by TCP; of more unsent bytes than that the peer is a slow one."""
    return lambda visit: TcpStream(serve, visit, most_unsent)

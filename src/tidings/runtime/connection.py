"""One connection: bytes to messages and back, within bounds.

Rules
- Frames are cut and checked by `wire`. A bad one ends the connection: after it the start of the next frame is
  unknown.
- A message to send is appended to a buffer. All buffers are flushed once in a turn of the event loop
  (`WriteCoalescer`), so that what belongs together leaves in one write.
- Deliveries beyond `limits.encoded_bytes` wait as they are, with their event shared by all of them, and
  become frames as the peer reads: one large event to many subscriptions of a client is not copied for each. A
  turn of the loop encodes `limits.turn_bytes` of them for a connection, and charges the time to its owner.
- A peer that does not read is not read from by the end that admitted it, and is left when its buffer is
  full. Its unacknowledged deliveries are not lost by that. The end that dialled always reads: if both waited
  for the other, they would wait for ever. Publishes in flight and `most_bytes` bound what it has to send.
- A frame costs memory as its bytes arrive, counted for its principal (`unfinished.py`); a connection that is
  over lets go of its buffers at once, without waiting for the garbage collector.
- Messages of a client are handled in slices, and the time of each is charged to its owner (`fairness.py`).
- Each end says in the handshake how large a frame it reads (`takes`). Frames are read up to our own limit and
  sent up to that of the peer; a peer of an earlier version is taken to read ours, and the default at least.
- `Keepalive` goes out when no other message did for a while; a peer that is silent for `peer_timeout_seconds`
  is gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sized
from time import perf_counter
from typing import Any, cast

import msgspec

from tidings.errors import TidingsError, WireError
from tidings.model.event import event_size
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Deliver, DeliverAll, Message
from tidings.runtime.admission import AdmittedConnection
from tidings.runtime.messages import Keepalive, KeepaliveAck
from tidings.runtime.unfinished import PrincipalFrames
from tidings.wire.codec import Codec, FrameReader

SLICE = 2048  # messages of a client that are handled in one turn of the loop at most ...
FIRST_SLICE = 32  # ... and at first: one message may be a delivery to each of thousands of subscriptions
TURN_SECONDS = 0.05  # that a turn may take; after a longer one the next slice is smaller
FINISH_SECONDS = 2.0  # in which a far end takes some of the last messages; less cuts off a slow one
DELIVERY_OVERHEAD = 128  # bytes of memory that a delivery costs beside its event
BACKLOG = "backlog"  # the reason to read no more while some wait
OVERLOAD = "overload"  # the reason to read no more while deliveries go first (see `intake.py`)

Receive = Callable[["Connection", list[Message]], None]
Unsent = Callable[[Message, str], None]
Lost = Callable[["Connection", str], None]

LEAST_TAKEN = 16 << 10  # bytes of a frame that every peer takes: one that says less is taken to say this


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs of connections, each with its price."""

    keepalive_seconds: float = 5.0  # silence after which a ping is sent; less detects failures sooner
    peer_timeout_seconds: float = 15.0  # silence after which a peer counts as gone; less suspects slow peers
    handshake_seconds: float = 10.0  # time for the handshake and authentication
    handshakes: int = 1024  # pending handshakes in all; beyond it the oldest is ended
    handshakes_per_address: int = 256  # the same from one address; clients behind a proxy share one
    reserved_descriptors: int = 128  # file descriptors kept for health pages, the store and files
    request_seconds: float = 10.0  # time to send the head of an HTTP request
    idle_seconds: float = 30.0  # time that an HTTP connection stays open between two requests
    connections: int = 20_000  # maximum of client connections; the next one is refused
    max_frame_bytes: int = 16 << 20  # maximum frame of a client; brokers accept 64 MiB from one another
    handshake_frame_bytes: int = 16 << 10  # maximum frame before the sender is authenticated
    unfinished_bytes: int = 32 << 20  # incomplete frames of one principal; beyond it one is read at a time
    client_buffer_bytes: int = 8 << 20  # output for a client that does not read; beyond it: disconnected
    broker_buffer_bytes: int = 64 << 20  # the same for a broker
    unanswered: int = 4096  # publishes of one client that wait for the disk; beyond it reading pauses
    retry_seconds: float = 0.1  # first pause before a reconnect; doubles, with jitter
    slow_retry_seconds: float = 5.0  # longest pause before a reconnect
    connect_seconds: float = 5.0  # time to open a connection, handshake included


def _ignore(*_: Any) -> None:
    """Stands for the callbacks of a connection that is over."""


def sendable(stated: int, own: int) -> int:
    """The largest frame to send to a peer that said this limit, or none (0), where ours is `own`."""
    return max(stated, LEAST_TAKEN) if stated else max(own, DEFAULT_LIMITS.frame_bytes)


class WriteCoalescer:
    """Flushes every connection with messages to send, once in a turn of the loop, and runs other work that
    waits for the end of the turn.

    Waiting gains no time when no other callback is ready in this turn: then the turn ends as soon as its
    input was handled (`begin_input`, `settle`). A loop that does not show its callbacks is taken to have none
    other when the turn before had one input that sent something.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._waiting: list[Connection] = []
        self._later: list[Connection] = []  # that send no message of their own before the end of the turn
        self._callbacks: list[Callable[[], None]] = []
        self._loop = loop  # known once a turn was scheduled
        self.ready: Sized | None = None  # the loop's callbacks of this turn; None: it does not show them
        self.is_scheduled = False  # does a callback end this turn?
        self._senders = 0  # inputs of this turn from which something follows at its end
        self._is_single = False  # had the last turn with such inputs one of them?
        self.in_input = False  # set while an input is handled; `settle` follows
        self.inputs = 0  # that were handled, and times that a connection could be written to again

    def add(self, connection: Connection) -> None:
        """Flush the connection at the end of the turn."""
        self._waiting.append(connection)
        if not self.in_input and not self.is_scheduled:
            self._schedule()

    def add_later(self, connection: Connection) -> None:
        """Flush the connection at the end of the turn, or when it sends otherwise."""
        self._later.append(connection)
        self._schedule()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back at the end of the turn."""
        self._callbacks.append(callback)
        if not self.in_input:
            self._schedule()

    @property
    def is_alone(self) -> bool:
        """Is the input of now the only one of this turn, as far as can be seen?"""
        if self.ready is None:
            return self._is_single
        return len(self.ready) <= self.is_scheduled

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after so many seconds; 0: at the end of the turn."""
        if seconds > 0:
            asyncio.get_running_loop().call_later(seconds, callback)
        else:
            self.soon(callback)

    def settle(self) -> None:
        """An input was handled, and all that follows from it was sent."""
        self.in_input = False
        self.inputs += 1
        if self._waiting or self._callbacks:
            self._senders += 1
            if self.ready is not None and len(self.ready) <= self.is_scheduled:
                self._end()
            elif not self.is_scheduled:
                if self.ready is None and self._is_single:
                    self.flush()
                self._schedule()

    def _schedule(self) -> None:
        if self.is_scheduled:
            return
        self.is_scheduled = True
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if self.ready is None:
            self.ready = getattr(self._loop, "_ready", None)
        self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self.is_scheduled = False
        if self._senders:
            self._is_single, self._senders = self._senders == 1, 0
        later, self._later = self._later, []
        self._end()
        for connection in later:
            connection.flush()

    def _end(self) -> None:
        self.flush()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        if self._waiting:  # what they sent leaves in this turn too
            self.flush()

    def flush(self) -> None:
        """Flush the connections now: the turn is a long one."""
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.flush()


class Connection(asyncio.Protocol):
    """The near end of a connection. `receive` gets what arrives, `lost` is called once at the end."""

    __slots__ = (
        "_coalescer", "_counted", "_encode", "_encoded", "_ending", "_finishing", "_frames", "_holds",
        "_is_gathered", "_is_over", "_is_paused", "_last_event", "_late", "_made", "_out", "_reader",
        "_slice", "_waiting_bytes", "before_flush", "codec", "facts", "last_received", "last_sent",
        "limits", "loop", "lost", "most_bytes", "receive", "received_bytes", "spent", "transport",
        "unsendable", "visit",
    )  # fmt: skip

    def __init__(
        self,
        codec: Codec,
        coalescer: WriteCoalescer,
        *,
        receive: Receive,
        lost: Lost,
        most_bytes: int,
        made: Callable[[Connection], None] | None = None,
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        self.receive = receive
        self.limits = limits
        self.lost = lost
        self.most_bytes = most_bytes  # that may wait to be sent
        self.unsendable: Unsent | None = (
            None  # told of a message that no frame holds; None: it ends the connection
        )
        self.received_bytes = 0
        self.last_received = 0.0  # of the loop's clock
        self.last_sent = 0.0
        self.transport: asyncio.Transport | None = None
        self.visit: AdmittedConnection | None = None  # of the far end, where connections are admitted
        self.facts: dict[str, Any] | None = None  # of the far end, in the place of the transport's own
        self.spent: Callable[[float], None] | None = None  # charges seconds of handling; None: not counted
        self._made = made
        self._coalescer = coalescer
        self.loop = asyncio.get_running_loop()
        self._out: deque[bytes | Message] = deque()
        self._encoded = 0  # bytes of the frames in it
        self._late = 0  # messages in it that are no frames yet
        self.before_flush: Callable[[], None] | None = None  # sends what waits for the end of the turn
        self._last_event: object = None  # of the last delivery that waits without being encoded
        self._waiting_bytes = 0  # that came since the far end does not read
        self._is_gathered = False
        self._is_paused = False  # the far end does not read
        self._holds: set[str] = set()  # reasons not to read from it
        self._ending = ""
        self._finishing: asyncio.TimerHandle | None = None  # leaves a far end that does not read
        self._is_over = False
        self._frames: PrincipalFrames | None = None  # counts what is pending here ...
        self._counted = 0  # ... which is this much so far
        self._slice = FIRST_SLICE
        self.use_codec(codec)

    def use_codec(self, codec: Codec) -> None:
        """Use this codec from now on; no earlier input may be pending."""
        self.codec = codec
        self._encode = codec.encode
        self._reader = FrameReader(codec)

    def send_by(self, codec: Codec) -> None:
        """Encode with this codec from now on: the peer's frame limit may differ from ours."""
        self._encode = codec.encode

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete."""
        return self._reader.pending

    def count_in(self, frames: PrincipalFrames) -> None:
        """Count what is pending here among the unfinished frames of its principal."""
        self._frames = frames

    # -- from the event loop ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.last_received = self.last_sent = self.loop.time()
        if self._made is not None:
            self._made(self)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self.last_received = self.loop.time()
        self.received_bytes += len(data)
        coalescer = self._coalescer
        coalescer.in_input = True
        try:
            if self.spent is None:
                self._handle(data)
            else:
                self._handle_slice(data)
        finally:
            coalescer.settle()

    def _handle_slice(self, data: bytes) -> None:
        """Handle some of the messages; others follow in a later turn."""
        began, spent = perf_counter(), self.spent
        self._handle(data, self._slice)
        took = perf_counter() - began
        if took > TURN_SECONDS:
            self._slice = max(1, int(self._slice * TURN_SECONDS / took))
        if self._reader.has_more:
            if took < TURN_SECONDS / 2 and OVERLOAD not in self._holds:
                self._slice = min(SLICE, 2 * self._slice)
            self.hold(BACKLOG)
            self.loop.call_soon(self._go_on)
        if spent is not None:
            spent(took)

    def _go_on(self) -> None:
        """Handle the next slice, unless there are other reasons to wait."""
        if not self._is_over and len(self._holds) == 1 and BACKLOG in self._holds:
            self.release(BACKLOG)
            self._coalescer.inputs += 1
            self._handle_slice(b"")

    def _handle(self, data: bytes, limit: int = 1 << 62) -> None:
        try:
            messages = self._reader.feed(data, limit)
        except WireError as error:
            self.end(f"it sent what is no frame of ours: {error}")
            return
        if self._frames is not None and (more := self._reader.pending - self._counted):
            self._counted += more
            self._frames.count(self, more)
        if messages:
            self.receive(self, messages)

    def connection_lost(self, error: Exception | None) -> None:
        reason = self._ending or (f"the connection broke: {error}" if error else "the far end closed it")
        self._over(reason)
        self.transport = None

    def pause_writing(self) -> None:
        self._is_paused = True
        if self.visit is not None:
            self.hold("unread")

    def resume_writing(self) -> None:
        self._is_paused = False
        self._coalescer.inputs += 1
        self.release("unread")
        self.flush()

    # -- sending ------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Send it soon, after everything that was sent before."""
        if self._encoded >= self.limits.encoded_bytes and type(message) in (Deliver, DeliverAll):
            self._waiting_bytes += self._memory_of(message)
            self._late += 1
            self._out.append(message)
        else:
            try:
                frame = self._encode(message)
            except TidingsError as error:
                self._not_encoded(message, error)
                return
            self._out.append(frame)
            size = len(frame)
            self._encoded += size
            self._waiting_bytes += size
        if not self._is_gathered:
            self._is_gathered = True
            self._coalescer.add(self)

    def send_later(self) -> None:
        """Have `before_flush` called at the end of the turn, or before the next message leaves."""
        if not self._is_gathered:
            self._coalescer.add_later(self)

    def gather(self) -> None:
        """Flush at the end of the turn."""
        if not self._is_gathered:
            self._is_gathered = True
            self._coalescer.add(self)

    def _memory_of(self, message: Any) -> int:
        """Bytes that a delivery costs while it waits; an event counts once for those that follow
        one another."""
        if type(message) is DeliverAll:
            last, size = message.events, sum(map(event_size, message.events))
        else:
            last, size = message.event, event_size(message.event)
        is_shared, self._last_event = last is self._last_event, last
        return DELIVERY_OVERHEAD + (0 if is_shared else size)

    def _not_encoded(self, message: Message, error: TidingsError) -> None:
        """No frame holds this message."""
        parts = message.one_by_one()
        if parts[0] is not message:  # too large together
            self._late += len(parts)
            self._out.extend(parts)
            self.gather()
        elif self.unsendable is not None:
            self.unsendable(message, str(error))
        else:
            self.end(str(error))

    def flush(self) -> None:
        if self.before_flush is not None:
            self._is_gathered = True
            self.before_flush()
        self._is_gathered = False
        transport = self.transport
        if self._is_over or transport is None:
            self._clear()
        elif self._is_paused:
            if self._waiting_bytes > self.most_bytes:
                self.end(f"it reads too slowly: {self._waiting_bytes} bytes wait for it")
        elif self._out:
            self._waiting_bytes = 0
            if self._late:
                self._write(transport, self.limits.turn_bytes)
            else:
                frames, self._encoded = b"".join(self._out), 0  # type: ignore[arg-type]
                self._out.clear()
                self.last_sent = self.loop.time()
                transport.write(frames)

    def _write(self, transport: asyncio.Transport, most: int) -> None:
        """Write frames as long as the far end reads; deliveries that are to be encoded go up to so many
        bytes."""
        began, encoded = perf_counter(), 0
        while self._out and encoded < most and not (self._is_over or self._is_paused):
            frames: list[bytes] = []
            size = 0
            while self._out and size < self.limits.encoded_bytes:
                first = self._out.popleft()
                if not isinstance(first, bytes):
                    self._late -= 1
                    frame = self._late_frame(first)
                    encoded += 0 if frame is None else len(frame)
                else:
                    frame = first
                    self._encoded -= len(frame)
                if frame is not None:
                    frames.append(frame)
                    size += len(frame)
            if frames and not self._is_over:
                self.last_sent = self.loop.time()
                transport.write(b"".join(frames) if len(frames) > 1 else frames[0])
        if encoded and self.spent is not None:
            self.spent(perf_counter() - began)
        if self._out and not (self._is_over or self._is_paused):
            self.gather()

    def _late_frame(self, message: Message) -> bytes | None:
        """The frame of the first delivery that waited; None: no frame holds it, and that was seen to."""
        try:
            return self._encode(message)
        except TidingsError as error:
            if type(message) is DeliverAll:  # too large together: one by one, before what comes after them
                parts = tuple(message.one_by_one())
                self._late += len(parts)
                self._out.extendleft(reversed(parts))
            else:
                self._not_encoded(message, error)
            return None

    def _clear(self) -> None:
        self._out.clear()
        self._encoded, self._late, self._last_event = 0, 0, None

    @property
    def unsent(self) -> int:
        """Bytes in the transport, and messages before it, that the system has not taken yet; 0:
        it took all."""
        in_transport = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return len(self._out) + in_transport

    # -- reading less -------------------------------------------------------------------------

    def hold(self, reason: str) -> None:
        """Read no more until `release` was called for every reason."""
        self._holds.add(reason)
        if len(self._holds) == 1 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def handle_fewer(self, messages: int) -> None:
        """Handle at most so many messages in the next turn."""
        self._slice = min(self._slice, messages)

    @property
    def is_reading_paused(self) -> bool:
        return bool(self._holds)

    def release(self, reason: str) -> None:
        if reason in self._holds:
            self._holds.remove(reason)
            if len(self._holds) == 1 and BACKLOG in self._holds:
                self.loop.call_soon(self._go_on)
            if not self._holds and self.transport is not None and not self.transport.is_closing():
                self.last_received = self.loop.time()  # its silence was ours
                self.transport.resume_reading()

    # -- alive --------------------------------------------------------------------------------

    def look(self, now: float, settings: NetworkSettings) -> None:
        """Check that the peer is still there. Called now and then."""
        if self._holds:
            self.last_received = max(self.last_received, now - settings.peer_timeout_seconds / 2)
        if now - self.last_received > settings.peer_timeout_seconds or (
            self._is_paused and now - self.last_sent > settings.peer_timeout_seconds
        ):
            self.end(f"nothing was received from it for {settings.peer_timeout_seconds:g} s")
        elif now - self.last_sent >= settings.keepalive_seconds:
            self.send(Keepalive())

    def answered(self, messages: list[Message]) -> list[Message]:
        """Answer pings; what is left is for others."""
        for message in messages:
            if type(message) is Keepalive or type(message) is KeepaliveAck:
                break
        else:
            return messages
        if any(type(message) is Keepalive for message in messages):
            self.send(KeepaliveAck())
        return [
            message
            for message in messages
            if type(message) is not Keepalive and type(message) is not KeepaliveAck
        ]

    # -- ending -------------------------------------------------------------------------------

    def end(self, reason: str) -> None:
        """Leave it at once; `lost` is called before this returns."""
        self._ending = self._ending or reason
        if self.transport is not None:
            self.transport.abort()
        self._over(self._ending)

    def finish(self, reason: str) -> None:
        """Send what waits, then close. A far end that takes none of it for `FINISH_SECONDS` is left."""
        self._ending = self._ending or reason
        self._is_paused = False
        if self.transport is not None and not self._is_over:
            if self.before_flush is not None:
                self.before_flush()
            while self._out:
                self._is_paused = False
                self._write(self.transport, 1 << 62)
            if not self.transport.is_closing():  # a second `close` leaves a TLS transport unusable
                self.transport.close()
            if self._finishing is None and not self._is_over:
                self._finish_taken(1 << 62)

    def _finish_taken(self, before: int) -> None:
        if (unsent := self.unsent) < before:
            self._finishing = self.loop.call_later(FINISH_SECONDS, self._finish_taken, unsent)
        else:
            self.end(self._ending)

    def _over(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            if self._finishing is not None:
                self._finishing.cancel()
            self._clear()
            self._reader.clear()
            if self._frames is not None:
                self._frames.leave(self, self._counted)
                self._frames = None
            if self.visit is not None:
                self.visit.leave()
            self.lost(self, reason)
            self.receive, self.lost = _ignore, _ignore  # they lead to this connection again
            self.unsendable = self.visit = self._made = self.spent = self.before_flush = None

    @property
    def is_over(self) -> bool:
        return self._is_over

    def detach(self) -> tuple[asyncio.Transport, Callable[[], None]]:
        """Give the transport away, unread from now on, with the call that releases its admission."""
        transport, visit = self.transport, self.visit
        assert transport is not None
        transport.pause_reading()
        self.transport = self.visit = None
        self._over("it was handed over")
        return transport, visit.leave if visit is not None else _ignore

    def info(self, name: str) -> Any:
        if self.facts is not None and name in self.facts:
            return self.facts[name]
        return None if self.transport is None else self.transport.get_extra_info(name)

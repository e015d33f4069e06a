"""Events over HTTP: server-sent events, and a WebSocket.

Server-sent events: `GET /events?filter=…`. The id of an event is a token (`tokens.py`): a browser that
returns says `Last-Event-ID`, and goes on behind it. With `name` and `durable=true` the broker keeps what
comes meanwhile.

WebSocket: objects in JSON, both ways.
    -> {"op": "subscribe", "ref": "a", "filter": "change < -3"}     <- {"op": "subscribed", "ref": "a"}
    <- {"op": "event", "ref": "a", "event": {…}, "position": "log:7"}
    -> {"op": "ack", "ref": "a"}                  the oldest event without an ack; with "position" all up to
    there -> {"op": "publish", "call": 1, "event": {…}}                   <- {"op": "published", "call": 1, …}
    -> {"op": "unsubscribe", "ref": "a"}                            <- {"op": "unsubscribed", "ref": "a"}

Rules
- A durable subscription commits what its client confirmed, never what was only written to a socket: a broken
  connection loses what is in its buffers. A stream confirms by the `Last-Event-ID` of its return, a socket by
  `ack`.
- A durable stream cannot confirm while it lasts, so it ends when so many events or bytes are unconfirmed that
  the broker would withhold more. An EventSource returns by itself, with `Last-Event-ID`.
- A connection that asks for a named subscription takes it over; the socket that had it is told, and closed.
- A socket has as many unacknowledged events as its `credit`, and then waits for an `ack`.
- `ack=auto` commits events when they were written, up to 64 together: faster for clients that may lose some,
  or receive some again.
- A stream or socket whose principal has no session any more is aborted when its client does not read.
- A stream or socket that ends is closed to the end, however often its request is cancelled meanwhile: a bus
  that stays open counts against the connections of its principal for ever.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidings.errors import InputError, RefusedError, TidingsError
from tidings.gateway.http_sessions import HttpSession
from tidings.gateway.problems import Problem, problem_document
from tidings.gateway.structured import StructuredEvents
from tidings.gateway.tokens import StreamToken, position_text, read_token
from tidings.model.cloudevents import from_mapping
from tidings.model.decoding import MOST_JSON_TOKENS, UNREADABLE, is_crowded
from tidings.model.event import Event, event_size
from tidings.model.subscription import Position
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.bus import Bus
from tidings.runtime.listener import Listener
from tidings.runtime.local_clients import charge, note_connection

HEARTBEAT_SECONDS = 15.0
MOST_SUBSCRIPTIONS = 100  # of one socket
SUBSCRIBE = ("filter", "dialect", "topic", "type", "name", "durable", "replay", "since", "queue")
TEXTS = ("filter", "dialect", "topic", "type", "name", "since")
RETRY = b"retry: 200\n"  # milliseconds: a durable stream ends now and then so that its client returns
FULL_SHARE = (
    4  # a durable stream ends at this part of the bytes that a broker sends ahead of acknowledgements
)
QUIET_SHARE = 64  # a silent one at this part: to a principal short of memory a broker sends no more ahead
MOST_TOGETHER = 64  # events that a stream takes at once, and commits when it takes the next ones
BYTES_TOGETHER = 2**16  # after so many bytes of events a stream waits for its client
ABORT_SECONDS = 0.5  # for the last message to a client whose session ended, or whose subscription was taken
CREDIT = 64  # unacknowledged events of one subscription of a socket

OpenDesk = Callable[[HTTPConnection], AbstractAsyncContextManager[HttpSession]]


Holders = dict[tuple[str, str], "_SocketConversation"]  # that have a named subscription now


def _key(session: HttpSession, bus: Bus) -> tuple[str, str]:
    return getattr(session.principal, "tenant", ""), bus.name


def _address_of(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client is not None else ""


def _abort_later(connection: HTTPConnection) -> None:
    """Abort a connection that was ended: its client may not read, and then no last message leaves."""
    abort = connection.scope["state"]["abort"]
    asyncio.get_running_loop().call_later(ABORT_SECONDS, abort)


class StreamEndings:
    """The ends of streams and sockets, each in a task of its own that no cancellation of its
    request reaches."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, ending: Coroutine[Any, Any, None]) -> None:
        """Run it to its end; a caller that is cancelled meanwhile does not wait for it."""
        task = asyncio.create_task(ending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for those that run."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Streams:
    def __init__(self, session: OpenDesk) -> None:
        self._session = session
        self._endings = StreamEndings()
        self._holders: Holders = {}
        self._structured = StructuredEvents()
        self._open: set[Bus] = set()  # of server-sent events

    async def end(self) -> None:
        """End the server-sent events, as if each client had left."""
        await asyncio.gather(*(bus.close(commit=False) for bus in self._open))

    async def close(self) -> None:
        await self._endings.close()

    async def listen(self, request: Request) -> Response:
        """Server-sent events."""
        query = dict(request.query_params)
        last = request.headers.get("last-event-id")
        if last:
            query["since"] = last
        is_manual = _is_manual(query)
        if is_manual and query.get("durable") != "true":
            raise InputError("only a durable stream has ack=manual", hint="add durable=true and a name")
        since = read_token(query["since"]) if "since" in query else {}
        opened = AsyncExitStack()
        try:
            session = await opened.enter_async_context(self._session(request))
            bus = await session.client(query.get("name") or f"stream-{secrets.token_hex(6)}").open()
            note_connection(bus, _address_of(request))
            opened.push_async_callback(bus.close, commit=False)
            self._open.add(bus)
            opened.callback(self._open.discard, bus)
            bus.watch(lambda state: _abort_later(request) if state == "refused" else None)
            listener = await _subscription(bus, query)
            if query.get("name") and (holder := self._holders.pop(_key(session, bus), None)) is not None:
                holder.taken_over(query["name"])
        except BaseException:
            await self._endings.run(opened.aclose())
            raise
        limits = session.local_clients.limits
        token = StreamToken(since, limits.token_logs)
        if is_manual:
            events = _unconfirmed(listener, token, limits, self._structured)
        else:
            events = _committed(listener, token, self._structured)
        opened.push_async_callback(events.aclose)
        return _EventStreamResponse(events, lambda: self._endings.run(opened.aclose()))

    async def socket(self, socket: WebSocket) -> None:
        try:
            async with self._session(socket) as session:
                await socket.accept()
                await _SocketConversation(
                    socket, session, self._endings, self._holders, self._structured
                ).run()
        except (Problem, TidingsError) as error:
            await socket.close(code=1008, reason=str(error)[:120])


class _EventStreamResponse(StreamingResponse):
    """The bytes of a stream, until it ends or its client stops reading; then `end` closes everything. It is
    called outside of the response's own scope, which is cancelled when the client leaves, often before the
    first byte."""

    def __init__(self, events: AsyncGenerator[bytes, None], end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._end()


async def _committed(
    listener: Listener[Any], token: StreamToken, structured: StructuredEvents
) -> AsyncGenerator[bytes, None]:
    """A stream that commits events when it takes the next ones: those that wait go out together."""
    yield b": listening\n\n"
    while True:
        try:
            events = await listener.get_many(MOST_TOGETHER, HEARTBEAT_SECONDS)
        except TimeoutError:
            yield b": nothing new\n\n"
            continue
        except TidingsError:
            return  # the subscription is over, or the session of its principal
        lines, size = [], 0
        for event in events:
            lines.append(_written(event, event.position, token, structured))
            size += len(lines[-1])
            if size >= BYTES_TOGETHER:
                yield b"".join(lines)
                lines, size = [], 0
        if lines:
            yield b"".join(lines)


async def _unconfirmed(
    listener: Listener[Any], token: StreamToken, limits: ResourceLimits, structured: StructuredEvents
) -> AsyncGenerator[bytes, None]:
    """A durable stream: it commits only events that no log holds, because no client can confirm those."""
    yield RETRY + b": listening\n\n"
    count = size = 0
    while count < limits.unconfirmed_count and size < limits.delivery_bytes // FULL_SHARE:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                notification, tag = await listener.take()
        except TimeoutError:
            if size >= limits.delivery_bytes // QUIET_SHARE:
                return
            yield b": nothing new\n\n"
            continue
        except TidingsError:
            return
        event, position = notification.event, notification.position
        yield _written(event.placed_at(position), position, token, structured)
        if position is None:
            listener.settle(tag)
        else:
            count, size = count + 1, size + event_size(event)
    yield b": as much as may be unconfirmed was sent; return with Last-Event-ID\n\n"


def _written(
    event: Event, position: Position | None, token: StreamToken, structured: StructuredEvents
) -> bytes:
    id_line = b"" if position is None else f"id: {token.after(position)}\n".encode()
    return b"%sdata: %s\n\n" % (id_line, structured.write(event))


def _is_manual(wanted: dict[str, Any]) -> bool:
    """Does the client confirm what it has?

    It takes `ack` out; durable subscriptions are manual by default.
    """
    is_durable = "durable" in wanted and _truth("durable", wanted["durable"])
    ack = wanted.pop("ack", "manual" if is_durable else "auto")
    if ack not in ("auto", "manual"):
        raise InputError(f"ack is {str(ack)[:40]!r}", hint="auto or manual")
    return bool(ack == "manual")


def _check_texts(wanted: Mapping[str, Any]) -> None:
    """JSON may have any value where a text is meant. Raises `InputError`."""
    for name in TEXTS:
        if not isinstance(wanted.get(name), str | None):
            raise InputError(f"{name} is {str(wanted[name])[:40]!r}", hint="a text")


async def _subscription(bus: Bus, wanted: Mapping[str, Any]) -> Listener[Any]:
    for name in wanted:
        if name not in SUBSCRIBE:
            raise InputError(f"a subscription has no {name!r}", hint=f"it may have {', '.join(SUBSCRIBE)}")
    options: dict[str, Any] = {}
    for name in ("durable", "replay"):
        if name in wanted:
            options[name] = _truth(name, wanted[name])
    if "queue" in wanted:
        options["queue"] = _count("queue", wanted["queue"], 100_000)
    since = wanted.get("since")
    return await bus.subscribe(
        wanted.get("filter"),
        dialect=wanted.get("dialect", "tidings"),
        topic=wanted.get("topic"),
        type=wanted.get("type"),
        name=wanted.get("name"),
        since=None if since is None else read_token(since),
        **options,
    )


def _truth(name: str, value: Any) -> bool:
    if value not in (True, False, "true", "false"):
        raise InputError(f"{name} is {value!r}", hint="true or false")
    return value in (True, "true")


def _count(name: str, value: Any, most: int) -> int:
    text = str(value)
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and 1 <= int(text) <= most):
        raise InputError(f"{name} is {text[:40]!r}", hint=f"a number from 1 to {most}")
    return int(text)


class _SocketSubscription:
    """One subscription of a socket."""

    def __init__(self, bus: Bus | None, listener: Listener[Any], is_manual: bool, credit: int) -> None:
        self.bus = bus  # of its own: a named one has a client of its own
        self.listener = listener
        self.is_manual = is_manual
        self.unacked: deque[tuple[int, str]] = deque()  # tags and positions, in the order they were sent
        self.credit = asyncio.Semaphore(credit)
        self.task: asyncio.Task[None] | None = None

    def acknowledge(self, position: str | None) -> None:
        """Commit the oldest, or all up to this position. Raises `InputError`."""
        count = 1
        if position is not None:
            positions = [index for index, (_, sent) in enumerate(self.unacked, 1) if sent == position]
            count = positions[0] if positions else 0
        if not count or not self.unacked:
            what = "no event" if position is None else f"no event of position {position[:200]!r}"
            raise InputError(f"{what} waits for an ack here", hint="acknowledge each event once")
        for _ in range(count):
            tag, _position = self.unacked.popleft()
            self.listener.settle(tag)
            self.credit.release()


class _SocketConversation:
    """One socket's conversation."""

    def __init__(
        self,
        socket: WebSocket,
        session: HttpSession,
        endings: StreamEndings,
        holders: Holders,
        structured: StructuredEvents,
    ) -> None:
        self._longest = session.local_clients.limits.client.name  # characters of a `ref`
        self._socket = socket
        self._session = session
        self._endings = endings
        self._holders = holders
        self._structured = structured
        self._running: asyncio.Task[Any] | None = None
        self._taken = ""  # the name of a subscription that another connection has now
        self._bus = session.client(f"socket-{secrets.token_hex(6)}")
        self._subscriptions: dict[str, _SocketSubscription] = {}  # by ref
        self._sending = asyncio.Lock()
        self._large = session.local_clients.limits.encoded_bytes
        self._does = {
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "publish": self._publish,
            "ack": self._ack,
        }

    async def run(self) -> None:
        """Until the client leaves, or the session of its principal ends: then `RefusedError`."""
        await self._bus.open()
        note_connection(self._bus, _address_of(self._socket))
        self._running = running = asyncio.current_task()
        assert running is not None

        def watch(state: str) -> None:
            if state == "refused":
                running.cancel()
                _abort_later(self._socket)

        self._bus.watch(watch)
        try:
            while True:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                text = message.get("text")
                await asyncio.sleep(charge(self._bus, len(text or message.get("bytes") or "")))
                await self._receive(text)
        except WebSocketDisconnect:
            return
        except asyncio.CancelledError:
            if self._bus.state != "refused" and not self._taken:
                raise
            running.uncancel()
            if self._taken:
                taken = RefusedError(f"another connection has the subscription {self._taken!r} now")
                await self._send({"op": "error", **problem_document(taken)})
                raise taken from None
            raise RefusedError("the session of this principal has ended", hint="connect again") from None
        finally:
            self._running = None
            await self._endings.run(self._close())

    def taken_over(self, name: str) -> None:
        """Another connection has one of our subscriptions: this one would wait for its events for ever."""
        self._taken = name
        if self._running is not None:
            self._running.cancel()
            _abort_later(self._socket)

    async def _close(self) -> None:
        async with AsyncExitStack() as opened:  # one that cannot be closed keeps no other one open
            opened.push_async_callback(self._bus.close, commit=False)
            for subscription in self._subscriptions.values():
                if subscription.bus is not None:
                    self._let_go(subscription.bus)
                    opened.push_async_callback(subscription.bus.close, commit=False)
                opened.push_async_callback(self._stop, subscription)

    @staticmethod
    async def _stop(subscription: _SocketSubscription) -> None:
        if subscription.task is not None:
            subscription.task.cancel()
            await asyncio.gather(subscription.task, return_exceptions=True)

    async def _receive(self, text: str | None) -> None:
        fields: Any = None
        try:
            if text is None:
                raise InputError("the message is binary", hint="send JSON as text")
            if is_crowded(text.encode(errors="surrogatepass")):
                raise InputError(f"a message of more than {MOST_JSON_TOKENS} names, values and signs")
            fields = msgspec.json.decode(text)
            do = self._does.get(str(fields.get("op"))) if isinstance(fields, dict) else None
            if do is None:
                raise InputError(
                    "an object with an `op` was expected", hint=f"one of {', '.join(self._does)}"
                )
            await do(fields)
        except (TidingsError, *UNREADABLE, TypeError, ValueError) as error:
            known = (
                problem_document(error)
                if isinstance(error, TidingsError)
                else {"code": "input", "detail": str(error)}
            )
            about = {k: fields[k] for k in ("ref", "call") if k in fields} if isinstance(fields, dict) else {}
            if len(str(about.get("ref", ""))) > self._longest:
                del about["ref"]
            await self._send({"op": "error", **about, **known})

    async def _send(self, what: dict[str, Any]) -> None:
        await self._socket.send_text(msgspec.json.encode(what).decode())

    async def _subscribe(self, fields: dict[str, Any]) -> None:
        ref = str(fields.pop("ref", ""))
        fields.pop("op")
        _check_texts(fields)
        is_manual = _is_manual(fields)
        most = self._session.local_clients.limits.unconfirmed_count
        credit = _count("credit", fields.pop("credit", min(CREDIT, most)), most)
        if len(ref) > self._longest:
            raise InputError(f"`ref` has {len(ref)} characters; at most {self._longest} (limit `name`)")
        if not ref or ref in self._subscriptions or len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise InputError(
                f"`ref` is {ref!r}",
                hint=f"a name that no open subscription has, {MOST_SUBSCRIPTIONS} at most",
            )
        bus = self._session.client(str(fields["name"])) if fields.get("name") else None
        if bus is not None:
            if self._holders.get(_key(self._session, bus)) is self:
                raise InputError(f"this socket has the subscription {fields['name']!r} under another `ref`")
            await bus.open()
            note_connection(bus, _address_of(self._socket))
        try:
            listener = await _subscription(bus or self._bus, fields)
        except BaseException:
            if bus is not None:
                await self._endings.run(bus.close())
            raise
        if bus is not None:
            key = _key(self._session, bus)
            before, self._holders[key] = self._holders.get(key), self
            if before is not None:
                before.taken_over(str(fields["name"]))
        subscription = self._subscriptions[ref] = _SocketSubscription(bus, listener, is_manual, credit)
        await self._send({"op": "subscribed", "ref": ref, "resumed": listener.resumed})
        pump = self._pump_manual if is_manual else self._pump
        subscription.task = asyncio.create_task(pump(ref, subscription))

    async def _pump(self, ref: str, subscription: _SocketSubscription) -> None:
        try:
            async for events in subscription.listener.batches(MOST_TOGETHER):
                for event in events:
                    await self._say_event(ref, event, event.position)
        except (WebSocketDisconnect, RuntimeError, TidingsError) as error:
            del error  # the connection or the subscription is over

    async def _pump_manual(self, ref: str, subscription: _SocketSubscription) -> None:
        try:
            while True:
                await subscription.credit.acquire()
                notification, tag = await subscription.listener.take()
                position = notification.position
                subscription.unacked.append((tag, position_text(position)))
                await self._say_event(ref, notification.event.placed_at(position), position)
        except (WebSocketDisconnect, RuntimeError, TidingsError) as error:
            del error  # what was not acknowledged stays

    async def _say_event(self, ref: str, event: Event, position: Position | None) -> None:
        """One event at a time is encoded and sent: an event that many subscriptions of this client accept is
        not copied for each while it does not read, and a large one lets others in before the next."""
        async with self._sending:
            body = self._structured.write(event)
            where = position_text(position) or None
            await self._send({"op": "event", "ref": ref, "event": msgspec.Raw(body), "position": where})
            if len(body) >= self._large:
                await asyncio.sleep(0)

    def _let_go(self, bus: Bus) -> None:
        if self._holders.get(key := _key(self._session, bus)) is self:
            del self._holders[key]

    def _subscribed(self, fields: dict[str, Any]) -> _SocketSubscription:
        ref = str(fields.get("ref"))
        if ref not in self._subscriptions:
            raise InputError(f"no subscription is called {ref!r} here")
        return self._subscriptions[ref]

    async def _unsubscribe(self, fields: dict[str, Any]) -> None:
        subscription = self._subscribed(fields)
        ref = str(fields["ref"])
        try:
            await self._stop(subscription)
            await subscription.listener.unsubscribe()
        finally:
            del self._subscriptions[ref]
            if subscription.bus is not None:
                self._let_go(subscription.bus)
                await self._endings.run(subscription.bus.close())
        await self._send({"op": "unsubscribed", "ref": ref})

    async def _publish(self, fields: dict[str, Any]) -> None:
        event = fields.get("event")
        if not isinstance(event, dict):
            raise InputError("a publish has an `event`", hint="an object: a CloudEvent in structured mode")
        receipt = await self._bus.publish(from_mapping(event))
        await self._send(
            {
                "op": "published",
                "call": fields.get("call"),
                "source": receipt.source,
                "id": receipt.id,
                "position": position_text(receipt.position) or None,
            }
        )

    async def _ack(self, fields: dict[str, Any]) -> None:
        subscription = self._subscribed(fields)
        if subscription.is_manual:
            position = fields.get("position")
            subscription.acknowledge(None if position is None else str(position))
        else:
            await subscription.listener.ack()

"""Hearing over HTTP: server-sent events, and a WebSocket.

Server-sent events: `GET /events?filter=…`. Each carries the position in the broker's log as its id, so that
a browser that comes back says `Last-Event-ID` and hears each event once. With `name` and `durable=true` the
broker keeps what comes while nobody listens.

WebSocket: objects in JSON, both ways.
    -> {"op": "subscribe", "ref": "a", "filter": "change < -3"}     <- {"op": "subscribed", "ref": "a"}
    <- {"op": "event", "ref": "a", "event": {…}, "position": "log:7"}
    -> {"op": "ack", "ref": "a"}                  with "ack": "manual" in the subscribe, else by itself
    -> {"op": "publish", "call": 1, "event": {…}}                   <- {"op": "published", "call": 1, …}
    -> {"op": "unsubscribe", "ref": "a"}                            <- {"op": "unsubscribed", "ref": "a"}
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidings.errors import InputError, RefusedError, TidingsError
from tidings.gateway.desks import Desk
from tidings.gateway.problems import Problem, told
from tidings.model.cloudevents import from_mapping, to_structured
from tidings.model.decoding import UNREADABLE
from tidings.model.subscription import Position
from tidings.runtime.bus import Bus
from tidings.runtime.guests import charge
from tidings.runtime.listener import Listener

HEARTBEAT_SECONDS = 15.0
MOST_SUBSCRIPTIONS = 100  # of one socket
SUBSCRIBE = ("filter", "dialect", "topic", "type", "name", "durable", "replay", "since", "queue")

OpenDesk = Callable[[HTTPConnection], AbstractAsyncContextManager[Desk]]


class Streams:
    def __init__(self, desk: OpenDesk) -> None:
        self._desk = desk

    async def listen(self, request: Request) -> Response:
        """Server-sent events."""
        query = dict(request.query_params)
        last = request.headers.get("last-event-id")
        if last:
            query["since"] = last
        context = self._desk(request)
        desk = await context.__aenter__()
        try:
            bus = await desk.client(query.get("name") or f"stream-{secrets.token_hex(6)}").open()
            try:
                listener = await _subscription(bus, query)
            except BaseException:
                await bus.close()
                raise
        except BaseException as error:
            await context.__aexit__(type(error), error, None)
            raise
        return StreamingResponse(
            _told(bus, listener, context),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )

    async def socket(self, socket: WebSocket) -> None:
        try:
            async with self._desk(socket) as desk:
                await socket.accept()
                await _Talk(socket, desk).run()
        except (Problem, TidingsError) as error:
            await socket.close(code=1008, reason=str(error)[:120])


async def _told(
    bus: Bus, listener: Listener[Any], context: AbstractAsyncContextManager[Desk]
) -> AsyncIterator[bytes]:
    """The stream's bytes. Whoever stops reading ends it; what he was not sent is not committed."""
    try:
        yield b": listening\n\n"
        while True:
            try:
                event = await listener.get(HEARTBEAT_SECONDS)
            except TimeoutError:
                yield b": nothing new\n\n"
                continue
            except TidingsError:
                return  # the subscription is over, or the session of its principal
            name = position_text(event.position)
            lines = [f"id: {name}\n".encode()] if name else []
            yield b"".join([*lines, b"data: ", to_structured(event), b"\n\n"])
    finally:
        await bus.close(commit=False)
        await context.__aexit__(None, None, None)


async def _subscription(bus: Bus, wanted: Mapping[str, Any]) -> Listener[Any]:
    for name in wanted:
        if name not in SUBSCRIBE:
            raise InputError(f"a subscription has no {name!r}", hint=f"it may have {', '.join(SUBSCRIBE)}")
    options: dict[str, Any] = {}
    for name in ("durable", "replay"):
        if name in wanted:
            options[name] = _truth(name, wanted[name])
    if "queue" in wanted:
        options["queue"] = _count(wanted["queue"])
    since = wanted.get("since")
    return await bus.subscribe(
        wanted.get("filter"),
        dialect=wanted.get("dialect", "tidings"),
        topic=wanted.get("topic"),
        type=wanted.get("type"),
        name=wanted.get("name"),
        since=None if since is None else read_position(since),
        **options,
    )


def position_text(position: Position | None) -> str:
    return "" if position is None else f"{position.log}:{position.offset}"


def read_position(text: Any) -> Position:
    log, colon, offset = str(text).rpartition(":")
    if not colon or not offset.isdecimal() or not offset.isascii() or len(offset) > 19:
        raise InputError(f"{text!r} is no position", hint="give back the id of an event, log:offset")
    return Position(log, int(offset))


def _truth(name: str, value: Any) -> bool:
    if value not in (True, False, "true", "false"):
        raise InputError(f"{name} is {value!r}", hint="true or false")
    return value in (True, "true")


def _count(value: Any) -> int:
    text = str(value)
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and 1 <= int(text) <= 100_000):
        raise InputError(f"queue is {text[:40]!r}", hint="a number from 1 to 100000")
    return int(text)


class _Talk:
    """One socket's conversation."""

    def __init__(self, socket: WebSocket, desk: Desk) -> None:
        self._socket = socket
        self._desk = desk
        self._bus = desk.client(f"socket-{secrets.token_hex(6)}")
        self._named: dict[str, Bus] = {}  # durable subscriptions have clients of their own
        self._listeners: dict[str, Listener[Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._acked: dict[str, asyncio.Event] = {}
        self._does = {
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "publish": self._publish,
            "ack": self._ack,
        }

    async def run(self) -> None:
        """Until the client leaves, or the session of its principal ends: then `RefusedError`."""
        await self._bus.open()
        running = asyncio.current_task()
        assert running is not None

        def watch(state: str) -> None:
            if state == "refused":
                running.cancel()

        self._bus.watch(watch)
        try:
            while True:
                text = await self._socket.receive_text()
                await asyncio.sleep(charge(self._bus, len(text)))
                await self._hear(text)
        except WebSocketDisconnect:
            return
        except asyncio.CancelledError:
            if self._bus.state != "refused":
                raise
            running.uncancel()
            raise RefusedError("the session of this principal has ended", hint="connect again") from None
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            for bus in self._named.values():
                await bus.close(commit=False)
            await self._bus.close(commit=False)

    async def _hear(self, text: str) -> None:
        said: Any = None
        try:
            said = msgspec.json.decode(text)
            do = self._does.get(str(said.get("op"))) if isinstance(said, dict) else None
            if do is None:
                raise InputError(
                    "an object with an `op` was expected", hint=f"one of {', '.join(self._does)}"
                )
            await do(said)
        except (TidingsError, *UNREADABLE, TypeError, ValueError) as error:
            known = (
                told(error) if isinstance(error, TidingsError) else {"code": "input", "detail": str(error)}
            )
            about = {k: said[k] for k in ("ref", "call") if k in said} if isinstance(said, dict) else {}
            await self._say({"op": "error", **about, **known})

    async def _say(self, what: dict[str, Any]) -> None:
        await self._socket.send_text(msgspec.json.encode(what).decode())

    async def _subscribe(self, said: dict[str, Any]) -> None:
        ref = str(said.pop("ref", ""))
        said.pop("op")
        manual = said.pop("ack", "auto") == "manual"
        if not ref or ref in self._listeners or len(self._listeners) >= MOST_SUBSCRIPTIONS:
            raise InputError(
                f"`ref` is {ref!r}",
                hint=f"a name that no open subscription has, {MOST_SUBSCRIPTIONS} at most",
            )
        bus = self._bus
        if said.get("name"):
            bus = self._named[ref] = await self._desk.client(str(said["name"])).open()
        listener = self._listeners[ref] = await _subscription(bus, said)
        self._acked[ref] = asyncio.Event()
        await self._say({"op": "subscribed", "ref": ref, "resumed": listener.resumed})
        self._tasks[ref] = asyncio.create_task(self._pump(ref, listener, manual))

    async def _pump(self, ref: str, listener: Listener[Any], manual: bool) -> None:
        try:
            async for event in listener:
                body = msgspec.Raw(to_structured(event))
                where = position_text(event.position)
                await self._say({"op": "event", "ref": ref, "event": body, "position": where or None})
                if manual:
                    await self._acked[ref].wait()
                    self._acked[ref].clear()
        except (WebSocketDisconnect, RuntimeError, TidingsError) as error:
            del error  # nobody hears any more; what was not acknowledged stays

    async def _unsubscribe(self, said: dict[str, Any]) -> None:
        ref = str(said.get("ref"))
        listener = self._listeners.pop(ref, None)
        if listener is None:
            raise InputError(f"no subscription is called {ref!r} here")
        self._tasks.pop(ref).cancel()
        await listener.unsubscribe()
        bus = self._named.pop(ref, None)
        if bus is not None:
            await bus.close()
        await self._say({"op": "unsubscribed", "ref": ref})

    async def _publish(self, said: dict[str, Any]) -> None:
        receipt = await self._bus.publish(from_mapping(said["event"]))
        await self._say(
            {
                "op": "published",
                "call": said.get("call"),
                "source": receipt.source,
                "id": receipt.id,
                "position": position_text(receipt.position) or None,
            }
        )

    async def _ack(self, said: dict[str, Any]) -> None:
        ref = str(said.get("ref"))
        if ref not in self._listeners:
            raise InputError(f"no subscription is called {ref!r} here")
        await self._listeners[ref].ack()
        self._acked[ref].set()

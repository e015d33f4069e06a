"""A bridge: events of another bus come here, and events of ours go there, route by route.

    broker = "tidings://127.0.0.1:7117"
    name = "bridge"

    [[route]]                                  # theirs to us
    from = "nats://127.0.0.1:4222"
    stream = "ORDERS"                          # JetStream: each event once
    topic = "orders"                           # our topic; without it theirs

    [[route]]                                  # ours to them
    filter = "change < -3"
    to = "redis://127.0.0.1:6379"
    stream = "alerts"

Rules
- An incoming message has an identity made of the other side's offsets (`source` is the address of the stream,
  `id` the offset). It is acknowledged there when it is kept here; a duplicate is published once.
- Outgoing events come from a durable subscription. An event is acknowledged here when the other side has it;
  if the other side can report its progress, each event goes once.
- A side that is away is tried again, with pauses that grow; no event is skipped.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings.errors import MissingDependencyError, SettingsError, TidingsError, install_command
from tidings.extensions import blaming, call, offered
from tidings.gateway.mqtt.events import members_of
from tidings.model.event import Event, make_event
from tidings.model.subscription import Position
from tidings.model.textual import json_ready
from tidings.runtime.bus import Bus
from tidings.security.reading import read_toml, refuse_unknown

log = logging.getLogger("tidings.bridge")

GROUP = "tidings.bridges"
OWN = ("nats", "tls", "redis", "rediss", "mqtt", "mqtts")  # schemes
AHEAD = 256  # events that are published before the first is acknowledged
LONGEST_PAUSE = 30.0
AGAIN_SECONDS = 0.2


class Incoming(msgspec.Struct):
    """An event of the other side, and how to say there that we have it."""

    event: Event
    done: Callable[[], Awaitable[None]]


class Side(Protocol):
    """The other bus."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


class Giver(Side, Protocol):
    def events(self) -> AsyncIterator[Incoming]: ...


class Taker(Side, Protocol):
    async def reached(self) -> dict[str, int]:
        """By log of ours, how far the other side has everything; empty when it cannot tell."""

    async def send(self, event: Event, position: Position | None) -> None:
        """Returns when the other side has it."""


class RouteSettings(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One `[[route]]`."""

    name: str = ""  # of its subscription and consumer; empty: by its number
    from_: str = ""  # an address: nats://, redis://, mqtt://
    to: str = ""  # the same, for events of ours
    filter: str = ""  # what goes out; everything when it is empty
    subject: str = ""  # NATS: what comes in, or where it goes (default: the topic)
    stream: str = ""  # JetStream or Redis
    topic: str = ""  # MQTT's topic filter that comes in; else our topic for what comes in
    lifetime: float = 0.0  # of what comes in, in seconds


class BridgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    broker: str = "tidings://127.0.0.1:7117"
    name: str = "bridge"
    route: tuple[RouteSettings, ...] = ()


def read_bridge(file: Path) -> BridgeSettings:
    """The settings of a bridge. Raises `SettingsError`."""
    try:
        table = read_toml(file)
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from None
    refuse_unknown(table, ("broker", "name", "route"), str(file))
    known = ("name", "from", "to", "filter", "subject", "stream", "topic", "lifetime")
    for number, route in enumerate(table.get("route", ())):
        if isinstance(route, dict):
            refuse_unknown(route, known, f"{file}: route {number}")
    try:
        settings = msgspec.convert(table, BridgeSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{file}: {error}") from None
    for number, one in enumerate(settings.route):
        if bool(one.from_) == bool(one.to):
            raise SettingsError(f"{file}: route {number} needs `from` or `to`, one of them")
    if not settings.route:
        raise SettingsError(f"{file} has no [[route]]", hint="see docs/bridges.md")
    return settings


def shown(address: str) -> str:
    """An address for messages: without the name and the password in it."""
    scheme, divider, rest = address.partition("://")
    return f"{scheme}{divider}{rest.rpartition('@')[2]}"


def side_of(route: RouteSettings, name: str) -> Any:
    """The other bus of a route, by its address."""
    scheme = (route.from_ or route.to).partition("://")[0]
    try:
        if scheme in ("nats", "tls"):
            from tidings.gateway.bridges.nats import NatsGiver, NatsTaker

            return NatsGiver(route, name) if route.from_ else NatsTaker(route)
        if scheme in ("redis", "rediss"):
            from tidings.gateway.bridges.redis import RedisGiver, RedisTaker

            return RedisGiver(route, name) if route.from_ else RedisTaker(route, name)
        if scheme in ("mqtt", "mqtts"):
            from tidings.gateway.bridges.mqtt import MqttGiver, MqttTaker

            return MqttGiver(route, name) if route.from_ else MqttTaker(route, name)
    except ImportError as error:
        raise MissingDependencyError(
            f"this bridge needs the package {error.name}", hint=install_command("tidings[bridges]")
        ) from None
    if scheme in offered(GROUP, OWN):
        return call(GROUP, scheme, route, name, gives=Giver if route.from_ else Taker)
    known = ", ".join(f"{each}://" for each in ("nats", "redis", "mqtt", *offered(GROUP, OWN)))
    raise SettingsError(f"no bridge leads to {shown(route.from_ or route.to)}", hint=known)


class Bridge:
    """All routes of one file, each on its own."""

    def __init__(self, settings: BridgeSettings, connect: Callable[[str], Bus]) -> None:
        self._settings = settings
        self._connect = connect  # a client of ours by its name
        self.carried: dict[str, int] = {}

    async def run(self) -> None:
        """Until it is cancelled, or a route cannot work at all."""
        async with asyncio.TaskGroup() as group:
            for number, route in enumerate(self._settings.route):
                name = f"{self._settings.name}-{route.name or number}"
                side_of(route, name)  # report errors before any route begins
                self.carried[name] = 0
                group.create_task(self._keep_on(route, name))

    async def _keep_on(self, route: RouteSettings, name: str) -> None:
        pause, scheme = 0.5, (route.from_ or route.to).partition("://")[0]
        while True:
            before = self.carried[name]
            try:
                with blaming(GROUP, scheme) if scheme in offered(GROUP, OWN) else nullcontext():
                    await (self._inward(route, name) if route.from_ else self._outward(route, name))
            except SettingsError:
                raise
            except (TidingsError, OSError, TimeoutError, AwayError) as error:
                log.warning("%s: %s; it is tried again", name, error)
            if self.carried[name] > before:
                pause = 0.5
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - a pause
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _inward(self, route: RouteSettings, name: str) -> None:
        giver: Giver = side_of(route, name)
        async with self._connect(name) as bus:
            await giver.open()
            published: asyncio.Queue[tuple[asyncio.Task[Any], Incoming]] = asyncio.Queue(AHEAD)
            try:
                await _first_of(self._publish(giver, bus, published), self._settle(published, name))
            finally:
                await giver.close()

    async def _publish(
        self, giver: Giver, bus: Bus, published: asyncio.Queue[tuple[asyncio.Task[Any], Incoming]]
    ) -> None:
        async for incoming in giver.events():
            await published.put((asyncio.create_task(bus.publish(incoming.event)), incoming))

    async def _settle(self, published: asyncio.Queue[tuple[asyncio.Task[Any], Incoming]], name: str) -> None:
        """Say there what we have, in order."""
        while True:
            task, incoming = await published.get()
            await task
            await incoming.done()
            self.carried[name] += 1

    async def _outward(self, route: RouteSettings, name: str) -> None:
        taker: Taker = side_of(route, name)
        async with self._connect(name) as bus:
            await taker.open()
            try:
                await _first_of(self._send(route, name, taker, bus))
            finally:
                await taker.close()

    async def _send(self, route: RouteSettings, name: str, taker: Taker, bus: Bus) -> None:
        since = await taker.reached()
        async with bus.subscribe(route.filter or None, name=name, durable=True, since=since) as listener:
            async for notification in listener.notifications():
                await taker.send(notification.event, notification.position)
                await listener.ack()
                self.carried[name] += 1


async def _first_of(*running: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends, and end as that one did."""
    tasks = {asyncio.create_task(one) for one in running}
    done: set[asyncio.Task[None]] = set()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        pending = tasks - done
        while pending:  # a library that waits with a timeout may swallow a cancellation
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=AGAIN_SECONDS)
    for task in done:
        task.result()


class AwayError(Exception):
    """The other side cannot be reached, or gave up on us."""


def read_event(body: bytes, *, source: str, id: str, topic: str | None, lifetime: float) -> Event:
    """An event from bytes of the other side: the members of a JSON object are its attributes."""
    return make_event(members_of(body), source=source, id=id, topic=topic, payload=body, lifetime=lifetime)


def body_of(event: Event) -> bytes:
    """Bytes for the other side: the payload, or the attributes as JSON."""
    if event.payload is not None:
        return event.payload
    return msgspec.json.encode(json_ready(event.attributes), enc_hook=str)

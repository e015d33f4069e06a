"""Paths of an event whose cost is counted: each makes what it needs and yields a way to play so many events.

Paths use the interfaces of users alone (`tidings.connect`, `tidings.testing`, a gateway's bytes), so that a
change of the inside needs no change here.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import tidings
from tidings.matching.columnar.warm import BACKGROUND
from tidings.testing.network import linked, serving, settled

Play = Callable[[int], Awaitable[None]]  # so many events, from publish to get
TEXT = "x" * 60
WANTED = "n >= 0"
SUBSCRIPTIONS, MATCHING = 1_000, 10


def _event(number: int) -> dict[str, Any]:
    return {"n": number, "s": 1, "text": TEXT}


def _one_by_one(press: tidings.Bus, news: tidings.Listener[Any], **options: Any) -> Play:
    async def play(events: int) -> None:
        for number in range(events):
            await press.publish(_event(number), **options)
            await news.get()

    return play


def _batches(press: tidings.Bus, news: tidings.Listener[Any]) -> Play:
    """The events of a round are one batch of `publish_many`, and taken by `get_many`."""

    async def play(events: int) -> None:
        await press.publish_many([_event(number) for number in range(events)])
        left = events
        while left:
            left -= len(await news.get_many(left))

    return play


def _together(press: tidings.Bus, news: tidings.Listener[Any]) -> Play:
    """Every event of a round is under way before the first is awaited."""

    async def play(events: int) -> None:
        await asyncio.gather(*(press.publish(_event(number)) for number in range(events)))
        for _ in range(events):
            await news.get()

    return play


@asynccontextmanager
async def embedded() -> AsyncIterator[Play]:
    async with tidings.connect() as bus, bus.subscribe(WANTED) as news:
        yield _one_by_one(bus, news)


@asynccontextmanager
async def embedded_batch() -> AsyncIterator[Play]:
    async with tidings.connect() as bus, bus.subscribe(WANTED) as news:
        yield _together(bus, news)


@asynccontextmanager
async def embedded_many() -> AsyncIterator[Play]:
    async with tidings.connect() as bus, bus.subscribe(WANTED) as news:
        yield _batches(bus, news)


@asynccontextmanager
async def _over_tcp(brokers: int) -> AsyncIterator[tuple[tidings.Bus, tidings.Listener[Any]]]:
    """A publisher at the first of a line of brokers and a subscriber at the last."""
    async with AsyncExitStack() as stack:
        servers: list[Any] = []
        for number in range(brokers):
            join = [servers[-1].address] if servers else []
            servers.append(await stack.enter_async_context(serving(f"b{number}", join=join)))
        await linked(*servers)
        press = await stack.enter_async_context(tidings.connect(servers[0].address, name="press"))
        reader = await stack.enter_async_context(tidings.connect(servers[-1].address, name="reader"))
        news = await stack.enter_async_context(reader.subscribe(WANTED))
        await settled(*reversed(servers))
        yield press, news


@asynccontextmanager
async def tcp() -> AsyncIterator[Play]:
    async with _over_tcp(1) as ends:
        yield _one_by_one(*ends)


@asynccontextmanager
async def tcp_batch() -> AsyncIterator[Play]:
    async with _over_tcp(1) as ends:
        yield _together(*ends)


@asynccontextmanager
async def tcp_waiting() -> AsyncIterator[Play]:
    """As TCP batch, but no event can be delivered before all of them wait at the broker."""
    async with (
        serving("b0") as server,
        tidings.connect(server.address, name="press") as press,
        tidings.connect(server.address, name="reader") as reader,
        reader.subscribe(WANTED) as news,
    ):

        async def play(events: int) -> None:
            news.allow(0)
            await reader.publish({"n": -1})  # an answer on this connection: the broker knows by then
            await asyncio.gather(*(press.publish(_event(number)) for number in range(events)))
            news.allow(events)
            for _ in range(events):
                await news.get()

        yield play


@asynccontextmanager
async def one_hop() -> AsyncIterator[Play]:
    async with _over_tcp(2) as ends:
        yield _one_by_one(*ends)


@asynccontextmanager
async def three_hops() -> AsyncIterator[Play]:
    async with _over_tcp(4) as ends:
        yield _one_by_one(*ends)


@asynccontextmanager
async def content() -> AsyncIterator[Play]:
    symbols = SUBSCRIPTIONS // MATCHING
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(tidings.connect())
        wanted: list[list[tidings.Listener[Any]]] = [[] for _ in range(symbols)]
        for number in range(SUBSCRIPTIONS):
            text = f"symbol = 'S{number % symbols}' AND price < {1_000 + number}"
            wanted[number % symbols].append(await stack.enter_async_context(bus.subscribe(text)))

        async def play(events: int) -> None:
            for number in range(events):
                symbol = number % symbols
                await bus.publish({"symbol": f"S{symbol}", "price": number})
                for news in wanted[symbol]:
                    await news.get()

        await play(1)  # so many subscriptions want the compiled kernels, which a thread loads
        await asyncio.to_thread(BACKGROUND.wait, 300)
        yield play


@asynccontextmanager
async def kept() -> AsyncIterator[Play]:
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        async with tidings.connect(path=Path(folder) / "store") as bus, bus.subscribe(WANTED) as news:
            yield _one_by_one(bus, news, mode="kept")


@asynccontextmanager
async def durable() -> AsyncIterator[Play]:
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        async with (
            tidings.connect(path=Path(folder) / "store") as bus,
            bus.subscribe(WANTED, name="durable", durable=True) as news,
        ):
            yield _one_by_one(bus, news)


@asynccontextmanager
async def replay() -> AsyncIterator[Play]:
    """A new subscription for each round, and the same events of a log in memory."""
    async with tidings.connect() as bus:
        published = 0

        async def play(events: int) -> None:
            nonlocal published
            while published < events:
                await bus.publish(_event(published), lifetime=tidings.FOREVER)
                published += 1
            async with bus.subscribe(WANTED) as news:
                for _ in range(events):
                    await news.get()

        yield play


class _MqttBytesClient:
    """An MQTT 3.1.1 client that writes prepared bytes and reads as many as it expects."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int, name: bytes) -> _MqttBytesClient:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        await client.ask(_packet(0x10, _text(b"MQTT"), b"\x04\x02\x00\x00", _text(name)), 4)
        return client

    async def ask(self, data: bytes, size: int) -> bytes:
        self._writer.write(data)
        return await self._reader.readexactly(size)

    async def read(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def _packet(head: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((head, len(body))) + body


def _mqtt(qos: int) -> Callable[[], AbstractAsyncContextManager[Play]]:
    @asynccontextmanager
    async def path() -> AsyncIterator[Play]:
        from tidings.gateway.listeners import Gateways
        from tidings.runtime.service import Service
        from tidings.runtime.settings import BrokerSettings, GatewaySettings, SecuritySettings

        settings = BrokerSettings(
            name="b0",
            listen="127.0.0.1:0",
            security=SecuritySettings(anonymous=True),
            gateway=GatewaySettings(mqtt="127.0.0.1:0"),
        )
        async with Service(settings, gateways=Gateways) as service:
            assert service.gateways is not None
            port = int(service.gateways.addresses["mqtt"].rpartition(":")[2])
            press, reader = (
                await _MqttBytesClient.connect(port, b"press"),
                await _MqttBytesClient.connect(port, b"reader"),
            )
            await reader.ask(_packet(0x82, b"\x00\x01", _text(b"quotes"), bytes((qos,))), 5)
            sent = _packet(0x30 | qos << 1, _text(b"quotes"), b"\x00\x01" * qos, TEXT.encode())

            async def play(events: int) -> None:
                for _ in range(events):
                    if qos:
                        await press.ask(sent, 4)
                    else:
                        press.write(sent)
                    delivered = await reader.read(len(sent))
                    if qos:
                        reader.write(_packet(0x40, delivered[10:12]))

            yield play
            await press.close()
            await reader.close()

    return path


PATHS: dict[str, Callable[[], AbstractAsyncContextManager[Play]]] = {
    "embedded": embedded,
    "embedded batch": embedded_batch,
    "embedded publish_many": embedded_many,
    "TCP": tcp,
    "TCP batch": tcp_batch,
    "TCP waiting": tcp_waiting,
    "content": content,
    "kept": kept,
    "durable subscriber": durable,
    "one hop": one_hop,
    "three hops": three_hops,
    "MQTT QoS 0": _mqtt(0),
    "MQTT QoS 1": _mqtt(1),
    "replay": replay,
}

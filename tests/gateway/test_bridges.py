"""Bridges to real servers: nats-server with JetStream, redis-server, mosquitto. Killed in between."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import nats
import pytest
import redis.asyncio as redis
from tests.gateway.conftest import broker

import tidings
from tidings.errors import SettingsError
from tidings.gateway.bridges.bridge import Bridge, BridgeSettings, RouteSettings, read_bridge
from tidings.gateway.bridges.mqtt import MqttGiver

COUNT = 60


def needs(program: str) -> Any:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    return pytest.mark.skipif(found is None, reason=f"{program} is not installed")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    program = shutil.which(command[0]) or shutil.which(command[0], path="/usr/sbin") or command[0]
    running = subprocess.Popen([program, *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(10)


async def until_open(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def bridge(service: Any, *routes: RouteSettings) -> AsyncIterator[Bridge]:
    """A bridge that runs beside the test."""
    settings = BridgeSettings(route=routes)
    made = Bridge(settings, lambda name: tidings.connect(service.server.address, name=name))
    task = asyncio.create_task(made.run())
    try:
        yield made
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def take(listener: Any, count: int) -> list[Any]:
    return [await listener.get(30) for _ in range(count)]


@needs("nats-server")
def test_a_stream_of_jetstream_comes_in_and_goes_out_once_each(tmp_path: Path) -> None:
    port = free_port()

    async def test() -> None:
        await until_open(port)
        there = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = there.jetstream()
        await stream.add_stream(name="ORDERS", subjects=["orders.>"])
        await stream.add_stream(name="ALERTS", subjects=["alerts"])
        inward = RouteSettings(
            name="in", from_=f"nats://127.0.0.1:{port}", stream="ORDERS", subject="orders.>"
        )
        outward = RouteSettings(
            name="out", to=f"nats://127.0.0.1:{port}", stream="ALERTS", subject="alerts", filter="price > 9"
        )
        async with broker(tmp_path) as service:
            async with (
                tidings.connect(service.server.address, name="ann") as bus,
                bus.subscribe("topic = 'orders/#'", name="all", durable=True) as news,
            ):
                async with bridge(service, inward, outward):
                    for number in range(COUNT):
                        await stream.publish("orders.eu", json.dumps({"price": number % 20}).encode())
                    received = await take(news, COUNT // 2)
                async with bridge(service, inward, outward):  # another bridge goes on where that one ended
                    received += await take(news, COUNT - COUNT // 2)
                    wanted = COUNT // 2
                    alerts = await stream.pull_subscribe("alerts", durable="judge", stream="ALERTS")
                    found: list[Any] = []
                    while len(found) < wanted:
                        with suppress(nats.errors.TimeoutError):
                            found += await alerts.fetch(wanted, timeout=1)
                with pytest.raises(TimeoutError):
                    await news.get(0.2)
            assert [event.id for event in received] == [str(number) for number in range(1, COUNT + 1)]
            assert {event.source for event in received} == {"nats:ORDERS"}
            assert [json.loads(m.data)["price"] for m in found] == [
                n % 20 for n in range(COUNT) if n % 20 > 9
            ]
            assert (await stream.stream_info("ALERTS")).state.messages == wanted
        await there.close()

    with process("nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path / "js")):
        run(test)


@needs("redis-server")
def test_a_stream_of_redis_comes_in_and_goes_out_once_each(tmp_path: Path) -> None:
    port = free_port()

    async def test() -> None:
        await until_open(port)
        address = f"redis://127.0.0.1:{port}"
        there = redis.from_url(address)
        inward = RouteSettings(name="in", from_=address, stream="orders", topic="orders")
        outward = RouteSettings(name="out", to=address, stream="alerts", filter="price > 9")
        async with broker(tmp_path) as service:
            async with (
                tidings.connect(service.server.address, name="ann") as bus,
                bus.subscribe("topic = 'orders'", name="all", durable=True) as news,
            ):
                for number in range(COUNT):
                    await there.xadd("orders", {"event": json.dumps({"price": number % 20})})
                await there.xadd("orders", {"colour": "red"})  # not ours: its fields are attributes
                received = []
                async with bridge(service, inward, outward):
                    received += await take(news, 20)
                async with bridge(service, inward, outward) as second:
                    received += await take(news, COUNT + 1 - 20)
                    while await there.xlen("alerts") < COUNT // 2:
                        await asyncio.sleep(0)
                with pytest.raises(TimeoutError):
                    await news.get(0.2)
                assert second.carried
            assert [e.attributes["price"] for e in received[:-1]] == [n % 20 for n in range(COUNT)]
            assert received[-1].attributes == {"colour": "red"}
            assert len({event.identity for event in received}) == COUNT + 1
            alerts = [json.loads(fields[b"event"])["price"] for _, fields in await there.xrange("alerts")]
            assert alerts == [n % 20 for n in range(COUNT) if n % 20 > 9]
        await there.aclose()

    with process(
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""
    ):
        run(test)


@needs("mosquitto")
def test_an_mqtt_broker_upstream(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")

    async def test() -> None:
        await until_open(port)
        address = f"mqtt://127.0.0.1:{port}"
        inward = RouteSettings(name="in", from_=address, topic="sensors/#")
        outward = RouteSettings(name="out", to=address, filter="level > 2", topic="alarms")
        async with AsyncExitStack() as stack:
            service = await stack.enter_async_context(broker())
            bus = await stack.enter_async_context(tidings.connect(service.server.address, name="ann"))
            news = await stack.enter_async_context(bus.subscribe("topic = 'sensors/#'"))
            there = await stack.enter_async_context(aiomqtt.Client("127.0.0.1", port, identifier="t"))
            await stack.enter_async_context(bridge(service, inward, outward))
            await there.subscribe("alarms", qos=1)
            await there.publish("sensors/x", b"hello?", qos=1, retain=True)  # heard once we are there
            assert (await news.get(30)).payload == b"hello?"
            for level in range(5):
                await there.publish("sensors/x", json.dumps({"level": level}), qos=1)
            assert [e.attributes["level"] for e in await take(news, 5)] == [0, 1, 2, 3, 4]
            alarms: list[int] = []
            async for message in there.messages:
                alarms.append(json.loads(message.payload)["level"])
                if len(alarms) == 2:
                    break
            assert alarms == [3, 4]

    with process("mosquitto", "-c", str(config)):
        run(test)


def test_a_side_that_is_away_is_tried_again_and_nothing_is_skipped(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    address = f"redis://127.0.0.1:{port}"

    async def test() -> None:
        outward = RouteSettings(name="out", to=address, stream="alerts")
        async with (
            broker(tmp_path) as service,
            tidings.connect(service.server.address, name="ann") as bus,
        ):
            async with bridge(service, outward):  # it finds nobody, and makes its subscription known later
                await bus.publish({"n": -1}, lifetime=60)
            async with bridge(service, outward):
                for n in range(5):
                    await bus.publish({"n": n}, lifetime=60)
                with process("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""):
                    await until_open(port)
                    there = redis.from_url(address)
                    while await there.xlen("alerts") < 6:
                        await asyncio.sleep(0)
                    found = [json.loads(fields[b"event"])["n"] for _, fields in await there.xrange("alerts")]
                    await there.aclose()
            assert found == [-1, 0, 1, 2, 3, 4]

    run(test)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 'x'", "no [[route]]"),
        ("[[route]]\nfrm = 'x'", "frm"),
        ("[[route]]\nfrom = 'nats://x'\nto = 'nats://y'", "one of them"),
        ("[[route]]\nfrom = 5", "str"),
        ("[[route", "TOML"),
    ],
    ids=["none", "option", "both", "kind", "torn"],
)
def test_a_bad_file_is_told(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as delivered:
        read_bridge(file)
    assert words in str(delivered.value)


def test_an_address_that_no_bridge_knows() -> None:
    async def test() -> None:
        bad = BridgeSettings(route=(RouteSettings(from_="kafka://x", stream="s"),))
        with pytest.raises(ExceptionGroup) as delivered:
            await Bridge(bad, lambda name: tidings.connect(name=name)).run()
        assert "no bridge leads to kafka://x" in str(delivered.value.exceptions[0])

    run(test)


@needs("mosquitto")
def test_an_event_of_an_mqtt_broker_is_acknowledged_there_when_it_is_kept_here(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    route = RouteSettings(from_=f"mqtt://127.0.0.1:{port}", topic="t")

    async def next_event(*, is_kept: bool) -> bytes | None:
        """The next event of a bridge that ends then, with or without having kept it."""
        giver = MqttGiver(route, "bridge")
        await giver.open()
        try:
            async for incoming in giver.events():
                if is_kept:
                    await incoming.done()
                return incoming.event.payload
        finally:
            await giver.close()
        return None

    async def test() -> None:
        await until_open(port)
        async with aiomqtt.Client("127.0.0.1", port, identifier="bridge", clean_session=False) as earlier:
            await earlier.subscribe("t", qos=1)  # an earlier life of the bridge
        async with aiomqtt.Client("127.0.0.1", port, identifier="p") as there:
            await there.publish("t", "1", qos=1)
            await there.publish("t", "2", qos=1)
        assert await next_event(is_kept=False) == b"1"
        assert await next_event(is_kept=True) == b"1"
        assert await next_event(is_kept=True) == b"2"

    with process("mosquitto", "-c", str(config)):
        run(test)

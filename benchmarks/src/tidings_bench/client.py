"""`tidings bench client`: the Python client beside nats-py, redis-py, aiomqtt and aio-pika, each with its
own server.

Works, all with events of about 100 bytes, in one client process
- awaited: publish and wait for the server's answer, one after another (NATS: publish and flush; Redis:
  PUBLISH; MQTT: QoS 1; AMQP: publisher confirms).
- pipelined: publish without waiting, then wait for all answers.
- in flight: 100 events at a time, from the first publish until a subscriber of the same process has received
  the last of them; then the next 100.
- batches: publish them all while a subscriber of the same process takes them; until the last has come.
- request: a request and its reply, both ends in this process, one after another.
- blocking: publish and wait, without `await`.

Rules
- Every server is a process of its own on loopback, started for the run; one that is not installed is left
  out, and a row says so. No server keeps events on disk.
- The servers are started in threads, so that clients which are connected already answer meanwhile.
- The engines take turns: each round runs every engine once, and the median of each engine's rounds counts.
- A client gets the calls that its documentation shows. Where it has none for a work, it has no row.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from tidings.errors import MissingDependencyError
from tidings_bench.broker.brokers import HOST, _free_port, _wait, ending, ours, peer, program

EVENT = {"StockName": "IBM", "change": -4.5, "volume": 1200, "venue": "XETRA", "currency": "EUR"}
BODY = json.dumps(EVENT).encode()
TOPIC = "quotes/IBM"
WORKS = ("awaited", "pipelined", "in flight", "batches", "request", "blocking")
SIZES = {
    "awaited": 2_000, "pipelined": 10_000, "in flight": 10_000, "batches": 10_000, "request": 1_000,
    "blocking": 2_000,
}  # fmt: skip
ROUNDS = 3
LIMIT_SECONDS = 60.0  # for one round of one engine
IN_FLIGHT = 100
TOGETHER = 500  # unanswered publishes of clients that have no pipeline of their own

S = TypeVar("S")
Work = Callable[[int], Awaitable[None]]


class ClientEngine:
    """One client with its server: the works that it has, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.works: dict[str, Work] = {}


async def _in_handfuls(publish: Callable[[], Awaitable[Any]], count: int) -> None:
    for begin in range(0, count, TOGETHER):
        await asyncio.gather(*(publish() for _ in range(min(TOGETHER, count - begin))))


class Arrivals:
    """Counts what a subscriber gets, and says when so many have come."""

    def __init__(self) -> None:
        self._left = 0
        self._done = asyncio.Event()

    def expect(self, count: int) -> None:
        self._left = count
        self._done.clear()

    def add(self, count: int = 1) -> None:
        self._left -= count
        if self._left <= 0:
            self._done.set()

    async def wait(self) -> None:
        await self._done.wait()


async def _started(stack: AsyncExitStack, server: AbstractContextManager[S]) -> S:
    """Start a server in a thread. Starting takes seconds, and a client whose loop stands still for longer
    than `peer_timeout_seconds` sends no keepalive and loses its connection."""
    return await asyncio.to_thread(stack.enter_context, server)


async def tidings_client(stack: AsyncExitStack, folder: Path) -> ClientEngine:
    import tidings

    server = await _started(stack, ours(folder))
    address = f"tidings://{HOST}:{server.port}"
    bus = await stack.enter_async_context(tidings.connect(address, name="bench"))
    engine = ClientEngine("tidings")
    plain = stack.enter_context(tidings.open(address, name="plain"))

    async def awaited(count: int) -> None:
        for _ in range(count):
            await bus.publish(EVENT, topic=TOPIC)

    async def pipelined(count: int) -> None:
        for _ in range(count):
            bus.publish_nowait(EVENT, topic=TOPIC)
        await bus.flush()

    async def batches(count: int) -> None:
        async with bus.subscribe("change < -3", topic="batches/+", queue=2 * count) as news:

            async def take() -> None:
                left = count
                async for batch in news.batches(256):
                    left -= len(batch)
                    if left <= 0:
                        return

            taking = asyncio.create_task(take())
            for begin in range(0, count, TOGETHER):
                many = [EVENT] * min(TOGETHER, count - begin)
                await bus.publish_many(many, topic="batches/IBM")
            await taking

    async def in_flight(count: int) -> None:
        async with bus.subscribe("change < -3", topic="flight/+") as news:
            for _ in range(0, count, IN_FLIGHT):
                for _ in range(IN_FLIGHT):
                    bus.publish_nowait(EVENT, topic="flight/IBM")
                left = IN_FLIGHT
                while left:
                    left -= len(await news.get_many(left))
            await bus.flush()

    @bus.reply(topic="price")
    async def price(event: tidings.Event) -> tidings.Event:
        return event

    async def request(count: int) -> None:
        for _ in range(count):
            await bus.request(EVENT, topic="price")

    async def blocking(count: int) -> None:
        def publish() -> None:
            for _ in range(count):
                plain.publish(EVENT, topic=TOPIC)

        await asyncio.to_thread(publish)

    await stack.enter_async_context(bus.serving())
    engine.works = {
        "awaited": awaited, "pipelined": pipelined, "in flight": in_flight, "batches": batches,
        "request": request, "blocking": blocking,
    }  # fmt: skip
    return engine


async def nats_client(stack: AsyncExitStack, folder: Path) -> ClientEngine:
    import nats

    server = await _started(stack, peer("nats-server", folder))
    connection = await nats.connect(f"nats://{HOST}:{server.port}")
    stack.push_async_callback(connection.close)
    engine, arrivals = ClientEngine("nats-py"), Arrivals()

    async def receive(message: Any) -> None:
        if json.loads(message.data)["change"] < -3:
            arrivals.add()

    async def reply(message: Any) -> None:
        await message.respond(BODY)

    await connection.subscribe("batches.*", cb=receive, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await connection.subscribe("price", cb=reply)

    async def awaited(count: int) -> None:
        for _ in range(count):
            await connection.publish("quotes.IBM", BODY)
            await connection.flush()

    async def pipelined(count: int) -> None:
        for _ in range(count):
            await connection.publish("quotes.IBM", BODY)
        await connection.flush(timeout=60)

    async def batches(count: int) -> None:
        arrivals.expect(count)
        for _ in range(count):
            await connection.publish("batches.IBM", BODY)
        await arrivals.wait()

    async def in_flight(count: int) -> None:
        for _ in range(0, count, IN_FLIGHT):
            await batches(IN_FLIGHT)

    async def request(count: int) -> None:
        for _ in range(count):
            await connection.request("price", BODY, timeout=60)

    engine.works = {
        "awaited": awaited, "pipelined": pipelined, "in flight": in_flight, "batches": batches,
        "request": request,
    }  # fmt: skip
    return engine


async def redis_client(stack: AsyncExitStack, folder: Path) -> ClientEngine:
    import redis
    import redis.asyncio

    server = await _started(stack, peer("redis-server", folder))
    client = redis.asyncio.Redis(host=HOST, port=server.port)
    stack.push_async_callback(client.aclose)
    plain = redis.Redis(host=HOST, port=server.port)
    stack.callback(plain.close)
    engine = ClientEngine("redis-py")

    async def awaited(count: int) -> None:
        for _ in range(count):
            await client.publish("quotes", BODY)

    async def pipelined(count: int) -> None:
        for begin in range(0, count, TOGETHER):
            line = client.pipeline(transaction=False)
            for _ in range(min(TOGETHER, count - begin)):
                line.publish("quotes", BODY)
            await line.execute()

    async def publish(count: int) -> None:
        for begin in range(0, count, TOGETHER):
            line = client.pipeline(transaction=False)
            for _ in range(min(TOGETHER, count - begin)):
                line.publish("batches", BODY)
            await line.execute()

    async def take(news: Any, count: int) -> None:
        left = count
        async for message in news.listen():
            if message["type"] == "message" and json.loads(message["data"])["change"] < -3:
                left -= 1
                if left == 0:
                    return

    async def batches(count: int) -> None:
        async with client.pubsub() as news:
            await news.subscribe("batches")
            taking = asyncio.create_task(take(news, count))
            await publish(count)
            await taking

    async def in_flight(count: int) -> None:
        async with client.pubsub() as news:
            await news.subscribe("batches")
            for _ in range(0, count, IN_FLIGHT):
                await publish(IN_FLIGHT)
                await take(news, IN_FLIGHT)

    async def blocking(count: int) -> None:
        def publish() -> None:
            for _ in range(count):
                plain.publish("quotes", BODY)

        await asyncio.to_thread(publish)

    engine.works = {
        "awaited": awaited, "pipelined": pipelined, "in flight": in_flight, "batches": batches,
        "blocking": blocking,
    }  # fmt: skip
    return engine


async def mqtt_client(stack: AsyncExitStack, folder: Path) -> ClientEngine:
    import aiomqtt

    server = await _started(stack, peer("mosquitto", folder))
    bounds: dict[str, Any] = {"max_inflight_messages": TOGETHER, "max_concurrent_outgoing_calls": TOGETHER}
    client = await stack.enter_async_context(aiomqtt.Client(HOST, server.port, **bounds))
    reader = await stack.enter_async_context(aiomqtt.Client(HOST, server.port))
    client.pending_calls_threshold = 2 * TOGETHER  # below it says so for each call
    await reader.subscribe("batches/+", qos=1)
    engine = ClientEngine("aiomqtt")

    async def awaited(count: int) -> None:
        for _ in range(count):
            await client.publish(TOPIC, BODY, qos=1)

    async def pipelined(count: int) -> None:
        await _in_handfuls(lambda: client.publish(TOPIC, BODY, qos=1), count)

    async def batches(count: int) -> None:
        async def take() -> None:
            left = count
            async for message in reader.messages:
                assert isinstance(message.payload, bytes)
                if json.loads(message.payload)["change"] < -3:
                    left -= 1
                    if left == 0:
                        return

        taking = asyncio.create_task(take())
        await _in_handfuls(lambda: client.publish("batches/IBM", BODY, qos=1), count)
        await taking

    async def in_flight(count: int) -> None:
        for _ in range(0, count, IN_FLIGHT):
            await batches(IN_FLIGHT)

    engine.works = {"awaited": awaited, "pipelined": pipelined, "in flight": in_flight, "batches": batches}
    return engine


async def amqp_client(stack: AsyncExitStack, folder: Path) -> ClientEngine:
    import aio_pika
    from aio_pika.patterns import RPC

    port = await _started(stack, rabbitmq(folder))
    connection = await aio_pika.connect(f"amqp://guest:guest@{HOST}:{port}/")
    stack.push_async_callback(connection.close)
    channel = await connection.channel(publisher_confirms=True)
    exchange = await channel.declare_exchange("bench", aio_pika.ExchangeType.TOPIC)
    queue = await channel.declare_queue("", exclusive=True)
    await queue.bind(exchange, "batches.*")
    engine, arrivals = ClientEngine("aio-pika"), Arrivals()

    async def receive(message: Any) -> None:
        if json.loads(message.body)["change"] < -3:
            arrivals.add()

    await queue.consume(receive, no_ack=True)
    rpc = await RPC.create(await connection.channel())

    async def price(**event: Any) -> Any:
        return event

    await rpc.register("price", price, auto_delete=True)

    async def awaited(count: int) -> None:
        for _ in range(count):
            await exchange.publish(aio_pika.Message(BODY), "quotes.IBM")

    async def pipelined(count: int) -> None:
        await _in_handfuls(lambda: exchange.publish(aio_pika.Message(BODY), "quotes.IBM"), count)

    async def batches(count: int) -> None:
        arrivals.expect(count)
        await _in_handfuls(lambda: exchange.publish(aio_pika.Message(BODY), "batches.IBM"), count)
        await arrivals.wait()

    async def in_flight(count: int) -> None:
        for _ in range(0, count, IN_FLIGHT):
            await batches(IN_FLIGHT)

    async def request(count: int) -> None:
        for _ in range(count):
            await rpc.call("price", EVENT)

    engine.works = {
        "awaited": awaited, "pipelined": pipelined, "in flight": in_flight, "batches": batches,
        "request": request,
    }  # fmt: skip
    return engine


@contextmanager
def rabbitmq(folder: Path) -> Iterator[int]:
    """RabbitMQ with a port mapper of its own, both in the foreground and ended by their process ids."""
    server, mapper = program("rabbitmq-server"), program("epmd")
    if server is None or mapper is None:
        raise MissingDependencyError("rabbitmq-server is not installed")
    port, distribution, names = _free_port(), _free_port(), _free_port()
    base = folder / "rabbitmq"
    base.mkdir()
    environment = {
        **os.environ, "HOME": str(base), "ERL_EPMD_PORT": str(names), "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": f"bench{port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port), "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(base / "data"), "RABBITMQ_LOG_BASE": str(base / "log"),
        "RABBITMQ_PID_FILE": str(base / "pid"), "RABBITMQ_CONF_ENV_FILE": str(base / "none"),
        "RABBITMQ_CONFIG_FILE": str(base / "none"), "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
    }  # fmt: skip
    (base / "plugins").write_text("[].\n")
    # Debian's outer script refuses other users than its own.
    inner = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    with (base / "out").open("wb") as stated:
        names_server = subprocess.Popen(  # noqa: S603
            [mapper, "-port", str(names), "-address", HOST], stdout=stated, stderr=stated, env=environment
        )
        with ending(names_server):
            words = [str(inner if inner.exists() else server)]
            process = subprocess.Popen(words, stdout=stated, stderr=stated, env=environment)  # noqa: S603
            with ending(process):
                _wait("rabbitmq-server", port, process)
                yield port


ENGINES: dict[str, tuple[str, Callable[[AsyncExitStack, Path], Awaitable[ClientEngine]]]] = {
    "tidings": ("tidings", tidings_client),
    "nats-py": ("nats", nats_client),
    "redis-py": ("redis", redis_client),
    "aiomqtt": ("aiomqtt", mqtt_client),
    "aio-pika": ("aio_pika", amqp_client),
}


async def _timed(work: Work, size: int) -> float | None:
    """Events a second of one round; None: it did not end in time, as after a lost connection."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            await work(size)
    except TimeoutError:
        return None
    return size / (time.perf_counter() - began)


async def _measure(works: tuple[str, ...], sizes: dict[str, int], rounds: int) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    figures: dict[tuple[str, str], list[float]] = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        engines: list[ClientEngine] = []
        for name, (module, make) in ENGINES.items():
            own = folder / name
            own.mkdir()
            try:
                if find_spec(module) is None:
                    raise MissingDependencyError(f"the package {name} is not installed")
                engines.append(await make(stack, own))
            except MissingDependencyError as error:
                rows.append(_row("all", 0, f"{name}: left out, {error.message}", None, None))
        for work in works:
            for _ in range(rounds):
                for engine in engines:
                    if work in engine.works:
                        figure = await _timed(engine.works[work], sizes[work])
                        if figure is None:
                            del engine.works[work]
                            what = f"{engine.name}: left out, no end within {LIMIT_SECONDS:g} s"
                            rows.append(_row(work, sizes[work], what, None, None))
                        else:
                            figures.setdefault((work, engine.name), []).append(figure)
    middle = {key: median(each) for key, each in figures.items()}
    for work in works:
        peers = [figure for (name, who), figure in middle.items() if name == work and who != "tidings"]
        for (name, who), figure in middle.items():
            if name == work:
                ratio = figure / max(peers) if peers and who == "tidings" else None
                rows.append(_row(work, sizes[work], who, figure, ratio))
    return iter(rows)


def _row(work: str, size: int, engine: str, figure: float | None, ratio: float | None) -> dict[str, Any]:
    unit = "requests/s" if work == "request" else "events/s"
    rounded = None if figure is None else round(figure)
    ratio = None if ratio is None else round(ratio, 3)
    return {
        "work": work,
        "size": size,
        "engine": engine,
        "figure": rounded,
        "unit": unit,
        "ratio_to_best_peer": ratio,
    }


def run(
    *, quick: bool = False, only: str | None = None, rounds: int | None = None
) -> Iterator[dict[str, Any]]:
    """All works, or those of `only`."""
    works = WORKS if only is None else tuple(each for each in WORKS if each in only.split(","))
    sizes = {work: size // 10 if quick else size for work, size in SIZES.items()}
    return asyncio.run(_measure(works, sizes, rounds or (2 if quick else ROUNDS)))

"""`tidings bench gateway`: MQTT through our gateway beside mosquitto and amqtt, and publishing by HTTP beside
a bare Starlette application.

The MQTT work is driven by the same generator in C for all; a run with an event lost, repeated or out of order
does not count. Rows: QoS 0 with 1, 10 and 100 subscribers, 1,000 topics, an open loop with its p99, and QoS 1
publishes, not kept and kept on disk (mosquitto acknowledges before it saves). HTTP rows are events a second
by eight requests at once, of one event or a hundred; the Starlette application reads bodies and does nothing.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.errors import UnreachableError
from tidings_bench.broker import brokers
from tidings_bench.broker.generators import Figures, load_peer
from tidings_bench.broker.rows import (
    BROKER_CPU,
    DELIVERED,
    KEPT,
    OURS,
    P99,
    Row,
    Unit,
    compared,
    left_out,
    row,
)
from tidings_bench.broker.works import Measure, measured

PEERS = ("mosquitto", "amqtt")
FANS = (1, 10, 100)
WINDOW = 500
TOPICS = 1000
OPEN_RATE = 1000.0  # messages a second, whatever comes back
STARLETTE = "starlette, bare"
PUBLISHED = Unit("events/s", True)
BARE = """
import socket, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def publish(request):
    await request.body()
    return Response(status_code=202)

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/events", publish, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
"""


@contextmanager
def ours(folder: Path, *, store: bool = False) -> Iterator[dict[str, str]]:
    """A broker with its gateways: their addresses, and the process."""
    stated = {
        "name": "b1",
        "listen": "127.0.0.1:0",
        "gateway.http": "127.0.0.1:0",
        "gateway.mqtt": "127.0.0.1:0",
    }
    stated |= {"log.level": "error"} | ({"store": str(folder / "store")} if store else {})
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tidings.gateway.development", json.dumps(stated)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
    )  # fmt: skip
    with brokers.ending(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise UnreachableError("the broker did not start", hint="what it said is above")
        yield {**json.loads(line)["gateways"], "pid": str(process.pid)}


def run(*, quick: bool = False) -> Iterator[Row]:
    seconds = 1.0 if quick else 4.0
    for fan in FANS:
        yield from _topics(fan, seconds)
    yield from _many_topics(seconds)
    yield from _open_loop(seconds)
    for kept in (False, True):
        yield from _acknowledged(16 if quick else 64, seconds, kept=kept)
    yield from _http(seconds)


def _topics(fan: int, seconds: float) -> Iterator[Row]:
    options = {"subs": fan, "secs": seconds, "window": WINDOW, "drain": 10}
    found, failed = _all(options)
    for unit, name in ((DELIVERED, "recv_per_s"), (BROKER_CPU, "broker_us_per_recv")):
        yield from compared("mqtt topic", fan, unit, {engine: one[name] for engine, one in found.items()})
    for engine, why in failed:
        yield left_out("mqtt topic", fan, engine, why)


def _many_topics(seconds: float) -> Iterator[Row]:
    options = {"subs": 10, "topics": TOPICS, "secs": seconds, "window": WINDOW, "drain": 10}
    found, failed = _all(options)
    figures = {engine: one["recv_per_s"] for engine, one in found.items()}
    yield from compared("mqtt topics", TOPICS, DELIVERED, figures)
    for engine, why in failed:
        yield left_out("mqtt topics", TOPICS, engine, why)


def _open_loop(seconds: float) -> Iterator[Row]:
    options = {"subs": 10, "rate": OPEN_RATE, "secs": seconds, "drain": 10}
    found, failed = _all(options)
    figures = {engine: one["lat_p99_us"] for engine, one in found.items()}
    yield from compared("mqtt open loop", int(OPEN_RATE), P99, figures)
    for engine, why in failed:
        yield left_out("mqtt open loop", int(OPEN_RATE), engine, why)


def _acknowledged(publishers: int, seconds: float, *, kept: bool) -> Iterator[Row]:
    options = {"subs": 0, "pubs": publishers, "inflight": 1, "qos": 1, "secs": seconds}
    work = "mqtt QoS 1 publishes, kept" if kept else "mqtt QoS 1 publishes"
    found, failed = _all(options, *(["--durable-sub"] if kept else []), kept=kept)
    figures = {engine: one["acked_per_s"] for engine, one in found.items()}
    yield from compared(work, publishers, KEPT, figures)
    for engine, why in failed:
        yield left_out(work, publishers, engine, why)


def _all(
    options: dict[str, float], *flags: str, kept: bool = False
) -> tuple[dict[str, Figures], list[tuple[str, str]]]:
    measures: dict[str, Measure] = {OURS: lambda folder: _ours(folder, options, flags, kept=kept)}
    for name in PEERS[:1] if kept else PEERS:  # amqtt keeps no message
        measures[name] = _peer(name, options, flags, kept=kept)
    failed: list[tuple[str, str]] = []
    return measured(measures, failed), failed


def _ours(folder: Path, options: dict[str, float], flags: tuple[str, ...], *, kept: bool) -> Figures:
    with ours(folder, store=kept) as gateway:
        port = int(gateway["mqtt"].rpartition(":")[2])
        return load_peer("mqtt", port, [int(gateway["pid"])], *flags, **options)


def _peer(name: str, options: dict[str, float], flags: tuple[str, ...], *, kept: bool) -> Measure:
    def measure(folder: Path) -> Figures:
        with brokers.peer(name, folder, durable=kept) as broker:
            return load_peer("mqtt", broker.port, [broker.pid], *flags, **options)

    return measure


def _http(seconds: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as gateway:
        for size in (1, 100):
            rate = asyncio.run(_post(gateway["http"], size, seconds))
            yield row("http publish", size, OURS, rate, PUBLISHED.name)
    with bare_starlette() as address:
        rate = asyncio.run(_post(address, 1, seconds))
        yield row("http publish", 1, STARLETTE, rate, PUBLISHED.name)


@contextmanager
def bare_starlette() -> Iterator[str]:
    """An application that reads each request and answers at once, in a process of its own; its address."""
    process = subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE)  # noqa: S603
    with brokers.ending(process):
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        if not port:
            raise UnreachableError("the Starlette application did not start", hint="what it said is above")
        yield f"http://127.0.0.1:{port}"


async def _post(address: str, size: int, seconds: float) -> float:
    """Eight requests at once, each of `size` CloudEvents, for a while; events a second."""
    import httpx

    count = 0
    until = time.perf_counter() + seconds

    async with httpx.AsyncClient(base_url=address, timeout=30, trust_env=False) as http:

        async def keep_on(worker: int) -> None:
            nonlocal count
            turn = 0
            while time.perf_counter() < until:
                turn += 1
                batch = [
                    {
                        "specversion": "1.0", "id": f"{worker}-{turn}-{n}", "source": "bench",
                        "type": "quote",
                        "data": {"StockName": "IBM", "change": n},
                    }
                    for n in range(size)
                ]  # fmt: skip
                kind = {"content-type": "application/cloudevents-batch+json"}
                answer = await http.post("/events", content=json.dumps(batch), headers=kind)
                answer.raise_for_status()
                count += size

        begun = time.perf_counter()
        await asyncio.gather(*(keep_on(worker) for worker in range(8)))
        return count / (time.perf_counter() - begun)

"""`tidings bench gateway`: MQTT through our gateway beside mosquitto and amqtt, and publishing by HTTP.

The MQTT work is driven by the same generator in C for all; a run with an event lost, repeated or out of order
does not count. HTTP has no peer here: its rows are events a second by one client, one event or a hundred a
request.
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
from tidings_bench.broker.rows import BROKER_CPU, DELIVERED, KEPT, OURS, Row, Unit, compared, left_out, row
from tidings_bench.broker.works import Measure, measured

PEERS = ("mosquitto", "amqtt")
FANS = (1, 10, 100)
WINDOW = 500
PUBLISHED = Unit("events/s", True)


@contextmanager
def ours(folder: Path) -> Iterator[dict[str, str]]:
    """A broker with its gateways: their addresses, and the process."""
    said = {
        "name": "b1",
        "listen": "127.0.0.1:0",
        "gateway.http": "127.0.0.1:0",
        "gateway.mqtt": "127.0.0.1:0",
    }
    said |= {"log.level": "error"}
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tidings.gateway.development", json.dumps(said)],
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
    yield from _acknowledged(16 if quick else 64, seconds)
    yield from _http(seconds)


def _topics(fan: int, seconds: float) -> Iterator[Row]:
    options = {"subs": fan, "secs": seconds, "window": WINDOW, "drain": 10}
    found, failed = _all(options)
    for unit, name in ((DELIVERED, "recv_per_s"), (BROKER_CPU, "broker_us_per_recv")):
        yield from compared("mqtt topic", fan, unit, {engine: one[name] for engine, one in found.items()})
    for engine, why in failed:
        yield left_out("mqtt topic", fan, engine, why)


def _acknowledged(publishers: int, seconds: float) -> Iterator[Row]:
    options = {"subs": 0, "pubs": publishers, "inflight": 1, "qos": 1, "secs": seconds}
    found, failed = _all(options)
    figures = {engine: one["acked_per_s"] for engine, one in found.items()}
    yield from compared("mqtt QoS 1 publishes", publishers, KEPT, figures)
    for engine, why in failed:
        yield left_out("mqtt QoS 1 publishes", publishers, engine, why)


def _all(options: dict[str, float]) -> tuple[dict[str, Figures], list[tuple[str, str]]]:
    measures: dict[str, Measure] = {OURS: lambda folder: _ours(folder, options)}
    for name in PEERS:
        measures[name] = _peer(name, options)
    failed: list[tuple[str, str]] = []
    return measured(measures, failed), failed


def _ours(folder: Path, options: dict[str, float]) -> Figures:
    with ours(folder) as gateway:
        port = int(gateway["mqtt"].rpartition(":")[2])
        return load_peer("mqtt", port, [int(gateway["pid"])], **options)


def _peer(name: str, options: dict[str, float]) -> Measure:
    def measure(folder: Path) -> Figures:
        with brokers.peer(name, folder) as broker:
            return load_peer("mqtt", broker.port, [broker.pid], **options)

    return measure


def _http(seconds: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as gateway:
        for size in (1, 100):
            rate = asyncio.run(_post(gateway["http"], size, seconds))
            yield row("http publish", size, OURS, rate, PUBLISHED.name)


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

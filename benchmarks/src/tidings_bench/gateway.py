"""`tidings bench gateway`: MQTT through our gateway beside mosquitto, aedes (npm) and amqtt (PyPI), and HTTP,
WebSocket and server-sent events beside a bare Starlette application.

The generator in C drives QoS 0 and 1, idle connections and the open loop; a run with an event lost, repeated
or out of order does not count. Clients in Python (`mqtt_client.py`) drive QoS 2, retained messages, wildcards
and TLS. Works (`--only`)
- fan: QoS 0 to 1, 10 and 100 subscribers. topics: 1,000 topics. openloop: 1,000 messages a second, p99.
- qos1: publishes by 64 clients that wait for each answer and by one with 64 in flight; deliveries of QoS 1.
- kept: those 64 clients with a kept session, on disk before the answer (mosquitto answers before it saves).
- qos2, retained, wildcards, tls. neighbour: pings while another client subscribes to 20,000 retained messages
  and with 2,000 filters. idle: connections that say nothing, memory for each.
- http: publishing, one event or a hundred in a request. websocket, sse: delivery to 100 subscribers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tidings.errors import UnreachableError
from tidings.runtime.authority import issue, make_authority
from tidings_bench import gateway_web, mqtt_client
from tidings_bench.broker import brokers
from tidings_bench.broker.generators import Figures, load_peer
from tidings_bench.broker.rows import (
    BROKER_CPU,
    DELIVERED,
    KEPT,
    OURS,
    P50,
    P99,
    Row,
    Unit,
    chosen_works,
    compared,
    left_out,
)
from tidings_bench.broker.works import ROUNDS, Measure, measured
from tidings_bench.gateway_web import ours

T = TypeVar("T")

PEERS = ("mosquitto", "aedes", "amqtt")
KEEPING = ("mosquitto",)  # the others keep no message on a disk
FANS = (1, 10, 100)
WINDOW = 500
TOPICS = 1000
OPEN_RATE = 1000.0  # messages a second, whatever comes back
EXCHANGED = Unit("exchanges/s", True)
RETAINED = Unit("retained messages/s", True)
MEMORY = Unit("KiB/connection", False)
SLOWEST = Unit("us max", False)
WORKS = (
    "fan", "topics", "openloop", "qos1", "kept", "qos2", "retained", "wildcards", "tls", "neighbour", "idle",
    "http", "websocket", "sse",
)  # fmt: skip


def run(*, quick: bool = False, only: str | None = None, rounds: int = 1) -> Iterator[Row]:
    """Rows of every work, or of those that `only` names, with commas between them."""
    chosen = chosen_works(only, WORKS)
    ROUNDS.set(rounds)
    seconds = 0.5 if quick else 4.0
    todo: dict[str, Callable[[], Iterator[Row]]] = {
        "fan": lambda: _fans(FANS, seconds),
        "topics": lambda: _topics(seconds),
        "openloop": lambda: _open_loop(seconds),
        "qos1": lambda: _acknowledged(seconds),
        "kept": lambda: _kept(seconds),
        "qos2": lambda: _by_clients("mqtt QoS 2, in flight", 64, EXCHANGED, _exchanges(seconds)),
        "retained": lambda: _retained(500 if quick else 20_000),
        "wildcards": lambda: _wildcards(seconds),
        "tls": lambda: _tls(seconds),
        "neighbour": lambda: _neighbour(*((500, 50) if quick else (20_000, 2_000))),
        "idle": lambda: _idle(200 if quick else 10_000),
        "http": lambda: gateway_web.http(seconds),
        "websocket": lambda: gateway_web.streams("websocket", 20 if quick else 100, seconds),
        "sse": lambda: gateway_web.streams("sse", 20 if quick else 100, seconds),
    }
    for name in chosen:
        yield from todo[name]()


# -- by the generator in C -----------------------------------------------------------------------------


def _fans(fans: tuple[int, ...], seconds: float) -> Iterator[Row]:
    for fan in fans:
        options = {"subs": fan, "secs": seconds, "window": WINDOW, "drain": 10}
        units = {DELIVERED: "recv_per_s", BROKER_CPU: "broker_us_per_recv"}
        yield from _by_generator("mqtt topic", fan, units, options)


def _topics(seconds: float) -> Iterator[Row]:
    options = {"subs": 10, "topics": TOPICS, "secs": seconds, "window": WINDOW, "drain": 10}
    yield from _by_generator("mqtt topics", TOPICS, {DELIVERED: "recv_per_s"}, options)


def _open_loop(seconds: float) -> Iterator[Row]:
    options = {"subs": 10, "rate": OPEN_RATE, "secs": seconds, "drain": 10}
    yield from _by_generator("mqtt open loop", int(OPEN_RATE), {P99: "lat_p99_us"}, options)


def _acknowledged(seconds: float) -> Iterator[Row]:
    units = {KEPT: "acked_per_s"}
    for publishers, in_flight, work in (
        (64, 1, "mqtt QoS 1, publishers"),
        (1, 64, "mqtt QoS 1, in flight"),
    ):
        options = {"subs": 0, "pubs": publishers, "inflight": in_flight, "qos": 1, "secs": seconds}
        yield from _by_generator(work, 64, units, options)
    options = {"subs": 10, "qos": 1, "subqos": 1, "inflight": 64, "secs": seconds, "drain": 10}
    options |= {"window": WINDOW}
    yield from _by_generator("mqtt QoS 1 topic", 10, {DELIVERED: "recv_per_s"}, options)


def _kept(seconds: float) -> Iterator[Row]:
    options = {"subs": 0, "pubs": 64, "inflight": 1, "qos": 1, "secs": seconds}
    units = {KEPT: "acked_per_s"}
    yield from _by_generator("mqtt QoS 1, kept", 64, units, options, "--durable-sub", kept=True)


def _idle(count: int) -> Iterator[Row]:
    yield from _by_generator("mqtt idle", count, {MEMORY: "kb_per_conn"}, {"idle": count, "subs": 0})


def _by_generator(
    work: str, size: int, units: dict[Unit, str], options: dict[str, float], *flags: str, kept: bool = False
) -> Iterator[Row]:
    def ours_measured(folder: Path) -> Figures:
        with ours(folder, store=kept) as gateway:
            return load_peer("mqtt", _port(gateway), [int(gateway["pid"])], *flags, **options)

    def peer_measured(name: str) -> Measure:
        def measure(folder: Path) -> Figures:
            with brokers.peer(name, folder, durable=kept) as broker:
                return load_peer("mqtt", broker.port, [broker.pid], *flags, **options)

        return measure

    measures: dict[str, Measure] = {OURS: ours_measured}
    measures |= {name: peer_measured(name) for name in (KEEPING if kept else PEERS)}
    failed: list[tuple[str, str]] = []
    found = measured(measures, failed)
    for unit, name in units.items():
        yield from compared(work, size, unit, {engine: one[name] for engine, one in found.items()})
    for engine, why in failed:
        yield left_out(work, size, engine, why)


def _port(gateway: dict[str, str]) -> int:
    return int(gateway["mqtt"].rpartition(":")[2])


# -- by clients in Python ------------------------------------------------------------------------------

Load = Callable[[int], Awaitable[float]]
RATE = "rate"


def _exchanges(seconds: float) -> Load:
    return lambda port: mqtt_client.exchanges(port, seconds)


def _neighbour(count: int, filters: int) -> Iterator[Row]:
    units = {P50: "p50", P99: "p99", SLOWEST: "max"}
    yield from _of_clients(
        "mqtt ping beside retained", count, units, lambda port: mqtt_client.neighbour(port, count, filters)
    )


def _retained(count: int) -> Iterator[Row]:
    yield from _by_clients("mqtt retained", count, RETAINED, lambda port: mqtt_client.retained(port, count))


def _wildcards(seconds: float) -> Iterator[Row]:
    """Each of ten subscribers has three filters with wildcards, of which one matches every message."""
    filters = [["t/+/x", f"t/{number}/+/y", f"u/{number}/#"] for number in range(10)]
    yield from _by_clients(
        "mqtt wildcards", TOPICS, DELIVERED, lambda port: mqtt_client.deliveries(port, seconds, filters)
    )


def _by_clients(work: str, size: int, unit: Unit, load: Load) -> Iterator[Row]:
    async def rate(port: int) -> Figures:
        return {RATE: await load(port)}

    yield from _of_clients(work, size, {unit: RATE}, rate)


def _of_clients(
    work: str, size: int, units: dict[Unit, str], load: Callable[[int], Awaitable[Figures]]
) -> Iterator[Row]:
    def measure(name: str) -> Measure:
        def one(folder: Path) -> Figures:
            if name == OURS:
                with ours(folder) as gateway:
                    return _run(load, _port(gateway))
            with brokers.peer(name, folder) as broker:
                return _run(load, broker.port)

        return one

    failed: list[tuple[str, str]] = []
    found = measured({name: measure(name) for name in (OURS, *PEERS)}, failed)
    for unit, figure in units.items():
        yield from compared(work, size, unit, {engine: one[figure] for engine, one in found.items()})
    for engine, why in failed:
        yield left_out(work, size, engine, why)


def _run(load: Callable[[int], Awaitable[T]], port: int) -> T:
    async def bounded() -> T:
        return await load(port)

    try:
        return asyncio.run(bounded())
    except (OSError, TimeoutError) as error:
        raise UnreachableError(f"the clients were not served: {error or 'too slow'}") from None


def _tls(seconds: float) -> Iterator[Row]:
    failed: list[tuple[str, str]] = []
    found = measured({name: _tls_measure(name, seconds) for name in (OURS, *KEEPING)}, failed)
    yield from compared("mqtt by TLS", 1, DELIVERED, {engine: one["rate"] for engine, one in found.items()})
    for engine, why in failed:
        yield left_out("mqtt by TLS", 1, engine, why)


def _tls_measure(name: str, seconds: float) -> Measure:
    def measure(folder: Path) -> Figures:
        make_authority(folder / "certs")
        pem = issue(folder / "certs", "b1", hosts=("127.0.0.1", "localhost"), broker=True)
        authority = str(folder / "certs" / "authority.pem")
        context = ssl.create_default_context(cafile=authority)

        def load(port: int) -> Awaitable[float]:
            return mqtt_client.deliveries(port, seconds, [["t/#"]], context)

        certificate, key = str(pem.certificate), str(pem.key)
        if name == OURS:
            with ours(folder, tls=(certificate, key, authority)) as gateway:
                return {"rate": _run(load, _port(gateway))}
        with brokers.peer(name, folder, tls=(certificate, key)) as broker:
            return {"rate": _run(load, broker.port)}

    return measure

"""The works of the broker benchmark that peers do too: content, topic, durable, latency.

- content: 1,000 subscribers, each wanting 0.1% of the events: one of 100 symbols, one of 10 bands of its
  change. Ours matches by content. A peer gets everything on one topic, or a topic for each symbol, and its
  clients throw away what they did not want; only what was wanted counts.
- topic: one publisher, 1, 10 and 100 subscribers of one topic, 100 bytes, no event kept.
- durable: publishes acknowledged when they are on the disk, with 1, 8 and 64 publishers that wait for each.
- latency: one topic, 10 subscribers, at half of the highest rate that the same broker reached before.

With several rounds the engines take turns, and the median of each engine's rounds counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tidings.errors import TidingsError
from tidings.matching.columnar.warm import warm
from tidings.protocol.messages import AckMode
from tidings_bench.broker import brokers
from tidings_bench.broker.generators import Figures, load_ours, load_peer
from tidings_bench.broker.plan import LoadPlan, content_subscribers, topic_subscribers
from tidings_bench.broker.rows import (
    ALL_CPU,
    BROKER_CPU,
    DELIVERED,
    KEPT,
    OURS,
    P50,
    P99,
    WANTED,
    Row,
    Unit,
    compared,
    left_out,
)

BANDS = 10  # of a symbol's change
WINDOW = 500  # events on their way
WARM_SECONDS = 5.0  # in which a broker with many new filters loads compiled kernels beside its loop
ONE_TOPIC_WINDOW = 20  # the same where each goes to a thousand
FANS = (1, 10, 100)
IN_FLIGHT = (1, 8, 64)


class Scale(NamedTuple):
    """Durations and sizes of the works."""

    seconds: float
    subscribers: int
    slow_seconds: float  # of brokers that need long for one event

    @property
    def symbols(self) -> int:
        """Number of symbols so that every event is wanted by one subscriber."""
        return self.subscribers // BANDS


QUICK = Scale(1.0, 200, 1.0)
FULL = Scale(3.0, 1_000, 2.0)

Measure = Callable[[Path], Figures]
ROUNDS: ContextVar[int] = ContextVar("ROUNDS", default=1)  # in which every engine is measured once


def measured(measures: dict[str, Measure], failed: list[tuple[str, str]]) -> dict[str, Figures]:
    """Each engine in turn, in a folder of its own, as often as there are rounds; what cannot be measured is
    noted with the reason."""
    rounds: dict[str, list[Figures]] = {engine: [] for engine in measures}
    for _ in range(ROUNDS.get()):
        for engine in list(rounds):
            with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
                try:
                    figures = measures[engine](Path(folder))
                except TidingsError as error:
                    failed.append((engine, str(error)))
                    del rounds[engine]
                    continue
            problem = trouble(figures)
            if problem:
                failed.append((engine, problem))
            else:
                rounds[engine].append(figures)
    return {engine: middle(figures) for engine, figures in rounds.items() if figures}


def middle(rounds: list[Figures]) -> Figures:
    """The median of each figure; a text is that of the first round."""
    numbers = {name for name, figure in rounds[0].items() if isinstance(figure, int | float)}
    return rounds[0] | {name: median(one[name] for one in rounds) for name in numbers}


def trouble(figures: Figures) -> str:
    """Reason why a run does not count: events lost, repeated or out of order."""
    kinds = (
        "lost",
        "undelivered",
        "duplicated",
        "reordered",
        "late",
        "bad",
        "ack_errors",
        "disconnects",
        "stalls",
    )
    wrong = {kind: figures[kind] for kind in kinds if figures.get(kind)}
    return ", ".join(f"{count} {kind}" for kind, count in wrong.items())


def rows_of(
    work: str, size: int, measures: dict[str, Measure], figures: dict[Unit, Callable[[Figures], float]]
) -> Iterator[Row]:
    failed: list[tuple[str, str]] = []
    found = measured(measures, failed)
    for unit, of in figures.items():
        yield from compared(work, size, unit, {engine: of(one) for engine, one in found.items()})
    for engine, why in failed:
        yield left_out(work, size, engine, why)


# -- content --------------------------------------------------------------------------------------


def content(scale: Scale) -> Iterator[Row]:
    count = scale.subscribers
    measures: dict[str, Measure] = {OURS: lambda folder: our_content(folder, scale)}
    for name in brokers.PEERS:
        for topics, words in ((scale.symbols, "a topic per symbol"), (1, "one topic")):
            measures[f"{name}, {words}"] = _peer_content(name, topics, scale)
    yield from rows_of(
        "content",
        count,
        measures,
        {
            WANTED: lambda found: found["wanted_per_s"],
            BROKER_CPU: lambda found: found["broker_us_per_wanted"],
            ALL_CPU: lambda found: found["broker_us_per_wanted"] * (1 + _client_share(found)),
        },
    )


def our_content(folder: Path, scale: Scale) -> Figures:
    compile_kernels()
    with brokers.ours(folder) as broker:
        subscribers = content_subscribers(scale.subscribers, scale.symbols, BANDS)
        plan = LoadPlan(broker.port, subscribers, symbols=scale.symbols, bands=BANDS)
        return load_ours(plan, folder, [broker.pid], secs=scale.seconds, window=WINDOW, hold=WARM_SECONDS)


@cache
def compile_kernels() -> None:
    """A broker that holds many filters matches by compiled code, which is compiled once in an installation
    and kept on its disk. That is no part of the figures: do it here."""
    warm()


def _peer_content(name: str, topics: int, scale: Scale) -> Measure:
    def measure(folder: Path) -> Figures:
        with brokers.peer(name, folder) as broker:
            return load_peer(
                brokers.PROTOCOLS[name],
                broker.port,
                [broker.pid],
                subs=scale.subscribers,
                topics=topics,
                symbols=scale.symbols,
                bands=BANDS,
                secs=scale.seconds if topics > 1 else scale.slow_seconds,
                window=WINDOW if topics > 1 else ONE_TOPIC_WINDOW,
                drain=10,
            )

    return measure


def _client_share(found: Figures) -> float:
    """The clients' CPU for each second of the broker's."""
    share: float = found["gen_cpu_pct"] / max(found["broker_cpu_pct"], 1.0)
    return share


# -- topic ----------------------------------------------------------------------------------------


def topic(scale: Scale, highest: dict[str, float]) -> Iterator[Row]:
    """Also fills in the highest rate of publishes that each engine reached with 10 subscribers."""
    for fan in FANS:
        failed: list[tuple[str, str]] = []
        found = measured(_topic_measures(fan, scale), failed)
        if fan == 10:
            highest.update({engine: one["sent_per_s"] for engine, one in found.items()})
        for unit, name in ((DELIVERED, "recv_per_s"), (BROKER_CPU, "broker_us_per_recv")):
            yield from compared("topic", fan, unit, {engine: one[name] for engine, one in found.items()})
        for engine, why in failed:
            yield left_out("topic", fan, engine, why)


def _topic_measures(fan: int, scale: Scale) -> dict[str, Measure]:
    measures: dict[str, Measure] = {
        OURS: lambda folder: our_topic(folder, fan, secs=scale.seconds, window=WINDOW)
    }
    for name in brokers.PEERS:
        measures[name] = _peer_topic(name, fan, secs=scale.seconds, window=WINDOW, drain=10)
    return measures


def our_topic(folder: Path, fan: int, **options: float) -> Figures:
    with brokers.ours(folder) as broker:
        return load_ours(LoadPlan(broker.port, topic_subscribers(fan)), folder, [broker.pid], **options)


def _peer_topic(name: str, fan: int, **options: float) -> Measure:
    def measure(folder: Path) -> Figures:
        with brokers.peer(name, folder) as broker:
            return load_peer(brokers.PROTOCOLS[name], broker.port, [broker.pid], subs=fan, **options)

    return measure


# -- durable --------------------------------------------------------------------------------------

DURABLE = {"mosquitto": ("--durable-sub",), "nats-server": ("--js",), "redis-server": ("--xadd",)}


def durable(scale: Scale) -> Iterator[Row]:
    for count in IN_FLIGHT:
        measures: dict[str, Measure] = {OURS: lambda folder, n=count: our_durable(folder, n, scale)}  # type: ignore[misc]
        for name, flags in DURABLE.items():
            measures[_durable_name(name)] = _peer_durable(name, flags, count, scale)
        yield from rows_of("durable", count, measures, {KEPT: lambda found: found["acked_per_s"]})


def our_durable(folder: Path, publishers: int, scale: Scale) -> Figures:
    with brokers.ours(folder, store=True) as broker:
        plan = LoadPlan(broker.port, [], publishers, AckMode.KEPT)
        return load_ours(plan, folder, [broker.pid], secs=scale.seconds, inflight=1)


def _durable_name(name: str) -> str:
    if name == "mosquitto":
        return "mosquitto (acknowledges before the disk)"
    if name == "nats-server" and not brokers.is_synced_jetstream():
        return "nats-server (too old to sync before it acknowledges)"
    return name


def _peer_durable(name: str, flags: tuple[str, ...], publishers: int, scale: Scale) -> Measure:
    def measure(folder: Path) -> Figures:
        with brokers.peer(name, folder, durable=True) as broker:
            protocol = brokers.PROTOCOLS[name]
            qos = ("--qos", "1") if protocol == "mqtt" else ()
            return load_peer(
                protocol, broker.port, [broker.pid], *flags, *qos,
                subs=0, pubs=publishers, inflight=1, secs=scale.seconds,
            )  # fmt: skip

    return measure


# -- latency --------------------------------------------------------------------------------------


def latency(scale: Scale, highest: dict[str, float]) -> Iterator[Row]:
    """Each engine at half of its own highest rate."""
    fan = 10
    measures: dict[str, Measure] = {}
    for engine, most in highest.items():
        options = {"secs": scale.seconds, "rate": most / 2}
        if engine == OURS:
            measures[engine] = lambda folder, given=options: our_topic(folder, fan, **given)  # type: ignore[misc]
        else:
            measures[engine] = _peer_topic(engine, fan, drain=10, **options)
    yield from rows_of(
        "latency at half load",
        fan,
        measures,
        {P50: lambda found: found["lat_p50_us"], P99: lambda found: found["lat_p99_us"]},
    )

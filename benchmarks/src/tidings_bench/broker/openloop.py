"""Open loop: events leave at a given rate whether the broker keeps up or not, as those of real publishers do.

- openloop: one topic, 10 subscribers. The highest rate at which the 99th percentile of latency stays within
  10 ms and no delivery is lost or late, alone and beside a busy process on each core. Also the median at
  20,000 events a second.
- overload: one broker of ours at 1.5 and 3 times the rate that it can carry, and then at half of it: the
  share of the best delivered rate that is left, and the latency when the overload is over.

A latency is counted from the time at which the event was due, so an event that waits for the publisher counts
as slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median

from tidings.errors import TidingsError
from tidings_bench.broker import brokers
from tidings_bench.broker.generators import Figures, load_ours, load_peer
from tidings_bench.broker.plan import CREDIT, LoadPlan, topic_subscribers
from tidings_bench.broker.rows import OURS, P50, Row, Unit, compared, left_out, row
from tidings_bench.broker.works import ROUNDS, WINDOW, Scale, our_topic, trouble

FAN = 10
MOST_US = 10_000.0  # of the 99th percentile
STEADY = 20_000  # events a second at which medians are compared
RATES = (5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000, 100_000, 130_000, 160_000)
PEERS = ("nats-server", "redis-server")
HIGHEST = Unit("events/s with p99 within 10 ms", True)
OVERLOADS = (1.5, 3.0)
DURABLE_CREDIT = 768  # of a durable subscriber: that of a client that takes 512 at a time


def openloop(scale: Scale) -> Iterator[Row]:
    for is_busy, work in ((False, "openloop, alone"), (True, "openloop, busy cores")):
        highest: dict[str, list[float]] = {engine: [] for engine in (OURS, *PEERS)}
        medians: dict[str, list[float]] = {engine: [] for engine in highest}
        with busy_cores() if is_busy else ExitStack():
            for _ in range(ROUNDS.get()):
                for engine in list(highest):
                    try:
                        highest[engine].append(highest_rate(engine, scale, medians[engine]))
                    except TidingsError as error:
                        del highest[engine]
                        yield left_out(work, FAN, engine, str(error))
        yield from compared(work, FAN, HIGHEST, _middle(highest))
        yield from compared(f"{work}, {STEADY}/s", FAN, P50, _middle(medians))


def _middle(rounds: dict[str, list[float]]) -> dict[str, float]:
    return {engine: median(figures) for engine, figures in rounds.items() if figures}


def highest_rate(engine: str, scale: Scale, medians: list[float]) -> float:
    """The highest of the rates that an engine carries; the next one is not carried."""
    best = 0.0
    for rate in RATES:
        found = _at_rate(engine, rate, scale.seconds)
        if rate == STEADY:
            medians.append(found["lat_p50_us"])
        if trouble(found) or found["lat_p99_us"] > MOST_US:
            break
        best = float(rate)
    return best


def _at_rate(engine: str, rate: float, seconds: float) -> Figures:
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as name:
        folder = Path(name)
        if engine == OURS:
            return our_topic(folder, FAN, secs=seconds, rate=rate, drain=10)
        with brokers.peer(engine, folder) as broker:
            protocol = brokers.PROTOCOLS[engine]
            return load_peer(protocol, broker.port, [broker.pid], subs=FAN, secs=seconds, rate=rate, drain=10)


@contextmanager
def busy_cores() -> Iterator[None]:
    """A process that never pauses on each core."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.enter_context(brokers.ending(spinning))
        yield


def overload(scale: Scale) -> Iterator[Row]:
    """One broker through overload and back, with transient subscribers and with a durable one."""
    yield from _overload("overload", FAN, scale, durable=False)
    yield from _overload("overload, durable", 1, scale, durable=True)


def _overload(work: str, fan: int, scale: Scale, *, durable: bool) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="tidings-bench-") as name,
        brokers.ours(Path(name), store=durable) as broker,
    ):
        runs = count(1)
        credit = DURABLE_CREDIT if durable else CREDIT

        def load(**options: float) -> Figures:
            subscribers = topic_subscribers(fan)
            plan = LoadPlan(broker.port, subscribers, run=next(runs), credit=credit, durable=durable)
            return load_ours(plan, Path(name), [broker.pid], secs=scale.seconds, drain=30, **options)

        best = load(window=WINDOW)
        carried = best["sent_per_s"]
        before = load(rate=carried / 2)
        for times in OVERLOADS:
            found = load(rate=times * carried)
            share = found["recv_per_s"] / best["recv_per_s"]
            yield row(work, fan, OURS, 100 * share, f"% of the best delivered rate at {times:g} times")
            if problem := trouble(found):
                yield row(work, fan, OURS, None, f"at {times:g} times: {problem}")
        after = load(rate=carried / 2)
        for moment, figures in (("before", before), ("after", after)):
            yield row(work, fan, OURS, figures["lat_p99_us"], f"us p99 at half load {moment}")

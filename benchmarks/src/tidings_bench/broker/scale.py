"""Capacity of one broker of ours, and throughput of a network of eight on this machine. No peer does these.

- idle: silent connections over TLS, the memory of each, and the latency of a small load beside
  them, by `probe.py`, which speaks TLS as clients do.
- subscriptions: so many on one broker, over ten connections, each with a filter of its own.
- network: eight brokers in a tree with two children each; the publisher at the last leaf, subscribers at
  every broker. A delivery counts where it arrives; hops are those of the longest way.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tidings.errors import TidingsError
from tidings.runtime.authority import issue, make_authority
from tidings_bench.broker import brokers
from tidings_bench.broker.generators import load_ours
from tidings_bench.broker.plan import LoadPlan, Subscriber, topic_subscribers
from tidings_bench.broker.rows import OURS, Row, left_out, row
from tidings_bench.broker.works import WINDOW, trouble

BROKERS = 8
CONNECTIONS = 10  # that share the many subscriptions
SPARE_FILES = 500  # descriptors that a process needs beside its connections


class ScaleSize(NamedTuple):
    idle: int
    subscriptions: int
    seconds: float


QUICK = ScaleSize(200, 5_000, 1.0)
FULL = ScaleSize(10_000, 1_000_000, 4.0)


def idle(size: ScaleSize) -> Iterator[Row]:
    """Memory of an idle connection, and latency beside none and beside all of them."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE_FILES
    count = min(size.idle, most)
    if count < size.idle:
        yield left_out("idle TLS connections", size.idle, OURS, f"this system allows {most} descriptors")
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as name:
        folder = Path(name)
        make_authority(folder / "certs")
        broker_pem = issue(folder / "certs", "b1", hosts=("127.0.0.1", "localhost"), broker=True)
        authority = str(folder / "certs" / "authority.pem")
        tls = (str(broker_pem.certificate), str(broker_pem.key), authority)
        with brokers.ours(folder, tls=tls) as broker:
            words = [str(broker.port), str(broker.pid), authority, str(count), str(size.seconds)]
            yield from _probed(words, count)


def _probed(words: list[str], count: int) -> Iterator[Row]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tidings_bench.broker.probe", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    work = "idle TLS connections"
    if done.returncode:
        yield left_out(work, count, OURS, done.stderr.strip()[-300:])
        return
    found = json.loads(done.stdout)
    yield row(work, count, OURS, found["bytes_each"] / 1024, "KiB/connection")
    yield row(work, count, OURS, found["connects_per_s"], "connections made/s")
    for beside, latencies in (("none", found["alone"]), ("all", found["beside"])):
        yield row(work, count, OURS, latencies["p50"], f"us p50, TLS, beside {beside}")
        yield row(work, count, OURS, latencies["p99"], f"us p99, TLS, beside {beside}")


def subscriptions(size: ScaleSize) -> Iterator[Row]:
    """Rate of subscribing, and the memory of each subscription."""
    work, count = "subscriptions", size.subscriptions
    each = count // CONNECTIONS
    plans = [
        Subscriber(
            [f"symbol = {number} AND change > {part}.5" for number in range(part * each, (part + 1) * each)]
        )
        for part in range(CONNECTIONS)
    ]
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as name:
        try:
            with brokers.ours(Path(name)) as broker:
                plan = LoadPlan(broker.port, plans, publishers=0, credit=1)
                found = load_ours(plan, Path(name), [broker.pid], secs=0, drain=0)
        except TidingsError as error:
            yield left_out(work, count, OURS, str(error))
            return
    stored = each * CONNECTIONS
    grown = (found["rss_connected_kb"] - found["rss_before_kb"]) * 1024
    yield row(work, stored, OURS, stored / found["setup_s"], "subscriptions/s")
    yield row(work, stored, OURS, grown / stored, "bytes/subscription")


def network(size: ScaleSize) -> Iterator[Row]:
    work = f"network of {BROKERS} brokers"
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        running: list[brokers.RunningBroker] = []
        for number in range(BROKERS):
            parent = f"127.0.0.1:{running[(number - 1) // 2].port}" if number else ""
            running.append(stack.enter_context(brokers.ours(folder, name=f"b{number + 1}", join=parent)))
        subscribers = [one._replace(port=broker.port) for broker in running for one in topic_subscribers(1)]
        plan = LoadPlan(running[0].port, subscribers, publisher_ports=[running[-1].port])
        pids = [broker.pid for broker in running]
        found = load_ours(plan, folder, pids, secs=size.seconds, window=WINDOW // 10, drain=10)
    problem = trouble(found)
    if problem:
        yield left_out(work, BROKERS, OURS, problem)
        return
    yield row(work, BROKERS, OURS, float(_longest_way(BROKERS)), "hops of the longest way")
    yield row(work, BROKERS, OURS, found["recv_per_s"], "deliveries/s")
    yield row(work, BROKERS, OURS, found["broker_us_per_recv"], "CPU us of all brokers/delivery")
    yield row(work, BROKERS, OURS, found["lat_p50_us"], "us p50 at the highest load")
    yield row(work, BROKERS, OURS, found["lat_p99_us"], "us p99 at the highest load")


def _longest_way(count: int) -> int:
    """Links from the last broker of the tree to the farthest one."""
    return max(_distance(count - 1, other) for other in range(count))


def _distance(one: int, other: int) -> int:
    steps = 0
    while one != other:
        if one < other:
            one, other = other, one
        one, steps = (one - 1) // 2, steps + 1
    return steps

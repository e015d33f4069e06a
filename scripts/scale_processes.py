"""Measure `tidings broker --processes N` on matching-bound content: events a second that publishers get
acknowledged.

    python scripts/scale_processes.py                      # 1 and 2 processes
    python scripts/scale_processes.py --processes 1,2,4 --seconds 10 --filters 1000 --json

Every filter is arithmetic (`x + 2 * y > K`), which no index holds, so that each event costs each filter an
evaluation. One event in `--every` is wanted by one subscription of each process, and is forwarded.
Publishers and subscribers are spread over the processes by their names; they run in one further process,
which counts too where there are no more cores than brokers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path

import tidings
from tidings.runtime.unit import home_of

BATCH = 50  # events that a publisher has on its way


def named(number: int, count: int, prefix: str) -> str:
    return next(name for n in range(10_000) if home_of(name := f"{prefix}{n}", count) == number)


def cpu_of(http: str) -> float:
    """CPU seconds of all broker processes so far."""
    with urllib.request.urlopen(f"{http}/metrics") as page:  # nosec B310 # noqa: S310 - our own broker
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("process_cpu_seconds_total"))


def busy_seconds() -> float:
    """CPU seconds of the whole machine so far, idle ones left out; 0 where the system does not say."""
    try:
        with Path("/proc/stat").open() as lines:
            ticks = [int(field) for field in lines.readline().split()[1:9]]
    except OSError:
        return 0.0
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


async def measure(
    processes: int, seconds: float, filters: int, publishers: int, every: int
) -> dict[str, float]:
    command = [sys.executable, "-m", "tidings", "broker", "--dev", "--name", "u", "--listen", "127.0.0.1:0"]
    command += ["--processes", str(processes), "--http", "127.0.0.1:0", "--json"]
    broker = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert broker.stdout is not None
    stated = json.loads(await broker.stdout.readline())
    address = stated["address"]
    received = 0
    buses = []

    async def count(listener: tidings.Listener) -> None:
        nonlocal received
        while True:
            received += len(await listener.get_many(1000))

    counting = []
    for number in range(processes):
        bus = await tidings.connect(address, name=named(number, processes, "s"), timeout=60).open()
        buses.append(bus)
        wanted = await bus.subscribe("wanted = 1").open()
        counting.append(asyncio.create_task(count(wanted)))
        for folder in range(filters // processes):
            await bus.subscribe(f"x + 2 * y > {10_000 + number * filters + folder}", name=f"f{folder}").open()
    senders = [
        await tidings.connect(address, name=named(n % processes, processes, f"p{n}-"), timeout=60).open()
        for n in range(publishers)
    ]
    acknowledged = 0
    until = 0.0

    async def publish(bus: tidings.Bus) -> None:
        nonlocal acknowledged
        sent = 0
        while time.monotonic() < until:
            events = [
                {"x": n, "y": sent % 1000, "wanted": int((sent + n) % every == 0)} for n in range(BATCH)
            ]
            await bus.publish_many(events)
            sent += BATCH
            acknowledged += BATCH

    until = time.monotonic() + 2.0  # warm
    await asyncio.gather(*map(publish, senders))
    acknowledged = received = 0
    own, busy = time.process_time(), busy_seconds()
    before = await asyncio.to_thread(cpu_of, stated["http"])
    began = time.monotonic()
    until = began + seconds
    await asyncio.gather(*map(publish, senders))
    took = time.monotonic() - began
    own, busy = time.process_time() - own, busy_seconds() - busy
    spent = await asyncio.to_thread(cpu_of, stated["http"]) - before
    for task in counting:
        task.cancel()
    for bus in (*buses, *senders):
        await bus.close()
    broker.send_signal(signal.SIGTERM)
    await broker.wait()
    return {
        "processes": processes,
        "events_per_second": round(acknowledged / took),
        "deliveries_per_second": round(received / took),
        "broker_cpu_us_per_event": round(spent / acknowledged * 1e6),
        "broker_cores": round(spent / took, 2),
        "client_cores": round(own / took, 2),
        "cores_of_others": round(max(0.0, busy - spent - own) / took, 2),  # not 0: the ratio is too low
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--filters", type=int, default=1000, help="in all")
    parser.add_argument("--publishers", type=int, default=4)
    parser.add_argument(
        "--every", type=int, default=100, help="one event in so many is wanted by every process"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for processes in map(int, given.processes.split(",")):
        row = asyncio.run(measure(processes, given.seconds, given.filters, given.publishers, given.every))
        row["ratio"] = round(row["events_per_second"] / rows[0]["events_per_second"], 2) if rows else 1.0
        rows.append(row)
        if not given.json:
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if given.json:
        print(json.dumps({"cores": os.cpu_count(), "filters": given.filters, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

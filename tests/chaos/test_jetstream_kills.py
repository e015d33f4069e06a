"""A broker whose store is a JetStream cluster of three nodes that sync each write: everything is killed.

Faults: the broker, the leader of the stream, two of three nodes one after the other, all nodes and the
broker at once, and a takeover by another broker process while the first one stands still and then wakes up.
Events have 100 bytes to 4 MB. A kill leaves the page cache: what a real power cut takes is the server's
promise (`sync_interval: always`).

The short run is part of the default suite; the long one is soak (`TIDINGS_JETSTREAM_ACKNOWLEDGED` events;
with `TIDINGS_JETSTREAM_SEED` it can be divided). Faults are spread evenly over the events, so their number is
fixed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from conftest import Figures
from tests.chaos._nats import SERVER, Cluster, free_ports, server_version
from tests.chaos._proxy import lasts
from tests.chaos._rig import SOURCE

import tidings
from tidings.errors import StoreError, UnknownOutcomeError
from tidings.runtime.connection import NetworkSettings

pytestmark = [pytest.mark.skipif(not SERVER, reason="nats-server is not installed")]

STREAM = "kills"
LARGEST = 4_000_000
PATIENCE = 120.0
STEP = 0.02  # seconds between two looks at the acknowledgements
NETWORK = NetworkSettings(retry_seconds=0.05, slow_retry_seconds=0.5)


class Broker:
    """One broker process on the shared store; it has no disk of its own."""

    def __init__(self, folder: Path, store: str, port: int) -> None:
        self._folder, self._store, self.port = folder, store, port
        self._process: subprocess.Popen[str] | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", "tidings.runtime.process", "--name", "b", "--store", self._store]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        with (self._folder / f"broker-{self.port}.err").open("a") as errors:
            self._process = await asyncio.to_thread(
                subprocess.Popen, command, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, (self._folder / f"broker-{self.port}.err").read_text()[-2000:]

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await asyncio.to_thread(process.wait)
            assert process.stdout is not None
            process.stdout.close()


class Rig:
    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = Cluster(folder)
        ports = free_ports(2)
        store = f"{self.cluster.address}/{STREAM}"
        self.brokers = [Broker(folder, store, port) for port in ports]
        self.serving = 0
        self.address = "tidings://" + ",".join(f"127.0.0.1:{port}" for port in ports)
        self.acked: set[int] = set()
        self.received: list[int] = []
        self.unknown = self.refused = 0
        self.takeovers: list[float] = []  # seconds until the next acknowledgement
        self.fired: Counter[str] = Counter()
        self.is_publishing = True
        self.publishing: asyncio.Task[None] | None = None
        self._last = 0

    def connect(self, name: str) -> tidings.Bus:
        return tidings.connect(
            self.address, name=name, network=NETWORK, timeout=PATIENCE, call_timeout=None, patience=0.3
        )

    async def publish(self, at_once: int) -> None:
        async with self.connect("p") as bus:
            await asyncio.gather(*(self._publish_line(bus) for _ in range(at_once)))

    async def _publish_line(self, bus: tidings.Bus) -> None:
        while self.is_publishing:
            self._last += 1
            number, size = self._last, 100
            if self.rng.random() < 0.02:
                size = int(100 * (LARGEST / 100) ** self.rng.random())
            if number % 2_000 == 7:
                size = LARGEST
            try:
                await bus.publish({"number": number}, payload=bytes(size), mode="kept")
            except UnknownOutcomeError:
                self.unknown += 1
            except StoreError:  # by a broker that was taken over: it says so, until it is ended
                self.refused += 1
                await lasts(0.05)
            else:
                self.acked.add(number)

    async def listen(self, ready: asyncio.Event) -> None:
        async with self.connect("s") as bus, bus.subscribe("EXISTS number", name="a", durable=True) as news:
            ready.set()
            while True:
                self.received.append((await news.get())["number"])

    # -- faults ------------------------------------------------------------------------------------

    async def kill_broker(self) -> None:
        await self.brokers[self.serving].kill()
        await self.brokers[self.serving].start()

    async def kill_leader(self) -> None:
        position = await self.cluster.leader(STREAM)
        self.cluster.kill(position)
        await self.flow()
        self.cluster.start(position)

    async def kill_two_one_after_the_other(self) -> None:
        for position in self.rng.sample(range(3), 2):
            self.cluster.kill(position)
            await self.flow()
            self.cluster.start(position)
            await self.flow()

    async def power_cut(self) -> None:
        await self.brokers[self.serving].kill()
        self.cluster.power_cut()
        await self.brokers[self.serving].start()

    async def take_over(self) -> None:
        """Another broker opens the store while the first one stands still; the first one wakes up, and is
        refused."""
        first, other = self.brokers[self.serving], self.brokers[1 - self.serving]
        first.send(signal.SIGSTOP)
        began = time.monotonic()
        await other.start()
        self.serving = 1 - self.serving
        first.send(signal.SIGCONT)
        await lasts(0.2)
        await first.kill()
        await self.flow(1)
        self.takeovers.append(time.monotonic() - began)

    async def flow(self, events: int = 5) -> None:
        """Wait for more acknowledgements. Patience is counted in steps, not by the clock: the run may be
        suspended as a whole."""
        most, seen, steps = len(self.acked) + events, len(self.acked), 0
        while len(self.acked) < most:
            if self.publishing is not None and self.publishing.done():
                self.publishing.result()
            steps, seen = (steps + 1, seen) if seen == len(self.acked) else (0, len(self.acked))
            assert steps < PATIENCE / STEP, f"no acknowledgement for {PATIENCE:g} s after {dict(self.fired)}"
            await lasts(STEP)

    async def arrive(self, publishing: asyncio.Task[None]) -> None:
        """Wait until the publisher ended and every acknowledged event was received."""
        seen, steps = -1, 0
        while not publishing.done() or self.acked - set(self.received):
            steps, seen = (steps + 1, seen) if seen == len(self.received) else (0, len(self.received))
            assert steps < PATIENCE / 0.1, f"lost {sorted(self.acked - set(self.received))[:5]}"
            await lasts(0.1)
        publishing.result()

    async def trouble(self, faults: int, acknowledged: int) -> None:
        kinds = [
            self.kill_leader, self.take_over, self.kill_broker, self.power_cut,
            self.kill_two_one_after_the_other,
        ]  # fmt: skip
        for number in range(faults):
            fault = kinds[number % len(kinds)]
            self.fired[fault.__name__] += 1
            await fault()
            due = acknowledged * (number + 1) // faults  # faults are spread evenly over the events
            await self.flow(max(5, due - len(self.acked)))
            print(json.dumps(self.figures()), flush=True)

    def figures(self) -> dict[str, object]:
        return {
            "acknowledged": len(self.acked), "unknown": self.unknown, "refused": self.refused,
            "received": len(self.received), "faults": dict(self.fired),
            "takeover_seconds": [round(each, 1) for each in self.takeovers],
            "server": ".".join(map(str, server_version())),
        }  # fmt: skip


async def run(folder: Path, *, faults: int, acknowledged: int, seed: int, at_once: int) -> Rig:
    rig = Rig(folder, seed)
    tasks: list[asyncio.Task[None]] = []
    try:
        await rig.brokers[0].start()
        ready = asyncio.Event()
        tasks.append(asyncio.create_task(rig.listen(ready)))
        await asyncio.wait_for(ready.wait(), PATIENCE)
        rig.publishing = asyncio.create_task(rig.publish(at_once))
        tasks.append(rig.publishing)
        await rig.flow(20)
        await rig.trouble(faults, acknowledged)
        rig.is_publishing = False
        await rig.arrive(tasks[1])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for broker in rig.brokers:
            await broker.kill()
        rig.cluster.close()
    doubled = [number for number, times in Counter(rig.received).items() if times > 1]
    assert not doubled, f"received twice: {doubled[:5]}"
    assert rig.received == sorted(rig.received) or at_once > 1
    return rig


def test_leader_killed_and_store_taken_over_with_large_events(tmp_path: Path) -> None:
    rig = asyncio.run(run(tmp_path, faults=2, acknowledged=100, seed=1, at_once=8))
    assert rig.fired == {"kill_leader": 1, "take_over": 1}
    assert 7 in rig.acked, "the event of 4 MB"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_everything_is_killed_over_a_long_run(tmp_path: Path, figures: Figures) -> None:
    acknowledged = int(os.environ.get("TIDINGS_JETSTREAM_ACKNOWLEDGED", "100000"))
    faults = max(5, acknowledged // 1_000)
    seed = int(os.environ.get("TIDINGS_JETSTREAM_SEED", "2"))
    rig = asyncio.run(run(tmp_path, faults=faults, acknowledged=acknowledged, seed=seed, at_once=64))
    assert len(rig.fired) == 5
    assert sum(rig.fired.values()) == faults
    assert len(rig.acked) >= acknowledged
    figures(acknowledged=len(rig.acked), faults=sum(rig.fired.values()), lost=0, doubled=0)

"""The whole under kills: publishers, archive, hand-over, late subscribers, live; `tidings check` judges.

Brokers and the archiver are processes that are killed (SIGKILL) in the middle of what they do. After each
kill a late subscriber comes. The short run is part of the default suite, the long one is soak.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import tidings
from tidings.archive.reading import events
from tidings.archive.state import Archive
from tidings.history.recorder import FileRecorder
from tidings.model.event import FOREVER
from tidings.model.filter import EVERYTHING
from tidings.runtime.cluster import Cluster

CHILD = Path(__file__).with_name("_archive_child.py")
SETTLE = 240.0  # seconds in which everything must arrive after the last fault, on a busy machine
EACH = 40  # events that are published between two faults


class _Shared:
    """One recorder for many clients; they do not close it."""

    def __init__(self, recorder: FileRecorder) -> None:
        self.record = recorder.record

    def close(self) -> None:
        """It belongs to the run."""


class Run:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.history = folder / "history.jsonl"
        self._recorder = FileRecorder(self.history)
        self.published = 0
        self.received: dict[str, list[int]] = {}
        self.fired: dict[str, int] = {"broker": 0, "archiver": 0}
        self._buses: list[tidings.Bus] = []
        self._listening: list[tuple[asyncio.Task[None], str, int]] = []

    async def connect(self, name: str, broker: int) -> tidings.Bus:
        address = self.cluster.members[broker].address
        bus = await tidings.connect(address, name=name, record=_Shared(self._recorder), timeout=60)
        self._buses.append(bus)
        return bus

    async def go(self, faults: int) -> None:
        archive = self.folder / "archive"
        async with Cluster(2, store=self.folder / "store", archive=archive) as self.cluster:
            publishers = [await self.connect(f"p{number}", number) for number in range(2)]
            archiver = await self._archiver()
            for number in range(faults):
                await self._publish(publishers)
                if number % 2 or faults == 1:
                    archiver = await self._kill_archiver(archiver)
                else:
                    await self._kill_broker()
                await self._late(f"late{number}", number)
            await self._publish(publishers)
            await asyncio.wait_for(self._settle(), SETTLE)
            for bus in self._buses:
                await bus.close()
            archiver.kill()
            await archiver.wait()
        self._recorder.close()

    async def _publish(self, publishers: list[tidings.Bus]) -> None:
        for _ in range(EACH):
            bus = self.rng.choice(publishers)
            await asyncio.wait_for(bus.publish({"n": self.published}, lifetime=FOREVER), SETTLE)
            self.published += 1

    async def _archiver(self) -> asyncio.subprocess.Process:
        brokers = ",".join(member.address for member in self.cluster.members)
        path = os.pathsep.join(sys.path)
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), str(self.folder / "archive"), brokers,
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert child.stdout is not None
        await asyncio.wait_for(child.stdout.readline(), SETTLE)  # it is at work
        return child

    async def _kill_archiver(self, child: asyncio.subprocess.Process) -> asyncio.subprocess.Process:
        child.kill()
        await child.wait()
        self.fired["archiver"] += 1
        return await self._archiver()

    async def _kill_broker(self) -> None:
        number = self.rng.randrange(2)
        process = self.cluster.members[number].process
        process.kill()
        await process.wait()
        await self.cluster.restart(number)
        self.fired["broker"] += 1

    async def _late(self, name: str, number: int) -> None:
        bus = await self.connect(name, self.rng.randrange(2))
        listener = bus.subscribe(f"n % 3 = {number % 3}", name="all", durable=True, since="forever")
        received = self.received[name] = []
        task = asyncio.create_task(self._receive(listener, received))
        self._listening.append((task, name, number % 3))

    async def _receive(self, listener: Any, received: list[int]) -> None:
        async with listener:
            async for event in listener:
                received.append(event["n"])  # noqa: PERF401 - others look at it meanwhile

    async def _settle(self) -> None:
        for task, name, rest in self._listening:
            wanted = {n for n in range(self.published) if n % 3 == rest}
            while not wanted <= set(self.received[name]):
                if task.done():
                    task.result()
                await asyncio.sleep(0)
        for task, _, _ in self._listening:
            task.cancel()
        await asyncio.gather(*(task for task, _, _ in self._listening), return_exceptions=True)

    async def judge(self) -> dict[str, Any]:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tidings", "check", str(self.history), "--json",
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        data, _ = await child.communicate()
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties


def check(run: Run) -> None:
    for number, (name, received) in enumerate(run.received.items()):
        assert sorted(received) == [n for n in range(run.published) if n % 3 == number % 3], name
    archive = Archive(run.folder / "archive")
    stored = [found.event["n"] for found in events(archive, archive.checked(), EVERYTHING)]
    assert len(stored) == len(set(stored)), "an event is in the archive twice"
    verdicts = asyncio.run(run.judge())
    broken = {name: v["counterexample"] for name, v in verdicts.items() if v["holds"] is False}
    assert not broken, broken
    assert {"completeness", "minimality"} <= {name for name, v in verdicts.items() if v["holds"] is True}


def test_late_subscribers_hear_everything_once_while_brokers_and_archiver_are_killed(tmp_path: Path) -> None:
    run = Run(tmp_path, seed=1)
    asyncio.run(run.go(3))
    assert sum(run.fired.values()) == 3
    check(run)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_same_for_long(tmp_path: Path) -> None:
    run = Run(tmp_path, seed=int(os.environ.get("TIDINGS_CHAOS_SEED", "2")))
    asyncio.run(run.go(40))
    assert min(run.fired.values()) >= 20
    check(run)

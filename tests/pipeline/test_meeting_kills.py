"""Brokers through Spark to a broker, with the driver, its Java, its workers and the brokers killed at random.

The driver is a process of its own that says each step; brokers are processes too. After each kill everything
comes back, and in the end what the sink holds is what was published: each once.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Figures

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import tidings
from tidings.runtime.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark drivers")]  # no session of this process

CHILD = Path(__file__).with_name("_meeting_child.py")
VICTIMS = ("broker", "driver", "worker")  # the driver with its Java
EACH = 120  # events that a driver finds: three batches, so that each of the three kills has one to hit
WAITING = 240.0  # seconds for the next step of a driver, on a busy machine
TRIES = 4  # of a driver that ends by itself: Spark gives its Python ten seconds to start


class Run:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.published = 0
        self.fired = dict.fromkeys(VICTIMS, 0)

    async def go(self, rounds: int) -> list[int]:
        """Until a worker, a broker and the driver were killed so many times each, a batch or so apart."""
        async with Cluster(2, store=self.folder / "store") as self.cluster:
            while min(self.fired.values()) < rounds:
                await self._publish(EACH)
                await self._disturbed()
            await self._publish(20)
            await self._undisturbed()
            return await self._all()

    async def _publish(self, count: int) -> None:
        buses = [await tidings.connect(m.address, name=f"p{n}") for n, m in enumerate(self.cluster.members)]
        for _ in range(count):
            await self.rng.choice(buses).publish({"n": self.published}, topic="in", lifetime=3600)
            self.published += 1
        for bus in buses:
            await bus.close()

    async def _start(self) -> asyncio.subprocess.Process:
        brokers = ",".join(member.address for member in self.cluster.members)
        with (self.folder / "stderr").open("a") as errors:
            return await asyncio.create_subprocess_exec(
                sys.executable, str(CHILD), str(self.folder / "checkpoint"), brokers,
                self.cluster.members[0].address,
                stdout=asyncio.subprocess.PIPE, stderr=errors, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    async def _step(self, child: asyncio.subprocess.Process) -> str:
        assert child.stdout is not None
        return (await asyncio.wait_for(child.stdout.readline(), WAITING)).decode().strip()

    async def _disturbed(self) -> None:
        """A driver at work, and kills a batch or so apart, first of who was killed least, in the order above:
        Spark ends most queries whose worker was killed, so a driver seldom lives to see three."""
        child = await self._start()
        for victim in sorted(VICTIMS, key=lambda each: self.fired[each]):
            while (text := await self._step(child)) and not text.startswith("batch"):
                continue
            if not text:  # it gave up before its time: the next round begins with another
                break
            self.fired[victim] += 1
            await self._kill(victim, child)
            if victim == "driver":
                break
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()

    async def _kill(self, victim: str, child: asyncio.subprocess.Process) -> None:
        if victim == "broker":
            number = self.rng.randrange(2)
            await self.cluster.kill(number)
            await self.cluster.restart(number)
        elif victim == "worker":
            for worker in _workers(child.pid):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        else:
            os.killpg(child.pid, signal.SIGKILL)

    async def _undisturbed(self) -> None:
        for _ in range(TRIES):
            child = await self._start()
            stated = [line async for line in _lines(self, child)]
            await child.wait()
            if stated and stated[-1] == "done":
                return
        raise AssertionError((self.folder / "stderr").read_text()[-2000:])

    async def _all(self) -> list[int]:
        found: list[int] = []
        for member in self.cluster.members:
            async with tidings.connect(member.address, name="reader") as bus:
                after = 0
                while True:
                    page = await bus.read_log("topic = 'out'", after=after, limit=4096)
                    found += [entry.event["n"] for entry in page.entries]  # type: ignore[misc]
                    after = page.upto
                    if after >= page.end:
                        break
        return found


async def _lines(run: Run, child: asyncio.subprocess.Process):  # type: ignore[no-untyped-def]
    while line := await run._step(child):
        yield line


def _workers(root: int) -> list[int]:
    """Python workers below a driver: processes whose parent is one of Spark's daemons."""
    parents: dict[int, int] = {}
    words: dict[int, str] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, ValueError):
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                words[int(path.name)] = (path / "cmdline").read_text()
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return [
        pid for pid in family if "daemon" in words.get(pid, "") and "daemon" in words.get(parents[pid], "")
    ]


def test_the_sink_holds_each_event_once_after_kills_of_worker_broker_and_driver(tmp_path: Path) -> None:
    run = Run(tmp_path, seed=1)
    found = asyncio.run(run.go(1))
    assert min(run.fired.values()) >= 1
    assert sorted(found) == list(range(run.published))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_same_for_long(tmp_path: Path, figures: Figures) -> None:
    rounds = int(os.environ.get("TIDINGS_KILLS", "20"))
    run = Run(tmp_path, seed=int(os.environ.get("TIDINGS_CHAOS_SEED", "2")))
    found = asyncio.run(run.go(rounds))
    assert min(run.fired.values()) >= rounds
    assert sorted(found) == list(range(run.published))
    figures(kills=sum(run.fired.values()), events=run.published, lost=0, doubled=0)

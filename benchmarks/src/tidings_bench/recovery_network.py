"""Cost of recovery without losses, in broker processes: their CPU seconds for events over TCP.

For each way of recovery there is a line of four broker processes. Rounds of events go through one line after
the other; of each line the round with the least CPU counts, since what disturbs can only slow down. Counted
is what the brokers use, not those who publish and listen. The system counts in hundredths of a second, so a
round is long.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import tidings
from tidings.errors import TidingsError

OFF = "switched off"
BROKERS = 4
KINDS = 10
AT_ONCE = 32
TICKS = os.sysconf("SC_CLK_TCK")
STAT_USER = 11  # where the times stand in /proc/PID/stat, after the name


class BrokerLine:
    """Four broker processes, a publisher at the first, listeners at the second and the last."""

    def __init__(self, system: str) -> None:
        self.system = system
        self._processes: list[subprocess.Popen[str]] = []
        self._addresses: list[str] = []

    async def start(self, stack: AsyncExitStack) -> None:
        stack.callback(self._stop)
        for number in range(BROKERS):
            await self._start(number)
        self._press = await stack.enter_async_context(tidings.connect(self._addresses[0], name="press"))
        self._news = []
        for position in (1, BROKERS - 1):
            bus = await stack.enter_async_context(
                tidings.connect(self._addresses[position], name=f"at-{position}")
            )
            for kind in range(KINDS):
                wanted = bus.subscribe(f"kind = {kind}", queue=100_000)
                self._news.append(await stack.enter_async_context(wanted))
        async with asyncio.timeout(60):
            while not await self._is_reached():
                await asyncio.sleep(0.05)

    async def _is_reached(self) -> bool:
        """Do the filters of the far end stand at the first broker?"""
        found = await self._press.inquire("figures")
        return not found["links syncing"] and bool(await self._received_by_all())

    async def _received_by_all(self) -> bool:
        for kind in range(KINDS):
            await self._press.publish({"kind": kind, "trial": True})
        try:
            for news in self._news:
                await news.get(timeout=0.5)
        except TimeoutError:
            return False
        return True

    async def _start(self, number: int) -> None:
        arguments = ["--name", f"b{number}", "--listen", "127.0.0.1:0"]
        is_off = self.system == OFF
        arguments += ["--system", "epidemic" if is_off else self.system]
        if is_off:
            arguments += ["--options", json.dumps({"gossip": {"enabled": False}})]
        if number:
            arguments += ["--join", self._addresses[-1]]
        source = str(Path(tidings.__file__).parents[1])
        process = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-m", "tidings.runtime.process", *arguments],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source},
        )  # fmt: skip
        self._processes.append(process)
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        if not line:
            raise TidingsError(f"a broker of {self.system} did not start", hint="see what it wrote above")
        self._addresses.append(json.loads(line)["address"])

    def _stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(20)
            if process.stdout is not None:
                process.stdout.close()

    async def round(self, events: int) -> float:
        """CPU seconds of the brokers for so many events."""
        before = self._seconds()
        numbers = iter(range(events))

        async def publish() -> None:
            for number in numbers:
                await self._press.publish({"kind": number % KINDS, "price": number})

        await asyncio.gather(*(publish() for _ in range(AT_ONCE)))
        for position, news in enumerate(self._news):
            owed = len(range(position % KINDS, events, KINDS))
            while owed:
                event = await news.get(timeout=60.0)
                owed -= "trial" not in event.attributes
        return self._seconds() - before

    def _seconds(self) -> float:
        return sum(_cpu_seconds(process.pid) for process in self._processes)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[STAT_USER]) + int(fields[STAT_USER + 1])) / TICKS


async def measured(systems: tuple[str, ...], events: int, rounds: int) -> dict[str, float]:
    """By system, the CPU seconds of its fastest round."""
    fastest: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        lines = [BrokerLine(system) for system in systems]
        for line in lines:
            await line.start(stack)
        for number in range(rounds + 1):
            for line in lines:
                seconds = await line.round(events)
                if number:  # in the first round everything is made that is made once
                    fastest[line.system] = min(seconds, fastest.get(line.system, seconds))
    return fastest


def rows(systems: tuple[str, ...], events: int, rounds: int) -> Iterator[dict[str, Any]]:
    fastest = asyncio.run(measured((OFF, *systems), events, rounds))
    for system, seconds in fastest.items():
        yield {
            "work": "nothing lost, processes",
            "size": events,
            "engine": system,
            "figure": events / seconds,
            "unit": "events per CPU second",
            "ratio_to_best_peer": fastest[OFF] / seconds,
        }

"""Peers in a few processes of their own, behind a network that loses, and what came of their events.

A run begins when one event has reached everybody: tables fill while the first ones are on their way. Then
come the events that count. Each may take some seconds; what came of them is counted at the end, so late is
not lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.runtime._lossy import Door, LossyNetwork

ROOT = Path(__file__).parents[3]
# seconds until an event counts as missed: a busy machine is slow, and the next one waits for this one
PATIENCE = 10.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    peers: int
    events: int
    delivered: int
    whole: int  # events that reached everybody
    twice: int  # that somebody heard a second time
    parasites: int
    passed: int  # datagrams, from the first event that counts to the last
    lost: float  # the part of all datagrams that the network dropped
    warm_up: int  # events before the first that reached everybody
    ready_seconds: float
    seconds: float  # of the events that count
    median_seconds: float  # until the last hears

    @property
    def ratio(self) -> float:
        return self.delivered / (self.events * self.peers)


class Child:
    """Some peers of one topic in a process of their own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        network: LossyNetwork,
        gateways: dict[str, Door],
        received: Heard,
    ) -> None:
        self.process = process
        self.parasites = 0
        self._network, self._doors, self._heard = network, gateways, received
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def of(
        cls,
        topic: str,
        period: float,
        first: str,
        network: LossyNetwork,
        gateways: dict[str, Door],
        received: Heard,
    ) -> Child:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.unit.runtime._peer_child", topic, str(period), first, *gateways,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment,
        )  # fmt: skip
        return cls(process, network, gateways, received)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            fields: dict[str, Any] = json.loads(line)
            if "port" in fields:
                self._network.stands_behind(self._doors[fields["door"]], fields["port"])
            elif "heard" in fields:
                self._heard.add(fields["heard"], fields["peer"])
            elif "subscribed" in fields:
                self._heard.subscribe()
            elif "parasites" in fields:
                self.parasites = fields["parasites"]

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def end(self) -> int:
        self.say("end")
        await self._reading
        return await self.process.wait()


class Heard:
    """Who has heard what. Waiting for it takes no turns of the loop: the network lives on the same one."""

    def __init__(self) -> None:
        self.by_mark: dict[int, set[str]] = {}
        self.twice = self.subscribed = 0
        self._changed = asyncio.Event()

    def add(self, mark: int, peer: str) -> None:
        peers = self.by_mark.setdefault(mark, set())
        self.twice += peer in peers
        peers.add(peer)
        self._changed.set()

    def subscribe(self) -> None:
        self.subscribed += 1
        self._changed.set()

    def count(self, mark: int) -> int:
        return len(self.by_mark.get(mark, ()))

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Did it come about in time?"""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


class Rig:
    def __init__(self, sizes: dict[str, int], loss: float, period: float) -> None:
        self.sizes, self.period = sizes, period
        self.network = LossyNetwork(loss, seed=5)
        self.received = Heard()
        self.children: list[Child] = []
        self._mark = 0

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    async def open(self) -> None:
        gateways = {
            topic: [await self.network.door() for _ in range(size)] for topic, size in self.sizes.items()
        }
        first = next(iter(gateways.values()))[0].address
        for topic, of in gateways.items():
            named = {listener.address: listener for listener in of}
            self.children.append(
                await Child.of(topic, self.period, first, self.network, named, self.received)
            )
        assert await self.received.until(lambda: self.received.subscribed == self.total, 120.0), (
            "all are there"
        )

    async def publish(self, seconds: float) -> bool:
        """One event of the lowest topic, by one peer after another: did everybody hear it in time?"""
        self._mark += 1
        mark, publishers = self._mark, list(self.sizes.values())[-1]
        self.children[-1].say(f"publish {mark % publishers} {mark}")
        return await self.received.until(lambda: self.received.count(mark) == self.total, seconds)

    async def close(self) -> None:
        assert [await child.end() for child in self.children] == [0] * len(self.children)
        self.network.close()


async def outcome_of(
    sizes: dict[str, int],
    *,
    loss: float,
    period: float,
    events: int,
    patience: float = PATIENCE,
    most_warm_up: int = 20,
) -> Outcome:
    began = time.monotonic()
    rig = Rig(sizes, loss, period)
    await rig.open()
    warm_up = 1
    while not await rig.publish(patience):
        warm_up += 1
        counts = {mark: len(peers) for mark, peers in rig.received.by_mark.items()}
        assert warm_up <= most_warm_up, f"no event reached all {rig.total}: {counts}"
    ready, passed, first = time.monotonic(), rig.network.passed, rig._mark + 1
    times = []
    for _ in range(events):
        at = time.monotonic()
        await rig.publish(2 * patience)
        times.append(time.monotonic() - at)
    seconds, passed = time.monotonic() - ready, rig.network.passed - passed
    await rig.close()
    counts_ = [rig.received.count(mark) for mark in range(first, first + events)]
    network = rig.network
    return Outcome(
        peers=rig.total, events=events, delivered=sum(counts_), whole=sum(n == rig.total for n in counts_),
        twice=rig.received.twice, parasites=sum(child.parasites for child in rig.children), passed=passed,
        lost=network.lost / (network.lost + network.passed), warm_up=warm_up, ready_seconds=ready - began,
        seconds=seconds, median_seconds=sorted(times)[events // 2],
    )  # fmt: skip

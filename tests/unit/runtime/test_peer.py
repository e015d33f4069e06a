"""Peers on real sockets: they find one another, hear what is theirs and nothing else, through loss."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime._lossy import LossyNetwork
from tests.unit.runtime._network import played, until

from tidings.errors import SettingsError, UnreachableError
from tidings.runtime.bus import Bus
from tidings.runtime.peer import PeerBroker, peer

ROOT = Path(__file__).parents[3]
QUICK = {"tables": {"period": 0.1}, "gossip": {"named": True, "stagger": 0.05}}


@played
async def test_peers_find_one_another_and_an_event_goes_up() -> None:
    first = PeerBroker(seed=1, options=QUICK)
    async with Bus(first, "p0") as root:
        brokers, buses = [first], [root]
        for number in range(1, 9):
            broker = PeerBroker(join=[first.name], seed=number + 1, options=QUICK)
            brokers.append(broker)
            buses.append(await Bus(broker, f"p{number}").open())
        topics = ["/"] * 2 + ["a"] * 3 + ["a/b"] * 4
        listeners = [
            await bus.subscribe("TRUE" if topic == "/" else f"topic MATCHES '{topic}/#'")
            for bus, topic in zip(buses, topics, strict=True)
        ]
        await until(lambda: all(_is_settled(b, t) for b, t in zip(brokers, topics, strict=True)))
        await buses[8].publish({"x": 1}, topic="a/b")
        heard = [await listener.get(timeout=20) for listener in listeners]
        assert [event.attributes["x"] for event in heard] == [1] * 9
        await buses[2].publish({"x": 2}, topic="a")
        assert [(await listener.get(timeout=20)).attributes["x"] for listener in listeners[:5]] == [2] * 5
        assert sum(broker.figures()["parasites"] for broker in brokers) == 0
        assert brokers[8].figures()["delivered"] == 1
        for bus in buses[1:]:
            await bus.close()
        await until(lambda: not first.figures()["peers known"])  # they said goodbye


def _is_settled(broker: PeerBroker, topic: str) -> bool:
    figures = broker.figures()
    others = {"/": 1, "a": 2, "a/b": 3}[topic]
    return figures["groups"].get(topic, 0) > others and all(figures["contacts above"].values())


@played
async def test_what_is_wrong_is_said() -> None:
    with pytest.raises(SettingsError, match="system of brokers"):
        PeerBroker(system="siena")
    async with peer(seed=1, name="one") as bus:
        taken = bus._broker.name  # type: ignore[attr-defined]
        with pytest.raises(UnreachableError, match="cannot listen"):
            await peer(listen=taken).open()
    with pytest.raises(UnreachableError, match="no address"):
        await peer(join=["no.such.host.invalid:7200"]).open()


class Child:
    """Some peers of one topic in a process of their own."""

    def __init__(
        self, process: asyncio.subprocess.Process, network: LossyNetwork, doors: dict[str, Any]
    ) -> None:
        self.process = process
        self.heard: list[tuple[int, str]] = []
        self.subscribed = 0
        self.parasites = 0
        self._network, self._doors = network, doors
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def of(cls, topic: str, first: str, network: LossyNetwork, doors: dict[str, Any]) -> Child:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.unit.runtime._peer_child", topic, first, *doors,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment,
        )  # fmt: skip
        return cls(process, network, doors)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            said = json.loads(line)
            if "port" in said:
                self._network.stands_behind(self._doors[said["door"]], said["port"])
            elif "heard" in said:
                self.heard.append((said["heard"], said["peer"]))
                self.parasites += said["parasites"]
            elif "subscribed" in said:
                self.subscribed += 1

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def end(self) -> int:
        self.say("end")
        await self._reading
        return await self.process.wait()


async def of_a_hundred(sizes: dict[str, int], loss: float, events: int) -> tuple[list[Child], LossyNetwork]:
    network = LossyNetwork(loss, seed=5)
    doors = {topic: [await network.door() for _ in range(size)] for topic, size in sizes.items()}
    first = next(iter(doors.values()))[0].address
    children = [
        await Child.of(topic, first, network, {door.address: door for door in of})
        for topic, of in doors.items()
    ]
    total = sum(sizes.values())
    await until(lambda: sum(child.subscribed for child in children) == total, seconds=120)
    last, mark = children[-1], 0
    reached = 0
    while reached < events:  # tables fill while the first events are on their way: those do not count
        mark += 1
        assert mark < 400, f"only {reached} of {mark} events reached everybody"
        last.say(f"publish {mark % list(sizes.values())[-1]} {mark}")
        try:
            await until(lambda: _count(children, mark) == total, seconds=2.0)  # noqa: B023
        except TimeoutError:
            continue
        reached += 1
    return children, network


def _count(children: list[Child], mark: int) -> int:
    return sum(heard == mark for child in children for heard, _ in child.heard)


async def judged(sizes: dict[str, int], loss: float, events: int) -> None:
    children, network = await of_a_hundred(sizes, loss, events)
    for child in children:
        assert len(child.heard) == len(set(child.heard)), "nobody hears an event twice"
        assert child.parasites == 0
    assert network.lost / (network.lost + network.passed) == pytest.approx(loss, abs=0.05)
    for child in children:
        assert await child.end() == 0
    network.close()


@played
async def test_some_peers_in_three_processes_through_a_network_that_loses() -> None:
    await judged({"/": 2, "a": 4, "a/b": 8}, 0.1, 2)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_hundred_peers_in_three_processes_through_a_network_that_loses() -> None:
    asyncio.run(judged({"/": 5, "a": 25, "a/b": 70}, 0.15, 10))

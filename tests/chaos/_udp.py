"""A user-space network that loses datagrams, and five broker processes whose events travel over it.

Each broker has a socket of the proxy as its address for others. What a broker sends to another's address
arrives here; it goes on from the sender's own socket, so that the receiver sees it come from whom it names,
or it is lost. Links (TCP) are left alone: they carry tables, and in acknowledged recovery the requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, cast

from tests.chaos._proxy import lasts
from tests.chaos._rig import QUICK, SOURCE

import tidings
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.world import World

LINKS = {"b1": "b0", "b2": "b1", "b3": "b2", "b4": "b2"}  # who joins whom
NAMES = ("b0", "b1", "b2", "b3", "b4")
PUBLISHERS = ("b0", "b4")
KINDS = 4
WANTED = {
    "b0": (0, 1),
    "b1": (1, 2),
    "b2": (2, 3),
    "b3": (3, 0),
    "b4": (0, 2),
}  # every kind has two or three takers


class _Socket(asyncio.DatagramProtocol):
    def __init__(self, proxy: LossyUdp, name: str) -> None:
        self._proxy = proxy
        self.name = name
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)
        subscription = transport.get_extra_info("socket")
        subscription.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)  # lost is what we lose

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._proxy.pass_on(data, addr[1], self.name)


class LossyUdp:
    def __init__(self, loss: float, rng: Random) -> None:
        self.loss = loss
        self._rng = rng
        self.ports: dict[str, int] = {}  # of the proxy, by broker
        self.brokers: dict[int, str] = {}  # by the broker's own port
        self._own: dict[str, int] = {}
        self._sockets: dict[str, _Socket] = {}
        self.count: Counter[str] = Counter()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for name in NAMES:
            transport, protocol = await loop.create_datagram_endpoint(
                lambda name=name: _Socket(self, name),
                local_addr=("127.0.0.1", 0),  # type: ignore[misc]
            )
            self.ports[name] = transport.get_extra_info("sockname")[1]
            self._sockets[name] = protocol

    def know(self, name: str, port: int) -> None:
        self.brokers[port] = name
        self._own[name] = port

    def pass_on(self, data: bytes, port: int, to: str) -> None:
        sender = self.brokers.get(port)
        if sender is None or to not in self._own:
            self.count["strange"] += 1
        elif self._rng.random() < self.loss:
            self.count["lost"] += 1
        else:
            self.count["passed"] += 1
            transport = self._sockets[sender].transport
            assert transport is not None
            transport.sendto(data, ("127.0.0.1", self._own[to]))

    def close(self) -> None:
        for each in self._sockets.values():
            if each.transport is not None:
                each.transport.close()


class Network:
    """Five brokers in a tree, one of them under a client that publishes, the others under subscribers."""

    def __init__(self, folder: Path, system: str, *, loss: float, seed: int = 1, **gossip: Any) -> None:
        self.folder = folder
        self.system = system
        self.gossip = gossip
        self.udp = LossyUdp(loss, Random(seed))
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.addresses: dict[str, str] = {}
        self.received: dict[str, list[str]] = {name: [] for name in NAMES}

    async def start(self) -> None:
        await self.udp.start()
        for name in NAMES:
            await self._start(name)

    async def _start(self, name: str) -> None:
        arguments = ["--name", name, "--listen", "127.0.0.1:0", "--system", self.system, "--datagrams"]
        arguments += ["--advertise", f"127.0.0.1:{self.udp.ports[name]}"]
        if self.gossip:
            arguments += ["--options", json.dumps({"gossip": self.gossip})]
        for other, port in self.udp.ports.items():
            if other != name:
                arguments += ["--peer", f"{other}=127.0.0.1:{port}"]
        if name in LINKS:
            arguments += ["--join", self.addresses[LINKS[name]]]
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        with (self.folder / f"{name}.err").open("a") as errors:
            process = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-m", "tidings.runtime.process", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._processes[name] = process
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        assert line, f"{name} did not start: {(self.folder / f'{name}.err').read_text()[-2000:]}"
        self.addresses[name] = json.loads(line)["address"]
        self.udp.know(name, int(self.addresses[name].rpartition(":")[2]))

    async def close(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            await asyncio.to_thread(process.wait, 20)
            assert process.stdout is not None
            process.stdout.close()
        self.udp.close()

    def connect(self, name: str, broker: str) -> tidings.Bus:
        return tidings.connect(self.addresses[broker], name=name, network=QUICK, timeout=60)

    async def figures(self, broker: str) -> dict[str, Any]:
        async with self.connect("judge", broker) as bus:
            found: dict[str, Any] = await bus.inquire("figures")
            return found

    async def settle(self) -> None:
        """Until every broker is linked, and has told its neighbours what is wanted."""
        for name in NAMES:
            degree = sum(name in pair for pair in LINKS.items())
            async with asyncio.timeout(120), self.connect("judge", name) as bus:
                while True:
                    figures = await bus.inquire("figures")
                    if len(figures["links"]) == degree and not figures["links syncing"]:
                        break
                    await asyncio.sleep(0)

    async def run(
        self, events: int, at_once: int, calm: float, most: float = 0.0, enough: float = 2.0
    ) -> None:
        """Publish at two brokers, listen at all five, until so large a share was delivered (`enough`), or
        nothing new for `calm` seconds. `most` is how many events a second; 0: as many as go."""
        readies = [asyncio.Event() for _ in NAMES]
        subscription = [
            asyncio.create_task(self._listen(name, ready, calm))
            for name, ready in zip(NAMES, readies, strict=True)
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), 120)
        await self.settle()
        begin = monotonic()
        await asyncio.gather(*(self._publish(name, events // 2, at_once, most / 2) for name in PUBLISHERS))
        self.rate = events / (monotonic() - begin)
        self._is_publishing = False
        everyone, reached = (
            asyncio.gather(*subscription),
            asyncio.create_task(self._delivered(events, enough)),
        )
        await asyncio.wait([everyone, reached], return_when=asyncio.FIRST_COMPLETED)
        if everyone.done():
            everyone.result()
        everyone.cancel()
        reached.cancel()
        await asyncio.gather(everyone, reached, return_exceptions=True)

    async def _delivered(self, events: int, share: float) -> None:
        while self.delivery(events) < share:
            await lasts(0.1)

    _is_publishing = True
    rate = 0.0  # events a second, of all publishers

    async def _publish(self, broker: str, events: int, at_once: int, most: float) -> None:
        numbers = iter(range(events))
        begin = monotonic()
        async with self.connect(f"press-{broker}", broker) as bus:

            async def line() -> None:
                for number in numbers:
                    early = number / most - (monotonic() - begin) if most else 0.0
                    if early > 0:
                        await lasts(early)
                    await bus.publish({"kind": number % KINDS, "mark": f"{broker}-{number}"})

            await asyncio.gather(*(line() for _ in range(at_once)))

    async def _listen(self, broker: str, ready: asyncio.Event, calm: float) -> None:
        received = self.received[broker]
        async with (
            self.connect(f"at-{broker}", broker) as bus,
            bus.subscribe(f"kind IN ({WANTED[broker][0]}, {WANTED[broker][1]})", queue=1_000_000) as news,
        ):
            ready.set()
            while True:
                try:
                    event = await news.get(timeout=calm)
                except TimeoutError:
                    if self._is_publishing:
                        continue
                    return
                received.append(str(event.attributes["mark"]))

    def delivery(self, events: int) -> float:
        """Of what subscribers at other brokers than the publisher's were owed: those cannot lose it."""
        owed = delivered = 0
        for broker in NAMES:
            received = set(self.received[broker])
            for publisher in PUBLISHERS:
                if publisher != broker:
                    wanted = [n for n in range(events // 2) if n % KINDS in WANTED[broker]]
                    owed += len(wanted)
                    delivered += sum(f"{publisher}-{number}" in received for number in wanted)
        return delivered / owed


def simulated_delivery(system: str, events: int, loss: float, rate: float, **gossip: Any) -> float:
    """The same network, publishers, interests and rate in the simulator."""
    overlay = OverlayGraph(NAMES, tuple((parent, child) for child, parent in LINKS.items()))
    options = {"datagrams": True, **({"gossip": gossip} if gossip else {})}
    world = World(system, overlay, options=options, record=False)
    for broker in NAMES:
        world.add_client(f"at-{broker}", broker)
        world.subscribe(f"at-{broker}", "n", f"kind IN ({WANTED[broker][0]}, {WANTED[broker][1]})")
    world.run(5.0)
    world.simulation.plan(FaultPlan(Rates(loss=loss)))
    for number in range(events // 2):
        for broker in PUBLISHERS:
            world.publish(f"at-{broker}", {"kind": number % KINDS, "mark": f"{broker}-{number}"})
        world.run(world.simulation.now + len(PUBLISHERS) / rate)
    world.run(world.simulation.now + 30.0)
    network = Network(Path(), system, loss=loss)
    for broker in NAMES:
        received = world.applications[f"at-{broker}"].received
        network.received[broker] = [str(n.event.attributes["mark"]) for n in received]
    return network.delivery(events)

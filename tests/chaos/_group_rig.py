"""A group of broker processes on TCP, each pair linked through a proxy, with publishers and durable
subscribers.

Links can be cut in silence, both ways or one way; processes can be killed and stopped. Nobody but the proxies
knows where a member is (`dials` is off), so a cut link is cut.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos._proxy import Proxy, lasts
from tests.chaos._rig import QUICK, Broker

import tidings


class Group:
    def __init__(self, folder: Path, size: int = 3, seed: int = 1) -> None:
        self.names = [f"d{number}" for number in range(1, size + 1)]
        self._folder = folder
        self._rng = Random(seed)
        self.proxies: dict[tuple[str, str], Proxy] = {}
        self.brokers: dict[str, Broker] = {}
        self.acked: dict[str, list[int]] = {}
        self.received: dict[str, list[tuple[str, int]]] = {}
        self.acked_at: list[float] = []
        self._stack = AsyncExitStack()
        self.is_publishing = True

    async def __aenter__(self) -> Group:
        options = {"group": "news", "members": self.names, "dials": False}
        stated = ("--system", "tidings-group", "--options", json.dumps(options))
        for position, name in enumerate(self.names):
            for other in self.names[:position]:
                proxy = self.proxies[name, other] = Proxy(self._place_of(other), Random(self._rng.random()))
                await proxy.start()
            joins = [self.proxies[name, other] for other in self.names[:position]]
            self.brokers[name] = Broker(name, self._folder, joins, stated)
            await self.brokers[name].start()
        return self

    def _place_of(self, name: str) -> Any:
        return lambda: ("127.0.0.1", self.brokers[name].port)

    async def __aexit__(self, *_: object) -> None:
        self.is_publishing = False
        await self._stack.aclose()
        for broker in self.brokers.values():
            broker.send(signal.SIGCONT)
            await broker.kill()
        for proxy in self.proxies.values():
            await proxy.close()

    # -- clients ---------------------------------------------------------------------------------

    async def connect(self, name: str, first: str) -> tidings.Bus:
        """A client whose primary is that one; the others are its secondaries."""
        position = self.names.index(first)
        order = [*self.names[position:], *self.names[:position]]
        where = ",".join(f"127.0.0.1:{self.brokers[each].port}" for each in order)
        bus = tidings.connect(
            f"tidings://{where}", name=name, network=QUICK, timeout=60, call_timeout=None, patience=0.3
        )
        return await self._stack.enter_async_context(bus)

    async def publish(self, name: str, first: str) -> None:
        """One after the other, until told to stop; each is numbered by its publisher."""
        bus = await self.connect(name, first)
        acked = self.acked[name] = []
        number = 0
        while self.is_publishing:
            number += 1
            await bus.publish({"who": name, "number": number}, mode="replicated")
            acked.append(number)
            self.acked_at.append(time.monotonic())

    async def listen(self, name: str, first: str, ready: asyncio.Event) -> None:
        bus = await self.connect(name, first)
        received = self.received[name] = []
        async with bus.subscribe("EXISTS number", name="all", durable=True) as news:
            ready.set()
            while True:
                event = await news.get()
                received.append((str(event.attributes["who"]), int(event.attributes["number"])))

    # -- faults ----------------------------------------------------------------------------------

    def _between(self, one: str, other: str) -> Proxy:
        found = self.proxies.get((one, other)) or self.proxies.get((other, one))
        assert found is not None
        return found

    def split(self, side: list[str]) -> None:
        for one in side:
            for other in self.names:
                if other not in side:
                    self._between(one, other).partition()

    def mute(self, name: str) -> None:
        """Nobody hears it any more; it hears everybody."""
        for (dialler, target), proxy in self.proxies.items():
            if name in (dialler, target):
                proxy.block(to_target=name == dialler)

    def heal(self) -> None:
        for proxy in self.proxies.values():
            proxy.heal(sever=True)

    async def figures(self, name: str) -> dict[str, Any]:
        bus = tidings.connect(self.brokers[name].address, name=f"look-{name}", network=QUICK, timeout=60)
        async with bus:
            found: dict[str, Any] = await bus.inquire("figures")
            return found

    # -- judging ---------------------------------------------------------------------------------

    def longest_silence(self, since: float) -> float:
        """The longest time without an acknowledgement from then on."""
        times = [since, *(at for at in self.acked_at if at > since)]
        return max((b - a for a, b in itertools.pairwise(times)), default=float("inf"))

    async def all_heard(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while any(self.missing(name) for name in self.received):
                await lasts(0.02)

    def missing(self, name: str) -> set[tuple[str, int]]:
        acked = {(who, number) for who, numbers in self.acked.items() for number in numbers}
        return acked - set(self.received[name])

    def judge(self) -> None:
        for name, received in self.received.items():
            assert len(received) == len(set(received)), f"{name} was told something twice"
            assert not self.missing(name), f"{name} lost {sorted(self.missing(name))[:5]}"
            for who in self.acked:
                numbers = [number for source, number in received if source == who]
                assert numbers == sorted(numbers), f"{name} heard {who} out of order"

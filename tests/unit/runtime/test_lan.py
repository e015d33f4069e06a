"""TIB/RV on real sockets: UDP multicast on loopback below, UDP between the routers of two networks."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import Any

import pytest

from tidings.errors import UnreachableError
from tidings.runtime.bus import Bus
from tidings.testing.network import played, until
from tidings_lab.lan_daemon import LanBroker, _joined


def _problem() -> str | None:
    """Why multicast on loopback does not work here; None: it does."""
    try:
        hearing = _joined("239.255.42.250", 0, "127.0.0.1")
    except OSError as error:
        return f"no multicast group can be joined on loopback: {error}"
    with hearing, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaking:
        speaking.bind(("127.0.0.1", 0))
        speaking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        try:
            speaking.sendto(b"heard?", ("239.255.42.250", hearing.getsockname()[1]))
            hearing.settimeout(5.0)
            hearing.recv(100)
        except OSError as error:
            return f"what is multicast on loopback is not heard: {error}"
    return None


PROBLEM = _problem()
pytestmark = pytest.mark.skipif(PROBLEM is not None, reason=str(PROBLEM))


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Networks:
    """Two networks of daemons, each with a multicast group of its own."""

    def __init__(self, cache: int = 0) -> None:
        chance = SystemRandom()
        self.groups = [f"239.255.{chance.randrange(1, 200)}.{n}:{free_port()}" for n in (1, 2)]
        self.routers = [f"127.0.0.1:{free_port()}" for _ in self.groups]
        self.cache = cache
        self.brokers: dict[str, LanBroker] = {}
        self.stack = AsyncExitStack()

    async def daemon(self, name: str, network: int, *, is_router: bool = False) -> Bus:
        router = self.routers[network]
        broker = LanBroker(
            group=self.groups[network], cache=self.cache, routers=self.routers,
            listen=router if is_router else "127.0.0.1:0", router=router,
        )  # fmt: skip
        self.brokers[name] = broker
        return await self.stack.enter_async_context(Bus(broker, name))

    def routing(self, name: str) -> Any:
        node = self.brokers[name]._node
        assert node is not None
        return node.slots["routing"]

    def wanted_outside(self, name: str) -> set[str]:
        return {subject for subject, _ in self.routing(name)._lans.each()}

    def received(self, name: str) -> int:
        return int(self.brokers[name].figures().get("datagrams received", 0))


async def numbers(listener: Any, count: int) -> list[int]:
    """Of the next events that are heard, in order."""
    return sorted([(await listener.get(timeout=120)).attributes["n"] for _ in range(count)])


@played
async def test_a_broadcast_reaches_the_network_and_a_subject_crosses_only_where_it_is_wanted() -> None:
    networks = Networks()
    async with networks.stack:
        for number, name in enumerate(("router here", "router there")):
            await networks.daemon(name, number, is_router=True)
        press, near = await networks.daemon("press", 0), await networks.daemon("near", 0)
        far = await networks.daemon("far", 1)
        quotes = await near.subscribe("topic MATCHES 'quotes/#'")
        cheap = await far.subscribe("topic MATCHES 'quotes/+' AND price < 10")
        await until(lambda: "quotes/+" in networks.wanted_outside("router here"))
        before = networks.received("far")
        await press.publish({"n": 1}, topic="weather")  # nobody there wants it
        for number, price in ((2, 7), (3, 70), (4, 5)):
            await press.publish({"n": number, "price": price}, topic="quotes/ibm")
        assert await numbers(quotes, 3) == [2, 3, 4]
        assert await numbers(cheap, 2) == [2, 4]
        await until(lambda: networks.received("far") >= before + 3)
        assert networks.received("far") == before + 3


@played
async def test_newcomers_hear_the_last_n_of_each_subject() -> None:
    networks = Networks(cache=2)
    async with networks.stack:
        for number, name in enumerate(("router here", "router there")):
            await networks.daemon(name, number, is_router=True)
        press, late = await networks.daemon("press", 0), await networks.daemon("late", 1)
        for number in range(4):
            await press.publish({"n": number}, topic="quotes/ibm")
        await press.publish({"n": 9}, topic="quotes/sun")
        kept = networks.routing("router here")._last
        await until(lambda: sum(len(last) for last in kept.values()) == 3)
        assert await numbers(await late.subscribe("topic MATCHES 'quotes/+'"), 3) == [2, 3, 9]


@played
async def test_a_group_that_cannot_be_heard_is_told() -> None:
    with pytest.raises(UnreachableError, match="multicast group"):
        async with Bus(LanBroker(group="127.0.0.1:7600"), "wrong"):
            pass

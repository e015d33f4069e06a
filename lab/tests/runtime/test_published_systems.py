"""SIENA and UARC as brokers over sockets: the compositions of the simulator under the asyncio driver."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import tidings
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.server import Server
from tidings.testing import collect
from tidings.testing.network import linked, played, serving, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.1)


def interest(server: Server, link: str) -> tuple[Any, ...]:
    return tuple(server.node.slots["routing"].interest(link))


def view(server: Server) -> tuple[str, ...]:
    return tuple(sorted(server.node.slots["membership"].view()))


@played
async def test_siena_brokers_forward_only_where_a_filter_matches() -> None:
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for number in range(3):  # a line
            join = [servers[-1].address] if servers else []
            server = serving(f"b{number}", join=join, network=QUICK, system="siena")
            servers.append(await stack.enter_async_context(server))
        await linked(*servers)
        buses = [
            await stack.enter_async_context(tidings.connect(server.address, name=f"c{number}"))
            for number, server in enumerate(servers)
        ]
        cheap = await stack.enter_async_context(buses[2].subscribe("price < 10"))
        every = await stack.enter_async_context(buses[1].subscribe("price < 100"))
        await until(lambda: [filter.text for filter in interest(servers[0], "b1")] == ["price < 100"])
        await until(lambda: interest(servers[1], "b2") != ())
        for price in range(5, 20):
            await buses[0].publish({"price": price})
        assert [event["price"] for event in await collect(cheap, 5)] == list(range(5, 10))
        assert [event["price"] for event in await collect(every, 15)] == list(range(5, 20))
        assert len(interest(servers[0], "b1")) == 1  # the narrow one is covered


@played
async def test_uarc_distributors_agree_on_a_view_and_multicast() -> None:
    members = ["d0", "d1", "d2"]
    options = {"members": members, "detector": {"beat_seconds": 0.1, "suspect_seconds": 0.5}}
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for name in members:
            join = [servers[0].address] if servers else []
            server = serving(name, join=join, network=QUICK, system="uarc", options=options)
            servers.append(await stack.enter_async_context(server))

        await until(lambda: all(view(server) == tuple(members) for server in servers))
        buses = [
            await stack.enter_async_context(tidings.connect(server.address, name=f"c{number}"))
            for number, server in enumerate(servers)
        ]
        news = [await stack.enter_async_context(bus.subscribe("n >= 0")) for bus in buses]
        for n in range(10):
            await buses[n % 3].publish({"n": n})
        for each in news:
            assert sorted(event["n"] for event in await collect(each, 10)) == list(range(10))
        await servers[2].close()
        rest = servers[:2]
        await until(lambda: all("d2" not in view(server) for server in rest))
        await buses[0].publish({"n": 10})
        for each in news[:2]:
            assert [event["n"] for event in await collect(each, 1)] == [10]

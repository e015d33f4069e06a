"""Over real sockets: brokers that swap links, and a tree that heals; the same nodes as in the simulator."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tidings
from tidings.model.event import make_event
from tidings.protocol.overlay.healing import HealingOverlay
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.server import Server
from tidings.testing import collect
from tidings.testing.network import linked, played, serving, settled, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.1)


async def line(stack: AsyncExitStack, count: int, **options: Any) -> list[Server]:
    servers: list[Server] = []
    for number in range(count):
        join = [servers[-1].address] if servers else []
        servers.append(
            await stack.enter_async_context(serving(f"b{number}", join=join, network=QUICK, **options))
        )
    await linked(*servers)
    return servers


@played
async def test_brokers_with_like_interests_become_neighbours() -> None:
    await like_interests("socbr", {})


@played
async def test_brokers_measure_how_far_they_are_before_they_link() -> None:
    await like_interests("pbsocbr", {"bound_seconds": 30.0, "patience_seconds": 30.0})


@played
async def test_brokers_swap_links_by_the_hops_that_are_saved() -> None:
    await like_interests("fewer-hops", {})


async def like_interests(system: str, options: dict[str, Any]) -> None:
    """b0 and b3, the ends of a line, want the same, and become neighbours."""
    async with AsyncExitStack() as stack:
        servers = await line(stack, 4, system=system, options=options)
        buses = [
            await stack.enter_async_context(tidings.connect(server.address, name=f"c{number}"))
            for number, server in enumerate(servers)
        ]
        far = await stack.enter_async_context(buses[3].subscribe("x <= 0.5"))
        low = make_event({"x": 0.1}, source="s", id="1")
        await until(lambda: servers[0].node.wanting(low, lambda id: True)["links"]["b1"])
        near = await stack.enter_async_context(buses[0].subscribe("x <= 0.4"))
        await until(lambda: "b3" in servers[0].links)
        await until(lambda: sum(len(server.links) for server in servers) == 6)
        for n in range(10):
            await buses[2].publish({"x": 0.3, "n": n})
        for news in (far, near):
            assert [event["n"] for event in await collect(news, 10)] == list(range(10))
        done = sum(server.node.figures()["swaps done"] for server in servers)
        assert done == 1
        assert sorted(servers[0].links + servers[3].links).count("b3") == 1


@played
async def test_the_neighbours_of_a_lost_broker_find_one_another() -> None:
    async with AsyncExitStack() as stack:
        tmp_path = Path(stack.enter_context(TemporaryDirectory()))
        hub = Server("hub", network=QUICK, path=tmp_path / "hub", options={"heal_seconds": 0.3})
        await hub.start()
        healing = {"network": QUICK, "options": {"heal_seconds": 0.3}}
        servers = [
            await stack.enter_async_context(
                serving(name, join=[hub.address], path=tmp_path / name, **healing)
            )
            for name in ("b1", "b2", "b3")
        ]
        await until(lambda: len(hub.links) == 3)
        buses = [
            await stack.enter_async_context(tidings.connect(server.address, name=f"c{number}"))
            for number, server in enumerate(servers)
        ]
        news = [await stack.enter_async_context(bus.subscribe("n >= 0", name="all")) for bus in buses]
        await settled(*servers, hub)
        for n in range(5):
            await buses[0].publish({"n": n})
        await hub.close()
        for n in range(5, 10):  # while nobody is there to carry them
            await buses[0].publish({"n": n})
        await until(lambda: sum(len(server.links) for server in servers) == 4)
        for n in range(10, 15):
            await buses[0].publish({"n": n})
        for one in news:
            assert [event["n"] for event in await collect(one, 15)] == list(range(15))


@played
async def test_two_adjacent_brokers_that_are_lost_are_bridged() -> None:
    """b0 - b1 - b2 - b3, of which the two in the middle go at once: b0 and b3 find one another."""
    async with AsyncExitStack() as stack:
        tmp_path = Path(stack.enter_context(TemporaryDirectory()))
        servers: list[Server] = []
        for number in range(4):
            join = [servers[-1].address] if servers else []
            name = f"b{number}"
            options = {"heal_seconds": 0.3}
            server = Server(name, join=join, network=QUICK, path=tmp_path / name, options=options)
            await server.start()
            servers.append(server)
        await linked(*servers)
        near, *middle, far = servers
        async with (
            tidings.connect(near.address, name="c0") as here,
            tidings.connect(far.address, name="c3") as there,
        ):
            news = await stack.enter_async_context(there.subscribe("n >= 0", name="all"))
            await settled(*servers)
            overlay = far.node.slots["overlay"]
            assert isinstance(overlay, HealingOverlay)
            await until(lambda: overlay.two_hop.of("b1"))
            await here.publish({"n": 0})
            for server in middle:
                await server.close()
            await here.publish({"n": 1})  # while nobody is there to carry it
            await until(lambda: [*near.links, *far.links] == ["b3", "b0"])
            await here.publish({"n": 2})
            received = [event["n"] for event in await collect(news, 3)]
            assert received == [0, 1, 2]
            await news.close()
        await near.close()
        await far.close()

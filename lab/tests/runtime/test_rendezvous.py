"""Over real sockets:

Scribe, Hermes and elastic partitioning between brokers that make links as they need them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

import tidings
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.server import Server
from tidings.testing import collect
from tidings.testing.network import played, serving, settled, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.1)
OVERLAY = {"join_seconds": 0.0, "beat_seconds": 0.1, "answer_seconds": 0.1}
TREES = {"retry_seconds": 0.1, "refresh_seconds": 0.3}
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "scribe": ({"topic": "news/sport"}, "topic = 'news/sport' AND n >= 0"),
    "hermes": ({"type": ("Tick", "Quote")}, "type IS A 'Quote' AND n >= 0"),
    "hermes-path": ({"type": ("Tick", "Quote")}, "type IS A 'Quote' AND n >= 0"),
    "partitioned-elastic": ({}, "x BETWEEN 0.1 AND 0.9 AND n >= 0"),
}


def overlay_of(server: Server) -> Any:
    return server.node.slots["overlay"]


async def brokers(stack: AsyncExitStack, system: str, count: int) -> list[Server]:
    """Each joins through the first one."""
    options = {"overlay": OVERLAY, "trees": TREES}
    servers: list[Server] = []
    for number in range(count):
        join = [servers[0].address] if servers else []
        server = serving(f"b{number}", join=join, network=QUICK, system=system, options=options)
        servers.append(await stack.enter_async_context(server))
    await until(lambda: all(len(overlay_of(server).peers()) == count - 1 for server in servers))
    return servers


async def ready(servers: list[Server]) -> None:
    for _ in range(3):  # a graft may call for another one above it
        await settled(*servers)


@pytest.mark.parametrize("system", sorted(WAYS))
def test_events_reach_every_broker_with_a_subscription(system: str) -> None:
    @played
    async def play() -> None:
        async with AsyncExitStack() as stack:
            servers = await brokers(stack, system, 5)
            fields, filter = WAYS[system]
            await hears(stack, servers, fields, filter)

    play()


async def hears(stack: AsyncExitStack, servers: list[Server], fields: dict[str, Any], filter: str) -> None:
    buses = [
        await stack.enter_async_context(tidings.connect(server.address, name=f"c{number}"))
        for number, server in enumerate(servers)
    ]
    news = [await stack.enter_async_context(bus.subscribe(filter)) for bus in buses]
    await ready(servers)
    for n in range(10):
        await buses[n % len(buses)].publish({"x": 0.5, "y": 0.5, "n": n}, **fields)
    for each in news:
        assert sorted(event["n"] for event in await collect(each, 10)) == list(range(10))


@played
async def test_when_the_broker_of_the_topic_stops_another_one_takes_its_place() -> None:
    async with AsyncExitStack() as stack:
        servers = await brokers(stack, "scribe", 5)
        topic = next(f"t{n}" for n in range(1000) if _root(servers, f"t{n}") is servers[3])
        buses = [
            await stack.enter_async_context(tidings.connect(server.address, name=f"c{number}"))
            for number, server in enumerate(servers[:3])
        ]
        news = [await stack.enter_async_context(bus.subscribe(f"topic = '{topic}'")) for bus in buses]
        await ready(servers)
        await buses[0].publish({"n": 0}, topic=topic)
        for each in news:
            assert [event["n"] for event in await collect(each, 1)] == [0]
        await servers[3].close()
        rest = [server for server in servers if server is not servers[3]]
        await until(lambda: all("b3" not in overlay_of(server).peers() for server in rest))
        await ready(rest)
        await buses[1].publish({"n": 1}, topic=topic)
        for each in news:
            assert [event["n"] for event in await collect(each, 1)] == [1]


def _root(servers: list[Server], topic: str) -> Server | None:
    found = [s for s in servers if overlay_of(s).next_hop(f"topic:{topic}") is None]
    return found[0] if len(found) == 1 else None

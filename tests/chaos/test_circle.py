"""Broker processes that join one another in a ring, all at once: one link is undone, and a tree remains."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.chaos._proxy import Proxy
from tests.chaos._rig import QUICK, Broker

import tidings
from tidings.runtime.connection import NetworkSettings

RING = 4


async def figures(brokers: list[Broker], network: NetworkSettings = QUICK) -> list[dict[str, Any]]:
    found = []
    for broker in brokers:
        async with tidings.connect(broker.address, name="judge", network=network) as bus:
            found.append(await bus.inquire("figures"))
    return found


def is_tree(found: list[dict[str, Any]]) -> bool:
    pairs = {frozenset((each["broker"], other)) for each in found for other in each["links"]}
    return len(pairs) == RING - 1 and all(each["logs"] == RING - 1 for each in found)


async def play(folder: Path) -> None:
    brokers: list[Broker] = []

    def place_of(number: int) -> tuple[str, int]:
        return "127.0.0.1", brokers[number].port

    proxies = [Proxy(partial(place_of, number), Random(number)) for number in range(RING)]
    for proxy in proxies:
        await proxy.start()
    brokers += [Broker(f"b{number}", folder, [proxies[(number + 1) % RING]]) for number in range(RING)]
    await asyncio.gather(*(broker.start() for broker in brokers))
    try:
        async with asyncio.timeout(120):
            while not is_tree(await figures(brokers)):
                await asyncio.sleep(0)
            while not any("cycle" in str(each["problems"]) for each in await figures(brokers)):
                await asyncio.sleep(0)  # who closed it is told so
            await everybody_hears_everybody(brokers)
            assert is_tree(await figures(brokers))
    except BaseException:
        print(json.dumps(await figures(brokers)), *(p.read_text() for p in folder.glob("*.err")))
        raise
    finally:
        codes = await asyncio.gather(*(broker.end() for broker in brokers))
        for proxy in proxies:
            await proxy.close()
    assert set(codes) == {0}


async def everybody_hears_everybody(brokers: list[Broker]) -> None:
    buses = [tidings.connect(b.address, name=f"c-{b.name}", network=QUICK) for b in brokers]
    for bus in buses:
        await bus
    listeners = [await bus.subscribe("x > 0", name="n", durable=True) for bus in buses]
    for x in range(1, 6):
        for bus in buses:
            await bus.publish({"x": x}, lifetime=60, mode="kept")
    for listener in listeners:
        received = [await listener.get(timeout=60) for _ in range(5 * RING)]
        assert len({event.identity for event in received}) == 5 * RING
        with pytest.raises(TimeoutError):
            await listener.get(timeout=0.3)
    for bus in buses:
        await bus.close()


def test_brokers_that_join_in_a_ring_at_once_end_up_as_a_tree(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path))

"""Bounds, policies, the log and staging: the same for every kind of broker, but for who may wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.conformance._houses import BLOCKING, HOUSES, STABLE, moment, numbers, played

import tidings
from tidings.runtime.bus import Bus
from tidings.testing import collect

NETWORKS = sorted(HOUSES.keys() - set(BLOCKING))


async def _back_pressure(bus: Bus) -> None:
    async with bus.subscribe(queue=2) as news:
        await bus.publish({"n": 0})
        await bus.publish({"n": 1})
        waiting = asyncio.create_task(bus.publish({"n": 2}))
        done, _ = await asyncio.wait([waiting], timeout=0.02)
        assert not done
        assert numbers(await collect(news, 3)) == [0, 1, 2]
        await waiting


test_back_pressure = pytest.mark.parametrize("house", BLOCKING, indirect=True)(played(_back_pressure))


async def _nobody_waits(bus: Bus) -> None:
    with pytest.raises(tidings.RefusedError, match="`block` is for the embedded broker"):
        await bus.subscribe(policy="block")
    async with bus.subscribe(queue=2, replay=False) as news:
        for n in range(5):
            await bus.publish({"n": n})
        async with asyncio.timeout(120):
            while news.counters.get("drop oldest") != 3:
                await asyncio.sleep(0)
        assert numbers(await collect(news, 2)) == [3, 4]


test_on_a_network_nobody_waits_for_a_slow_subscriber = pytest.mark.parametrize(
    "house", NETWORKS, indirect=True
)(played(_nobody_waits))


@played
async def test_a_slow_durable_subscription_spills_and_hears_all(bus: Bus) -> None:
    async with bus.subscribe(queue=2, name="slow", durable=True) as slow, bus.subscribe() as quick:
        for n in range(20):
            await bus.publish({"n": n})
        assert numbers(await collect(quick, 20)) == list(range(20))
        assert numbers(await collect(slow, 20)) == list(range(20))


@played
async def test_policies_that_drop_are_counted_by_their_name(bus: Bus) -> None:
    async with (
        bus.subscribe(queue=1, policy="drop oldest", replay=False) as new,
        bus.subscribe(queue=1, policy=tidings.Policy.DROP_NEWEST, replay=False) as old,
    ):
        for n in range(3):
            await bus.publish({"n": n})
        async with asyncio.timeout(120):
            while new.counters.get("drop oldest") != 2 or old.counters.get("drop newest") != 2:
                await asyncio.sleep(0)
        assert numbers(await collect(new, 1)) == [2]
        assert numbers(await collect(old, 1)) == [0]
        assert new.counters["taken"] == 1


@played
async def test_a_slow_consumer_can_be_disconnected(bus: Bus) -> None:
    async with bus.subscribe(queue=1, policy="disconnect", replay=False) as news:
        await bus.publish({"n": 0})
        await bus.publish({"n": 1})
        async with asyncio.timeout(120):
            while (await bus.inquire("figures"))["subscriptions"]:
                await asyncio.sleep(0)
        with pytest.raises(tidings.SlowConsumerError):
            await news.get(timeout=120)


# -- the log, and publishing in two steps --------------------------------------------------------


async def _log_and_staging(bus: Any) -> None:
    at_home = getattr(bus, "_near", bus)  # in a network: where it publishes
    async with bus.subscribe("n >= 0", name="all", durable=True) as news:
        receipt = await bus.publish({"n": 0}, lifetime=60)
        log = receipt.position.log
        events = [tidings.make_event({"n": n}, source="query", id=f"{n}", lifetime=60) for n in range(1, 5)]
        await at_home.stage("q", 0, 0, events[:2], log=log)
        await at_home.stage("q", 0, 1, events[2:], log=log)
        assert numbers(await collect(news, 1)) == [0]
        with pytest.raises(TimeoutError):
            await news.get(timeout=moment())
        assert await at_home.committed("q") == -1
        assert await at_home.commit_staged("q", 0, 2, log=log)
        assert not await at_home.commit_staged("q", 0, 2, log=log)
        assert await at_home.committed("q") == 0
        assert numbers(await collect(news, 4)) == [1, 2, 3, 4]
    page = await at_home.read_log("n > 1", after=1, limit=2, log=log)
    assert [entry.event["n"] for entry in page.entries] == [2, 3]
    rest = await at_home.read_log("n > 1", after=page.upto)
    assert [entry.event["n"] for entry in rest.entries] == [4]
    assert rest.upto == rest.end == 5
    with pytest.raises(tidings.RefusedError, match="stays at one broker"):
        await at_home.stage("q", 1, 0, events, log="elsewhere")


test_the_log_and_publishing_in_two_steps = pytest.mark.parametrize("house", STABLE, indirect=True)(
    played(_log_and_staging)
)

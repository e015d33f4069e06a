"""The pytest fixtures that come with the package, awaited and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidings
from tidings.testing import VirtualClock, collect


def test_the_blocking_bus_is_on_the_clock(bus: tidings.BlockingBus, clock: VirtualClock) -> None:
    bus.publish({"n": 1}, lifetime=60)
    clock.advance(61)
    bus.publish({"n": 2}, lifetime=60)
    with bus.subscribe("n > 0") as news:
        assert [event["n"] for event in collect(news)] == [2]


def test_a_coroutine_function_gets_a_bus_on_the_clock(
    run_async: Callable[[Any], Any], clock: VirtualClock
) -> None:
    async def play(bus: tidings.Bus) -> list[Any]:
        await bus.publish({"n": 1}, lifetime=60)
        clock.advance(61)
        await bus.publish({"n": 2}, lifetime=60)
        async with bus.subscribe("n > 0") as news:
            return [event["n"] for event in await collect(news)]

    assert run_async(play) == [2]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_plugin_awaits_the_bus(async_bus: tidings.Bus, clock: VirtualClock) -> None:
    async with async_bus.subscribe("n > 0") as news:
        await async_bus.publish({"n": 1})
        assert [event["n"] for event in await collect(news)] == [1]


def test_a_broker_on_a_socket(broker: str) -> None:
    with (
        tidings.open(broker, name="a") as one,
        tidings.open(broker, name="b") as two,
        one.subscribe("n > 0") as news,
    ):
        two.publish({"n": 1})
        assert news.get(timeout=120)["n"] == 1

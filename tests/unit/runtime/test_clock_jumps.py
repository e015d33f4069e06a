"""The wall clock jumps by an hour, either way: lifetimes and timers do not notice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import tidings
from tidings.testing.network import serving, until


@pytest.mark.parametrize("jump", [3600.0, -3600.0], ids=["forward", "back"])
def test_the_clock_jumps_by_an_hour_and_lifetimes_survive(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        real = time.time
        async with serving(path=tmp_path) as server, tidings.connect(server.address, name="p") as bus:
            await bus.publish({"x": 1}, lifetime=600)
            await bus.publish({"x": 2}, lifetime=0.2)
            monkeypatch.setattr(time, "time", lambda: real() + jump)
            await until(lambda: server.node.figures()["entries"] == 1)  # the short one ends, in its time
            await bus.publish({"x": 3}, lifetime=600)
            async with bus.subscribe("x > 0") as late:
                assert [(await late.get(timeout=120))["x"] for _ in range(2)] == [1, 3]
            async with bus.subscribe("x > 0", name="d", durable=True) as news:
                await bus.publish({"x": 4})
                assert [(await news.get(timeout=120))["x"] for _ in range(3)] == [1, 3, 4]

    asyncio.run(story())


def test_a_clock_that_was_set_back_between_two_lives_lengthens_no_lifetime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        real = time.time
        async with serving(path=tmp_path) as server, tidings.connect(server.address, name="p") as bus:
            await bus.publish({"x": 1}, lifetime=0.2)
            await bus.publish({"x": 2}, lifetime=600)
        monkeypatch.setattr(time, "time", lambda: real() - 3600.0)
        async with serving(path=tmp_path) as server, tidings.connect(server.address, name="p") as bus:
            await until(lambda: server.node.figures()["entries"] == 1)
            async with bus.subscribe("x > 0") as late:
                assert (await late.get(timeout=120))["x"] == 2

    asyncio.run(story())

"""The start of handlers."""

from __future__ import annotations

import asyncio
import gc

import pytest

import tidings
from tidings.testing.network import played, serving, until

PATIENCE = 120.0


@played
async def test_waiting_for_the_start_of_handlers_ends_with_the_error_of_the_start() -> None:
    async with serving() as server, tidings.connect(server.address) as other:
        await (await other.subscribe("n > 0", group="work", durable=True)).close()
        for address, wrong in (
            (server.address, "is durable"),
            ("tidings://127.0.0.1:1", "cannot be reached"),
        ):
            bus = (
                tidings.connect(address, timeout=0.01) if address.endswith(":1") else tidings.connect(address)
            )
            bus.on("n > 1", group="work")(lambda event: None)
            running = asyncio.create_task(bus.run(signals=()))
            with pytest.raises(tidings.TidingsError, match=wrong):
                await asyncio.wait_for(bus.started(), PATIENCE)
            with pytest.raises(tidings.TidingsError, match=wrong):
                await running


@played
async def test_waiting_for_a_start_that_is_cancelled_ends() -> None:
    async with serving() as server:
        bus = tidings.connect(server.address)
        bus.on("n > 1")(lambda event: None)
        running = asyncio.create_task(bus.run(signals=()))
        waiting = asyncio.create_task(bus.started())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(tidings.ClosedError, match="cancelled"):
            await asyncio.wait_for(waiting, PATIENCE)


@played
async def test_a_handler_reaches_the_positions_to_store_with_its_effects() -> None:
    stored: list[tuple[int, dict[str, int] | None]] = []
    async with tidings.connect() as bus:

        @bus.on("n > 0", name="mine", durable=True)
        def handle(event: tidings.Event) -> None:  # in a worker thread
            stored.append((event["n"], tidings.current_call().positions))
            if len(stored) == 1:
                raise ValueError

        @bus.on("n > 0", concurrency=2)
        async def several(event: tidings.Event) -> None:
            assert tidings.current_call().positions is None

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with bus.serving():
            await bus.publish_many([{"n": 1}, {"n": 2}])
            await until(lambda: len(stored) == 3)
    assert stored == [(1, {"embedded": 1}), (1, {"embedded": 1}), (2, {"embedded": 2})]
    with pytest.raises(tidings.SettingsError, match="no handler"):
        tidings.current_call()


@played
async def test_a_request_without_a_broker_says_so_and_leaves_no_task_behind() -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with serving() as server:
        bus = await tidings.connect(server.address, call_timeout=0.05)
    await until(lambda: bus.state == "down")
    with pytest.raises(tidings.TimedOutError, match="the connection is down"):
        await bus.request({"n": 1}, topic="t", timeout=0.01)
    requests = bus._requests
    assert requests is not None
    opening = requests._opening
    assert opening is not None
    await until(opening.done)
    bus._requests = requests = opening = None
    gc.collect()
    await bus.close()
    assert told == []

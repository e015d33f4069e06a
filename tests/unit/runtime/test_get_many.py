"""Batches of a listener: `get_many` in one process, over TCP, without await, and beside cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

import tidings
from tidings.testing.network import played, serving

WANTED = "n >= 0"


@asynccontextmanager
async def _buses() -> AsyncIterator[list[tidings.Bus]]:
    """One in this process, and a client of a broker elsewhere."""
    async with tidings.connect() as here, serving() as server, tidings.connect(server.address) as there:
        yield [here, there]


async def _numbers(listener: tidings.Listener[Any], count: int, most: int) -> list[list[int]]:
    batches: list[list[int]] = []
    while sum(map(len, batches)) < count:
        batches.append([event["n"] for event in await listener.get_many(most, timeout=60)])
    return batches


@played
async def test_batches_hold_every_event_in_order_and_no_more_than_were_asked_for() -> None:
    async with _buses() as buses:
        for bus in buses:
            async with bus.subscribe(WANTED, queue=5_000) as listener:
                await bus.publish_many({"n": number} for number in range(1_000))
                batches = await _numbers(listener, 1_000, 64)
                assert [number for batch in batches for number in batch] == list(range(1_000))
                assert max(map(len, batches)) == 64
                assert listener.counters["taken"] == 1_000
                await bus.publish({"n": 1_000})
                assert (await listener.get(timeout=60))["n"] == 1_000


@played
async def test_events_that_wait_in_an_embedded_broker_come_in_one_batch() -> None:
    async with tidings.connect() as bus, bus.subscribe(WANTED) as listener:
        await bus.publish_many([{"n": number} for number in range(10)])
        assert await _numbers(listener, 10, 100) == [list(range(10))]
        await bus.publish_many([{"n": number} for number in range(10)], lifetime=60)
        events = await listener.get_many(100)
        assert [event["n"] for event in events] == list(range(10))
        offsets = [event.position.offset for event in events]
        assert offsets == list(range(offsets[0], offsets[0] + 10))
        assert listener.position == events[-1].position


@played
async def test_a_batch_does_not_wait_for_more_than_its_first_event() -> None:
    async with _buses() as buses:
        for bus in buses:
            async with bus.subscribe(WANTED) as listener:
                batch = asyncio.create_task(listener.get_many(100))
                await asyncio.sleep(0)
                await bus.publish({"n": 1})
                assert [event["n"] for event in await batch] == [1]
                await bus.publish({"n": 2})
                await bus.publish({"n": 3})
                assert await _numbers(listener, 2, 1) == [[2], [3]]


@played
async def test_a_batch_without_events_times_out_and_a_batch_of_none_is_refused() -> None:
    async with tidings.connect() as bus, bus.subscribe(WANTED) as listener:
        with pytest.raises(TimeoutError):
            await listener.get_many(10, timeout=0.01)
        with pytest.raises(tidings.SettingsError, match="get_many of 0 events"):
            await listener.get_many(0)
        await bus.publish({"n": 1})
        assert await _numbers(listener, 1, 10) == [[1]]


@played
async def test_a_batch_that_is_given_back_comes_again_in_order() -> None:
    async with _buses() as buses:
        for bus in buses:
            async with bus.subscribe(WANTED) as listener:
                await bus.publish_many([{"n": number} for number in range(5)], lifetime=60)
                first = await listener.get_many(3, timeout=60)
                while len(first) < 3:  # over TCP they may come one by one
                    await listener.nack()
                    first = await listener.get_many(3, timeout=60)
                await listener.nack()
                batches = await _numbers(listener, 5, 3)
                assert [number for batch in batches for number in batch] == list(range(5))
                assert listener.last is not None


@played
async def test_a_cancelled_batch_loses_nothing() -> None:
    async with tidings.connect() as bus, bus.subscribe(WANTED) as listener:
        batch = asyncio.create_task(listener.get_many(10))
        await asyncio.sleep(0)
        publish = asyncio.create_task(bus.publish_many([{"n": 1}, {"n": 2}, {"n": 3}]))
        await asyncio.sleep(0)  # the batch is answered, and its task has not run
        assert not batch.done()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        await publish
        assert await _numbers(listener, 3, 10) == [[1, 2, 3]]


@played
async def test_taking_a_batch_commits_the_batch_before() -> None:
    async with tidings.connect() as bus:
        async with bus.subscribe(WANTED, name="jobs", durable=True) as jobs:
            await bus.publish_many([{"n": number} for number in range(6)])
            assert await _numbers(jobs, 4, 2) == [[0, 1], [2, 3]]
            await jobs.close(commit=False)
        async with bus.subscribe(WANTED, name="jobs", durable=True) as jobs:
            batches = await _numbers(jobs, 4, 10)
            assert [number for batch in batches for number in batch] == [2, 3, 4, 5]


def test_batches_without_await_and_as_instances() -> None:
    with tidings.open() as bus, bus.subscribe(WANTED) as listener:
        bus.publish_many([{"n": 1}, {"n": 2}])
        assert [event["n"] for event in listener.get_many(5, timeout=60)] == [1, 2]


def test_a_call_that_times_out_commits_what_is_in_hand_and_a_later_return_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @played
    async def test() -> None:
        async with _buses() as buses:
            for bus in buses:
                async with bus.subscribe(WANTED) as listener:
                    await _times_out_and_returns(bus, listener, listener.nack, caplog)
                    await _times_out_and_returns(bus, listener, partial(listener.reject, "no use"), caplog)

    test()


async def _times_out_and_returns(
    bus: tidings.Bus,
    listener: tidings.Listener[Any],
    give_back: Callable[[], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await bus.publish({"n": 1}, lifetime=60)
    assert (await listener.get(timeout=60))["n"] == 1
    with pytest.raises(TimeoutError):
        await listener.get(timeout=0.001)
    before = dict(listener.positions)
    caplog.clear()
    await give_back()
    assert "nothing is returned" in caplog.text
    assert listener.positions == before, "it is committed, and holds no position"
    with pytest.raises(TimeoutError):
        await listener.get(timeout=0.001)

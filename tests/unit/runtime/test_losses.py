"""Losses are said aloud: by drops from a full queue, and in the gap between two brokers."""

from __future__ import annotations

import asyncio
import logging

import pytest

import tidings
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.losses import SubscriptionLosses
from tidings.runtime.server import Server
from tidings.testing.network import serving, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.05)
QUEUE = 8


def at(server: Server) -> str:
    return f"tidings://127.0.0.1:{server.addresses[0].port}"


def test_more_than_a_queue_holds_is_lost_with_a_warning_at_once_and_the_number_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> dict[str, int]:
        async with serving() as server, tidings.connect(at(server), name="ann") as bus:
            async with bus.subscribe("n >= 0", name="numbers", queue=QUEUE) as news:
                for n in range(5 * QUEUE):
                    await bus.publish({"n": n})
                await until(lambda: sum(news.counters.values()) >= 4 * QUEUE - 1)
            return news.counters

    counters = asyncio.run(play())
    stated = [record.getMessage() for record in caplog.records if record.name == "tidings.client"]
    assert {record.levelno for record in caplog.records if record.name == "tidings.client"} == {
        logging.WARNING
    }
    assert len(stated) == 2
    assert stated[0].startswith(
        "subscription ann/numbers lost 1 event so far (drop oldest: 1); its queue was full"
    )
    assert f"drop oldest: {counters['drop oldest']}" in stated[1]
    assert all("durable=True" in text and "larger queue=" in text for text in stated)


class Lossy:
    id = "ann/numbers"
    _durable = False


def test_counts_grow_over_a_new_beginning_and_what_expired_is_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        losses = SubscriptionLosses()
        losses.count(Lossy(), {"expired": 3}, warns=True)
        assert not caplog.records
        losses.count(Lossy(), {"expired": 3, "drop oldest": 5}, warns=True)
        losses.count(Lossy(), {"drop oldest": 2}, warns=True)  # another broker
        assert losses.counts == {"expired": 3, "drop oldest": 7}
        losses.end(Lossy())

    asyncio.run(play())
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [5, 7]


def test_after_a_failover_transient_subscriptions_are_named(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with serving("b2") as two:
            one = Server("b1")
            await one.start()
            where = f"{at(one)},{at(two)}"
            async with tidings.connect(where, network=QUICK, patience=0.05, name="ann") as bus:
                await bus.subscribe("n > 0", name="brief")
                await bus.subscribe("n > 0", name="kept", durable=True)
                await one.close()
                await until(lambda: bus.state.broker == "b2")

    asyncio.run(play())
    stated = [record.getMessage() for record in caplog.records if "may have missed" in record.getMessage()]
    assert len(stated) == 1
    assert "ann/brief may have missed events without a lifetime meanwhile" in stated[0]
    assert "ann/kept" not in stated[0]


def test_losses_before_a_subscription_is_opened_again_are_counted() -> None:
    """The broker tells them together with its answer, before `subscribe` has returned."""

    async def play() -> dict[str, int]:
        async with serving() as server, tidings.connect(at(server), name="ann") as bus:
            first = await bus.subscribe("n >= 0", name="numbers", durable=True, keep_events=2)
            await first.close()
            for n in range(QUEUE):
                await bus.publish({"n": n}, lifetime=60)
            again = await bus.subscribe("n >= 0", name="numbers", durable=True, keep_events=2)
            while (await again.get(timeout=60))["n"] < QUEUE - 1:
                pass
            return again.counters

    assert asyncio.run(play()) == {"taken": 2, "bound on count": QUEUE - 2}

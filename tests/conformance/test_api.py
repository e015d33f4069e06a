"""The public interface, as every bus must keep it: one suite for each kind of broker.

A kind of broker is a `House`: it gives buses to clients and can be left and entered again (`_houses.py`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest
from tests.conformance._houses import HOUSES, STABLE, House, moment, numbers, played

import tidings
from tidings.runtime.bus import Bus
from tidings.testing import collect

# -- publishing and subscribing --------------------------------------------------------------


@played
async def test_the_example_of_the_front_page(bus: Bus) -> None:
    async with bus.subscribe("StockName = 'IBM' AND change < -3") as news:
        await bus.publish({"StockName": "IBM", "change": -4.5}, lifetime=60)
        await bus.publish({"StockName": "IBM", "change": 1.0}, lifetime=60)
        async for event in news:
            assert event["change"] == -4.5
            break


@played
async def test_each_matching_event_once_and_in_order(bus: Bus) -> None:
    async with bus.subscribe("n % 3 = 0") as news, bus.subscribe("n < 4") as low:
        for n in range(10):
            await bus.publish({"n": n})
        assert numbers(await collect(news, 4)) == [0, 3, 6, 9]
        assert numbers(await collect(low, 4)) == [0, 1, 2, 3]
        with pytest.raises(TimeoutError):
            await news.get(timeout=moment())


@played
async def test_a_receipt_says_who_and_where(bus: Bus) -> None:
    volatile = await bus.publish({"n": 1})
    assert volatile.source == "local"
    async with asyncio.timeout(120):  # a network keeps the first ones until it knows that nobody wants them
        while volatile.position is not None:
            volatile = await bus.publish({"n": 1})
    kept = await bus.publish({"n": 1}, lifetime=60)
    assert kept.id != volatile.id
    assert kept.position is not None
    named = await bus.publish({"n": 1}, id="x-1", source="sensor", lifetime=60)
    assert (named.source, named.id) == ("sensor", "x-1")
    assert await bus.publish({"n": 1}, id="x-1", source="sensor", lifetime=60) == named


@played
async def test_a_late_subscriber_hears_what_is_available(bus: Bus) -> None:
    await bus.publish({"n": 0})
    await bus.publish({"n": 1}, lifetime=60)
    await bus.publish({"n": 2}, lifetime=tidings.FOREVER)
    async with bus.subscribe() as news:
        assert numbers(await collect(news, 2)) == [1, 2]
    async with bus.subscribe(replay=False) as news:
        await bus.publish({"n": 3}, lifetime=60)
        assert numbers(await collect(news, 1)) == [3]


@played
async def test_topics_patterns_types_and_their_combinations(bus: Bus) -> None:
    async with (
        bus.subscribe(topic="stocks/+/quote") as quotes,
        bus.subscribe("n > 1", topic="stocks/#") as large,
        bus.subscribe(type="Trade") as trades,
        bus.subscribe(tidings.attr("n") < 2, topic="stocks/ibm/quote") as built,
        bus.subscribe({"n": [{"numeric": [">", 2]}]}) as bridge,
    ):
        await bus.publish({"n": 1}, topic="stocks/ibm/quote")
        await bus.publish({"n": 2}, topic="stocks/ibm/quote", type="Trade")
        await bus.publish({"n": 3}, topic="stocks/ibm")
        assert numbers(await collect(quotes, 2)) == [1, 2]
        assert numbers(await collect(large, 2)) == [2, 3]
        assert numbers(await collect(trades, 1)) == [2]
        assert numbers(await collect(built, 1)) == [1]
        assert numbers(await collect(bridge, 1)) == [3]


@played
async def test_everything_that_an_event_carries_arrives(bus: Bus) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    async with bus.subscribe("a.b = 1") as news:
        await bus.publish(
            {"a": {"b": 1}, "when": moment, "flag": True, "x": 1.5},
            topic="t/u",
            type=("Child", "Parent"),
            time=moment,
            payload=b"\x00\xff",
            content_type="application/octet-stream",
            lifetime=5,
            key="k",
            expires=100,
        )
        event = await news.get(timeout=120)
    assert event["when"] == moment
    assert (event.topic, event.type, event.time) == ("t/u", ("Child", "Parent"), moment)
    assert (event.payload, event.content_type) == (b"\x00\xff", "application/octet-stream")
    assert (event.lifetime, event.key, event.expires) == (5, "k", 100)


@played
async def test_an_event_that_was_heard_can_be_published_as_it_is(bus: Bus) -> None:
    async with bus.subscribe("n = 1") as news:
        event = tidings.make_event({"n": 1}, source="elsewhere", id="7")
        receipt = await bus.publish(event, lifetime=60)
        assert (receipt.source, receipt.id) == ("elsewhere", "7")
        assert (await news.get(timeout=120)).identity == ("elsewhere", "7")
    with pytest.raises(tidings.EventError, match="its own topic"):
        await bus.publish(event, topic="t")


# -- classes -----------------------------------------------------------------------------------


@dataclass
class Quote:
    name: str
    change: float


@dataclass
class Trade(Quote):
    volume: int = 0


class Reading(msgspec.Struct):
    place: str
    celsius: float


class Order(pydantic.BaseModel):
    name: str
    pieces: int


@played
async def test_a_class_hears_its_subclasses_and_yields_instances(bus: Bus) -> None:
    async with bus.subscribe(Quote) as quotes, bus.subscribe(Trade, "volume > 5") as trades:
        await bus.publish(Quote("IBM", -1.0))
        await bus.publish(Trade("MSFT", 2.0, 3))
        await bus.publish(Trade("MSFT", 2.0, 7))
        await bus.publish({"name": "IBM", "change": 0.0})
        assert await collect(quotes, 3) == [Quote("IBM", -1.0), Trade("MSFT", 2.0, 3), Trade("MSFT", 2.0, 7)]
        assert await collect(trades, 1) == [Trade("MSFT", 2.0, 7)]


@played
async def test_structs_and_models_are_types_too(bus: Bus) -> None:
    async with bus.subscribe(Reading, "celsius > 30") as readings, bus.subscribe(Order) as orders:
        await bus.publish(Reading("roof", 35.0))
        await bus.publish(Order(name="IBM", pieces=3))
        assert await readings.get(timeout=120) == Reading("roof", 35.0)
        assert await orders.get(timeout=120) == Order(name="IBM", pieces=3)


# -- names, durability, committing -----------------------------------------------------------------


@played
async def test_returning_under_the_same_name_is_not_told_twice(bus: Bus) -> None:
    for n in range(4):
        await bus.publish({"n": n}, lifetime=60)
    async with bus.subscribe("n < 2", name="mine") as news:
        assert not news.resumed
        assert numbers(await collect(news, 2)) == [0, 1]
    async with bus.subscribe(name="mine") as news:
        assert news.resumed
        assert numbers(await collect(news, 2)) == [2, 3]


@played
async def test_a_durable_subscription_is_owed_what_comes_while_nobody_listens(bus: Bus) -> None:
    async with bus.subscribe("n > 0", name="mine", durable=True):
        pass
    for n in range(4):
        await bus.publish({"n": n})
    async with bus.subscribe("n > 0", name="mine", durable=True) as news:
        assert numbers(await collect(news, 3)) == [1, 2, 3]
        assert news.position is not None
        await news.unsubscribe()
    await bus.publish({"n": 9})
    async with bus.subscribe("n > 0", name="mine", durable=True) as news:
        with pytest.raises(TimeoutError):
            await news.get(timeout=moment())


@played
async def test_leaving_by_an_exception_does_not_commit(bus: Bus) -> None:
    async with bus.subscribe(name="mine", durable=True) as news:
        await bus.publish({"n": 1})
        await bus.publish({"n": 2})
        assert numbers(await collect(news, 1)) == [1]
    with pytest.raises(ZeroDivisionError):
        await _take_and_fail(bus)
    async with bus.subscribe(name="mine", durable=True) as news:
        assert numbers(await collect(news, 1)) == [2]


async def _take_and_fail(bus: Bus) -> None:
    async with bus.subscribe(name="mine", durable=True) as news:
        assert numbers(await collect(news, 1)) == [2]
        raise ZeroDivisionError


@played
async def test_a_position_says_where_to_go_on(bus: Bus) -> None:
    for n in range(4):
        await bus.publish({"n": n}, lifetime=60)
    async with bus.subscribe() as news:
        await collect(news, 2)
        position = news.position
    assert position is not None
    for since in (position, {position.log: position.offset}):
        async with bus.subscribe(since=since) as news:
            assert numbers(await collect(news, 2)) == [2, 3]


@played
async def test_giving_back_and_dead_letters(bus: Bus) -> None:
    async with bus.subscribe(name="jobs", max_deliveries=2) as jobs:
        await bus.publish({"n": 1})
        await bus.publish({"n": 2})
        for attempt in (1, 2):
            assert (await jobs.get(timeout=120))["n"] == 1
            assert jobs.last is not None
            assert jobs.last.attempt == attempt
            await jobs.nack()
        assert (await jobs.get(timeout=120))["n"] == 2
        await jobs.ack()
        async with bus.subscribe(dead_letters_of="jobs") as dead:
            assert numbers(await collect(dead, 1)) == [1]


@played
async def test_members_of_a_group_share(bus: Bus) -> None:
    async with bus.subscribe(group="workers") as one, bus.subscribe(group="workers") as two:
        for n in range(4):
            await bus.publish({"n": n})
        received = numbers(await collect(one, 2) + await collect(two, 2))
        assert sorted(received) == [0, 1, 2, 3]


@played
async def test_a_key_supersedes(bus: Bus) -> None:
    for n in range(3):
        await bus.publish({"n": n}, key="price", lifetime=60)
    async with bus.subscribe() as news:
        assert numbers(await collect(news, 1)) == [2]
        with pytest.raises(TimeoutError):
            await news.get(timeout=moment())


@played
async def test_notifications_come_with_position_and_attempt(bus: Bus) -> None:
    async with bus.subscribe(name="mine") as news:
        await bus.publish({"n": 1}, lifetime=60)
        async for notification in news.notifications():
            assert notification.event["n"] == 1
            assert notification.attempt == 1
            assert notification.position is not None
            assert notification.subscription == news.id == tidings.SubscriptionId("local", "mine")
            break


# -- cancelling ----------------------------------------------------------------------------------


@played
async def test_a_cancelled_wait_loses_nothing(bus: Bus) -> None:
    async with bus.subscribe() as news:
        for n in range(20):
            waiting = asyncio.create_task(news.get())
            await asyncio.sleep(0)
            publishing = asyncio.create_task(bus.publish({"n": n}))
            if n % 2:
                await asyncio.sleep(0)  # the answer is there, and nobody has seen it
            waiting.cancel()
            await asyncio.wait([waiting, publishing])
            seen = [waiting.result()] if not waiting.cancelled() else await collect(news, 1)
            assert numbers(seen) == [n]


@played
async def test_a_cancelled_loop_goes_on_where_it_was(bus: Bus) -> None:
    received: list[Any] = []

    async def listen(news: tidings.Listener[tidings.Event]) -> None:
        async for event in news:
            received.append(event["n"])

    async with bus.subscribe() as news:
        for n in range(10):
            task = asyncio.create_task(listen(news))
            await bus.publish({"n": n})
            task.cancel()
            await asyncio.wait([task])
        received += numbers(await collect(news, 10 - len(received)))
    assert received == list(range(10))


@played
async def test_leaving_ends_a_loop_that_waits(bus: Bus) -> None:
    news = await bus.subscribe()
    subscription = asyncio.create_task(_all(news))
    await asyncio.sleep(0)
    await news.close()
    assert await subscription == []


async def _all(news: tidings.Listener[tidings.Event]) -> list[tidings.Event]:
    return [event async for event in news]


# -- callbacks -------------------------------------------------------------------------------------


@played
async def test_callbacks_are_called_one_after_another(bus: Bus) -> None:
    received: list[Any] = []
    done = asyncio.Event()

    async def slowly(event: tidings.Event) -> None:
        await asyncio.sleep(0)
        received.append(event["n"])
        if event["n"] == 3:
            done.set()

    async with bus.on("n > 0", slowly):
        for n in range(4):
            await bus.publish({"n": n})
        await asyncio.wait_for(done.wait(), 120)
    assert received == [1, 2, 3]


@played
async def test_a_callback_that_fails_gives_its_event_back(bus: Bus) -> None:
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    calls: list[Any] = []
    done = asyncio.Event()

    def fail(event: tidings.Event) -> None:
        calls.append(event["n"])
        if event["n"] == 2:
            done.set()
        else:
            raise ValueError("no")

    async with bus.on("n > 0", fail, name="jobs", max_deliveries=3) as calling:
        await bus.publish({"n": 1})
        await bus.publish({"n": 2})
        await asyncio.wait_for(done.wait(), 120)
        assert isinstance(calling.error, ValueError)
    assert calls == [1, 1, 1, 2]
    assert len(failures) == 3
    async with bus.subscribe(dead_letters_of="jobs") as dead:
        assert numbers(await collect(dead, 1)) == [1]


# -- what is wrong is said --------------------------------------------------------------------------


@played
async def test_a_filter_that_can_never_be_true(bus: Bus) -> None:
    with pytest.raises(tidings.ImpossibleFilterError, match="never be true"):
        await bus.subscribe("n > 3 AND n < 2")


@played
async def test_mistakes_name_what_was_meant(bus: Bus) -> None:
    with pytest.raises(tidings.SettingsError, match=r"did you mean durable=\?"):
        bus.subscribe("n > 3", durabel=True)
    with pytest.raises(tidings.SettingsError, match=r"did you mean lifetime=\?"):
        await bus.publish({"n": 1}, lifetme=3)
    with pytest.raises(tidings.SettingsError, match="'drop oldest'"):
        bus.subscribe("n > 3", policy="drop")
    with pytest.raises(tidings.SettingsError, match="'best effort'"):
        await bus.publish({"n": 1}, mode="sure")
    with pytest.raises(tidings.FilterSyntaxError):
        bus.subscribe("n >")
    with pytest.raises(tidings.FilterError, match="is no event type"):
        bus.subscribe(int)
    with pytest.raises(tidings.FilterError, match="common ancestor"):
        bus.subscribe(Trade, Reading)
    with pytest.raises(tidings.EventError, match="cannot be published"):
        await bus.publish(3)
    with pytest.raises(tidings.FilterError, match="dialect 'cesql'"):
        bus.subscribe("n = 1", topic="a/#", dialect="cesql")
    with pytest.raises(tidings.RefusedError, match="needs a name"):
        await bus.subscribe(durable=True)
    async with bus.subscribe(name="mine"):
        with pytest.raises(tidings.RefusedError, match="a group can have many"):
            await bus.subscribe(name="mine")


@played
async def test_what_has_not_begun_and_what_is_over_say_so(bus: Bus) -> None:
    news = bus.subscribe()
    with pytest.raises(tidings.ClosedError, match="has not begun"):
        await news.get()
    with pytest.raises(tidings.ClosedError, match="has not begun"):
        assert news.id
    async with news:
        assert "subscription local/" in repr(news)
        with pytest.raises(tidings.ClosedError, match="once"):
            await news.open()
    with pytest.raises(tidings.ClosedError, match="has ended"):
        await news.get()
    await news.close()
    assert [event async for event in news] == []


def test_a_closed_bus_says_so(house: House) -> None:
    async def play() -> None:
        bus = house.connect("local")
        with pytest.raises(tidings.ClosedError, match="has not begun"):
            await bus.publish({"n": 1})
        async with bus:
            news = await bus.subscribe()
            waiting = asyncio.create_task(_all(news))
            await asyncio.sleep(0)
            with pytest.raises(tidings.ClosedError, match="once"):
                await bus.open()
        assert await waiting == []
        for call in (lambda: bus.publish({"n": 1}), lambda: bus.subscribe().open(), bus.open):
            with pytest.raises(tidings.ClosedError):
                await call()
        await bus.close()
        assert bus.is_closed

    asyncio.run(play())


# -- leaving the house ---------------------------------------------------------------------------------


@pytest.mark.parametrize("house", STABLE, indirect=True)
def test_what_is_kept_survives_leaving_the_house(house: House) -> None:
    async def first() -> None:
        async with (
            house.connect("local") as bus,
            bus.subscribe("n > 0", name="mine", durable=True) as news,
        ):
            for n in range(5):
                receipt = await bus.publish({"n": n}, lifetime=60 if n == 4 else 0, mode="kept")
                assert receipt.position is not None
            assert numbers(await collect(news, 2)) == [1, 2]

    async def second() -> None:
        async with house.connect("local") as bus:
            await bus.publish({"n": 5})
            async with bus.subscribe("n > 0", name="mine", durable=True) as news:
                assert news.resumed
                assert numbers(await collect(news, 3)) == [3, 4, 5]
            async with bus.subscribe() as late:
                assert numbers(await collect(late, 1)) == [4]

    asyncio.run(first())
    asyncio.run(second())


@pytest.mark.parametrize("house", sorted(HOUSES.keys() - set(STABLE)), indirect=True)
def test_a_broker_without_a_store_refuses_to_promise(house: House) -> None:
    async def play() -> None:
        async with house.connect("local") as bus:
            with pytest.raises(tidings.RefusedError, match="needs a broker with a store"):
                await bus.publish({"n": 1}, mode="kept")

    asyncio.run(play())


@played
async def test_an_event_says_where_it_stands_in_the_log(bus: Bus) -> None:
    async with bus.subscribe("n > 0", name="n", durable=True) as news:
        receipt = await bus.publish({"n": 1})
        event = await news.get(timeout=120)
        assert event.position == receipt.position == news.position
    async with bus.subscribe("n > 0") as transient:
        await bus.publish({"n": 2}, mode="best effort")
        assert (await transient.get(timeout=120))["n"] == 2


@played
async def test_what_is_advertised_and_what_is_not_are_heard(bus: Bus) -> None:
    async with bus.subscribe("x > 0") as news:
        await bus.advertise("mine", "x < 5")
        await bus.publish({"x": 3})
        await bus.publish({"x": 7})
        await bus.unadvertise("mine")
        await bus.unadvertise("mine")
        await bus.publish({"x": 4})
        assert [(await news.get(timeout=120))["x"] for _ in range(3)] == [3, 7, 4]

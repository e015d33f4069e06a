"""Positions of a subscription in every log: stored with an application's effects, they bring each event
once."""

from __future__ import annotations

import pytest

import tidings
from tidings.model.subscription import Position
from tidings.testing.network import linked, played, serving, settled


@played
async def test_a_reader_that_crashes_continues_in_the_logs_of_two_brokers() -> None:
    """Attack 22: the position of the last event says nothing of the other log."""
    async with serving("b1") as one, serving("b2", join=[one.address]) as two:
        await linked(one, two)
        for server, first in ((one, 0), (two, 100)):
            async with tidings.connect(server.address, name=f"p{first}") as publisher:
                many = [{"n": first + number} for number in range(5)]
                await publisher.publish_many(many, lifetime=600.0)
        await settled(two, one)
        taken: list[int] = []
        stored: dict[str, int] = {}
        for life in range(5):
            async with (
                tidings.connect(one.address, name=f"r{life}") as bus,
                bus.subscribe("n >= 0", since=stored) as news,
            ):
                for _ in range(2):
                    event = await news.get(timeout=60)
                    assert news.positions[event.position.log] == event.position.offset
                    taken.append(event["n"])
                    stored = news.positions
        assert sorted(taken) == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
        assert len(stored) == 2


@played
async def test_an_event_that_was_given_back_holds_its_log() -> None:
    async with tidings.connect() as bus, bus.subscribe("n > 0", since={"other": 7}) as news:
        await bus.publish_many([{"n": 1}, {"n": 2}], lifetime=60.0)
        first = await news.get(timeout=60)
        assert first.position == Position("embedded", 1)
        assert news.positions == {"other": 7, "embedded": 1}
        await news.nack()
        assert news.positions == {"other": 7, "embedded": 0}
        assert [(await news.get(timeout=60))["n"] for _ in range(2)] == [1, 2]
        assert news.positions == {"other": 7, "embedded": 2}


def test_the_blocking_listener_has_them_too() -> None:
    with tidings.open() as bus, bus.subscribe("n > 0") as news:
        bus.publish({"n": 1}, lifetime=60.0)
        news.get(timeout=60)
        assert news.positions == {"embedded": 1}


@played
async def test_a_class_as_the_option_type_is_as_if_given_first() -> None:
    import msgspec

    class Order(msgspec.Struct):
        price: float

    async with tidings.connect() as bus, bus.subscribe("price > 1", type=Order) as orders:
        await bus.publish({"price": 3.0})
        await bus.publish(Order(2.0))
        assert await orders.get(timeout=60) == Order(2.0)
    with pytest.raises(tidings.FilterError, match="int is no event type"):
        bus.subscribe(type=int)

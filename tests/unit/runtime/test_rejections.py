"""Events that a handler rejects, or that cannot be read as the class subscribed to: dead letters at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import tidings
from tidings import Event, Reject
from tidings.testing.network import played, serving, until

PATIENCE = 120.0


def quiet() -> list[dict[str, Any]]:
    """Failures of handlers, which the event loop is told of."""
    delivered: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: delivered.append(context))
    return delivered


@contextmanager
def logged_lines() -> Iterator[list[logging.LogRecord]]:
    """Warnings of the product's loggers."""
    lines: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lines.append  # type: ignore[method-assign]
    logging.getLogger("tidings").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("tidings").removeHandler(handler)


@played
async def test_a_rejected_event_is_a_dead_letter_of_the_broker_after_one_call() -> None:
    delivered, calls = quiet(), []
    with logged_lines() as lines:
        await _play_rejections(calls)
    assert sorted(calls) == [1, 2]
    assert delivered == []
    assert [record.name for record in lines] == ["tidings.client"] * 2


async def _play_rejections(calls: list[int]) -> None:
    async with tidings.connect() as bus:

        @bus.on("n >= 0", name="jobs")
        async def handle(event: Event) -> None:
            calls.append(event["n"])
            raise Reject("never numbers")

        async def callback(event: Event) -> None:
            calls.append(event["m"])
            raise Reject("never letters")

        async with bus.serving(), bus.on("m >= 0", callback, name="others"):
            await bus.publish({"n": 1})
            await bus.publish({"m": 2})
            for name, number in (("jobs", 1), ("others", 2)):
                async with bus.subscribe(dead_letters_of=name) as dead:
                    letter = await dead.get(PATIENCE)
                    assert letter.dead_letter is not None
                    assert letter.dead_letter.reason.startswith("Reject: never ")
                    assert letter.dead_letter.attempts == 1
                    assert number in (letter.get("n"), letter.get("m"))


@dataclass
class Lot:
    number: int
    price: Decimal

    def __post_init__(self) -> None:
        if self.number > 100:
            raise KeyError(self.number)


@played
async def test_an_event_that_cannot_be_read_is_a_dead_letter_and_the_next_one_comes() -> None:
    async with serving() as server, tidings.connect(server.address) as bus:
        with logged_lines() as lines:
            lots = await bus.subscribe(Lot, name="lots", durable=True)
            await bus.publish({"number": 1}, type="Lot")
            await bus.publish(Lot(2, Decimal("1.5")))
            await bus.publish({"number": 101, "price": Decimal(1)}, type="Lot")
            await bus.publish({"number": "x"}, type="Lot")
            await bus.publish(Lot(3, Decimal(2)))
            await bus.publish(Lot(4, Decimal(2)))
            assert (await lots.get(PATIENCE)).number == 2
            assert [lot.number for lot in await lots.get_many(5, PATIENCE)][:1] == [3]
            assert lots.counters["unreadable"] == 3
            positions = lots.positions
            await lots.close()
        assert ["cannot be read as a Lot" in line.getMessage() for line in lines] == [True] * 3
        async with bus.subscribe(dead_letters_of="lots") as dead:
            letters = await dead.get_many(5, PATIENCE)
            assert [letter["number"] for letter in letters] == [1, 101, "x"]
            assert all("cannot be read as a Lot" in letter.dead_letter.reason for letter in letters)
        async with bus.subscribe(Lot, name="lots", durable=True, since=positions) as lots:
            await bus.publish(Lot(5, Decimal(2)))
            numbers = [(await lots.get(PATIENCE)).number]
            while numbers[-1] != 5:
                numbers.append((await lots.get(PATIENCE)).number)
            assert set(numbers) <= {4, 5}, "what could not be read does not come again"


@played
async def test_a_handler_gets_the_events_of_a_batch_that_can_be_read() -> None:
    delivered, got = quiet(), []
    async with tidings.connect() as bus:

        @bus.on(Lot, name="lots", batch=10)
        async def handle(lots: list[Lot]) -> None:
            got.extend(lot.number for lot in lots)

        async with bus.serving(), bus.subscribe(dead_letters_of="lots") as dead:
            await bus.publish_many([{"number": 1}, {"number": 2, "price": Decimal(1)}], type="Lot")
            assert (await dead.get(PATIENCE))["number"] == 1
            await until(lambda: got == [2])
    assert delivered == []


@played
async def test_an_event_can_be_rejected_by_hand() -> None:
    async with tidings.connect() as bus, bus.subscribe("n > 0", name="mine", durable=True) as news:
        await bus.publish_many([{"n": 1}, {"n": 2}])
        await news.get(PATIENCE)
        await news.reject("no ones")
        assert (await news.get(PATIENCE))["n"] == 2
        assert list(news.positions.values()) == [2]
        async with bus.subscribe(dead_letters_of="mine") as dead:
            letter = (await dead.get(PATIENCE)).dead_letter
            assert letter is not None
            assert letter.reason == "no ones"

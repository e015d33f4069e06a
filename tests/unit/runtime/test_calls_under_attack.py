"""Calls of a bus under attack: at once, cancelled in the wrong turn, with errors that end loops, and with
handlers of one name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings import Backoff, Event
from tidings.runtime.broker import ConnectionState
from tidings.testing.network import played, serving, until

PATIENCE = 120.0


def quiet() -> None:
    """Failures of handlers are told to no log."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)


def in_time(play: Callable[[], Any]) -> Any:
    """Result of a function that another thread runs: one that hangs fails the test and keeps nothing open."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(play()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert results, "it hangs, or it failed"
    return results[0]


# -- flush -----------------------------------------------------------------------------------------------


@played
async def test_two_flushes_at_once_both_return() -> None:
    async with serving() as server, tidings.connect(server.address) as bus:
        for n in range(10):
            bus.publish_nowait({"n": n})
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(bus.flush(), bus.flush())
        assert bus._pending.calls == {}


@played
async def test_a_flush_that_is_cancelled_in_the_turn_of_its_answer_loses_no_answer() -> None:
    async with tidings.connect() as bus, bus.subscribe("n >= 0", queue=2) as news:
        for n in range(3):
            bus.publish_nowait({"n": n})
        flush = asyncio.create_task(bus.flush())
        await until(lambda: bus._waiting)
        await news.get(PATIENCE)  # makes room: the broker answers
        flush.cancel()
        await asyncio.wait([flush])
        assert flush.cancelled()
        async with asyncio.timeout(PATIENCE):
            await bus.flush()
        assert [(await news.get(PATIENCE))["n"] for _ in range(2)] == [1, 2]


# -- batches ---------------------------------------------------------------------------------------------


@played
async def test_a_batch_that_is_cancelled_while_it_lingers_comes_again() -> None:
    async with tidings.connect() as bus, bus.subscribe("n >= 0") as news:
        await bus.publish_many([{"n": n} for n in range(3)])
        filling = asyncio.ensure_future(anext(news.batches(10, linger=PATIENCE)))
        await until(lambda: news.counters["taken"] == 3)
        await bus.publish({"n": 3})
        await until(lambda: news.counters["taken"] == 4)
        filling.cancel()
        await asyncio.wait([filling])
        await bus.publish({"n": 4})
        assert [(await news.get(PATIENCE))["n"] for _ in range(5)] == [0, 1, 2, 3, 4]


# -- errors that are no failures -------------------------------------------------------------------------


@played
async def test_a_cancelled_task_inside_a_handler_is_a_failed_attempt() -> None:
    quiet()
    calls: list[Any] = []
    async with tidings.connect() as bus, bus.subscribe(topic="dead") as dead:

        @bus.on("n >= 0", retry=Backoff(attempts=2, first=0), dead_letter="dead")
        async def handle(event: Event) -> None:
            calls.append(event["n"])
            if event["n"] == 1:
                other = asyncio.create_task(asyncio.Event().wait())
                other.cancel()
                await other

        async with bus.serving():
            await bus.publish_many([{"n": n} for n in range(3)])
            async with asyncio.timeout(PATIENCE):
                letter = await dead.get()
                await until(lambda: len(calls) == 4)
        assert calls == [0, 1, 1, 2]
        assert "CancelledError" in str(letter["dead_letter.reason"])


@played
async def test_a_cancelled_task_inside_a_callback_is_its_failure() -> None:
    quiet()
    calls: list[Any] = []

    async def receive(event: Event) -> None:
        calls.append(event["n"])
        if len(calls) == 1:
            raise asyncio.CancelledError

    async with tidings.connect() as bus, bus.on("n >= 0", receive) as calling:
        await bus.publish({"n": 1})
        await until(lambda: len(calls) == 2)
        assert isinstance(calling.error, asyncio.CancelledError)


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt])
def test_an_error_that_ends_loops_is_a_failed_attempt_of_a_plain_handler(error: type[BaseException]) -> None:
    async def play() -> str:
        quiet()
        async with tidings.connect() as bus, bus.subscribe(topic="dead") as dead:

            @bus.on("n >= 0", dead_letter="dead")
            def handle(event: Event) -> None:
                raise error

            async with bus.serving():
                await bus.publish({"n": 1})
                return str((await dead.get())["dead_letter.reason"])

    assert error.__name__ in in_time(lambda: asyncio.run(play()))


# -- handlers of one name --------------------------------------------------------------------------------


def failing(bus: tidings.Bus, wanted: str, topic: str) -> Callable[..., Any]:
    @bus.on(wanted, dead_letter=topic)
    async def handle(event: Event) -> None:
        raise ValueError(topic)

    return handle


@played
async def test_dead_letters_of_two_handlers_of_one_name_come_in_both_topics() -> None:
    quiet()
    async with (
        tidings.connect() as bus,
        bus.subscribe(topic="a/dead") as first,
        bus.subscribe(topic="b/dead") as second,
    ):
        failing(bus, "n >= 0", "a/dead")
        failing(bus, "n >= 0", "b/dead")
        async with bus.serving(), asyncio.timeout(PATIENCE):
            await bus.publish({"n": 1})
            assert (await first.get())["dead_letter.reason"] == "ValueError: a/dead"
            assert (await second.get())["dead_letter.reason"] == "ValueError: b/dead"
            await bus.publish({"n": 2})  # no letter of a letter came between them
            assert [(await letters.get())["n"] for letters in (first, second)] == [2, 2]


@played
async def test_a_handler_may_repair_the_dead_letters_of_another_one_of_its_name() -> None:
    quiet()
    repaired: list[Any] = []
    async with tidings.connect() as bus:
        failed = failing(bus, "n >= 0 AND NOT EXISTS dead_letter.reason", "dead")

        async def repair(event: Event) -> None:
            repaired.append(event["n"])

        repair.__name__, repair.__qualname__ = failed.__name__, failed.__qualname__
        bus.on(topic="dead")(repair)
        assert len({handler.name for handler in bus.handlers}) == 1
        async with bus.serving():
            await bus.publish({"n": 1})
            await until(lambda: repaired == [1])


# -- the blocking bus, and the outbox --------------------------------------------------------------------


def test_publish_many_takes_a_generator_that_calls_the_bus() -> None:
    bus = tidings.open()
    news = bus.subscribe("raw >= 0")
    bus.publish_many([{"raw": n} for n in range(3)])

    def cooked() -> Iterator[dict[str, Any]]:
        for _ in range(3):
            yield {"cooked": news.get(timeout=PATIENCE)["raw"]}

    assert len(in_time(lambda: bus.publish_many(cooked()))) == 3
    bus.close()


def test_the_outbox_takes_no_lock_while_no_broker_is_connected(tmp_path: Path) -> None:
    sa = pytest.importorskip("sqlalchemy")
    from tidings import outbox

    metadata = sa.MetaData()
    box = outbox.Outbox(metadata, source="shop")
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    metadata.create_all(engine)
    begun: list[Any] = []
    sa.event.listen(engine, "begin", begun.append)
    with tidings.open() as bus:
        relay = outbox.OutboxRelay(engine, box, bus)
        assert relay.relay() == 0
        assert len(begun) == 1
        bus._bus._connection = ConnectionState("down", reason="it was ended")
        with pytest.raises(tidings.UnreachableError, match="it was ended"):
            relay.relay()
        assert len(begun) == 1
    engine.dispose()


# -- handlers that come late, and the end ----------------------------------------------------------------


@played
async def test_started_waits_for_a_handler_that_is_registered_while_serving() -> None:
    received: list[Any] = []
    async with serving() as server, tidings.connect(server.address) as bus, bus.serving():

        @bus.on("n >= 0")
        async def late(event: Event) -> None:
            received.append(event["n"])

        await bus.started()
        assert bus.handlers[0].listener is not None
        await bus.publish({"n": 1})
        await until(lambda: received == [1])


def test_a_handler_that_is_registered_while_the_blocking_bus_serves_is_called() -> None:
    called = threading.Event()
    with tidings.open() as bus, bus.serving():

        @bus.on("n >= 0")
        def late(event: Event) -> None:
            called.set()

        bus.publish({"n": 1})
        assert called.wait(PATIENCE)


@played
async def test_closing_the_bus_ends_run() -> None:
    bus = tidings.connect()

    @bus.on("n >= 0")
    async def handle(event: Event) -> None: ...

    running = asyncio.create_task(bus.run())
    await bus.started()
    await bus.close()
    async with asyncio.timeout(PATIENCE):
        await running


@played
async def test_stop_before_run_has_begun_ends_it() -> None:
    bus = tidings.connect()

    @bus.on("n >= 0")
    async def handle(event: Event) -> None: ...

    running = asyncio.create_task(bus.run())
    bus.stop()
    async with asyncio.timeout(PATIENCE):
        await running


@pytest.mark.parametrize("caller", ["thread", "handler"])
def test_closing_the_blocking_bus_ends_run(caller: str) -> None:
    bus = tidings.open()
    called = threading.Event()

    @bus.on("n >= 0")
    def handle(event: Event) -> None:
        if caller == "handler":
            bus.close()
        called.set()

    def play() -> bool:
        bus.run()
        return True

    def publish() -> None:
        bus._loop.call(bus._bus.started)
        bus.publish({"n": 1})
        assert called.wait(PATIENCE)
        if caller == "thread":
            bus.close()

    other = threading.Thread(target=publish, daemon=True)
    other.start()
    assert in_time(play)
    other.join(PATIENCE)
    assert bus.is_closed
    assert not bus._loop._thread.is_alive()


def test_closing_the_blocking_bus_as_its_handlers_start_ends_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = tidings.open()
    call = bus._loop.call
    closing: list[threading.Thread] = []

    def close_after_the_first(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        result = call(make)
        if not closing:
            closing.append(threading.Thread(target=bus.close))
            closing[0].start()
            closing[0].join(PATIENCE)
        return result

    def play() -> bool:
        bus.run()
        return True

    monkeypatch.setattr(bus._loop, "call", close_after_the_first)
    assert in_time(play)
    assert bus.is_closed
    assert not bus._loop._thread.is_alive()


def test_stop_before_run_has_begun_ends_it_on_the_blocking_bus() -> None:
    bus = tidings.open()

    def play() -> bool:
        bus.stop()
        bus.run()
        return True

    assert in_time(play)
    assert bus.is_closed
    bus.stop()  # after the end it has no effect

"""The bus without `await`, in scripts and where a loop is running already."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import tidings
from tidings.testing import VirtualClock, collect


def test_a_script() -> None:
    with tidings.open() as bus:
        with bus.subscribe("n > 1", name="mine") as news:
            for n in range(4):
                receipt = bus.publish({"n": n}, lifetime=60)
            assert receipt.position is not None
            assert news.get(timeout=120)["n"] == 2
            assert news.last is not None
            assert news.position == news.last.position
            assert news.counters == {"taken": 1}
            assert news.id.name == "mine"
            assert "n > 1" in repr(news)
            news.nack()
            assert [event["n"] for event in collect(news)] == [2, 3]
            news.ack()
            with pytest.raises(TimeoutError):
                news.get(timeout=0.01)
        again = bus.subscribe("n > 0", name="mine")
        assert again.resumed
        assert [event["n"] for event in collect(again, 1)] == [1]
        again.unsubscribe()
        assert list(again) == []
        assert bus.figures()["published"] == 4
        assert bus.name == "local"
    assert bus.is_closed
    bus.close()
    with pytest.raises(tidings.ClosedError):
        bus.publish({"n": 1})


def test_iterating_ends_when_another_thread_leaves() -> None:
    with tidings.blocking.connect() as bus:
        news = bus.subscribe()
        received: list[object] = []
        reader = threading.Thread(target=lambda: received.extend(event["n"] for event in news))
        reader.start()
        bus.publish({"n": 1})
        bus.publish({"n": 2})
        while len(received) < 2:
            bus.figures()
        news.close()
        reader.join(5)
        assert received == [1, 2]


def test_it_works_inside_a_running_loop() -> None:
    async def notebook() -> int:
        with tidings.open() as bus, bus.subscribe("n = 1") as news:
            bus.publish({"n": 1})
            value = news.get(timeout=120)["n"]
            assert isinstance(value, int)
            return value

    assert asyncio.run(notebook()) == 1


def test_callbacks_run_in_the_thread_of_the_bus() -> None:
    received: list[tuple[object, str]] = []
    done = threading.Event()

    def note(event: tidings.Event) -> None:
        received.append((event["n"], threading.current_thread().name))
        done.set()

    with tidings.open() as bus:
        with bus.on("n > 0", note) as calling:
            bus.publish({"n": 1})
            assert done.wait(5)
            assert calling.error is None
        bus.publish({"n": 2})
    assert received == [(1, "tidings-bus")]


def test_two_clients_of_one_broker() -> None:
    with tidings.open(name="one") as one:
        with one.client("two") as two, two.subscribe() as news:
            one.publish({"n": 1})
            assert news.get(timeout=120).source == "one"
        assert not one.is_closed
        one.publish({"n": 2})


def test_a_store_that_is_in_use_is_refused_and_leaves_no_thread(tmp_path: Path) -> None:
    with tidings.open(path=tmp_path):
        before = threading.active_count()
        with pytest.raises(tidings.errors.StoreLockedError):
            tidings.open(path=tmp_path)
        assert threading.active_count() <= before


def test_a_clock_that_a_test_moves() -> None:
    clock = VirtualClock()
    with tidings.open(clock=clock) as bus:
        bus.publish({"n": 1}, lifetime=10)
        bus.publish({"n": 2}, lifetime=100)
        clock.advance(11)
        assert bus.figures()["entries"] == 1
        with bus.subscribe() as news:
            assert [event["n"] for event in collect(news)] == [2]


def test_a_virtual_clock_under_a_bus_that_awaits() -> None:
    async def play() -> None:
        clock = VirtualClock()
        async with tidings.connect(clock=clock) as bus:
            await bus.publish({"n": 1}, lifetime=10)
            start = clock.now()
            clock.advance(60)
            assert clock.now() == start + 60
            assert bus.figures()["entries"] == 0

    asyncio.run(play())


def test_collect_says_when_an_event_does_not_come() -> None:
    with tidings.open() as bus, bus.subscribe() as news:
        bus.publish({"n": 1})
        with pytest.raises(TimeoutError):
            collect(news, 2, timeout=0.01)


def test_the_fixture_is_a_bus_on_a_clock_of_its_own(bus: tidings.BlockingBus, clock: VirtualClock) -> None:
    bus.publish({"n": 1}, lifetime=60)
    clock.advance(59)
    with bus.subscribe("n = 1") as news:
        assert len(collect(news)) == 1
    clock.advance(2)
    with bus.subscribe("n = 1") as news:
        assert collect(news) == []

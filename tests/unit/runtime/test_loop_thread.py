"""Calls of many threads on one loop: all are answered, none starves, and a call costs little more than
awaited."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tidings
from tidings.runtime import loop_thread

PATIENCE = 120.0
TIMES = 200


def test_many_threads_publish_and_take_on_one_bus() -> None:
    with tidings.open() as bus, bus.subscribe("n >= 0", queue=10_000) as news, ThreadPoolExecutor(12) as pool:

        def publish(line: int) -> None:
            for n in range(TIMES):
                if n % 3:
                    bus.publish({"n": n, "line": line})
                else:
                    bus.publish_nowait({"n": n, "line": line})
            bus.flush()

        def take(_: int) -> list[tuple[Any, Any]]:
            return [(event["line"], event["n"]) for event in (news.get(PATIENCE) for _ in range(2 * TIMES))]

        takers = [pool.submit(take, taker) for taker in range(4)]
        for done in [pool.submit(publish, line) for line in range(8)]:
            done.result(PATIENCE)
        got = [each for taker in takers for each in taker.result(PATIENCE)]
    assert sorted(got) == [(line, n) for line in range(8) for n in range(TIMES)]


def test_a_caller_gets_its_turn_while_the_loop_is_busy() -> None:
    """A callback that schedules itself again for ever leaves turns for callers."""
    with tidings.open() as bus:
        loop, busy, rounds, is_busy = bus._loop._loop, True, 0, threading.Event()

        def again() -> None:
            nonlocal rounds
            rounds += 1
            if rounds > TIMES:
                is_busy.set()
            if busy:
                loop.call_soon(again)

        loop.call_soon_threadsafe(again)
        assert is_busy.wait(PATIENCE)
        receipts = [bus.publish({"n": n}) for n in range(TIMES)]
        busy = False
    assert len(receipts) == TIMES
    assert all(receipt is not None for receipt in receipts)


def test_a_get_that_times_out_loses_no_event() -> None:
    with tidings.open() as bus, bus.subscribe("n >= 0") as news:
        for n in range(TIMES):
            with pytest.raises(TimeoutError):
                news.get(timeout=0)
            bus.publish({"n": n})
            assert news.get(PATIENCE)["n"] == n


def test_the_end_of_the_bus_wakes_a_thread_that_waits() -> None:
    bus = tidings.open()
    news = bus.subscribe("n >= 0")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(news.get)
        while not bus._bus._waiting:
            pass
        bus.close()
        with pytest.raises(tidings.ClosedError):
            waiting.result(PATIENCE)
    with pytest.raises(tidings.ClosedError):
        bus.publish({"n": 1})


def test_it_works_beside_a_running_loop_and_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        with tidings.open() as bus, bus.subscribe("n >= 0") as news:
            bus.publish({"n": 1})
            assert news.get(PATIENCE)["n"] == 1
            assert asyncio.get_running_loop() is own

    with asyncio.Runner() as runner:
        own = runner.get_loop()
        runner.run(play())
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    with tidings.open() as bus, bus.subscribe("n >= 0") as news:
        assert bus._loop._loop.get_debug()
        bus.publish({"n": 1})
        assert news.get(PATIENCE)["n"] == 1


def test_an_interrupt_ends_a_get_and_loses_no_event() -> None:
    program = """
import tidings
from tidings.runtime import loop_thread
with tidings.open() as bus, bus.subscribe("n >= 0") as news:
    try:
        print("waiting", flush=True)
        news.get()
    except KeyboardInterrupt:
        bus.publish({"n": 7})
        print(news.get(timeout=120)["n"], flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
        env={"PYTHONPATH": ":".join(entry for entry in sys.path if entry), "PATH": ""},
    )  # fmt: skip
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "7\n"
        assert child.wait(PATIENCE) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_an_interrupt_at_the_end_of_a_step_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(loop_thread._Waiter):
        def __init__(self) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

    with tidings.open() as bus, bus.subscribe("n >= 0") as news:
        monkeypatch.setattr(loop_thread, "_Waiter", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            news.get()
        bus.publish({"n": 7})
        assert news.get(timeout=PATIENCE)["n"] == 7


class CountedCalls:
    """Python calls of all threads that begin while it counts, and of this one."""

    def __init__(self) -> None:
        self.count = 0

    def _note(self, _frame: Any, kind: str, _: Any) -> None:
        if kind == "call":
            self.count += 1

    def of(self, repeat: Callable[[], None]) -> int:
        before = self.count
        sys.setprofile(self._note)
        try:
            repeat()
        finally:
            sys.setprofile(None)
        return self.count - before


@pytest.mark.parametrize("way", ["embedded", "remote"])
def test_a_blocking_call_costs_less_than_twice_the_awaited_one(broker: str, way: str) -> None:
    """Python calls for a publish and a get, in the calling thread and the bus's own together. Of a remote bus
    the broker's own work is not in this process's counted threads."""
    address = broker if way == "remote" else None
    counted = CountedCalls()

    def blocking() -> float:
        threading.setprofile(counted._note)
        try:
            bus = tidings.open(address) if address else tidings.open()
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]
        with bus, bus.subscribe("n >= 0", queue=5000) as news:

            def repeat() -> None:
                for n in range(TIMES):
                    bus.publish({"n": n})
                for _ in range(TIMES):
                    news.get(PATIENCE)

            repeat()
            return counted.of(repeat) / TIMES

    async def awaited() -> float:
        made = tidings.connect(address) if address else tidings.connect()
        async with made as bus, bus.subscribe("n >= 0", queue=5000) as news:

            async def repeat() -> None:
                for n in range(TIMES):
                    await bus.publish({"n": n})
                for _ in range(TIMES):
                    await news.get(PATIENCE)

            await repeat()
            before = counted.count
            sys.setprofile(counted._note)
            try:
                await repeat()
            finally:
                sys.setprofile(None)
            return (counted.count - before) / TIMES

    plain = asyncio.run(awaited())
    waited = blocking()
    print(f"{way}: {plain:.1f} calls awaited, {waited:.1f} blocking, {waited / plain:.2f} times")
    assert waited < 2 * plain

"""Callbacks that wait for themselves are told so, and end when their application does."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.errors import DeadlockError
from tidings.runtime.blocked_publishes import BlockedPublishes
from tidings.testing.network import played, until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.runtime.blocked_publishes.CHECK_SECONDS", 0.02)


def told() -> list[Any]:
    """Errors that are reported to the event loop."""
    errors: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    return errors


@played
async def test_a_callback_that_publishes_into_its_own_full_queue_fails() -> None:
    errors = told()
    async with tidings.connect() as bus:

        async def again(event: tidings.Event) -> None:
            await bus.publish({"n": event["n"]})

        async with bus.on("n >= 0", again, queue=5):
            publishing = asyncio.gather(*(bus.publish({"n": n}) for n in range(20)))
            await until(lambda: errors)
        await publishing
    assert isinstance(errors[0], DeadlockError)
    assert "a callback publishes into the full queue of subscription local/" in str(errors[0])


@played
async def test_a_callback_that_publishes_many_into_its_own_full_queue_fails() -> None:
    errors = told()
    async with tidings.connect() as bus:

        async def again(event: tidings.Event) -> None:
            await bus.publish_many([{"n": 1}] * 20)

        async with bus.on("n >= 0", again, queue=5):
            await bus.publish({"n": 0})
            await until(lambda: errors)
    assert isinstance(errors[0], DeadlockError)


@played
async def test_callbacks_that_wait_for_one_another_fail() -> None:
    errors = told()
    async with tidings.connect() as bus, bus.client("other") as other:

        async def to_b(event: tidings.Event) -> None:
            await bus.publish({"b": 1})
            await bus.publish({"b": 1})

        async def to_a(event: tidings.Event) -> None:
            await other.publish({"a": 1})
            await other.publish({"a": 1})

        async with bus.on("a > 0", to_b, queue=1), other.on("b > 0", to_a, queue=1):
            publishing = asyncio.gather(*(bus.publish({"a": 1, "b": 1}) for _ in range(8)))
            await until(lambda: errors)
        await publishing
    assert isinstance(errors[0], DeadlockError)


@played
async def test_a_callback_that_waits_for_a_slow_reader_elsewhere_is_left_alone() -> None:
    errors = told()
    looks = 0
    async with tidings.connect() as bus:
        judged = bus._blocked._fail_callbacks

        def judge(queues: Any) -> None:
            nonlocal looks
            judged(queues)
            looks += 1

        bus._blocked._fail_callbacks = judge  # type: ignore[method-assign]

        async def pass_on(event: tidings.Event) -> None:
            await bus.publish({"out": event["n"]})

        async with bus.subscribe("out >= 0", queue=1) as slow, bus.on("n >= 0", pass_on, queue=1):
            publishing = asyncio.gather(*(bus.publish({"n": n}) for n in range(8)))
            await until(lambda: looks >= 3)  # both queues are full all the while
            assert [(await slow.get(timeout=120))["out"] for _ in range(8)] == list(range(8))
            await publishing
    assert not errors


@played
async def test_a_callback_that_waits_ends_with_its_application_and_gives_its_event_back() -> None:
    began = asyncio.Event()

    async def wait(event: tidings.Event) -> None:
        began.set()
        await asyncio.Event().wait()

    async def application(home: tidings.Bus, in_block: bool) -> None:
        async with home.client("ann") as bus:
            calling = bus.on("n > 0", wait, name="work", durable=True)
            await calling.start()
            await bus.publish({"n": 1 + in_block}, lifetime=60)
            if in_block:
                await asyncio.Event().wait()
            await calling.stop(timeout=None)

    async with tidings.connect() as home:
        for in_block in (True, False):
            began.clear()
            task = asyncio.create_task(application(home, in_block))
            await until(began.is_set)
            task.cancel()
            await asyncio.wait([task], timeout=120)
            assert task.cancelled()
        async with home.client("ann") as bus, bus.subscribe("n > 0", name="work", durable=True) as work:
            assert [(await work.get(timeout=120))["n"] for _ in range(2)] == [2, 1]


@played
async def test_stop_cancels_a_callback_that_does_not_finish_in_time() -> None:
    began = asyncio.Event()

    async def wait(event: tidings.Event) -> None:
        began.set()
        await asyncio.Event().wait()

    async with tidings.connect() as bus:
        calling = await bus.on("n > 0", wait)
        await bus.publish({"n": 1})
        await until(began.is_set)
        await calling.stop(timeout=0.01)
        assert calling._task is not None
        assert calling._task.cancelled()


def test_the_first_interrupt_ends_the_program(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, tidings\n"
        "async def main():\n"
        "    async with tidings.connect() as bus:\n"
        "        async def again(event):\n"
        "            print('called', flush=True)\n"
        "            await asyncio.gather(bus.publish({'n': 1}), bus.publish({'n': 1}))\n"
        "        async with bus.on('n > 0', again, queue=2):\n"
        "            for _ in range(20):\n"
        "                await bus.publish({'n': 1})\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        try:
            assert run.stdout is not None
            run.stdout.readline()
            run.send_signal(signal.SIGINT)
            _, data = run.communicate(timeout=120)
        finally:
            run.kill()
    assert run.returncode == -signal.SIGINT or b"KeyboardInterrupt" in data


def test_a_slow_callback_without_await_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that began the callback is not its reader."""
    monkeypatch.setattr("tidings.runtime.blocked_publishes.has_others", lambda publisher: False)
    received: list[Any] = []
    looked = threading.Event()
    judge = BlockedPublishes.judge

    def judged(*given: Any) -> None:
        judge(*given)
        looked.set()

    monkeypatch.setattr(BlockedPublishes, "judge", judged)

    async def slowly(event: tidings.Event) -> None:
        await asyncio.to_thread(looked.wait, 120)
        received.append(event["n"])

    with tidings.open() as bus, bus.on("n >= 0", slowly, queue=1):
        for n in range(5):
            bus.publish({"n": n})
    assert looked.is_set()
    assert received[:3] == [0, 1, 2]

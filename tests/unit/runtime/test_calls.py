"""The calls of a bus beside publish and subscribe: publishing without waiting, batches, requests,
handlers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import tidings
from tidings import Backoff, Event, HandlerCall, Reject, middleware
from tidings.testing.network import linked, played, serving, settled, until

PATIENCE = 120.0


@dataclass
class Sum:
    total: int


def quiet() -> list[dict[str, Any]]:
    """Failures of handlers, which the event loop is told of."""
    delivered: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: delivered.append(context))
    return delivered


# -- publishing without waiting ------------------------------------------------------------------------


@played
async def test_events_of_publish_nowait_come_in_order_and_flush_waits_for_all() -> None:
    async with (
        serving() as server,
        tidings.connect(server.address) as bus,
        bus.subscribe("n >= 0", queue=5000) as news,
    ):
        for n in range(3000):
            bus.publish_nowait({"n": n})
        await bus.flush()
        assert bus._pending.calls == {}
        got = [event["n"] for _ in range(3000) for event in [await news.get(PATIENCE)]]
        assert got == list(range(3000))


@played
async def test_publishes_of_all_kinds_keep_their_order() -> None:
    async with serving() as server, tidings.connect(server.address) as bus:
        bus.publish_nowait({"n": -1})
        async with bus.subscribe("n >= -1", queue=5000) as news:  # it begins after what was published before
            for n in range(0, 300, 3):
                bus.publish_nowait({"n": n})
                bus.publish_nowait({"n": n + 1}, mode="best effort")
                await bus.publish({"n": n + 2})
            assert [event["n"] for _ in range(300) for event in [await news.get(PATIENCE)]] == list(
                range(300)
            )


@played
async def test_flush_raises_the_first_refusal_once() -> None:
    async with tidings.connect() as bus:
        bus.publish_nowait({"n": 1}, mode="kept")  # no store
        bus.publish_nowait({"n": 2}, mode="kept")
        with pytest.raises(tidings.RefusedError) as delivered:
            await bus.flush()
        assert "2 publishes failed" in delivered.value.__notes__[0]
        await bus.flush()


@played
async def test_a_full_buffer_is_refused_at_once() -> None:
    async with serving() as server, tidings.connect(server.address) as bus:
        bus._pending.most = 10
        for n in range(10):
            bus.publish_nowait({"n": n})
        with pytest.raises(tidings.PublishBufferFullError, match="flush"):
            bus.publish_nowait({"n": 10})
        await bus.flush()
        bus.publish_nowait({"n": 10})


@played
async def test_a_flush_that_waits_for_its_own_queue_times_out_and_goes_on_later() -> None:
    async with tidings.connect() as bus, bus.subscribe("n >= 0", queue=2) as news:
        for n in range(5):
            bus.publish_nowait({"n": n})
        with pytest.raises(tidings.TimedOutError, match="unanswered"):
            await bus.flush(timeout=0.05)
        assert [event["n"] for _ in range(5) for event in [await news.get(PATIENCE)]] == list(range(5))
        await bus.flush()


def test_a_bus_that_is_closed_without_a_flush_says_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        bus = await tidings.connect()
        bus.publish_nowait({"n": 1}, mode="kept")
        await bus.close()

    asyncio.run(play())
    assert "1 publishes failed and were not flushed" in caplog.text


@pytest.mark.parametrize("way", ["await", "blocking"])
def test_a_block_that_ends_raises_what_was_refused_and_closes_the_bus(way: str) -> None:
    async def play() -> tidings.Bus:
        bus = tidings.connect()
        with pytest.raises(tidings.RefusedError):
            async with bus:
                bus.publish_nowait({"n": 1}, mode="kept")
        return bus

    if way == "await":
        assert asyncio.run(play()).is_closed
    else:
        plain = tidings.open()
        with pytest.raises(tidings.RefusedError), plain:
            plain.publish_nowait({"n": 1}, mode="kept")
        assert plain.is_closed


# -- batches -------------------------------------------------------------------------------------------


@played
async def test_batches_commit_the_one_before() -> None:
    async with tidings.connect() as bus:
        async with bus.subscribe("n >= 0", name="all", durable=True) as news:
            await bus.publish_many([{"n": n} for n in range(25)])
            sizes = []
            async for batch in news.batches(10):
                sizes.append(len(batch))
                if len(sizes) == 3:
                    await news.nack()
                    break
        assert sizes == [10, 10, 5]
        async with bus.subscribe("n >= 0", name="all", durable=True) as news:
            assert [event["n"] for event in await news.get_many(10, PATIENCE)] == [20, 21, 22, 23, 24]


@played
async def test_a_lingering_batch_is_filled_and_given_back_as_a_whole() -> None:
    async with tidings.connect() as bus, bus.subscribe("n >= 0", policy="drop oldest") as news:
        batches = news.batches(4, linger=PATIENCE)
        taking = asyncio.create_task(anext(batches))
        for n in range(4):
            await bus.publish({"n": n})
        assert [event["n"] for event in await taking] == [0, 1, 2, 3]
        await news.nack()
        assert [event["n"] for event in await anext(batches)] == [0, 1, 2, 3]


# -- requests ------------------------------------------------------------------------------------------


@played
async def test_a_request_over_three_brokers() -> None:
    async with (
        serving("a") as a,
        serving("b", join=[a.address]) as b,
        serving("c", join=[b.address]) as c,
        tidings.connect(a.address) as requester,
        tidings.connect(c.address) as replier,
    ):
        await linked(a, b, c)

        @replier.reply("left >= 0", concurrency=4)
        async def add(event: Event) -> dict[str, Any]:
            return {"total": event["left"] + event["right"]}

        async with replier.serving():
            await settled(c, b, a)
            wanted = [
                requester.request({"left": n, "right": 1}, wants=Sum, timeout=PATIENCE) for n in range(20)
            ]
            assert await asyncio.gather(*wanted) == [Sum(n + 1) for n in range(20)]
        assert await add(tidings.make_event({"left": 2, "right": 3}, source="s", id="1")) == {"total": 5}


@played
async def test_an_error_of_the_replier_is_raised_at_the_requester() -> None:
    delivered = quiet()
    async with tidings.connect() as bus:

        @bus.reply(topic="divide")
        def divide(event: Event) -> dict[str, float]:
            return {"quotient": event["left"] / event["right"]}

        @bus.reply(topic="wrong")
        async def wrong(event: Event) -> int:
            return 7

        @bus.reply(topic="echo")
        async def echo(event: Event) -> Event:
            return event

        async with bus.serving():
            body = {"price": Decimal("1.10"), "tags": ["a", "b"], "size": {"width": 3}, "id": 7}
            body |= {"response_topic": "t", "correlation": "c", "reply_error": "e"}  # content like any other
            assert (await bus.request(body, topic="echo", timeout=PATIENCE)).attributes == body
            reply = await bus.request({"left": 1, "right": 2}, topic="divide", timeout=PATIENCE)
            assert reply.attributes == {"quotient": 0.5}
            with pytest.raises(tidings.ReplyError, match="ZeroDivisionError: division by zero"):
                await bus.request({"left": 1, "right": 0}, topic="divide", timeout=PATIENCE)
            with pytest.raises(tidings.ReplyError, match="replied with a int"):
                await bus.request(topic="wrong", timeout=PATIENCE)
    assert len(delivered) == 2


@played
async def test_a_request_without_a_reply_times_out_and_a_cancelled_one_drops_its_reply() -> None:
    async with tidings.connect() as bus:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @bus.reply(topic="slow")
        async def slow(event: Event) -> dict[str, int]:
            begun.set()
            await may_end.wait()
            return {"n": event["n"]}

        with pytest.raises(tidings.TimedOutError, match=r"no reply within 0\.01 s"):
            await bus.request(topic="none", timeout=0.01)
        async with bus.serving():
            requests = asyncio.create_task(bus.request({"n": 1}, topic="slow", timeout=PATIENCE))
            await begun.wait()
            requests.cancel()
            with pytest.raises(asyncio.CancelledError):
                await requests
            may_end.set()
            assert (await bus.request({"n": 2}, topic="slow", timeout=PATIENCE))["n"] == 2
        assert bus._requests is not None
        assert bus._requests._waiting == {}


@played
async def test_a_refused_request_and_one_of_a_closed_bus_fail_at_once() -> None:
    async with serving() as server, tidings.connect(server.address) as bus:
        with pytest.raises(tidings.TooLargeError):
            await bus.request(topic="large", payload=bytes(17 << 20), timeout=PATIENCE)
        requests = asyncio.create_task(bus.request(topic="none", timeout=PATIENCE))
        await until(lambda: bus._requests is not None and bus._requests._waiting and bus._waiting)
        await bus.close()
        with pytest.raises(tidings.ClosedError):
            await requests


@played
async def test_one_of_a_group_of_repliers_answers() -> None:
    calls: list[str] = []
    async with tidings.connect() as bus:
        for name in ("one", "two"):

            @bus.reply(topic="who", group="repliers")
            async def who(event: Event, name: str = name) -> dict[str, str]:
                calls.append(name)
                return {"name": name}

        async with bus.serving():
            for _ in range(6):
                await bus.request(topic="who", timeout=PATIENCE)
    assert len(calls) == 6


# -- handlers ------------------------------------------------------------------------------------------


@played
async def test_a_handler_stays_a_function_and_runs_with_others_at_once() -> None:
    both = asyncio.Barrier(3)
    async with tidings.connect() as bus:

        @bus.on("n >= 0", concurrency=3)
        async def handle(event: Event) -> int:
            await both.wait()
            return int(event["n"])

        async with bus.serving():
            await bus.publish_many([{"n": n} for n in range(6)])
            await until(lambda: bus.handlers[0].handled == 6)
        calls = [handle(tidings.make_event({"n": n}, source="s", id="1")) for n in range(3)]
        assert await asyncio.gather(*calls) == [0, 1, 2]


@played
async def test_a_plain_function_runs_in_a_thread_and_batches_are_lists() -> None:
    import threading

    seen: list[tuple[int, bool]] = []
    async with tidings.connect() as bus:

        @bus.on(Sum, "total > 0", batch=4)
        def handle(batch: list[Sum]) -> None:
            seen.append((len(batch), threading.current_thread() is threading.main_thread()))

        async with bus.serving():
            await bus.publish_many([Sum(n) for n in range(1, 9)])
            await until(lambda: bus.handlers[0].handled == 8)
    assert sum(count for count, _ in seen) == 8
    assert not any(is_main for _, is_main in seen)


@played
async def test_retries_then_a_dead_letter_in_a_topic() -> None:
    delivered, attempts = quiet(), []
    async with tidings.connect() as bus:

        async def note(call: HandlerCall, call_next: middleware.CallNext) -> Any:
            attempts.append(call.attempt)
            return await call_next(call)

        bus.use(note)

        @bus.on("n >= 0", retry=Backoff(attempts=3, first=0), dead_letter="dead")
        async def handle(event: Event) -> None:
            if event["n"] == 1:
                raise ValueError("no ones")
            if event["n"] == 2:
                raise Reject("never twos")

        async with bus.serving(), bus.subscribe(topic="dead") as dead:
            await bus.publish_many([{"n": n} for n in range(3)])
            letters = [await dead.get(PATIENCE), await dead.get(PATIENCE)]
            await until(lambda: bus.handlers[0].handled == 1)
        assert [letter["dead_letter.reason"] for letter in letters] == [
            "ValueError: no ones",
            "Reject: never twos",
        ]
        assert [letter["n"] for letter in letters] == [1, 2]
        assert attempts == [1, 1, 2, 3, 1]
        assert len(delivered) == 1, "a rejection is a line in the log, and no failure"


@played
async def test_without_a_dead_letter_topic_the_broker_keeps_it_after_one_round() -> None:
    quiet()
    calls = 0
    async with tidings.connect() as bus:

        @bus.on("n >= 0", name="numbers", durable=True, retry=Backoff(attempts=2, first=0))
        async def handle(event: Event) -> None:
            nonlocal calls
            calls += 1
            raise ValueError

        async with bus.serving():
            await bus.publish({"n": 1})
            async with bus.subscribe(dead_letters_of="numbers") as dead:
                assert (await dead.get(PATIENCE))["n"] == 1
    assert calls == 2


@played
async def test_a_dead_letter_function_gets_the_event_and_the_error() -> None:
    quiet()
    dead: list[tuple[int, str]] = []
    async with tidings.connect() as bus:

        @bus.on("n >= 0", dead_letter=lambda event, error: dead.append((event["n"], str(error))))
        async def handle(event: Event) -> None:
            raise ValueError("no")

        async with bus.serving():
            await bus.publish({"n": 1})
            await until(lambda: dead)
    assert dead == [(1, "no")]


@played
async def test_a_stop_during_a_pause_commits_nothing() -> None:
    async with tidings.connect() as bus:
        failed = asyncio.Event()

        @bus.on("n >= 0", name="n", durable=True, retry=Backoff(attempts=2, first=PATIENCE))
        async def handle(event: Event) -> None:
            failed.set()
            raise ValueError

        async with bus.serving():
            await bus.publish({"n": 1})
            await failed.wait()
        async with bus.subscribe("n >= 0", name="n", durable=True) as news:
            assert (await news.get(PATIENCE))["n"] == 1


@played
async def test_a_call_that_outlasts_the_stop_is_cancelled_and_commits_nothing() -> None:
    async with tidings.connect() as bus:
        begun = asyncio.Event()

        @bus.on("n >= 0", name="n", durable=True)
        async def handle(event: Event) -> None:
            begun.set()
            await asyncio.Event().wait()

        async with bus.serving(timeout=0.01):
            await bus.publish({"n": 1})
            await begun.wait()
        async with bus.subscribe("n >= 0", name="n", durable=True) as news:
            assert (await news.get(PATIENCE))["n"] == 1


@played
async def test_run_ends_when_it_is_stopped_and_closes_the_bus() -> None:
    bus = tidings.connect()

    @bus.on("n >= 0")
    async def handle(event: Event) -> None:
        bus.stop()

    running = asyncio.create_task(bus.run(signals=()))
    await bus.started()
    await bus.publish({"n": 1})
    await running
    assert bus.is_closed
    assert bus.handlers[0].handled == 1


@played
async def test_run_raises_when_the_broker_ends_a_subscription() -> None:
    bus = tidings.connect()
    begun = asyncio.Event()

    @bus.on("n >= 0", queue=1, policy="disconnect")
    async def handle(event: Event) -> None:
        begun.set()
        await asyncio.sleep(0)

    running = asyncio.create_task(bus.run(signals=()))
    await until(lambda: bus.handlers[0]._workers)
    await bus.publish_many([{"n": n} for n in range(50)])
    with pytest.raises(tidings.SlowConsumerError):
        await running


@played
async def test_wrong_options_are_named_where_the_handler_is_written() -> None:
    bus = tidings.connect()
    with pytest.raises(tidings.SettingsError, match=r"did you mean concurrency=\?"):
        bus.on("n >= 0", concurency=2)  # type: ignore[call-overload]
    with pytest.raises(tidings.SettingsError, match="count from 1"):
        bus.on("n >= 0", concurrency=0)
    with pytest.raises(tidings.FilterSyntaxError):
        bus.on("n >=")
    with pytest.raises(tidings.SettingsError, match="has no meaning"):
        Backoff(attempts=0)


def test_pauses_grow_to_the_longest() -> None:
    backoff = Backoff(first=1, factor=2, longest=5, jitter=0)
    assert [backoff.pause(attempt, Random(1)) for attempt in (1, 2, 3, 4, 100)] == [1, 2, 4, 5, 5]
    drawn = [Backoff(first=1, jitter=0.5).pause(1, Random(seed)) for seed in range(100)]
    assert 0.75 <= min(drawn) < 0.8
    assert 1.2 < max(drawn) <= 1.25


# -- middleware ----------------------------------------------------------------------------------------


def test_logging_and_validation(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    async def play() -> None:
        quiet()
        async with tidings.connect() as bus:
            bus.use(middleware.logged())

            @bus.on("EXISTS total", middleware=[middleware.validated(Sum)], dead_letter="dead")
            async def handle(event: Event) -> None:
                seen.append(event)

            async with bus.serving(), bus.subscribe(topic="dead") as dead:
                await bus.publish({"total": 3})
                await bus.publish({"total": "three"})
                assert "not a Sum" in str((await dead.get(PATIENCE))["dead_letter.reason"])

    with caplog.at_level(logging.INFO, "tidings.handlers"):
        asyncio.run(play())
    assert seen == [Sum(3)]
    levels = [record.levelname for record in caplog.records if record.name == "tidings.handlers"]
    assert levels == ["INFO", "WARNING"]


# -- without await -------------------------------------------------------------------------------------


def test_the_blocking_face_has_all_of_it() -> None:
    with tidings.open() as bus:

        @bus.reply(topic="add")
        def add(event: Event) -> dict[str, int]:
            return {"total": event["left"] + event["right"]}

        @bus.on("n >= 0", concurrency=2, dead_letter="dead")
        def again(event: Event) -> None:
            bus.publish({"again": event["n"]})  # a handler is in a thread of its own

        with bus.serving(), bus.subscribe("again >= 0") as news:
            assert bus.request({"left": 1, "right": 2}, topic="add", wants=Sum, timeout=PATIENCE) == Sum(3)
            for n in range(10):
                bus.publish_nowait({"n": n})
            bus.flush()
            got: list[Any] = []
            for batch in news.batches(4):
                got += [event["again"] for event in batch]
                if len(got) == 10:
                    break
        assert sorted(got) == list(range(10))
        assert add(tidings.make_event({"left": 1, "right": 1}, source="s", id="1")) == {"total": 2}


PROGRAM = """
import sys, {imports}
import tidings
from tidings import Event

bus = tidings.{way}({address!r}, name="app")

@bus.on("n >= 0", name="n", durable=True)
{define} handle(event: Event) -> None:
    print("began", flush=True)
    {wait}
    print("ended", flush=True)

print("ready", flush=True)
{run}
print("closed", bus.is_closed, flush=True)
"""
WAYS = {
    "await": {
        "imports": "asyncio", "way": "connect", "define": "async def", "run": "asyncio.run(bus.run())",
        "wait": "await asyncio.to_thread(sys.stdin.readline)",
    },
    "blocking": {
        "imports": "threading", "way": "open", "define": "def", "run": "bus.run()",
        "wait": "sys.stdin.readline()",
    },
}  # fmt: skip


@pytest.mark.parametrize("way", list(WAYS))
def test_a_program_ends_cleanly_on_a_signal(tmp_path: Any, way: str) -> None:
    """The call that runs finishes and is committed; the process ends with 0."""
    import signal
    import subprocess
    import sys

    async def play() -> None:
        async with serving() as server, tidings.connect(server.address, name="press") as press:
            program = tmp_path / "program.py"
            program.write_text(PROGRAM.format(address=server.address, **WAYS[way]))
            path = ":".join(entry for entry in sys.path if entry)
            child = subprocess.Popen(
                [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={"PYTHONPATH": path, "PATH": ""},
            )  # fmt: skip
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                assert await asyncio.to_thread(child.stdout.readline) == "ready\n"
                while not (await press.inquire("figures"))["subscriptions"]:
                    await asyncio.sleep(0)
                await press.publish({"n": 1})
                assert await asyncio.to_thread(child.stdout.readline) == "began\n"
                child.send_signal(signal.SIGTERM)
                child.stdin.write("\n")
                child.stdin.flush()
                rest = await asyncio.to_thread(child.stdout.read)
                assert rest == "ended\nclosed True\n"
                assert child.wait(PATIENCE) == 0
                async with (
                    tidings.connect(server.address, name="app") as app,
                    app.subscribe("n >= 0", name="n", durable=True) as news,
                ):
                    with pytest.raises(TimeoutError):
                        await news.get(0.05)
            finally:
                child.kill()
                child.wait()
                child.stdin.close()
                child.stdout.close()

    asyncio.run(play())

"""Turns of the event loop: when messages leave, when tasks run, and one timer for the deadlines of many
calls."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import pytest

import tidings
from tidings.model.event import Event
from tidings.protocol import effects as fx
from tidings.protocol.inputs import ALL_FEATURES, Input, Received, ReceivedAll
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import Ack, AckMode, Message, Publish, Silence, tag_of
from tidings.runtime import deadlines
from tidings.runtime.bus import TURN
from tidings.runtime.clock import RealClock
from tidings.runtime.connection import Connection, WriteCoalescer
from tidings.runtime.deadlines import Deadlines
from tidings.runtime.driver import Driver
from tidings.runtime.messages import BESIDE, HANDSHAKE, Keepalive, KeepaliveAck
from tidings.runtime.remote import ACKS, _CoalescedCalls
from tidings.testing.network import played, serving
from tidings.wire.codec import PUBLISHES, Codec, FrameReader

CODEC = Codec((*HANDSHAKE, *BESIDE))


class Written(asyncio.Transport):
    """A transport that keeps what each write brought."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[Message]] = []

    def write(self, data: Any) -> None:
        self.writes.append(FrameReader(CODEC).feed(bytes(data)))

    def is_closing(self) -> bool:
        return False


def connected(receive: Callable[[Connection, list[Message]], None]) -> tuple[Connection, Written]:
    transport = Written()
    connection = Connection(
        CODEC, WriteCoalescer(), receive=receive, lost=lambda *_: None, most_bytes=1 << 20
    )
    connection.connection_made(transport)
    return connection, transport


def answer(connection: Connection, messages: list[Message]) -> None:
    for _ in messages:
        connection.send(KeepaliveAck())


@played
async def test_an_answer_leaves_at_once_when_no_other_callback_is_ready() -> None:
    connection, transport = connected(answer)
    connection.send(Keepalive())
    await asyncio.sleep(0)
    connection.data_received(CODEC.encode(Keepalive()) * 3)
    assert transport.writes == [[Keepalive()], [KeepaliveAck()] * 3]


@played
async def test_answers_of_a_turn_with_more_to_do_leave_together() -> None:
    connection, transport = connected(answer)
    connection.send(Keepalive())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    for _ in range(3):
        loop.call_soon(connection.data_received, CODEC.encode(Keepalive()))
    for _ in range(3):
        await asyncio.sleep(0)
    assert transport.writes[1:] == [[KeepaliveAck()] * 3]


@played
async def test_an_input_that_fails_leaves_no_answer_behind() -> None:
    def fail(connection: Connection, messages: list[Message]) -> None:
        connection.send(KeepaliveAck())
        raise ValueError("no")

    connection, transport = connected(fail)
    with pytest.raises(ValueError, match="no"):
        connection.data_received(CODEC.encode(Keepalive()))
    await asyncio.sleep(0)
    assert transport.writes == [[KeepaliveAck()]]


@played
async def test_acknowledgements_travel_with_the_next_message_or_when_they_are_many_or_old() -> None:
    connection, transport = connected(lambda *_: None)
    calls = _CoalescedCalls(connection, ALL_FEATURES)
    say = calls.send
    say(Ack(1, (1,)))
    say(Ack(1, (2,)))
    say(Keepalive())
    await asyncio.sleep(0)
    assert transport.writes == [[Ack(1, (1, 2)), Keepalive()]]
    say(Ack(1, (3,)))
    say(Ack(2, (4,)))
    await asyncio.sleep(0)
    assert not transport.writes[1:], "they wait for one another"
    calls._due()
    await asyncio.sleep(0)
    assert transport.writes[1:] == [[Ack(1, (3,)), Ack(2, (4,))]]
    for tag in range(ACKS):
        say(Ack(1, (tag,)))
    await asyncio.sleep(0)
    assert transport.writes[2:] == [[Ack(1, tuple(range(ACKS)))]]


class Hiding:
    """An event loop that does not show its callbacks, as uvloop."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)


@played
async def test_a_loop_that_hides_its_callbacks_writes_at_once_after_a_turn_with_one_input() -> None:
    transport, loop, ping = Written(), cast(Any, Hiding()), CODEC.encode(Keepalive())
    coalescer = WriteCoalescer(loop)
    connection = Connection(CODEC, coalescer, receive=answer, lost=lambda *_: None, most_bytes=1 << 20)
    connection.connection_made(transport)
    sizes = []
    for inputs in (1, 1, 2, 1, 1):
        before = len(transport.writes)
        for _ in range(inputs):
            connection.data_received(ping)
        sizes.append((len(transport.writes) - before, inputs))
        await asyncio.sleep(0)
    assert sizes == [(0, 1), (1, 1), (1, 2), (0, 1), (1, 1)]
    assert transport.writes == [[KeepaliveAck()]] * 6


def publishes(count: int, *, size: int = 1) -> list[Publish]:
    events = [Event("s", str(n), {"text": "x" * size}) for n in range(count)]
    return [Publish(n, event, n + 5, AckMode.AUTO) for n, event in enumerate(events, 1)]


@played
async def test_a_turn_in_which_nothing_came_says_nothing_about_the_next_one() -> None:
    """Many clients with one publish each: their answers are sent in a turn without input, and the next
    publishes again come together."""

    class Hidden:
        def call_soon(self, callback: Callable[[], None]) -> None:
            callbacks.append(callback)

    callbacks: list[Callable[[], None]] = []
    coalescer = WriteCoalescer(Hidden())  # type: ignore[arg-type]
    for _ in range(2):
        coalescer.in_input = True
        coalescer.soon(lambda: coalescer.soon(lambda: None))  # what is handed in at the end answers later
        coalescer.settle()
    assert not coalescer.is_alone
    while callbacks:
        callbacks.pop(0)()
    assert not coalescer.is_alone, "the last turn with input had two"
    coalescer.in_input = True
    coalescer.soon(lambda: None)
    coalescer.settle()
    while callbacks:
        callbacks.pop(0)()
    assert coalescer.is_alone


@played
async def test_publishes_of_a_turn_are_one_frame_before_the_next_message() -> None:
    connection, transport = connected(lambda *_: None)
    frames: list[Message] = []
    connection._encode = lambda message: frames.append(message) or CODEC.encode(message)  # type: ignore[func-returns-value]
    say = _CoalescedCalls(connection, ALL_FEATURES).send
    some = publishes(PUBLISHES + 3)
    for publish in some:
        say(publish)
    say(Keepalive())
    await asyncio.sleep(0)
    assert transport.writes == [[*some, Keepalive()]]
    assert [tag_of(type(frame)) for frame in frames] == ["PublishAll", "PublishAll", "Ping"]


@played
async def test_publishes_have_a_frame_each_for_a_broker_of_before_and_when_they_are_large() -> None:
    for features, size in ((0, 1), (ALL_FEATURES, DEFAULT_LIMITS.publish_frame_bytes)):
        connection, transport = connected(lambda *_: None)
        frames: list[Message] = []
        connection._encode = lambda message, to=frames: to.append(message) or CODEC.encode(message)  # type: ignore
        say = _CoalescedCalls(connection, features).send
        some = publishes(4, size=size)
        for publish in some:
            say(publish)
        await asyncio.sleep(0)
        assert transport.writes == [some]
        assert {type(frame) for frame in frames} == {Publish}


@played
async def test_publishes_that_do_not_follow_one_another_stay_in_their_order() -> None:
    connection, transport = connected(lambda *_: None)
    say = _CoalescedCalls(connection, ALL_FEATURES).send
    one, two, three, four = publishes(4)
    for publish in (one, three, two, two, four):
        say(publish)
    await asyncio.sleep(0)
    assert transport.writes == [[one, three, two, two, four]]


@played
async def test_a_task_that_waits_for_an_event_has_it_when_publish_returns() -> None:
    async with tidings.connect() as bus, bus.subscribe("n >= 0") as news:
        seen: list[Any] = []

        async def read() -> None:
            async for event in news:
                seen.append(event["n"])  # noqa: PERF401

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        for number in range(5):
            await bus.publish({"n": number})
            assert seen == list(range(number + 1))
        task.cancel()


@played
async def test_a_loop_that_publishes_starves_no_task() -> None:
    async with tidings.connect() as bus:
        await bus.publish({"n": 0})
        turns: list[int] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(turns.append, 1)
        for number in range(TURN):
            await bus.publish({"n": number})
        assert turns == [1]


class Machine:
    """A machine that answers each input with what it was told to, or fails."""

    def __init__(self, *effects: fx.Effect) -> None:
        self.effects, self.seen = list(effects), list[Input]()

    def handle(self, input: Input, now: float) -> list[fx.Effect]:
        self.seen.append(input)
        if isinstance(input, Received) and isinstance(input.message, Keepalive):
            raise ValueError("no")
        effects, self.effects = self.effects, []
        return effects

    def next_deadline(self) -> float | None:
        return None

    def check(self) -> None:
        """Always right."""


@played
async def test_inputs_behind_one_at_which_a_machine_failed_are_handed_in_with_the_next() -> None:
    silence = Silence(1, tidings.Position("log", 1))
    first = Machine(*(fx.Send("second", message) for message in (Keepalive(), silence)))
    second = Machine()
    driver = Driver("first", first, RealClock(), record=lambda row: None)
    driver._machines["second"] = second
    with pytest.raises(ValueError, match="no"):
        driver.hand("first", Received("x", KeepaliveAck()))
    assert second.seen == [Received("first", Keepalive())]
    driver.hand("first", Received("x", KeepaliveAck()))
    assert second.seen[1:] == [Received("first", silence)]


@played
async def test_messages_in_a_row_to_one_machine_are_gathered_without_copying_them() -> None:
    """A publish to thousands of subscriptions of one account makes as many messages: a copy for each of them
    stopped a broker for 21 s. A copy would double the memory that gathering takes."""
    count = 5_000
    silence = Silence(1, tidings.Position("log", 1))
    first, second = Machine(*(fx.Send("second", silence) for _ in range(count))), Machine()
    driver = Driver("first", first, RealClock(), record=lambda row: None)
    driver._machines["second"] = second
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        driver.hand("first", Received("x", KeepaliveAck()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (gathered,) = second.seen
    assert isinstance(gathered, ReceivedAll)
    assert gathered.messages == [silence] * count
    assert peak - before < 1.5 * sys.getsizeof(gathered.messages)


class Loop:
    """The clock and the timers of an event loop, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        timer = (when, callback)
        self.timers.append(timer)

        class Handle:
            def when(self) -> float:
                return when

            def cancel(handle) -> None:  # noqa: N805
                if timer in self.timers:
                    self.timers.remove(timer)

        return Handle()

    def advance(self, now: float) -> None:
        self.now = now
        for timer in [timer for timer in self.timers if timer[0] <= now]:
            self.timers.remove(timer)
            timer[1]()


def test_one_timer_serves_the_deadlines_of_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = Loop()
    late = list[tuple[int, float]]()
    monkeypatch.setattr(deadlines.asyncio, "get_running_loop", lambda: loop)
    calls = Deadlines(lambda call, seconds: late.append((call, seconds)))
    for call in range(100):
        calls.add(call, 30.0, loop)
        if call % 2:
            calls.remove(call)
    assert len(loop.timers) == 1
    calls.add(100, 1.0, loop)  # sooner than all others
    assert [when for when, _ in loop.timers] == [1.0]
    loop.advance(1.0)
    assert late == [(100, 1.0)]
    loop.advance(10.0)
    calls.add(101, 30.0, loop)
    loop.advance(30.0)
    assert late[1:] == [(call, 30.0) for call in range(0, 100, 2)]
    assert [when for when, _ in loop.timers] == [40.0]
    calls.close()
    assert not loop.timers


async def _hears(bus: tidings.Bus, listener: tidings.Listener[Any]) -> None:
    receipts = await bus.publish_many({"n": number} for number in range(2_000))
    assert len({receipt.id for receipt in receipts}) == 2_000
    assert [(await listener.get())["n"] for _ in range(2_000)] == list(range(2_000))
    assert await bus.publish_many([]) == []


@played
async def test_events_that_are_published_together_are_heard_in_order() -> None:
    async with tidings.connect() as bus, bus.subscribe("n >= 0", queue=5_000) as listener:
        await _hears(bus, listener)
    async with (
        serving() as server,
        tidings.connect(server.address) as bus,
        bus.subscribe("n >= 0", queue=5_000) as listener,
    ):
        await _hears(bus, listener)


@played
async def test_events_that_are_published_together_have_options_but_no_id_in_common() -> None:
    async with tidings.connect() as bus, bus.subscribe(topic="a/#") as listener:
        await bus.publish_many([{"n": 1}, {"n": 2}], topic="a/b", lifetime=60)
        received = [await listener.get() for _ in range(2)]
        assert [(event.topic, event.lifetime) for event in received] == [("a/b", 60.0)] * 2
        with pytest.raises(tidings.SettingsError, match="publish_many has no option 'id'"):
            await bus.publish_many([{"n": 1}], id="x")
        with pytest.raises(tidings.TooLargeError):
            await bus.publish_many([{"n": 3}, {"n": 4, "text": "x" * (17 << 20)}, {"n": 5}], topic="a/b")
        assert [(await listener.get())["n"] for _ in range(2)] == [3, 5]

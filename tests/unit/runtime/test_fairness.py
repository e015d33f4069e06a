"""Fair use of the loop: time is charged by owner and taken in turns, by an injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidings.errors import WireError
from tidings.model.event import Event, event_size
from tidings.protocol import messages as msg
from tidings.runtime.connection import FIRST_SLICE, SLICE, Connection, WriteCoalescer
from tidings.runtime.fairness import Fairness, FairnessSettings, ReadingShares
from tidings.runtime.local_clients import SLICE as GUEST_SLICE
from tidings.runtime.local_clients import in_slices
from tidings.runtime.messages import Keepalive
from tidings.testing.network import CODEC, RawClient, played, serving, until
from tidings.wire.codec import PUBLISHES, FrameReader, PublishAll


class Loop:
    """A clock, and calls that wait for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.waiting.append((self.now + seconds, call))

    def run(self, seconds: float = 0.0) -> None:
        """Let so much time pass, with all that falls due."""
        end = self.now + seconds
        while due := sorted(
            (each for each in self.waiting if each[0] <= end + 1e-9), key=lambda each: each[0]
        ):
            self.waiting.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = end


class Link:
    def __init__(self) -> None:
        self._is_held = False

    def held(self) -> bool:
        return self._is_held

    def hold(self, reason: str) -> None:
        self._is_held = True

    def release(self, reason: str) -> None:
        self._is_held = False


@pytest.fixture
def loop() -> Loop:
    return Loop()


def fair(loop: Loop) -> Fairness:
    return Fairness(settings=FairnessSettings(quantum=0.01), clock=lambda: loop.now, later=loop.later)


def test_an_owner_that_is_alone_is_never_held(loop: Loop) -> None:
    fairness, link = fair(loop), Link()
    share = fairness.join("ann", link)
    for _ in range(100):
        fairness.charge(share, 0.5)
        assert not link.held()
        loop.run(0.5)
    assert fairness.wait(share) == 0


def test_an_owner_over_its_quantum_waits_as_long_as_it_overdrew(loop: Loop) -> None:
    fairness, heavy, second, light = fair(loop), Link(), Link(), Link()
    share, other = fairness.join("mal", heavy), fairness.join("good", light)
    fairness.join("mal", second)
    fairness.charge(other, 0.001)
    fairness.charge(share, 0.006)
    assert not heavy.held()
    fairness.charge(share, 0.054)  # 60 ms in one turn, by whatever connection
    assert heavy.held()
    assert second.held()
    assert not light.held()
    loop.run(0.049)
    assert heavy.held()
    loop.run(0.002)
    assert not heavy.held()
    assert not second.held()
    assert fairness.figures["turns cut short"] == 1


def test_small_charges_of_many_turns_hold_nothing(loop: Loop) -> None:
    fairness, link = fair(loop), Link()
    share, other = fairness.join("ann", link), fairness.join("bob")
    for _ in range(200):
        fairness.charge(other, 0.001)
        fairness.charge(share, 0.009)
        loop.run(0.01)
        assert not link.held()


def test_a_connection_that_joins_a_held_owner_is_held_and_reconnecting_forgives_nothing(loop: Loop) -> None:
    fairness, first, again = fair(loop), Link(), Link()
    fairness.charge(fairness.join("good"), 0.001)
    share = fairness.join("mal", first)
    fairness.charge(share, 1.0)
    fairness.leave(share, first)
    assert fairness.join("mal", again) is share
    assert again.held()
    loop.run(1.0)
    assert not again.held()


def test_no_owner_waits_longer_than_the_longest_pause(loop: Loop) -> None:
    fairness, link = fair(loop), Link()
    fairness.charge(fairness.join("good"), 0.001)
    fairness.charge(fairness.join("mal", link), 1000.0)
    loop.run(FairnessSettings().pause)
    assert not link.held()


def test_reads_of_the_log_are_one_at_a_time_and_charged_to_who_asked(loop: Loop) -> None:
    fairness = fair(loop)
    reading, done = ReadingShares(fairness), list[int]()
    fairness.charge(fairness.join("good"), 0.001)
    reading.add("mal#1", fairness.join("mal"))
    for request in range(3):
        reading.fetch(request, "mal#1", lambda request=request: done.append(request))  # type: ignore[misc]
    assert done == [0]
    reading.remove("mal#1")  # a client that left still has its reads answered
    reading.fetched(0, 0.05)  # over the quantum: the next one waits
    assert done == [0]
    loop.run(0.05)
    assert done == [0, 1]
    reading.fetched(1, 0.0)
    assert done == [0, 1, 2]
    reading.fetched(2, 0.0)
    reading.fetch(3, "neighbour", lambda: done.append(3))  # of no client: at once
    assert done == [0, 1, 2, 3]


def test_frames_are_read_in_slices_in_their_order() -> None:
    reader = FrameReader(CODEC)
    data = b"".join(CODEC.encode(msg.Hello(str(n), "i")) for n in range(10))
    got = [message.client for message in reader.feed(data[:-3], 4)]  # type: ignore[attr-defined]
    assert got == ["0", "1", "2", "3"]
    for complete in (8, 9):
        assert reader.has_more
        got += [message.client for message in reader.feed(b"", 4)]  # type: ignore[attr-defined]
        assert len(got) == complete
    got += [message.client for message in reader.feed(data[-3:], 4)]  # type: ignore[attr-defined]
    assert got == [str(n) for n in range(10)]
    assert reader.pending == 0


def test_publishes_of_one_frame_are_read_in_slices() -> None:
    reader = FrameReader(CODEC)
    some = [msg.Publish(n, Event("s", str(n)), n + 7) for n in range(10)]
    data = CODEC.encode(PublishAll.of(some)) + CODEC.encode(msg.Hello("last", "i"))
    got = [reader.feed(data[:-3], 4)]
    while reader.has_more:
        got.append(reader.feed(b"", 4))
    assert [len(part) for part in got] == [4, 4, 2]
    assert [*got[0], *got[1], *got[2], *reader.feed(data[-3:])] == [*some, msg.Hello("last", "i")]
    reader.feed(data, 4)
    reader.clear()
    assert reader.feed(b"") == []


def test_an_event_of_a_frame_with_several_has_the_size_that_it_came_in() -> None:
    some = [msg.Publish(n, Event("s", str(n), {"n": "x" * n}), n) for n in range(3)]
    read = FrameReader(CODEC).feed(CODEC.encode(PublishAll.of(some)))
    sizes = [publish.event.__dict__["size"] for publish in read if isinstance(publish, msg.Publish)]
    assert sizes == [event_size(publish.event) for publish in some]


def test_a_frame_of_too_many_publishes_is_no_frame() -> None:
    some = [msg.Publish(n, Event("s", str(n)), n) for n in range(PUBLISHES + 1)]
    with pytest.raises(WireError, match="length <= 64"):
        FrameReader(CODEC).feed(CODEC.encode(PublishAll.of(some)))


class Idle(asyncio.Transport):
    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return False


def test_a_flood_on_one_connection_is_handled_in_slices_and_waits_while_it_is_held() -> None:
    async def play() -> None:
        batches: list[int] = []
        charges: list[float] = []

        def receive(connection: Connection, messages: list[Any]) -> None:
            batches.append(len(messages))

        connection = Connection(
            CODEC, WriteCoalescer(), receive=receive, lost=lambda *_: None, most_bytes=1 << 20
        )
        connection.connection_made(Idle())
        connection.spent = charges.append
        connection.data_received(CODEC.encode(Keepalive()) * (2 * SLICE + 5))
        assert batches == [FIRST_SLICE]
        connection.hold("fairness")
        for _ in range(5):
            await asyncio.sleep(0)
        assert batches == [FIRST_SLICE]  # what is in the buffer waits as well
        connection.release("fairness")
        while sum(batches) < 2 * SLICE + 5:
            await asyncio.sleep(0)
        assert max(batches) <= SLICE, "a slice grows while turns are short, up to its bound"
        assert len(charges) == len(batches)
        assert not connection.is_reading_paused

    asyncio.run(play())


def test_every_ping_of_a_flood_is_answered_and_another_client_is_served_meanwhile() -> None:
    async def play() -> None:
        async with serving() as server:
            flood, other = await RawClient.greeted(server, "flood"), await RawClient.greeted(server, "other")
            flood.writer.write(CODEC.encode(Keepalive()) * (3 * SLICE))
            other.send(Keepalive())
            await other.receive()
            for _ in range(3 * SLICE):
                await flood.receive()
            await until(lambda: server.figures()["unfinished bytes"] == 0)
            for raw in (flood, other):
                raw.writer.close()
                await raw.writer.wait_closed()

    played(play)


def test_a_gateway_handles_what_came_together_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[float] = []

    def charge(bus: Any, size: int, seconds: float) -> float:
        charged.append(seconds)
        return 0.0

    monkeypatch.setattr("tidings.runtime.local_clients.charge", charge)

    async def play() -> None:
        handled, seen = list[int](), list[int]()

        async def handle(item: int) -> None:
            handled.append(item)

        async def watch() -> None:
            while len(handled) < 3 * GUEST_SLICE:
                seen.append(len(handled))
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        await in_slices(None, range(3 * GUEST_SLICE), handle)  # type: ignore[arg-type]
        await watching
        assert handled == list(range(3 * GUEST_SLICE))
        assert {GUEST_SLICE, 2 * GUEST_SLICE} <= set(seen)

    asyncio.run(play())
    assert len(charged) == 3

"""Overload: publishers are read less while deliveries wait, output goes first, and all is as before
afterwards."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tidings.availability.records import Append
from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import messages as msg
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.slots import Backlog
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.fairness import Fairness, ReadingShares
from tidings.runtime.intake import Intake
from tidings.runtime.messages import Keepalive
from tidings.store.memory import MemoryStore
from tidings.testing.network import CODEC, RawClient, played, serving, until

LIMITS = ResourceLimits(waiting_deliveries=100, waiting_turns=50)


class Socket(asyncio.Transport):
    """A transport that notes whether it is read from."""

    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False


def connected(coalescer: WriteCoalescer) -> tuple[Connection, Socket]:
    socket = Socket()
    connection = Connection(
        CODEC, coalescer, receive=lambda *_: None, lost=lambda *_: None, most_bytes=1 << 20
    )
    connection.connection_made(socket)
    return connection, socket


@played
async def test_a_held_publisher_is_read_again_after_a_turn_without_other_work() -> None:
    coalescer, backlog = WriteCoalescer(), Backlog()
    taking = Intake(backlog, coalescer, LIMITS)
    publisher, socket = connected(coalescer)
    subscriber, other = connected(coalescer)
    backlog.waited = 101
    taking.hold(publisher)
    for _ in range(5):  # credit keeps coming
        assert not socket.is_read
        subscriber.data_received(CODEC.encode(Keepalive()))
        await asyncio.sleep(0)
    assert other.is_read, "only publishers are held"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert socket.is_read
    assert taking.most == 201, "the next quiet turn counts from here"


@played
async def test_no_flood_of_other_messages_keeps_publishers_out() -> None:
    coalescer = WriteCoalescer()
    taking = Intake(Backlog(), coalescer, LIMITS)
    publisher, socket = connected(coalescer)
    flood, _ = connected(coalescer)
    taking.hold(publisher)
    turns = 0
    while not socket.is_read:
        flood.data_received(CODEC.encode(Keepalive()))
        await asyncio.sleep(0)
        turns += 1
        assert turns <= 50
    assert turns == 50


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@played
async def test_publishers_wait_for_a_page_that_is_on_its_way_and_for_what_it_allows() -> None:
    coalescer, backlog = WriteCoalescer(), Backlog()
    taking = Intake(backlog, coalescer, LIMITS)
    publisher, socket = connected(coalescer)
    backlog.waited, backlog.reading = 101, 1
    taking.hold(publisher)
    for _ in range(3):
        await turns(2 * LIMITS.waiting_turns)
        assert not socket.is_read, "no turn is quiet while a page is on its way"
        backlog.read += 100
        taking.page_came()
    await turns(2 * LIMITS.waiting_turns)
    assert not socket.is_read
    backlog.reading = 0  # the subscriber has no credit left
    taking.page_came()
    await turns(4)
    assert socket.is_read


@played
async def test_a_replay_without_end_lets_publishers_in_after_four_entries_for_each_delivery() -> None:
    coalescer, backlog = WriteCoalescer(), Backlog()
    taking = Intake(backlog, coalescer, LIMITS)
    publisher, socket = connected(coalescer)
    backlog.waited, backlog.reading = 101, 1
    taking.hold(publisher)
    while not socket.is_read:
        await turns(4)
        assert backlog.read < 4 * 101 + 64
        backlog.read += 64
        taking.page_came()
        await turns(4)
    assert backlog.read >= 4 * 101


@played
async def test_a_page_that_waits_for_its_owners_share_holds_no_publisher() -> None:
    coalescer, backlog = WriteCoalescer(), Backlog()
    reading = ReadingShares(Fairness(later=lambda *_: None))
    busy, other = reading.fairness.join("busy"), reading.fairness.join("other")
    reading.add("busy#1", busy)
    reading.fairness.charge_all({other: 0.001, busy: 1.0})
    backlog.reading = 2
    for request in range(2):
        reading.fetch(request, "busy#1", lambda: None)
    assert reading.deferred == 2
    taking = Intake(backlog, coalescer, LIMITS, None, reading)
    publisher, socket = connected(coalescer)
    backlog.waited = 101
    taking.hold(publisher)
    await turns(4)
    assert socket.is_read


@played
async def test_after_a_page_publishers_are_read_a_few_at_a_time_unless_the_subscriber_is_slow() -> None:
    coalescer, backlog = WriteCoalescer(), Backlog()
    taking = Intake(backlog, coalescer, LIMITS)
    pairs = [connected(coalescer) for _ in range(8)]

    def hold(publishes: int) -> list[Socket]:
        for connection, socket in pairs:
            if socket.is_read:
                taking.hold(connection, publishes)
        return [socket for _, socket in pairs if socket.is_read]

    async def released() -> int:
        while not (count := sum(socket.is_read for _, socket in pairs)):
            await turns(1)
        return count

    backlog.waited = 101
    assert hold(100) == []
    assert await released() == 8, "no replay has read"
    assert taking.most == 201
    backlog.waited, backlog.read = 301, 256
    hold(100)
    assert await released() == 1, "a replay has read"
    assert backlog.waited > taking.most, "the next publish holds its connection again"
    assert taking.unanswered < NetworkSettings().unanswered
    count = 0
    while backlog.waited > taking.most:  # nothing more is read: the subscriber takes little
        assert hold(100) == []
        assert await released() in (1, 8)
        count += 1
        assert count < 20
    assert taking.unanswered == NetworkSettings().unanswered


class GatedStore(MemoryStore):
    """A store whose log is read when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def fetch(self, from_offset: int, limit: int, max_bytes: int) -> list[Append]:
        self.gate.wait()
        return super().fetch(from_offset, limit, max_bytes)


@played
async def test_no_publish_is_accepted_while_a_page_for_a_durable_subscriber_is_on_its_way() -> None:
    store = GatedStore()
    try:
        async with serving(resources=LIMITS, store=store, network=NetworkSettings(unanswered=200)) as server:
            behind, press = await RawClient.greeted(server, "s"), await RawClient.greeted(server, "p")
            options = DeliveryOptions(queue=20, durable=True)
            behind.send(msg.Subscribe(1, 1, "w", parse_filter("n > 0"), options, True, {}, 10))
            await behind.receive()
            press.send(*publishes(1000))
            await answers(press, 1000)
            assert server.node.backlog.reading == 0, "a subscriber without credit has no page read"
            behind.send(msg.Credit(1, 20_000))
            await until(lambda: server.node.backlog.reading == 1)
            press.send(*publishes(20_000)[1000:])
            await until(lambda: any("overload" in each._holds for each in server._clients))
            await turns(20_000)
            assert server.figures()["published"] < 10_000
            store.gate.set()
            got: list[int] = []
            while len(got) < 20_000:
                message = await behind.receive()
                if isinstance(message, msg.DeliverAll):
                    got += [event["n"] for event in message.events]
                elif isinstance(message, msg.Deliver):
                    got.append(message.event["n"])  # type: ignore[arg-type]
            assert got == [*range(1, 20_001)]
            for raw in (behind, press):
                raw.close()
    finally:
        store.gate.set()


def publishes(count: int) -> list[msg.Publish]:
    return [
        msg.Publish(n, make_event({"n": n}, source="p", id=f"i-{n}"), n, msg.AckMode.AUTO)
        for n in range(1, count + 1)
    ]


async def answers(raw: RawClient, count: int) -> None:
    while count > 0:
        message = await raw.receive()
        assert isinstance(message, msg.Published | msg.PublishedAll), message
        count -= getattr(message, "count", 1)


def test_an_overloaded_broker_stops_reading_a_publisher_and_resumes(monkeypatch: Any) -> None:
    """A subscriber that takes nothing loses by its policy, which is counted; the publisher is slowed, and
    served."""
    seen: list[bool] = []
    right = Intake.hold

    def hold(self: Intake, connection: Connection, publishes: int) -> None:
        right(self, connection, publishes)
        seen.append(connection.is_reading_paused)

    monkeypatch.setattr(Intake, "hold", hold)

    async def play() -> None:
        async with serving(resources=LIMITS) as server:
            slow, press = await RawClient.greeted(server, "s"), await RawClient.greeted(server, "p")
            options = DeliveryOptions(queue=500, policy=Policy.DROP_OLDEST)
            slow.send(msg.Subscribe(1, 1, "w", parse_filter("n > 0"), options, False, {}, 10))
            await slow.receive()
            press.send(*publishes(3000))
            await answers(press, 3000)
            assert seen, "the publisher was never held"
            assert all(seen)
            figures = server.figures()
            assert figures["publishers paused"] == len(seen)
            assert figures["lost"] == 3000 - 10 - 500
            await until(lambda: not any(each.is_reading_paused for each in server._clients))
            slow.send(msg.Credit(1, 1000))
            got: list[int] = []
            while len(got) < 510:
                message = await slow.receive()
                if isinstance(message, msg.DeliverAll):
                    got += [event["n"] for event in message.events]
                elif isinstance(message, msg.Deliver):
                    got.append(message.event["n"])  # type: ignore[arg-type]
            assert got == [*range(1, 11), *range(2501, 3001)]
            for raw in (slow, press):
                raw.close()

    played(play)()

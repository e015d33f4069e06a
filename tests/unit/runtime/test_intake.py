"""Overload: publishers are read less while deliveries wait, output goes first, and all is as before
afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import messages as msg
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.slots import Backlog
from tidings.runtime.connection import Connection, WriteCoalescer
from tidings.runtime.intake import Intake
from tidings.runtime.messages import Keepalive
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

    def hold(self: Intake, connection: Connection) -> None:
        right(self, connection)
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

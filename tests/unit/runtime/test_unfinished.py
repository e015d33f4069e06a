"""Half a frame costs its bytes while it is open, within a bound by principal, and nothing after its
connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from tidings.model.event import make_event
from tidings.protocol import messages as msg
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.unfinished import UnfinishedFrames
from tidings.testing.network import CODEC, RawClient, played, serving, until

SIZE = 1 << 18
FRAME = CODEC.encode(
    msg.Publish(1, make_event({}, source="raw", id="x", payload=bytes(SIZE)), 1, msg.AckMode.AUTO)
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_a_closed_connection_lets_go_of_half_a_frame_without_the_collector(no_collector: None) -> None:
    async def play() -> None:
        stored = []

        async def half() -> None:
            connection = Connection(
                CODEC, WriteCoalescer(), receive=lambda *_: None, lost=lambda *_: None, most_bytes=1 << 20
            )
            connection.connection_made(asyncio.Transport())
            connection.data_received(FRAME[:-10])
            stored.append((connection.pending, connection))
            connection.connection_lost(None)

        await half()
        before, connection = stored[0]
        assert before == len(FRAME) - 10
        assert connection.pending == 0
        assert connection.transport is None

    asyncio.run(play())


def test_half_frames_count_for_their_principal_and_are_free_when_it_leaves(no_collector: None) -> None:
    async def play() -> None:
        async with serving() as server:
            raws = [await RawClient.greeted(server, f"raw{i}") for i in range(3)]
            for raw in raws:
                raw.writer.write(FRAME[:-10])
            await until(lambda: server.figures()["unfinished bytes"] == 3 * (len(FRAME) - 10))
            for raw in raws:
                raw.writer.close()
                await raw.writer.wait_closed()
            await until(lambda: server.figures()["unfinished bytes"] == 0)

    played(play)


def test_half_frames_of_one_principal_stay_within_the_bound_and_still_complete() -> None:
    async def play() -> None:
        bound = 2 * SIZE
        async with serving(network=NetworkSettings(unfinished_bytes=bound)) as server:
            raws = [await RawClient.greeted(server, f"raw{i}") for i in range(12)]
            read_ahead = 12 * (256 << 10)  # the most that the loop hands over at once, by connection
            for raw in raws:
                raw.writer.write(FRAME[:-10])
            await until(lambda: server.figures()["unfinished bytes"] > bound)
            most = 0
            for _ in range(200):
                await asyncio.sleep(0)
                most = max(most, server.figures()["unfinished bytes"])
            assert most <= bound + len(FRAME) + read_ahead
            for number, raw in enumerate(raws):
                source = f"raw{number}"
                raw.writer.write(FRAME[-10:])
                assert isinstance(await raw.receive(), msg.Published | msg.Refused), source
                raw.writer.close()
                await raw.writer.wait_closed()
            await until(lambda: server.figures()["unfinished bytes"] == 0)

    played(play)


class _Link:
    """A connection of which only its holds matter."""

    def __init__(self) -> None:
        self.is_held = False

    def hold(self, reason: str) -> None:
        self.is_held = True

    def release(self, reason: str) -> None:
        self.is_held = False


def test_above_the_bound_one_connection_is_read_at_a_time() -> None:
    frames = UnfinishedFrames(100).of("ann")
    a, b, c = _Link(), _Link(), _Link()
    frames.count(a, 60)
    frames.count(b, 60)  # over: its turn
    frames.count(a, 10)
    frames.count(c, 10)
    assert (a.is_held, b.is_held, c.is_held) == (True, False, True)
    frames.count(b, 30)  # goes on
    frames.leave(b, 90)  # 80 bytes are left: below the bound all are read
    assert not (a.is_held)
    assert not (c.is_held)
    assert frames.bytes == 80


def test_the_turn_passes_on_when_a_frame_completes_and_the_bound_still_holds() -> None:
    frames = UnfinishedFrames(100).of("ann")
    a, b, c = _Link(), _Link(), _Link()
    frames.count(a, 200)
    frames.count(b, 150)
    frames.count(c, 150)
    assert (a.is_held, b.is_held, c.is_held) == (False, True, True)
    frames.count(a, -200)
    assert (b.is_held, c.is_held) == (False, True)
    frames.leave(b, 150)
    assert c.is_held is False


def test_principals_do_not_share_the_bound_and_are_forgotten() -> None:
    all = UnfinishedFrames(100)
    ann, bob = all.of("ann"), all.of("bob")
    a, b = _Link(), _Link()
    ann.count(a, 500)
    bob.count(b, 90)
    assert not b.is_held
    assert all.bytes == 590
    all.end("ann")
    assert all.bytes == 90

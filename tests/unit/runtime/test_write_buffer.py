"""The write buffer of a connection: what waits for a client that does not read, or reads slowly."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from tidings.model.event import make_event
from tidings.protocol.messages import Deliver, DeliverAll, Message
from tidings.runtime import connection as connections
from tidings.runtime.admission import Admission, AdmissionSettings
from tidings.runtime.connection import Connection, WriteCoalescer
from tidings.runtime.messages import BESIDE, HANDSHAKE, Keepalive
from tidings.wire.codec import Codec, FrameReader

LARGE = make_event({"n": 0}, source="pub", id="1", payload=bytes(1 << 20))
MOST = 8 << 20


class SlowReader(asyncio.Transport):
    """A transport whose far end reads only when it is told to."""

    def __init__(self, connection: Connection, most: int = 64 << 10) -> None:
        super().__init__()
        self._connection, self._most = connection, most
        self.waiting = bytearray()
        self.largest = 0
        self._is_full = False

    def write(self, data: Any) -> None:
        self.waiting += data
        self.largest = max(self.largest, len(self.waiting))
        if len(self.waiting) > self._most and not self._is_full:
            self._is_full = True
            self._connection.pause_writing()

    def read(self) -> bytes:
        data = bytes(self.waiting)
        self.waiting.clear()
        if self._is_full:
            self._is_full = False
            self._connection.resume_writing()
        return data

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        """It waits for a flush, as that of the event loop does."""


def play(story: Callable[[Connection, SlowReader, list[str]], Any], max_frame_bytes: int = 16 << 20) -> None:
    async def run() -> None:
        lost: list[str] = []
        codec = Codec((*HANDSHAKE, *BESIDE), max_frame_bytes=max_frame_bytes)
        connection = Connection(
            codec,
            WriteCoalescer(),
            receive=lambda *_: None,
            lost=lambda _, reason: lost.append(reason),
            most_bytes=MOST,
        )
        transport = SlowReader(connection)
        connection.connection_made(transport)
        await story(connection, transport, lost)

    asyncio.run(run())


async def read_all(connection: Connection, transport: SlowReader) -> list[Message]:
    reader, found = FrameReader(connection.codec), []
    while connection.unsent:
        await asyncio.sleep(0)
        found += reader.feed(transport.read())
    return found


def test_a_large_event_to_many_subscriptions_of_a_client_is_not_copied_for_each() -> None:
    """Found from outside: 300 subscriptions on one connection and an event of 1 MB made 300 MB of frames."""

    async def story(connection: Connection, transport: SlowReader, lost: list[str]) -> None:
        for ref in range(300):
            connection.send(Deliver(ref, 1, LARGE))
        connection.send(Keepalive())
        for _ in range(5):
            await asyncio.sleep(0)
        assert transport.largest < 3 << 20
        found = await read_all(connection, transport)
        assert [each.ref for each in found[:-1] if isinstance(each, Deliver)] == list(range(300))
        assert isinstance(found[-1], Keepalive)
        assert transport.largest < 3 << 20
        assert not lost

    play(story)


def test_deliveries_that_wait_for_a_slow_reader_are_not_encoded_yet() -> None:
    """The transport alone does not show it: it takes a few frames, and the others lie before it."""

    async def story(connection: Connection, transport: SlowReader, lost: list[str]) -> None:
        tracemalloc.start()
        try:
            for ref in range(30):
                connection.send(Deliver(ref, 1, LARGE))
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 5 << 20
        assert len(await read_all(connection, transport)) == 30
        assert not lost

    play(story)


def test_a_client_that_does_not_read_is_left_when_different_events_fill_its_buffer() -> None:
    async def story(connection: Connection, transport: SlowReader, lost: list[str]) -> None:
        for number in range(12):
            connection.send(
                Deliver(1, number, make_event({}, source="pub", id=str(number), payload=bytes(1 << 20)))
            )
            await asyncio.sleep(0)
        assert lost
        assert "reads too slowly" in lost[0]

    play(story)


def test_a_batch_that_waited_and_fits_no_frame_is_sent_one_by_one_in_its_place() -> None:
    async def story(connection: Connection, transport: SlowReader, lost: list[str]) -> None:
        some = tuple(make_event({}, source="pub", id=str(n), payload=bytes(400 << 10)) for n in range(4))
        connection.send(Deliver(1, 1, some[0]))
        connection.send(DeliverAll(1, 2, some[1:]))
        connection.send(Deliver(1, 5, some[0]))
        found = await read_all(connection, transport)
        assert [(each.tag, each.event.id) for each in found if isinstance(each, Deliver)] == [
            (1, "0"), (2, "1"), (3, "2"), (4, "3"), (5, "0"),
        ]  # fmt: skip

    play(story, max_frame_bytes=1 << 20)


def test_two_ends_that_both_have_much_to_send_do_not_wait_for_each_other() -> None:
    """Found by publishing 18 MB in one call to a broker that delivered it over the same connection: both ends
    stopped reading until the other one read, for 15 seconds."""

    async def run() -> None:
        loop, count = asyncio.get_running_loop(), 64
        codec = Codec((*HANDSHAKE, *BESIDE, Deliver), max_frame_bytes=16 << 20)
        got: list[list[Message]] = [[], []]
        done = asyncio.Event()

        def end(number: int) -> Connection:
            def receive(_: Connection, messages: Sequence[Message]) -> None:
                got[number].extend(messages)
                if all(len(each) == count for each in got):
                    done.set()

            return Connection(
                codec, WriteCoalescer(), receive=receive, lost=lambda *_: done.set(), most_bytes=1 << 30
            )

        admission = Admission(AdmissionSettings())
        sockets = socket.socketpair()
        ends: list[Connection] = []
        for number, each in enumerate(sockets):
            _, connection = await loop.create_connection(partial(end, number), sock=each)
            ends.append(connection)
        ends[0].visit = admission.enter(("127.0.0.1", 1), lambda reason: None)
        for connection in ends:
            for ref in range(count):
                connection.send(Deliver(ref, 1, LARGE))
        async with asyncio.timeout(60):
            await done.wait()
        assert [[each.ref for each in side if isinstance(each, Deliver)] for side in got] == [
            list(range(count))
        ] * 2
        for connection in ends:
            connection.end("the test is over")

    asyncio.run(run())


def test_a_far_end_that_does_not_read_the_last_messages_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A revoked client that hangs has no connection for ever; one that reads slowly gets all."""
    monkeypatch.setattr(connections, "FINISH_SECONDS", 0.01)

    async def story(connection: Connection, transport: SlowReader, lost: list[str]) -> None:
        looks, taken = 0, bytearray()

        def size() -> int:  # asked for at each look
            nonlocal looks
            looks += 1
            if looks < 6:
                taken.extend(transport.waiting[:1000])
                del transport.waiting[:1000]
            return len(transport.waiting)

        connection.send(Deliver(1, 1, LARGE))
        connection.flush()
        monkeypatch.setattr(transport, "get_write_buffer_size", size)
        connection.finish("it has to go")
        while not lost:
            await asyncio.sleep(0)
        assert lost == ["it has to go"]
        assert len(taken) == 5000

    play(story)

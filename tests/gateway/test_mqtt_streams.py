"""Bytes of MQTT connections: handled as they come, in order, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.gateway._peer import Peer, at, port_of, run
from tests.gateway.conftest import broker

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.connection import AHEAD, MqttConnection
from tidings.gateway.mqtt.events import event_of_packet
from tidings.gateway.mqtt.packets import V5, V311, PacketKind
from tidings.gateway.mqtt.pushes import PacketCache, Pushes, written
from tidings.gateway.mqtt.stream import MOST_UNREAD, ByteStream, TurnWrites
from tidings.gateway.mqtt.turns import LoopTurns
from tidings.gateway.mqtt.writing import write
from tidings.model.event import make_event
from tidings.runtime.admission import Admission
from tidings.runtime.disk_executor import ThreadedExecutor
from tidings.runtime.local_clients import SLICE


class Wire:
    """Records whether the peer is read from."""

    def __init__(self) -> None:
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def fed(*parts: bytes) -> tuple[ByteStream, Wire]:
    stream, wire = ByteStream(), Wire()
    stream.wire = wire  # type: ignore[assignment]
    for part in parts:
        stream.feed(part)
    return stream, wire


def test_bytes_wait_for_a_reader_and_many_pause_the_peer() -> None:
    stream, wire = fed(b"a" * MOST_UNREAD)
    assert wire.is_read
    stream.feed(b"b")
    assert not wire.is_read
    assert stream.take() == b"a" * MOST_UNREAD + b"b"
    assert wire.is_read


def test_a_sink_gets_no_byte_before_those_that_wait() -> None:
    stream, _ = fed(b"a")
    came: list[bytes] = []
    stream.sink = came.append
    stream.feed(b"b")
    assert came == []
    assert stream.take() == b"ab"
    stream.feed(b"c")
    stream.feed_eof()
    assert came == [b"c", b""]


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    stream, wire = fed(b"a")
    stream.pause_writing()
    assert not wire.is_read
    stream.take()
    assert not wire.is_read
    stream.resume_writing()
    assert wire.is_read


def test_waiting_for_a_peer_ends_when_it_reads_or_is_gone() -> None:
    async def test() -> None:
        stream, _ = fed()
        stream.pause_writing()
        waiting = asyncio.create_task(stream.drained())
        await asyncio.sleep(0)
        assert not waiting.done()
        stream.resume_writing()
        await waiting
        stream.feed_eof()
        with pytest.raises(ConnectionResetError):
            await stream.drained()

    asyncio.run(test())


@pytest.mark.parametrize("version", [V311, V5])
def test_packets_for_all_are_those_of_each(version: int) -> None:
    now = make_event({}, source="s", id="i").time
    sizes = (0, 1, 126, 127, 128, 20_000)
    events = tuple(
        event_of_packet(mq.PublishPacket(f"a//{size}", b"x" * size, 1), "s", None, now)  # type: ignore[arg-type]
        for size in sizes
    )
    each = [write(mq.PublishPacket(f"a//{size}", b"x" * size), version) for size in sizes]
    cache = PacketCache()
    assert cache.packets(events, version) == b"".join(each)
    assert cache.packets(events, version) is cache.packets(events, version)
    other = V5 if version == V311 else V311
    assert cache.packets(events, other) != cache.packets(events, version)
    assert cache.packets(events[:1], version) == each[0] == written(events[0], version, retain=False)


def test_an_event_that_depends_on_its_subscriber_has_no_packet_for_all() -> None:
    plain = event_of_packet(mq.PublishPacket("a", b"x"), "s", None, make_event({}, source="s", id="i").time)  # type: ignore[arg-type]
    foreign = make_event({"b": 1}, source="s", id="1", topic="a")
    assert PacketCache().packets((plain, foreign), V5) is None
    typed = msgspec.structs.replace(plain, content_type="text/plain")
    assert PacketCache().packets((typed,), V5) is None


def test_packets_of_one_write_are_answered_in_order_whatever_they_are() -> None:
    async def test() -> None:
        async with at() as port:
            peer = Peer(port, V311)
            await peer.connect("a")
            parts: list[bytes] = []
            for number in range(1, 151):  # more than a slice, and more than may be unanswered
                parts.append(write(mq.PublishPacket("t", b"x", 1, packet_id=number), V311))
                if not number % 50:
                    parts.append(write(mq.PingPacket(), V311))
                    parts.append(write(mq.PublishPacket("t", b"x", 2, packet_id=1000 + number), V311))
            peer.send_bytes(b"".join(parts))
            acks, others = [], []
            while len(acks) + len(others) < 156:
                packet = await peer.next()
                if isinstance(packet, mq.AckPacket):
                    acks.append((packet.kind, packet.packet_id))
                else:
                    others.append(packet)
            expected = []
            for number in range(1, 151):
                expected.append((PacketKind.PUBACK, number))
                if not number % 50:
                    expected.append((PacketKind.PUBREC, 1000 + number))
            assert acks == expected
            assert others == [mq.PingPacket(True)] * 3

    run(test)


def test_no_more_publishes_are_accepted_than_may_be_unanswered_however_many_reads_bring_them() -> None:
    """A client of version 3.1.1 knows no receive maximum: the gateway stops at its own."""

    async def test() -> None:
        async with broker(mqtt="127.0.0.1:0") as service:
            peer = Peer(port_of(service), V311)
            await peer.connect("a")
            opened: Any = service.gateways
            listener = dict(opened._open)["mqtt"]
            [link] = listener._links.values()
            while link._stream.sink is None:
                await asyncio.sleep(0)
            accepted: list[tuple[int, Callable[[list[int | None]], None]]] = []
            publisher = link._session.publisher
            publisher.publish_all = lambda packets, then: accepted.append((len(packets), then))
            for begin in (1, 61):  # fewer than a slice: each read is handled in the call that brings it
                packets = [mq.PublishPacket("t", b"x", 1, packet_id=begin + n) for n in range(60)]
                link._stream.feed(b"".join(write(packet, V311) for packet in packets))
            for _ in range(10):
                await asyncio.sleep(0)
            unanswered = sum(count for count, _ in accepted)
            while accepted:
                count, then = accepted.pop(0)
                then([0] * count)
                await asyncio.sleep(0)
            assert [(await peer.next()).packet_id for _ in range(120)] == list(range(1, 121))
            assert unanswered == AHEAD

    run(test)


def test_a_turn_with_publishes_of_many_clients_overflows_no_queue_of_a_client_that_reads() -> None:
    """A subscriber of QoS 0 takes events in the call that brings them: as one batch for the broker they
    would be more than its window and its queue hold."""
    publishers, each = 24, 60  # fewer than a slice: each read is handled in the call that brings it

    async def test() -> None:
        async with broker(mqtt="127.0.0.1:0") as service:
            reader, peers = (
                Peer(port_of(service), V311),
                [Peer(port_of(service), V311) for _ in range(publishers)],
            )
            await reader.connect("reader")
            await reader.subscribe("t")
            for number, peer in enumerate(peers):
                await peer.connect(f"p{number}")
            opened: Any = service.gateways
            links = [link for key, link in dict(opened._open)["mqtt"]._links.items() if key[2] != "reader"]
            while any(link._stream.sink is None for link in links):
                await asyncio.sleep(0)
            data = write(mq.PublishPacket("t", b"x"), V311) * each
            for link in links:
                asyncio.get_running_loop().call_soon(link._stream.feed, data)
            assert await reader.payloads(publishers * each) == [b"x"] * publishers * each
            assert not service.server.figures()["lost"]

    run(test)


def test_retained_messages_come_in_slices_so_that_others_are_served_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a disk nothing else ends the turn in which the broker reads them."""
    count, most, pushed = 1000, 0, 0
    push = Pushes._push

    def counted(pushes: Pushes, *given: Any) -> None:
        nonlocal pushed
        pushed += 1
        push(pushes, *given)

    async def look() -> None:
        nonlocal most
        before = pushed
        while pushed < count:
            await asyncio.sleep(0)
            most, before = max(most, pushed - before), pushed

    async def test() -> None:
        async with at() as port:
            peer, reader = Peer(port, V311), Peer(port, V311)
            await peer.connect("p")
            await reader.connect("reader")
            for number in range(count):
                await peer.publish(f"r/{number}", b"x", retain=True)
            looking = asyncio.create_task(look())
            await reader.subscribe("r/#")
            assert len(await reader.payloads(count)) == count
            await looking
            assert most <= 4 * SLICE, "a slice, and what was on its way when it ended"

    monkeypatch.setattr(Pushes, "_push", counted)
    run(test)


@pytest.mark.parametrize("by_session", [False, True])
def test_many_subscriptions_are_ended_with_few_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_session: bool
) -> None:
    """The end of each is on the disk before it is answered. One commit for each took 27 s for 10,000."""
    commits = 0
    submit = ThreadedExecutor._submit

    def counted(executor: ThreadedExecutor) -> None:
        nonlocal commits
        commits += 1
        submit(executor)

    async def test() -> None:
        nonlocal commits
        async with at(tmp_path) as port:
            peer = Peer(port, V311)
            await peer.kept("a")
            names = [f"t/{number}" for number in range(192)]
            peer.send(mq.SubscribePacket(1, [mq.SubscriptionRequest(name, 1) for name in names]))
            assert isinstance(await peer.next(), mq.SubackPacket)
            commits = 0
            if by_session:
                peer.drop()
                await Peer(port, V311).connect("a")
            else:
                peer.send(mq.UnsubscribePacket(2, names))
                assert isinstance(await peer.next(), mq.UnsubackPacket)
            assert commits <= 24

    monkeypatch.setattr(ThreadedExecutor, "_submit", counted)
    run(test)


def test_a_client_that_is_gone_keeps_no_bytes_of_others_back() -> None:
    """A write to a closed connection raised, in the middle of the writes of one turn: those of connections
    behind it stayed, and later ones behind those."""

    class Closed(Wire):
        def is_closing(self) -> bool:
            return True

        def get_write_buffer_size(self) -> int:
            return 0

        def write(self, data: bytes) -> None:
            raise RuntimeError("unable to perform operation; the handler is closed")

    class Open(Closed):
        sent = b""

        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes) -> None:
            self.sent += data

    async def test() -> None:
        listener: Any = SimpleNamespace(
            topic_filters=1, first_bytes=1, write_ahead=lambda: None, writes=TurnWrites(), turns=LoopTurns()
        )
        gone, here = Closed(), Open()
        visit = Admission().enter(None, lambda reason: None)
        assert visit is not None
        for wire in (gone, here):
            stream = ByteStream()
            stream.wire = wire  # type: ignore[assignment]
            MqttConnection(listener, stream, visit).send(mq.PingPacket(True))
        listener.writes.flush_all()
        assert here.sent == write(mq.PingPacket(True), V311)

    run(test)

"""Work of one client in a turn of the event loop: bounds before login, bounds of one packet, and turns."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.gateway._peer import Peer, at, run

from tidings.gateway.mqtt import listener
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.connection import MqttConnection
from tidings.gateway.mqtt.events import members_of
from tidings.gateway.mqtt.packets import PacketKind, Reason
from tidings.gateway.mqtt.reading import MOST_USER_PROPERTIES, PacketReader
from tidings.gateway.mqtt.turns import BatchSize, LoopTurns
from tidings.gateway.mqtt.writing import write
from tidings.runtime.connection import NetworkSettings

FIRST = NetworkSettings().handshake_frame_bytes
MANY = [("", "")] * (MOST_USER_PROPERTIES + 1)


def test_a_connect_is_bounded_by_its_fixed_header() -> None:
    """It is read before its sender is authenticated: 20 of 900 kB stopped the broker for six seconds."""

    async def test() -> None:
        async with at() as port:
            allowed = Peer(port)
            await allowed.connect("a", user=[("k", "v" * (FIRST - 100))])
            allowed.close()
            peer = Peer(port)
            await peer.open()
            peer.send(mq.ConnectPacket(mq.V5, "c", properties={"user": [("k", "v" * FIRST)]}))
            assert await peer.next() is None

    run(test)
    assert list(PacketReader(1 << 20, first=20).feed(b"\x10\x12")) == []
    with pytest.raises(mq.Malformed) as refused:  # by two bytes: nothing of the packet has come
        list(PacketReader(1 << 20, first=20).feed(b"\x10\x13"))
    assert refused.value.reason == Reason.TOO_LARGE


def test_packets_behind_a_connect_are_not_read_before_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    publish = PacketReader._publish

    def counted(self: PacketReader, *given: Any) -> mq.PublishPacket:
        read.append("publish")
        return publish(self, *given)

    async def proved(self: listener.MqttListener, *_: Any) -> Any:
        assert not read
        return await original(self, *_)

    original = listener.MqttListener.proved
    monkeypatch.setattr(PacketReader, "_publish", counted)
    monkeypatch.setattr(listener.MqttListener, "proved", proved)

    async def test() -> None:
        async with at() as port:
            peer = Peer(port)
            await peer.open()
            peer.send_bytes(
                write(mq.ConnectPacket(mq.V5, "c"), 5) + write(mq.PublishPacket("t", b"", 1, packet_id=1), 5)
            )
            assert (await peer.next()).reason == 0
            assert (await peer.next()).packet_id == 1

    run(test)
    assert read


@pytest.mark.parametrize(
    "packet",
    [
        mq.PublishPacket("t", b"", properties={"user": MANY}),
        mq.SubscribePacket(1, [mq.SubscriptionRequest("t", 0)], {"user": MANY}),
        mq.SubscribePacket(1, [mq.SubscriptionRequest("t", 0)], {"subscription_id": [1] * len(MANY)}),
        mq.SubscribePacket(1, [mq.SubscriptionRequest("t", 0)] * (mq.MOST_SUBSCRIPTIONS + 1)),
        mq.UnsubscribePacket(1, ["t"] * (mq.MOST_SUBSCRIPTIONS + 1)),
        mq.AckPacket(PacketKind.PUBACK, 1, 0, {"user": MANY}),
    ],
    ids=["publish", "subscribe", "subscription ids", "filters", "unsubscribe", "acknowledgement"],
)
def test_a_packet_of_too_many_parts_ends_its_connection(packet: mq.Packet) -> None:
    """A PUBLISH of 130,000 user properties took 340 ms, in which no other client was served."""

    async def test() -> None:
        async with at() as port:
            peer = Peer(port)
            await peer.connect("c")
            await peer.publish("t", user=MANY[1:])
            peer.send(packet)
            assert await peer.ends() == Reason.QUOTA
            assert (await Peer(port).connect("c", user=MANY)).reason == Reason.QUOTA

    run(test)


def test_members_beyond_the_bound_are_found_without_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = b"{" + b",".join(b'"%d":1' % n for n in range(1025)) + b"}"
    monkeypatch.setattr("tidings.gateway.mqtt.events.is_crowded", lambda _: pytest.fail("counted to the end"))
    assert members_of(payload) == {}
    monkeypatch.undo()
    assert members_of(b'{"a": ":::::", "b" : ["x:"]}') == {"a": ":::::", "b": ["x:"]}
    assert members_of(b'{"a": "' + b":" * 2000 + b'"}') == {"a": ":" * 2000}


def test_connections_share_the_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 publishes for 25 overlapping filters were one turn of the loop: half a second for a neighbour."""
    sent: list[int] = []
    turn = 0
    send = MqttConnection.send

    def counted(self: MqttConnection, packet: mq.Packet) -> None:
        if isinstance(packet, mq.PublishPacket):
            sent.append(turn)
        send(self, packet)

    monkeypatch.setattr(MqttConnection, "send", counted)
    monkeypatch.setattr(listener, "LoopTurns", partial(LoopTurns, 0.0))  # every turn has no time left

    async def test() -> None:
        def count() -> None:
            nonlocal turn
            turn += 1
            ticks.append(asyncio.get_running_loop().call_soon(count))

        ticks: list[asyncio.Handle] = []
        async with at() as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.connect("s")
            await publisher.connect("p")
            for filter in ("t/#", "+/u", "t/+", "#", "t/u"):
                await subscriber.subscribe(filter, 1)
            count()
            for n in range(1, 51):
                publisher.send(mq.PublishPacket("t/u", b"%d" % n, 1, packet_id=n))
            found = await subscriber.payloads(250)
            ticks[-1].cancel()
        assert sorted(found) == sorted([b"%d" % n for n in range(1, 51)] * 5)

    run(test)
    assert max(sent.count(turn) for turn in set(sent)) <= 6  # each of the five tasks begins once


def test_waiting_work_goes_on_in_its_order_one_in_each_turn() -> None:
    now = 0.0
    done: list[str] = []

    async def work(turns: LoopTurns, name: str) -> None:
        nonlocal now
        for _ in range(3):
            await turns.time()
            done.append(name)
            now += 1.0

    async def test() -> None:
        turns = LoopTurns(0.5, lambda: now)
        cancelled = asyncio.create_task(work(turns, "z"))
        tasks = [asyncio.create_task(work(turns, name)) for name in "abc"]
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*tasks)

    asyncio.run(test())
    assert "".join(done) == "z" + "abc" * 3


def test_a_batch_that_took_long_makes_the_next_one_smaller() -> None:
    now = 0.0
    size = BatchSize(64, lambda: now)
    counts = []
    for took in (0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.002, 0.0):
        with size:
            now += took
        counts.append(size.count)
    assert counts == [32, 64, 64, 16, 4, 1, 1, 1, 2]

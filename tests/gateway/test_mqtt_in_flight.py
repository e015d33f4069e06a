"""Messages in flight to a client of MQTT over a restart, a SUBSCRIBE that is sent again, and waiting."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from tests.gateway._peer import Peer, at, run

from tidings.gateway.mqtt import exchanges
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import PacketKind

ANSWER = {1: PacketKind.PUBACK, 2: PacketKind.PUBREC}


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("sent", [1, 2])
def test_a_message_in_flight_keeps_its_qos_over_a_restart(sent: int, granted: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            await peer.subscribe("t", sent)
            await Peer.publishing(port, [b"x"], qos=2)
            first = await peer.message(acknowledge=False)
            assert first.qos == sent
            await peer.subscribe("t", granted, handling=2)
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            again = await peer.message()
            assert (again.qos, again.packet_id, again.dup) == (sent, first.packet_id, True)

    run(test)


def test_the_packet_id_of_qos_1_is_written_before_the_packet_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a sync that was under way: after a kill then, the resend had another one, and no DUP."""
    file = tmp_path / "store" / exchanges.FILE
    go_on, is_syncing, sync = threading.Event(), threading.Event(), os.fdatasync

    def slow(descriptor: int) -> None:
        is_syncing.set()
        go_on.wait(60)
        sync(descriptor)

    async def test() -> None:
        async with at(tmp_path) as port:
            once, often = Peer(port), Peer(port)
            await once.kept("once")
            await once.subscribe("t", 2)
            await often.kept("often")
            await often.subscribe("t", 1)
            monkeypatch.setattr("tidings.gateway.mqtt.exchanges.os.fdatasync", slow)
            publisher = Peer(port)
            await publisher.connect("p")
            publisher.send(mq.PublishPacket("t", b"x", 1, packet_id=1))
            await asyncio.to_thread(is_syncing.wait, 60)
            publisher.send(mq.PublishPacket("t", b"y", 1, packet_id=2))
            for _ in range(2):
                found = await often.message(acknowledge=False)
                lines: list[Any] = [json.loads(line) for line in file.read_bytes().splitlines()]
                assert ["out", found.packet_id, 1] in [[line[1], line[2], line[-1]] for line in lines]
            go_on.set()

    try:
        run(test)
    finally:
        go_on.set()


@pytest.mark.parametrize("most", [5, 100])
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 0), (1, 0), (1, 2), (0, 1), (2, 2), (1, 1)])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_subscribe_that_is_sent_again_leaves_the_order(
    before: int, after: int, most: int, is_kept: bool, tmp_path: Path
) -> None:
    """A message of QoS 2 waited for its sync, and dozens of QoS 1 behind it did not."""
    count = 150

    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.connect("c", clean=not is_kept, receive_maximum=most, session_expiry=600 * is_kept)
            await peer.subscribe("t", before)
            found: list[int] = []
            await Peer.publishing(port, [b"%d" % n for n in range(count)], qos=2)
            peer.send(mq.SubscribePacket(9, [mq.SubscriptionRequest("t", after)]))
            while len(found) < count:
                packet = await peer.next()
                if isinstance(packet, mq.PublishPacket):
                    found.append(int(packet.payload))
                    if packet.qos:
                        peer.send(mq.AckPacket(ANSWER[packet.qos], packet.packet_id))
                elif isinstance(packet, mq.AckPacket):
                    peer.send(mq.AckPacket(PacketKind.PUBCOMP, packet.packet_id))
            assert found == list(range(count))

    run(test)


class _Later(datetime):
    """A clock that says what a test sets."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let seconds pass for the gateway."""

    def pass_by(seconds: int) -> None:
        _Later.ahead += timedelta(seconds=seconds)

    monkeypatch.setattr("tidings.gateway.mqtt.events.datetime", _Later)
    monkeypatch.setattr(
        "tidings.gateway.mqtt.state.monotonic",
        lambda: time.monotonic() + _Later.ahead.total_seconds(),
        raising=False,
    )
    yield pass_by
    _Later.ahead = timedelta()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_expires_behind_the_receive_maximum_is_not_sent(
    qos: int, later: Callable[[int], None], tmp_path: Path
) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c", receive_maximum=1)
            await peer.subscribe("t", qos)
            await Peer.publishing(port, [b"first"], qos=2)
            first = await peer.message(acknowledge=False)
            await Peer.publishing(port, [b"a", b"b"], qos=2, message_expiry=60)
            await Peer.publishing(port, [b"last"], qos=2)
            assert await peer.waiting() == []
            later(61)
            peer.send(mq.AckPacket(ANSWER[qos], first.packet_id))
            if qos == 2:
                assert (await peer.next()).kind is PacketKind.PUBREL
                peer.send(mq.AckPacket(PacketKind.PUBCOMP, first.packet_id))
            assert (await peer.message()).payload == b"last"

    run(test)


@pytest.mark.parametrize("passed", [200, 400])
def test_a_resend_carries_the_expiry_that_is_left(
    passed: int, later: Callable[[int], None], tmp_path: Path
) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            peer = Peer(port)
            await peer.kept("c")
            await peer.subscribe("t", 1)
            await Peer.publishing(port, [b"x"], message_expiry=300)
            assert (await peer.message(acknowledge=False)).properties["message_expiry"] == 300
            peer.drop()
            later(passed)
            await peer.kept("c")
            again = await peer.message()
            assert again.dup
            assert again.properties["message_expiry"] in ((99, 100) if passed == 200 else (0,))

    run(test)

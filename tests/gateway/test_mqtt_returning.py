"""MQTT clients that leave and return at once: the end of the earlier connection counts first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.gateway._peer import KEPT, Peer, at, run

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311

ROUNDS = 10
WISHES = [mq.SubscriptionRequest(f"f/{number}", 1) for number in range(50)]


def test_a_disconnect_that_ends_the_session_counts_before_a_reconnect(tmp_path: Path) -> None:
    """MQTT 5, 3.1.2.11.2 and 3.14.2.2.2: Session Expiry Interval 0 ends the session with the connection."""

    async def test() -> None:
        async with at(tmp_path) as port:
            for number in range(ROUNDS):
                peer = Peer(port)
                assert not await peer.kept(f"a{number}")
                peer.send(mq.SubscribePacket(1, WISHES))
                assert isinstance(await peer.next(), mq.SubackPacket)
                again = Peer(port)
                await again.open()
                peer.disconnect(session_expiry=0)
                connect = mq.ConnectPacket(V5, f"a{number}", False, 60, properties={"session_expiry": KEPT})
                again.send(connect)
                connack = await again.next()
                assert (connack.reason, connack.session_present) == (0, False)
                again.disconnect(session_expiry=0)

    run(test)


@pytest.mark.parametrize("version", [V311, V5])
def test_a_will_is_deleted_by_a_disconnect_behind_other_packets(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            watcher = Peer(port)
            await watcher.connect("watcher")
            await watcher.subscribe("will", 1)
            for _ in range(ROUNDS):
                peer, again = Peer(port, version), Peer(port, version)
                await peer.connect("a", clean=False, will=mq.Will("will", b"gone", 1, False))
                peer.send(mq.SubscribePacket(1, WISHES))
                peer.disconnect()
                await again.connect("a")
                again.disconnect()
            assert await watcher.waiting() == []

    run(test)


def test_many_that_return_with_one_id_at_once_are_one_in_the_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            peers = [Peer(port) for _ in range(8)]
            await asyncio.gather(*(peer.connect("a", session_expiry=KEPT) for peer in peers))
            for peer in peers:
                peer.send(mq.PingPacket())
            answers = [await peer.next() for peer in peers]
            assert sum(isinstance(answer, mq.PingPacket) for answer in answers) == 1
            last = next(p for p, a in zip(peers, answers, strict=True) if isinstance(a, mq.PingPacket))
            await last.subscribe("t", 1)
            await Peer.publishing(port, [b"m"])
            assert await last.payloads(1) == [b"m"]

    run(test)

"""MQTT publishes to a broker whose disk is full: refused ones never appear, and a resend is the
same event."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.test_mqtt import at, run

import tidings
from tidings.errors import StoreFullError, UnknownOutcomeError
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import PacketKind, Reason
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.unconfirmed import UnconfirmedPublishes
from tidings.gateway.mqtt.writing import write
from tidings.store.rocks import RocksEngine
from tidings.testing.network import until


async def sent(port: int, n: int, qos: int, *, dup: bool = False) -> mq.AckPacket | mq.DisconnectPacket:
    """Publish {"n": n} under packet id n in a new session of one client; the first answer to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(write(mq.ConnectPacket(5, "device"), 5))
    publish = mq.PublishPacket("t", b'{"n": %d}' % n, qos, False, packet_id=n)
    publish.dup = dup
    writer.write(write(publish, 5))
    read = PacketReader(2**20, version=5)
    try:
        while True:
            data = await reader.read(2**16)
            assert data, "the connection ended without a word"
            for packet in read.feed(data):
                if isinstance(packet, mq.AckPacket | mq.DisconnectPacket):
                    return packet
    finally:
        writer.close()


def is_unanswered(answer: Any) -> bool:
    return isinstance(answer, mq.DisconnectPacket) and answer.reason == Reason.BUSY


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_a_full_disk_refuses_over_mqtt_never_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    async def test() -> None:
        async with (
            at(tmp_path) as (port, service),
            tidings.connect(service.server.address, name="ann") as bus,
        ):
            await (await bus.subscribe("n > 0", name="d", durable=True)).close()
            with monkeypatch.context() as full:
                full.setattr(RocksEngine, "room", lambda engine: 1000)
                assert is_unanswered(await sent(port, 1, qos))  # it may be kept when there is room ...
                assert is_unanswered(await sent(port, 1, qos, dup=True))  # ... so its resend is not refused
                refused = await sent(port, 2, qos)
                kind = PacketKind.PUBACK if qos == 1 else PacketKind.PUBREC
                assert refused == mq.AckPacket(kind, 2, Reason.QUOTA)
                assert is_unanswered(await sent(port, 3, qos, dup=True))  # its first copy may be anywhere
            await until(lambda: service.server.node.disk_full is None)
            assert await sent(port, 1, qos, dup=True) == mq.AckPacket(kind, 1, Reason.SUCCESS)
            await bus.publish({"n": 9})
            async with bus.subscribe("n > 0", name="d", durable=True) as news:
                assert [(await news.get(timeout=60))["n"] for _ in range(2)] == [1, 9]

    run(test)


def test_an_unknown_outcome_names_the_event_and_publishing_it_again_is_the_same_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with (
            at(tmp_path) as (_, service),
            tidings.connect(service.server.address, name="ann") as bus,
        ):
            news = await bus.subscribe("n > 0", name="d", durable=True)
            with monkeypatch.context() as full:
                full.setattr(RocksEngine, "room", lambda engine: 1000)
                with pytest.raises(UnknownOutcomeError) as unknown:
                    await bus.publish({"n": 1})
                with pytest.raises(StoreFullError):
                    await bus.publish({"n": 2})
                with pytest.raises(UnknownOutcomeError):
                    await bus.publish({"n": 1}, id=unknown.value.id)
            await until(lambda: service.server.node.disk_full is None)
            assert (await news.get(timeout=60))["n"] == 1
            await news.ack()
            await until(lambda: service.figures()["entries"] == 0)  # the log has forgotten it ...
            async with tidings.connect(service.server.address, name="other") as other:
                await other.publish({"n": 1}, id=unknown.value.id, source="ann")  # ... its number is known
            await bus.publish({"n": 9})
            assert (await news.get(timeout=60))["n"] == 9

    run(test)


def test_undecided_publishes_are_bounded_and_known_by_their_content() -> None:
    undecided = UnconfirmedPublishes(2)
    packets = [mq.PublishPacket("t", b"%d" % n, 1, False, packet_id=7) for n in range(3)]
    for number, packet in enumerate(packets):
        assert undecided.id_of(("ann",), packet) is None
        undecided.note(("ann",), packet, str(number))
        packet.dup = True
    assert [undecided.id_of(("ann",), packet) for packet in packets] == [None, "1", "2"]
    assert undecided.id_of(("ben",), packets[1]) is None
    undecided.decided(("ann",), packets[1])
    assert undecided.id_of(("ann",), packets[1]) is None

"""MQTT QoS 2 with a kept session over kill -9 of the broker: once, in both directions, at each step of the
exchange."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos._mqtt import SECONDS, Client, log_of, play, running, until_logged

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, PacketKind


def message(packet_id: int, text: str, *, dup: bool = False, topic: str = "t") -> mq.PublishPacket:
    return mq.PublishPacket(topic, text.encode(), 2, dup=dup, packet_id=packet_id)


@pytest.mark.parametrize("version", [V311, pytest.param(V5, marks=pytest.mark.soak)], ids=["v311", "v5"])
def test_a_message_from_a_client_is_published_once_wherever_the_broker_is_killed(
    tmp_path: Path, version: int
) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            async with tidings.connect(broker.address, name="keeper", timeout=SECONDS) as bus:
                await bus.subscribe("TRUE", name="all", durable=True)  # so that the log holds everything
            client = Client(version)
            assert not await client.connect(broker, "dev")
            client.send(message(7, "one"))
            await until_logged(broker, 1)  # PUBREC is lost with the connection
            broker.kill()
            broker.start()
            assert await client.connect(broker, "dev")
            client.send(message(7, "one", dup=True))
            await client.answered(PacketKind.PUBREC, 7)
            broker.kill()  # between PUBREC and PUBREL
            broker.start()
            assert await client.connect(broker, "dev")
            client.send(message(7, "one", dup=True))
            await client.answered(PacketKind.PUBREC, 7)
            client.send(mq.AckPacket(PacketKind.PUBREL, 7))
            await client.answered(PacketKind.PUBCOMP, 7)
            broker.kill()  # PUBCOMP was read: the packet id is free, the same words are another message
            broker.start()
            assert await client.connect(broker, "dev")
            client.send(message(7, "one"))
            await client.answered(PacketKind.PUBREC, 7)
            client.send(mq.AckPacket(PacketKind.PUBREL, 7))
            await client.answered(PacketKind.PUBCOMP, 7)
            assert await log_of(broker) == [b"one", b"one"]
            client.close()

    play(story())


@pytest.mark.parametrize("version", [pytest.param(V311, marks=pytest.mark.soak), V5], ids=["v311", "v5"])
def test_a_message_to_a_client_is_delivered_once_wherever_the_broker_is_killed(
    tmp_path: Path, version: int
) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            client = Client(version)
            assert not await client.connect(broker, "sub")
            client.send(mq.SubscribePacket(1, [mq.SubscriptionRequest("q/#", 2)]))
            assert isinstance(await client.next(), mq.SubackPacket)
            async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
                await bus.publish({}, topic="q/1", payload=b"one")
            first = await client.next()
            assert isinstance(first, mq.PublishPacket)
            broker.kill()  # the client has it; its PUBREC is lost
            broker.start()
            assert await client.connect(broker, "sub")
            again = await client.next()
            assert isinstance(again, mq.PublishPacket)
            assert (again.packet_id, again.dup, again.payload) == (first.packet_id, True, b"one")
            client.send(mq.AckPacket(PacketKind.PUBREC, first.packet_id))
            await client.answered(PacketKind.PUBREL, first.packet_id)
            broker.kill()  # PUBCOMP is lost, and so may be what the broker knew of the acknowledgement
            broker.start()
            assert await client.connect(broker, "sub")
            await client.answered(PacketKind.PUBREL, first.packet_id)
            client.send(mq.AckPacket(PacketKind.PUBCOMP, first.packet_id))
            async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
                await bus.publish({}, topic="q/1", payload=b"two")
            second = await client.next()
            assert isinstance(second, mq.PublishPacket)
            assert (second.payload, second.dup) == (b"two", False)
            client.send(mq.AckPacket(PacketKind.PUBREC, second.packet_id))
            await client.answered(PacketKind.PUBREL, second.packet_id)
            client.send(mq.AckPacket(PacketKind.PUBCOMP, second.packet_id))
            await client.no_message()
            broker.kill()
            broker.start()
            assert await client.connect(broker, "sub")
            await client.no_message()
            client.close()

    play(story())

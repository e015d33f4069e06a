"""MQTT shared subscriptions of kept sessions over kill -9 of the broker."""

from __future__ import annotations

from pathlib import Path

from tests.chaos._mqtt import SECONDS, Broker, Client, play, running

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, PacketKind

SHARED = "$share/g/q/#"


async def publish(broker: Broker, *payloads: bytes) -> None:
    async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
        for payload in payloads:
            await bus.publish({}, topic="q/1", payload=payload)


async def acknowledged(client: Client, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        publish = await client.message()
        client.send(mq.AckPacket(PacketKind.PUBACK, publish.packet_id))
        found.append(publish.payload)
    return found


async def confirm(client: Client, packet_id: int) -> None:
    client.send(mq.AckPacket(PacketKind.PUBREC, packet_id))
    await client.answered(PacketKind.PUBREL, packet_id)
    client.send(mq.AckPacket(PacketKind.PUBCOMP, packet_id))


def test_what_waits_for_a_share_and_what_a_member_has_in_flight_outlives_a_kill(tmp_path: Path) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            worker = Client(V5)
            await worker.connect(broker, "worker", ahead=1)
            await worker.subscribed(SHARED, 1)
            await publish(broker, b"0", b"1", b"2")
            assert (await worker.message()).payload == b"0", "it is in flight, and two wait"
            broker.kill()
            broker.start()
            other = Client(V5)  # a kept member of the share that was not there before
            await other.connect(broker, "other")
            await other.subscribed(SHARED, 1)
            assert sorted(await acknowledged(other, 3)) == [b"0", b"1", b"2"]
            assert await worker.connect(broker, "worker")
            await worker.no_message()
            worker.close()
            other.close()

    play(story())


def test_a_message_of_qos_2_in_a_share_is_delivered_once_over_kills(tmp_path: Path) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            first, second = Client(V5), Client(V5)
            await first.connect(broker, "first")
            await first.subscribed(SHARED, 2)
            await publish(broker, b"one")
            sent = await first.message()
            await second.connect(broker, "second")
            await second.subscribed(SHARED, 2)
            broker.kill()  # the first member has it; its PUBREC is lost
            broker.start()
            assert await second.connect(broker, "second")
            await second.no_message()
            await publish(broker, b"two")
            mine = await second.message()
            assert mine.payload == b"two"
            assert await first.connect(broker, "first")
            again = await first.message()
            assert (again.packet_id, again.dup, again.payload) == (sent.packet_id, True, b"one")
            first.send(mq.AckPacket(PacketKind.PUBREC, again.packet_id))
            await first.answered(PacketKind.PUBREL, again.packet_id)
            broker.kill()  # what the broker knew of that may be lost
            broker.start()
            assert await second.connect(broker, "second")
            repeated = await second.message()
            assert (repeated.packet_id, repeated.payload) == (mine.packet_id, b"two")
            await confirm(second, repeated.packet_id)
            await second.no_message()
            assert await first.connect(broker, "first")
            await first.no_message()
            first.close()
            second.close()

    play(story())


def test_a_share_of_clean_sessions_is_kept_from_the_suback_of_a_kept_session_on(tmp_path: Path) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            clean, kept = Client(V5), Client(V5)
            await clean.connect(broker, "clean", ahead=1, expiry=0, clean=True)
            await clean.subscribed(SHARED, 1)
            await publish(broker, b"0", b"1", b"2")
            first = await clean.message()
            assert first.payload == b"0", "and the next one is taken for it"
            await kept.connect(broker, "kept", ahead=3)
            await kept.subscribed(SHARED, 1)
            await publish(broker, b"3", b"4", b"5")
            waited = [(await kept.message()).payload for _ in range(3)]
            assert waited == [b"2", b"3", b"4"], "what waited for the clean session is not lost"
            clean.send(mq.AckPacket(PacketKind.PUBACK, first.packet_id))
            assert (await clean.message()).payload == b"1"
            broker.kill()
            broker.start()
            assert await kept.connect(broker, "kept")
            assert sorted(await acknowledged(kept, 3)) == [b"3", b"4", b"5"]
            await kept.no_message()
            kept.close()
            clean.close()

    play(story())


def test_a_share_that_only_clean_sessions_had_left_is_ended_after_a_kill(tmp_path: Path) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            clean, kept = Client(V5), Client(V5)
            await clean.connect(broker, "clean", ahead=1, expiry=0, clean=True)
            await clean.subscribed(SHARED, 1)
            await kept.connect(broker, "kept")
            await kept.subscribed(SHARED, 1)
            kept.send(mq.UnsubscribePacket(2, [SHARED]))
            assert isinstance(await kept.next(), mq.UnsubackPacket)
            await publish(broker, b"0", b"1")
            assert (await clean.message()).payload == b"0", "the share goes on for it"
            clean.send(mq.PingPacket())
            await clean.next()  # the file of sessions was written before this answer
            broker.kill()
            broker.start()
            async with tidings.connect(broker.address, name="look", timeout=SECONDS) as bus:
                while (await bus.inquire("figures"))["subscriptions"]:
                    pass
            clean.close()
            kept.close()

    play(story())

"""Wills of MQTT clients that are connected when the broker is killed (OASIS MQTT 5.0, 3.1.2.5 and 4.1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.chaos._mqtt import SECONDS, Client, play, running

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, PacketKind


def will(payload: bytes, delay: int = 0) -> mq.Will:
    return mq.Will("w", payload, 1, False, {"will_delay": delay} if delay else {})


async def wills(watcher: Client, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = await watcher.message()
        watcher.send(mq.AckPacket(PacketKind.PUBACK, message.packet_id))
        found.append(message.payload)
    return sorted(found)


def test_a_killed_broker_publishes_the_wills_of_its_clients_when_it_is_back_and_once(tmp_path: Path) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            watcher, kept, clean, old, left = Client(V5), Client(V5), Client(V5), Client(V311), Client(V5)
            await watcher.connect(broker, "watcher")
            await watcher.subscribed("w", 1)
            await kept.connect(broker, "kept", will=will(b"kept"))
            await clean.connect(broker, "clean", expiry=0, clean=True, will=will(b"clean"))
            await old.connect(broker, "old", clean=True, will=will(b"old"))
            await left.connect(broker, "left", expiry=0, clean=True, will=will(b"left"))
            left.send(mq.DisconnectPacket())
            async with asyncio.timeout(SECONDS):
                while b'"left"' in broker.sessions.read_bytes():
                    await asyncio.sleep(0)
            broker.kill()
            broker.start()
            assert await watcher.connect(broker, "watcher")
            assert await wills(watcher, 3) == [b"clean", b"kept", b"old"]
            async with asyncio.timeout(SECONDS):
                while b'"payload"' in broker.sessions.read_bytes():
                    await asyncio.sleep(0)
            assert not await clean.connect(broker, "clean", expiry=0), "its session ended with its connection"
            assert await kept.connect(broker, "kept")
            await watcher.no_message()
            broker.kill()
            broker.start()
            assert await watcher.connect(broker, "watcher")
            await watcher.no_message()
            for client in (watcher, kept, clean, old, left):
                client.close()

    play(story())


def test_a_client_that_returns_to_a_killed_broker_within_its_delay_has_its_will_cancelled(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            watcher, client, other = Client(V5), Client(V5), Client(V5)
            await watcher.connect(broker, "watcher")
            await watcher.subscribed("w", 1)
            await client.connect(broker, "client", will=will(b"client", delay=1))
            await other.connect(broker, "other", will=will(b"other", delay=2))
            broker.kill()
            broker.start()
            assert await client.connect(broker, "client")
            assert await watcher.connect(broker, "watcher")
            assert await wills(watcher, 1) == [b"other"], "its delay is longer: the first would have been"
            for each in (watcher, client, other):
                each.close()

    play(story())

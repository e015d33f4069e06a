"""Memory of a broker whose MQTT client subscribes to many retained messages and does not read."""

from __future__ import annotations

import asyncio
import os
from itertools import product
from pathlib import Path

import pytest
from tests.chaos._mqtt import SECONDS, Client, play, running
from tests.chaos.test_memory import resident_mib

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, PacketKind
from tidings.matching.engine import THRESHOLD

MESSAGES, PAYLOAD = 40, 100_000
FILTERS = ["/".join(["r", "+", *levels]) for levels in product("a+", "b+", "c+", "d+", "e+", "f+", "g+")]
MOST_MIB = 60  # beyond what the broker had before; a copy for each filter takes 488 MiB


@pytest.mark.parametrize("qos", [0, 1])
def test_retained_messages_for_many_filters_wait_as_one_copy_and_all_come(tmp_path: Path, qos: int) -> None:
    async def story() -> None:
        with running(tmp_path) as broker:
            async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
                for number in range(MESSAGES):
                    topic = f"r/{number}/a/b/c/d/e/f/g"
                    payload = os.urandom(PAYLOAD)
                    await bus.publish({}, topic=topic, payload=payload, lifetime=tidings.FOREVER, key=topic)
                client = Client(V5)
                await client.connect(broker, "slow", expiry=0, clean=True)
                before = peak = resident_mib(broker.pid)
                client.send(
                    mq.SubscribePacket(1, [mq.SubscriptionRequest(filter, qos) for filter in FILTERS])
                )
                async with asyncio.timeout(SECONDS):
                    while (await bus.inquire("figures"))["subscriptions"] < len(FILTERS):
                        peak = max(peak, resident_mib(broker.pid))
                    while (await bus.inquire("figures"))[
                        "delivered"
                    ] < MESSAGES:  # the first are on their way
                        peak = max(peak, resident_mib(broker.pid))
            assert isinstance(await client.next(), mq.SubackPacket)
            for _ in range(len(FILTERS) * MESSAGES):
                message = await client.message()
                assert len(message.payload) == PAYLOAD
                if qos:
                    client.send(mq.AckPacket(PacketKind.PUBACK, message.packet_id))
                peak = max(peak, resident_mib(broker.pid))
            client.close()
            print(f"{before:.0f} MiB before, at most {peak:.0f} MiB")
            assert peak - before < MOST_MIB

    play(story())


def test_mixed_filters_of_a_client_that_does_not_read_take_no_more_than_their_number(tmp_path: Path) -> None:
    """Filters that accept all retained messages, a few, and none, under every QoS. Fewer than let the broker
    load its compiled engine, which takes memory of its own once (`THRESHOLD // 2`)."""
    mixed = [f"{each}/{last}" for each in FILTERS for last in "h+"][:176]
    mixed += [f"r/{number % MESSAGES}/#" if number % 2 else f"r/+/{number}" for number in range(64)]
    assert len(set(mixed)) <= THRESHOLD // 2

    async def story() -> None:
        with running(tmp_path) as broker:
            async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
                for number in range(MESSAGES):
                    topic = f"r/{number}/a/b/c/d/e/f/g/h"
                    payload = os.urandom(PAYLOAD)
                    await bus.publish({}, topic=topic, payload=payload, lifetime=tidings.FOREVER, key=topic)
                before = peak = resident_mib(broker.pid)
                slow = Client(V5)
                await slow.connect(broker, "slow", expiry=0, clean=True)
                wishes = [mq.SubscriptionRequest(each, position % 3) for position, each in enumerate(mixed)]
                slow.send(mq.SubscribePacket(1, wishes))
                assert isinstance(await slow.next(), mq.SubackPacket)
                for _ in range(100):  # it reads no more; each inquiry lets the broker go on
                    await bus.inquire("figures")
                    peak = max(peak, resident_mib(broker.pid))
                slow.close()
            print(f"{before:.0f} MiB before, at most {peak:.0f} MiB")
            assert peak - before < MOST_MIB

    play(story())

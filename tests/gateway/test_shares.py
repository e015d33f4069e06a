"""Shared subscriptions of MQTT: when the group is durable, when it ends, and to which member a
message goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.gateway.conftest import broker
from tests.gateway.test_floods import Raw, port_of

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import PacketKind, Reason

SHARED = "$share/g/q/#"


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


async def subscribed(raw: Raw, qos: int = 1, filter: str = SHARED, user: str = "") -> int:
    properties = {"user": [("filter", user)]} if user else {}
    raw.send(mq.SubscribePacket(1, [mq.SubscriptionRequest(filter, qos)], properties))
    suback = await raw.next()
    assert isinstance(suback, mq.SubackPacket)
    return suback.reasons[0]


async def unsubscribed(raw: Raw) -> None:
    raw.send(mq.UnsubscribePacket(2, [SHARED]))
    assert isinstance(await raw.next(), mq.UnsubackPacket)


async def quiet(raw: Raw) -> None:
    """No message comes before the answer to a ping."""
    raw.send(mq.PingPacket())
    assert isinstance(await raw.next(), mq.PingPacket)


async def publish(service: Any, *payloads: bytes) -> None:
    async with tidings.connect(service.server.address, name="p", timeout=60) as bus:
        for payload in payloads:
            await bus.publish({"n": len(payload)}, topic="q/1", payload=payload)


def groups(service: Any) -> list[tuple[str, bool]]:
    stored = service.server.node.slots["delivery"]._registry.states.values()
    return [(each.id.name, each.durable) for each in stored]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_a_share_is_durable_while_a_kept_session_has_it_and_its_bytes_are_given_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            port = port_of(service, "mqtt")
            async with Raw(port, name="k", expiry=600) as kept, Raw(port, name="l", expiry=600) as other:
                for raw in (kept, other):
                    assert await subscribed(raw) == 1
            assert groups(service) == [(f"g/{SHARED}", True)]
            await publish(service, b"0" * 10_000)
            ledger = service.server.node.slots["delivery"]._index
            assert len(ledger.entries) == 1, "it waits for sessions that are away"
            async with Raw(port, name="k", expiry=0):
                pass  # a clean start: the session is over
            assert groups(service) == [(f"g/{SHARED}", True)], "another kept session has it"
            async with Raw(port, name="l", expiry=600) as other:
                message = await other.next()
                assert len(message.payload) == 10_000
                await unsubscribed(other)
                assert groups(service) == []
            await until(lambda: not ledger.entries)

    run(test)


def test_a_durable_share_goes_on_for_clean_sessions_and_ends_with_the_last(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            port = port_of(service, "mqtt")
            async with Raw(port, name="c") as clean:
                assert await subscribed(clean) == 1
                assert groups(service) == [(f"g/{SHARED}", False)]
                async with Raw(port, name="k", expiry=600) as kept:
                    assert await subscribed(kept) == 1
                    assert groups(service) == [(f"g/{SHARED}", True)]
                    await unsubscribed(kept)
                assert groups(service) == [(f"g/{SHARED}", True)]
                await publish(service, b"one")
                message = await clean.next()
                assert message.payload == b"one"
                clean.send(mq.AckPacket(PacketKind.PUBACK, message.packet_id))
                await quiet(clean)
            await until(lambda: not groups(service))

    run(test)


def test_what_a_member_had_in_flight_with_qos_1_goes_to_another_when_its_session_ends() -> None:
    async def test() -> None:
        async with broker(mqtt="127.0.0.1:0") as service:
            port = port_of(service, "mqtt")
            async with Raw(port, name="a") as first:
                await subscribed(first)
                await publish(service, b"one")
                assert (await first.next()).payload == b"one"
                second = await Raw(port, name="b").__aenter__()
                await subscribed(second)
                await quiet(second)
            assert (await second.next()).payload == b"one"
            await second.__aexit__()

    run(test)


def test_what_a_member_had_in_flight_with_qos_2_goes_to_no_other_when_its_session_ends(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            port = port_of(service, "mqtt")
            async with Raw(port, name="b", expiry=600) as second:
                async with Raw(port, name="a", expiry=600) as first:
                    await subscribed(first, qos=2)
                    await publish(service, b"one")
                    assert (await first.next()).payload == b"one"
                    await subscribed(second, qos=2)
                    await unsubscribed(first)
                await quiet(second)
                await publish(service, b"two")
                assert (await second.next()).payload == b"two"

    run(test)


def test_a_share_with_another_content_filter_is_refused_also_while_its_sessions_are_away(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        for _ in range(2):  # the second broker knows the session from its file alone
            async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
                port = port_of(service, "mqtt")
                async with Raw(port, name="b", expiry=600) as other:
                    if not groups(service):
                        async with Raw(port, name="a", expiry=600) as raw:
                            assert await subscribed(raw, user="n > 1") == 1
                    assert await subscribed(other, user="n > 2") == Reason.TOPIC_FILTER
                    assert await subscribed(other, user="n > 1") == 1
                    await unsubscribed(other)
                assert groups(service) == [(f"g/{SHARED}", True)]

    run(test)


def test_shares_of_one_name_of_two_principals_are_apart(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(tmp_path, users=True, mqtt="127.0.0.1:0") as service:
            port = port_of(service, "mqtt")
            async with (
                Raw(port, "market", b"m", name="x", expiry=600) as market,
                Raw(port, "slow", b"s", name="x", expiry=600) as slow,
            ):
                for raw in (market, slow):
                    assert await subscribed(raw, qos=2) == 2
                market.send(mq.PublishPacket("q/1", b"one", 1, packet_id=9))
                found = [await market.next(), await market.next()]
                assert [each.payload for each in found if isinstance(each, mq.PublishPacket)] == [b"one"]
                assert (await slow.next()).payload == b"one"
                await unsubscribed(slow)
                assert len(groups(service)) == 1

    run(test)

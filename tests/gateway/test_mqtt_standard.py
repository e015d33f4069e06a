"""The MQTT gateway by the standard (OASIS MQTT 5.0): one test for each sentence that it broke once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.gateway._peer import Peer, at, port_of, run
from tests.gateway.conftest import broker

import tidings
from tidings.errors import RefusedError
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, PacketKind
from tidings.gateway.mqtt.session import MqttSession

versions = pytest.mark.parametrize("version", [V311, V5], ids=["v311", "v5"])


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


class Clock:
    """The time of messages, which a test moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        monkeypatch.setattr("tidings.gateway.mqtt.events.datetime", self)

    def now(self, zone: Any = None) -> datetime:
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() + self.ahead, zone)


# -- content is no protocol data ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [b'{"response_topic": 5}', b'{"payload_format": 300}', b'{"mqtt_qos": 0, "correlation": "ff"}'],
)
def test_members_of_a_payload_reach_every_subscriber_as_content(payload: bytes) -> None:
    async def test() -> None:
        async with at() as port:
            live, kept, publisher = Peer(port), Peer(port), Peer(port)
            await live.connect("live")
            await kept.kept("kept")
            await publisher.connect("p")
            for each in (live, kept):
                await each.subscribe("a", 2)
            kept.drop()
            await publisher.publish("a", payload, 2, retain=True)
            await publisher.publish("a", b"next", 2)
            await kept.kept("kept")
            for each in (live, kept):
                found = [await each.message() for _ in range(2)]
                assert [(m.payload, m.qos, m.properties) for m in found] == [
                    (payload, 2, {}),
                    (b"next", 2, {}),
                ]
            late = Peer(port)
            await late.connect("late")
            await late.subscribe("a", 2)
            assert (await late.message()).payload == payload

    run(test)


@versions
def test_members_of_an_object_behind_white_space_are_attributes(version: int) -> None:
    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="s") as bus,
            bus.subscribe("a = 1") as listener,
        ):
            publisher = Peer(port_of(service), version)
            await publisher.connect("p")
            for payload in (b'{"a": 1}', b'\r\n\t {"a": 1}', b'{"a": 2}', b" 5", b'\n{"a": 1}\n'):
                await publisher.publish("t", payload)
            found = [(await listener.get(timeout=60)).payload for _ in range(3)]
            assert found == [b'{"a": 1}', b'\r\n\t {"a": 1}', b'\n{"a": 1}\n']

    run(test)


def test_user_properties_named_like_fields_stay_user_properties() -> None:
    async def test() -> None:
        async with at() as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.connect("s")
            await subscriber.subscribe("a", 1)
            await publisher.connect("p")
            user = [("payload_format", "x"), ("mqtt_qos", "0"), ("response_topic", "r")]
            await publisher.publish("a", b"x", user=user)
            found = await subscriber.message()
            assert (found.qos, found.properties) == (1, {"user": user})

    run(test)


def test_filters_ask_for_members_of_any_name() -> None:
    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="s") as bus,
            bus.subscribe("mqtt_qos = 7 AND response_topic = 5") as listener,
            bus.subscribe("service.name = 'a' AND o.x.y = 3 AND `user.name` = 'u'") as dotted,
        ):
            publisher = Peer(port_of(service))
            await publisher.connect("p")
            await publisher.publish("a", b'{"mqtt_qos": 7, "response_topic": 5}')
            assert (await listener.get(timeout=60)).payload == b'{"mqtt_qos": 7, "response_topic": 5}'
            members = b'{"service.name": "a", "o": {"x.y": 3}, "o.x": {"y": 4}}'
            await publisher.publish("a", members, user=[("user.name", "u"), ("o.x.y", "5")])
            found = (await dotted.get(timeout=60)).attributes
            assert found == {"service.name": "a", "o": {"x.y": 3}, "o.x": {}, "user.name": "u"}

    run(test)


@pytest.mark.parametrize(
    "answer_to", ["_inbox/peer", "$SYS/x", "/".join("x" * 40)], ids=["ok", "reserved", "too deep"]
)
def test_clients_of_mqtt_ask_and_answer_as_others_do(answer_to: str) -> None:
    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="s") as bus,
        ):

            @bus.reply(topic="sum")
            async def add(event: tidings.Event) -> dict[str, int]:
                return {"sum": event["left"] + event["right"]}

            async with bus.serving():
                peer = Peer(port_of(service))
                await peer.connect("p")
                await peer.subscribe("_inbox/peer", 1)
                request = b'{"left": 1, "right": 2}'
                await peer.publish("sum", request, 1, response_topic=answer_to, correlation_data=b"\x00\xff")
                if answer_to.startswith("_inbox"):
                    reply = await peer.message()
                    assert reply.payload == b'{"sum":3}'
                    assert reply.properties["correlation_data"] == b"\x00\xff"
                # an address that no reply can reach hurts its requester alone
                assert (await bus.request({"left": 2, "right": 2}, topic="sum", timeout=60))["sum"] == 4

            await peer.subscribe("double", 1)
            wanted = asyncio.create_task(bus.request({"n": 2}, topic="double", timeout=60))
            found = await peer.message()
            await peer.publish(
                found.properties["response_topic"],
                b'{"n": 4}',
                1,
                correlation_data=found.properties["correlation_data"],
            )
            assert (await wanted)["n"] == 4

    run(test)


# -- retained messages -------------------------------------------------------------------------------


@versions
def test_every_subscribe_of_a_kept_session_brings_the_retained_messages(version: int) -> None:
    async def test() -> None:
        async with at() as port:
            publisher, subscriber = Peer(port, version), Peer(port, version)
            await publisher.connect("p")
            await publisher.publish("a/state", b"on", retain=True)

            async def retained() -> None:
                await subscriber.subscribe("a/+", 1)
                found = await subscriber.message()
                assert (found.payload, found.retain, found.qos) == (b"on", True, 1)

            await subscriber.kept("s")
            await retained()
            await retained()  # again
            await subscriber.unsubscribe("a/+")
            await retained()
            subscriber.drop()
            assert await subscriber.kept("s")
            await retained()
            subscriber.close()
            await subscriber.connect("s", clean=True)
            subscriber.close()
            assert not await subscriber.kept("s")
            await retained()

    run(test)


def test_retain_handling_chooses_the_subscribes_that_bring_retained_messages() -> None:
    async def test() -> None:
        async with at() as port:
            publisher, subscriber = Peer(port), Peer(port)
            await publisher.connect("p")
            await publisher.publish("a", b"x", retain=True)
            await subscriber.kept("s")
            for handling, count in ((2, 0), (1, 0), (0, 1), (1, 0), (0, 1)):
                await subscriber.subscribe("a", 1, handling=handling)
                assert len([await subscriber.message() for _ in range(count)]) == count
                assert await subscriber.waiting() == []

    run(test)


def test_a_subscribe_reads_the_retained_messages_that_match_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []

    async def test() -> None:
        async with at() as port:
            publisher, subscriber = Peer(port), Peer(port)
            await publisher.connect("p")
            for number in range(300):
                await publisher.publish(f"a/{number}", b"x", retain=True)
            await subscriber.connect("s")
            from tidings.protocol.delivery.sources import OwnLog

            was = OwnLog._on_read

            def counted(
                self: Any, stored: Any, cursor: Any, number: int, then: Any, records: Any, now: float
            ) -> None:
                reads.append(len(records))
                was(self, stored, cursor, number, then, records, now)

            monkeypatch.setattr(OwnLog, "_on_read", counted)
            await subscriber.subscribe("b/#", 1)
            await subscriber.subscribe("a/7", 1)
            assert (await subscriber.message()).topic == "a/7"
            await subscriber.subscribe("+/29", 1)
            assert (await subscriber.message()).topic == "a/29"
            assert await subscriber.waiting() == []

    run(test)
    assert reads == [1, 1]


# -- nothing is lost ---------------------------------------------------------------------------------


@versions
def test_subscribing_again_in_a_stream_loses_nothing(version: int) -> None:
    async def test() -> None:
        async with at() as port:
            subscriber, publisher = Peer(port, version), Peer(port, version)
            await subscriber.connect("s")
            await subscriber.subscribe("a", 1)
            await publisher.connect("p")

            async def publish() -> None:
                for number in range(100):
                    await publisher.publish("a", str(number).encode())

            publishing = asyncio.create_task(publish())
            found: list[bytes] = []
            while len(found) < 100:
                packet = await subscriber.next()
                if isinstance(packet, mq.PublishPacket):
                    subscriber.send(mq.AckPacket(PacketKind.PUBACK, packet.packet_id))
                    found.append(packet.payload)
                    if not len(found) % 10:
                        wish = mq.SubscriptionRequest("a", 1)
                        subscriber.send(mq.SubscribePacket(60_000, [wish]))
            await publishing
            assert found == [str(number).encode() for number in range(100)]

    run(test)


def test_subscribing_on_connect_keeps_a_long_queue_within_the_receive_maximum() -> None:
    async def test() -> None:
        async with at() as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s", receive_maximum=20)
            await subscriber.subscribe("a", 1)
            subscriber.disconnect()
            await publisher.connect("p")
            for number in range(120):
                await publisher.publish("a", str(number).encode())
            assert await subscriber.kept("s", receive_maximum=20)
            subscriber.send(mq.SubscribePacket(1, [mq.SubscriptionRequest("a", 1)]))
            found: list[mq.PublishPacket] = []
            while len(found) < 20:
                packet = await subscriber.next()
                found += [packet] if isinstance(packet, mq.PublishPacket) else []
            assert all(not isinstance(each, mq.PublishPacket) for each in await subscriber.waiting())
            for packet in found:
                subscriber.send(mq.AckPacket(PacketKind.PUBACK, packet.packet_id))
            payloads = [packet.payload for packet in found]
            while len(payloads) < 120:
                packet = await subscriber.next()
                if isinstance(packet, mq.PublishPacket):
                    subscriber.send(mq.AckPacket(PacketKind.PUBACK, packet.packet_id))
                    payloads.append(packet.payload)
            assert payloads == [str(number).encode() for number in range(120)]

    run(test)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_in_flight_is_resent_after_an_unsubscribe(qos: int) -> None:
    async def test() -> None:
        async with at() as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s")
            await subscriber.subscribe("a", qos)
            await publisher.connect("p")
            await publisher.publish("a", b"x", qos)
            sent = await subscriber.message(acknowledge=False)
            assert await subscriber.unsubscribe("a") == 0
            subscriber.drop()
            assert await subscriber.kept("s")
            again = await subscriber.message()
            assert (again.payload, again.packet_id, again.dup) == (b"x", sent.packet_id, True)
            assert await subscriber.waiting() == []

    run(test)


def test_resends_obey_a_smaller_receive_maximum() -> None:
    async def test() -> None:
        async with at() as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s")
            await subscriber.subscribe("a", 1)
            await publisher.connect("p")
            for number in range(5):
                await publisher.publish("a", str(number).encode())
                await subscriber.message(acknowledge=False)
            subscriber.drop()
            await subscriber.kept("s", receive_maximum=2)
            first = [await subscriber.message(acknowledge=False) for _ in range(2)]
            assert await subscriber.waiting() == []
            for each in first:
                subscriber.send(mq.AckPacket(PacketKind.PUBACK, each.packet_id))
            rest = await subscriber.payloads(3)
            assert [each.payload for each in first] + rest == [b"0", b"1", b"2", b"3", b"4"]

    run(test)


# -- expiry ------------------------------------------------------------------------------------------


def test_expired_messages_leave_offline_queues_and_others_carry_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with at() as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s")
            await subscriber.subscribe("a", 2)
            subscriber.disconnect()
            await publisher.connect("p")
            for expiry in (10, 60):
                await publisher.publish("a", str(expiry).encode(), 1, message_expiry=expiry)
            clock.ahead = 20.0
            await subscriber.kept("s")
            found = await subscriber.message()
            assert (found.payload, 30 < found.properties["message_expiry"] <= 40) == (b"60", True)
            assert await subscriber.waiting() == []

    clock = Clock(monkeypatch)
    run(test)


# -- shares, restarts --------------------------------------------------------------------------------


def test_a_share_keeps_all_retained_messages_that_wait() -> None:
    async def test() -> None:
        async with at() as port:
            member, publisher = Peer(port), Peer(port)
            await member.kept("m")
            await member.subscribe("$share/g/a", 1)
            member.disconnect()
            await publisher.connect("p")
            for number in range(3):
                await publisher.publish("a", str(number).encode(), retain=True)
            await member.kept("m")
            assert await member.payloads(3) == [b"0", b"1", b"2"]

    run(test)


def test_a_retained_message_that_waits_is_delivered_though_another_client_cleared_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s")
            await subscriber.subscribe("a", 1)
            subscriber.disconnect()
            await publisher.connect("p")
            await publisher.publish("a", b"0", retain=True)
            await publisher.publish("a", b"", retain=True)
        async with at(tmp_path) as port:
            subscriber.port = port
            assert await subscriber.kept("s")
            found = [await subscriber.message() for _ in range(2)]
            assert [(m.payload, m.retain) for m in found] == [(b"0", False), (b"", False)]
            late = Peer(port)
            await late.connect("late")
            await late.subscribe("a", 1)
            assert await late.waiting() == []

    run(test)


@pytest.mark.parametrize("filter", ["a", "$share/g/a"])
def test_retained_messages_that_wait_outlive_newer_ones_and_a_restart(tmp_path: Path, filter: str) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s")
            await subscriber.subscribe(filter, 1)
            subscriber.disconnect()
            await publisher.connect("p")
            for number in range(3):
                await publisher.publish("a", str(number).encode(), retain=True)
        async with at(tmp_path) as port:
            subscriber.port = port
            assert await subscriber.kept("s")
            found = [await subscriber.message() for _ in range(3)]
            assert [(m.payload, m.retain, m.dup) for m in found] == [
                (b"0", False, False), (b"1", False, False), (b"2", False, False),
            ]  # fmt: skip
            late = Peer(port)
            await late.connect("late")
            await late.subscribe("a", 1)
            assert await late.payloads(1) == [b"2"]
            assert await late.waiting() == []

    run(test)


def test_after_a_restart_resends_have_dup_and_their_packet_id(tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            subscriber, publisher = Peer(port), Peer(port)
            await subscriber.kept("s")
            await subscriber.subscribe("a", 1)
            await publisher.connect("p")
            await publisher.publish("a", b"0")
            await subscriber.message()
            await publisher.publish("a", b"sent")
            sent = await subscriber.message(acknowledge=False)
            subscriber.drop()
            await publisher.publish("a", b"queued")
        async with at(tmp_path) as port:
            subscriber.port = port
            assert await subscriber.kept("s")
            found = [await subscriber.message() for _ in range(2)]
            assert [(m.payload, m.dup) for m in found] == [(b"sent", True), (b"queued", False)]
            assert found[0].packet_id == sent.packet_id != found[1].packet_id

    run(test)


def test_an_expired_session_is_tried_again_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    was = MqttSession._open

    async def failing(self: Any, name: str, kept: Any, **options: Any) -> Any:
        tries.append(name)
        if len(tries) == 1:
            raise RefusedError("not now")
        return await was(self, name, kept, **options)

    async def test() -> None:
        async with at(tmp_path) as port:
            member = Peer(port)
            await member.connect("m", clean=False, session_expiry=1)
            await member.subscribe("$share/g/a", 1)
            member.drop()
        monkeypatch.setattr(MqttSession, "_open", failing)
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            await until(lambda: len(tries) >= 2)
            await until(lambda: not service.server.figures()["subscriptions"])

    run(test)

"""Clients that break a rule of MQTT, and answers in their order (OASIS MQTT 5.0)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway._peer import Peer, at, run

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, PacketKind, Reason

versions = pytest.mark.parametrize("version", [V311, V5], ids=["v311", "v5"])


# -- violations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [{"receive_maximum": 0}, {"maximum_packet": 0}, {"authentication_data": b"x"}],
    ids=lambda given: next(iter(given)),
)
def test_a_connect_against_the_rules_is_refused(properties: dict[str, Any]) -> None:
    async def test() -> None:
        async with at() as port:
            assert (await Peer(port).connect("c", **properties)).reason == Reason.PROTOCOL

    run(test)


@versions
@pytest.mark.parametrize(
    ("topic", "properties", "reason"),
    [
        ("a/" * 32 + "a", {}, Reason.TOPIC_NAME),
        ("a/\x01", {}, Reason.TOPIC_NAME),
        ("a", {"payload_format": 1}, Reason.PAYLOAD_FORMAT),
        ("a", {"content_type": "\x01"}, Reason.IMPLEMENTATION),
    ],
    ids=["levels", "characters", "payload format", "content type"],
)
def test_a_will_that_could_not_be_published_is_refused(
    topic: str, properties: dict[str, Any], reason: Reason, version: int
) -> None:
    """CONNECT was accepted, and nothing told that the will was never published."""

    async def test() -> None:
        async with at() as port:
            peer = Peer(port, version)
            await peer.open()
            if properties and version == V311:
                return  # it has none
            peer.send(mq.ConnectPacket(version, "c", will=mq.Will(topic, b"\xff", 0, False, properties)))
            answer = await peer.next()
            assert answer is None if version == V311 else answer.reason == reason

    run(test)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_publish_without_topic_and_alias_is_a_protocol_error(qos: int) -> None:
    async def test() -> None:
        async with at() as port:
            peer = Peer(port)
            await peer.connect("c")
            peer.send(mq.PublishPacket("", b"", qos, packet_id=qos))
            assert await peer.ends() == Reason.PROTOCOL

    run(test)


@versions
def test_a_client_id_that_is_too_long_is_refused_with_its_reason(version: int) -> None:
    async def test() -> None:
        async with at() as port:
            refused = await Peer(port, version).connect("x" * 1024)
            assert refused.reason == (Reason.CLIENT_ID if version == V5 else 2)
            assert (await Peer(port, version).connect("x" * 500)).reason == 0

    run(test)


@versions
def test_a_payload_of_more_members_than_attributes_is_delivered(version: int) -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port, version)
            await client.connect("c")
            await client.subscribe("a", 1)
            payload = json.dumps({f"n{number}": number for number in range(2000)}).encode()
            client.send(mq.PublishPacket("a", payload, 1, packet_id=9))
            found = [await client.next(), await client.next()]
            assert [each.reason for each in found if isinstance(each, mq.AckPacket)] == [0]
            assert [each.payload for each in found if isinstance(each, mq.PublishPacket)] == [payload]

    run(test)


@pytest.mark.parametrize("topic", ["", "a/+", "#"])
def test_a_response_topic_that_is_no_topic_name_is_refused(topic: str) -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port)
            await client.connect("c")
            client.send(mq.PublishPacket("a", b"x", properties={"response_topic": topic}))
            assert await client.ends() == Reason.PROTOCOL

    run(test)


def test_pubcomp_before_pubrec_is_refused() -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port)
            await client.connect("c")
            await client.subscribe("a", 2)
            await client.publish("a", b"x", 1)  # a plain answer: the message to this client is QoS 1
            await client.message()
            client.send(mq.PublishPacket("a", b"x", 2, packet_id=9))
            found = [await client.next(), await client.next()]
            [sent] = [each for each in found if isinstance(each, mq.PublishPacket)]
            client.send(mq.AckPacket(PacketKind.PUBCOMP, sent.packet_id))
            assert await client.ends() == Reason.PROTOCOL

    run(test)


@pytest.mark.parametrize("data", [b"\x40\x03\x00\x01\x01", b"\x62\x03\x00\x01\x10", b"\xe0\x01\x7f"])
def test_an_unknown_reason_code_is_refused(data: bytes) -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port)
            await client.connect("c")
            client.send_bytes(data)
            assert await client.ends() == Reason.PROTOCOL

    run(test)


def test_pubrel_after_a_failed_pubrec_finds_no_packet_id(tmp_path: Path) -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port)
            await client.connect("c")
            client.send(mq.PublishPacket("a/" * 40 + "a", b"x", 2, packet_id=5))
            refused = await client.next()
            assert (refused.kind, refused.reason) == (PacketKind.PUBREC, Reason.TOPIC_NAME)
            client.send(mq.AckPacket(PacketKind.PUBREL, 5))
            released = await client.next()
            assert (released.kind, released.reason) == (PacketKind.PUBCOMP, Reason.PACKET_ID_NOT_FOUND)

    run(test)


def test_more_unanswered_publishes_than_the_receive_maximum_end_the_connection() -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port)
            connack = await client.connect("c")
            most = connack.properties["receive_maximum"]
            for packet_id in range(1, most + 2):
                client.send(mq.PublishPacket("a", b"x", 2, packet_id=packet_id))
            assert await client.ends() == Reason.RECEIVE_MAXIMUM

    run(test)


@versions
def test_acknowledgements_leave_in_the_order_of_the_publishes(version: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path) as port:
            kept, client = Peer(port, version), Peer(port, version)
            await kept.kept("kept")
            await kept.subscribe("kept", 1)
            kept.disconnect()
            await client.connect("c")
            topics = ["kept", "a", "kept", "a", "a", "kept"]  # those that are kept are answered later
            for number, topic in enumerate(topics, 1):
                client.send(mq.PublishPacket(topic, b"x", 1 + number % 2, packet_id=number))
            acks = [await client.next() for _ in topics]
            assert [ack.packet_id for ack in acks] == [1, 2, 3, 4, 5, 6]

    run(test)


@pytest.mark.parametrize("password", ["a\x01b", "\x7f", "a\nb"])
def test_a_password_with_control_characters_gets_a_connack(password: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with at(tmp_path, users=True) as port:
            client = Peer(port)
            await client.open()
            client.send(mq.ConnectPacket(V5, "c", user="ann", password=password.encode()))
            connack = await client.next()
            assert (type(connack), connack.reason) == (mq.ConnackPacket, Reason.PASSWORD)

    run(test)


@pytest.mark.parametrize("topic", ["/", "//", "a//b", "a/", "/a", "∅", "a/∅/b", "∅∅/", "a∅"])
def test_topics_with_empty_levels_and_our_sign_for_them_arrive_as_they_were(topic: str) -> None:
    async def test() -> None:
        async with at() as port:
            client = Peer(port)
            await client.connect("c")
            await client.subscribe(topic)
            await client.publish(topic, b"x", 0)
            assert (await client.message()).topic == topic

    run(test)

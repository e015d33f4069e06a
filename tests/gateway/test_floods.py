"""Clients that ask for much in one packet, keep exchanges open, or do not read what they are sent."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import websockets
from tests.gateway.conftest import broker

import tidings
from tidings.gateway import structured
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.connection import USER_PROPERTIES
from tidings.gateway.mqtt.packets import V5, PacketKind, Reason
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.writing import write
from tidings.model.event import Event
from tidings.protocol.limits import DEFAULT_LIMITS, ClientLimits, ResourceLimits

FEW = ResourceLimits(client=ClientLimits(session_bytes=1000))
MOST = DEFAULT_LIMITS.client.topic_filters
PING = b"\x89\xfd\0\0\0\0" + b"p" * 125  # of a WebSocket, with a mask of zeros
UPGRADE = (
    b"Host: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


class Raw:
    """A connection of MQTT 5 that sends what it is told to."""

    def __init__(
        self, port: int, user: str | None = None, password: bytes = b"", *, name: str = "raw", expiry: int = 0
    ) -> None:
        self._port, self._name, self._expiry = port, name, expiry
        self._user, self._password = user, password

    async def __aenter__(self) -> Raw:
        self._from, self._to = await asyncio.open_connection("127.0.0.1", self._port)
        self._read, self._found = PacketReader(1 << 20, V5), list[Any]()
        properties = {"session_expiry": self._expiry} if self._expiry else {}
        clean, password = not self._expiry, self._password or None
        self.send(mq.ConnectPacket(V5, self._name, clean, 60, None, self._user, password, properties))
        assert (await self.next()).reason == 0
        return self

    async def __aexit__(self, *_: object) -> None:
        self._to.close()

    def send(self, *packets: mq.Packet) -> None:
        self._to.write(b"".join(write(packet, V5) for packet in packets))

    async def next(self) -> Any:
        while not self._found:
            data = await self._from.read(1 << 16)
            assert data, "the connection ended"
            self._found += self._read.feed(data)
        return self._found.pop(0)


def test_of_user_properties_a_broker_reads_only_those_that_it_uses() -> None:
    """A packet of 1 MiB holds 200,000 of them: as objects they took 20 MB for each connection that waited."""
    user = [("filter", "n > 1"), ("other", "x")]
    packets: list[mq.Packet] = [
        mq.ConnectPacket(
            V5, "c", True, 60, mq.Will("t", b"", 0, False, {"user": user}), None, None, {"user": user}
        ),
        mq.PublishPacket("t", b"", 0, properties={"user": user}),
        mq.SubscribePacket(1, [mq.SubscriptionRequest("t", 0)], {"user": user}),
        mq.UnsubscribePacket(1, ["t"], {"user": user}),
        mq.AckPacket(PacketKind.PUBACK, 1, 0, {"user": user}),
        mq.DisconnectPacket(Reason.SUCCESS, {"user": user}),
    ]
    read = PacketReader(1 << 20, user=USER_PROPERTIES)
    found: list[Any] = list(read.feed(b"".join(write(packet, V5) for packet in packets)))
    kept = [packet.properties.get("user", []) for packet in found]
    assert kept == [[], user, user[:1], [], [], []]
    assert found[0].will.properties["user"] == user


def port_of(service: Any, gateway: str) -> int:
    return int(service.gateways.addresses[gateway].rstrip("/").rpartition(":")[2])


def test_one_subscribe_opens_a_bounded_number_of_filters_and_is_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with (
            broker(tmp_path, users=True, mqtt="127.0.0.1:0") as service,
            Raw(port_of(service, "mqtt"), "ann", b"a") as client,
        ):
            logging.getLogger("tidings").addHandler(caplog.handler)
            try:
                client.send(
                    mq.SubscribePacket(1, [mq.SubscriptionRequest(f"other/{n}", 0) for n in range(MOST + 3)])
                )
                answer = await client.next()
            finally:
                logging.getLogger("tidings").removeHandler(caplog.handler)
            lines = [record.getMessage() for record in caplog.records if record.name == "tidings.gateway"]
            assert answer.reasons == [Reason.NOT_AUTHORISED] * MOST + [Reason.QUOTA] * 3
            assert len(lines) == 1
            assert f"{MOST + 3} of {MOST + 3} filters are refused" in lines[0]

    run(test)


def test_user_properties_of_a_subscribe_are_not_kept_beside_its_content_filter(tmp_path: Path) -> None:
    file = tmp_path / "store" / "mqtt-sessions.json"
    user = [("k", "v" * 60_000), ("filter", "n > 1"), ("l", "w" * 60_000)]

    async def test() -> None:
        async with (
            broker(tmp_path, mqtt="127.0.0.1:0") as service,
            Raw(port_of(service, "mqtt"), expiry=600) as client,
        ):
            client.send(
                mq.SubscribePacket(
                    1, [mq.SubscriptionRequest(f"a/{n}", 1) for n in range(20)], {"user": user}
                )
            )
            assert (await client.next()).reasons == [1] * 20
        (written,) = json.loads(file.read_text())
        assert {json.dumps(each["user"]) for each in written["subscriptions"].values()} == {
            '[["filter", "n > 1"]]'
        }
        for each in written["subscriptions"].values():
            each["user"] = user  # as an earlier version wrote it
        file.write_text(json.dumps([written]))
        async with (
            broker(tmp_path, mqtt="127.0.0.1:0") as service,
            Raw(port_of(service, "mqtt"), expiry=600) as client,
        ):
            client.send(
                mq.PublishPacket("a/0", b'{"n": 1}', 1, packet_id=1),
                mq.PublishPacket("a/1", b'{"n": 2}', 1, packet_id=2),
            )
            found = [await client.next() for _ in range(3)]
            assert [each.topic for each in found if isinstance(each, mq.PublishPacket)] == ["a/1"]
        assert len(file.read_bytes()) < 10_000

    run(test)


def test_the_subscriptions_of_a_session_have_a_bounded_number_of_bytes() -> None:
    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0", resources=FEW) as service,
            Raw(port_of(service, "mqtt"), expiry=600) as client,
        ):
            wishes = [mq.SubscriptionRequest(f"{n:02}", 1) for n in range(7)]
            fields = {"user": [("filter", "kind = '" + "x" * 189 + "'")]}  # 198 bytes
            client.send(mq.SubscribePacket(1, wishes, fields))
            assert (await client.next()).reasons == [1] * 5 + [Reason.QUOTA] * 2
            client.send(mq.UnsubscribePacket(2, ["00"]))
            await client.next()
            client.send(
                mq.SubscribePacket(3, wishes[-1:], fields), mq.SubscribePacket(4, wishes[-1:], fields)
            )
            assert [(await client.next()).reasons for _ in range(2)] == [[1], [1]]

    run(test)


def test_more_open_exchanges_of_qos_2_than_announced_end_the_connection() -> None:
    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            Raw(port_of(service, "mqtt")) as client,
        ):
            for number in range(1, 102):
                client.send(mq.PublishPacket("t", b"x", 2, False, packet_id=number))
            kinds = []
            while isinstance(packet := await client.next(), mq.AckPacket):
                kinds.append(packet.kind)
            assert set(kinds) <= {PacketKind.PUBREC}
            assert isinstance(packet, mq.DisconnectPacket)
            assert packet.reason == Reason.RECEIVE_MAXIMUM

    run(test)


def test_as_many_exchanges_of_qos_2_as_announced_may_be_open_again_and_again() -> None:
    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            Raw(port_of(service, "mqtt")) as client,
        ):
            for _ in range(2):
                for number in range(1, 101):
                    client.send(mq.PublishPacket("t", b"x", 2, False, packet_id=number))
                assert {(await client.next()).kind for _ in range(100)} == {PacketKind.PUBREC}
                for number in range(1, 101):
                    client.send(mq.AckPacket(PacketKind.PUBREL, number))
                assert {(await client.next()).kind for _ in range(100)} == {PacketKind.PUBCOMP}

    run(test)


async def _flood(writer: asyncio.StreamWriter) -> None:
    """Send 64 MiB of pings, unless the other side stops reading."""
    for _ in range((64 << 20) // len(PING * 1000)):
        writer.write(PING * 1000)
        async with asyncio.timeout(0.5):
            await writer.drain()


@pytest.mark.parametrize("gateway", ["http", "mqtt over websocket"])
def test_a_client_that_does_not_read_its_pongs_is_not_read_from(gateway: str) -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0", mqtt_websocket="127.0.0.1:0") as service:
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.connect(("127.0.0.1", port_of(service, gateway)))
            reader, writer = await asyncio.open_connection(sock=narrow)
            path = "/events/socket" if gateway == "http" else "/"
            writer.write(f"GET {path} HTTP/1.1\r\n".encode() + UPGRADE)
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            with pytest.raises(TimeoutError):
                await _flood(writer)
            draining = asyncio.create_task(writer.drain())
            while not draining.done():  # it is read from again
                assert await reader.read(1 << 16)
            writer.transport.abort()

    run(test)


def test_a_large_event_is_not_copied_for_each_subscription_of_a_socket_that_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[int] = []
    encode = structured.to_structured

    def counted(event: Event) -> bytes:
        body = encode(event)
        encoded.append(len(body))
        return body

    monkeypatch.setattr(structured, "to_structured", counted)

    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            address = (
                service.gateways.addresses["http"].replace("http", "ws", 1).rstrip("/") + "/events/socket"
            )
            async with (
                websockets.connect(address, max_queue=1, max_size=None, compression=None) as client,
                tidings.connect(service.server.address, name="p") as bus,
            ):
                for number in range(60):
                    await client.send(json.dumps({"op": "subscribe", "ref": f"s{number}", "filter": "n = 1"}))
                    assert json.loads(await client.recv())["op"] == "subscribed"
                await bus.publish({"n": 1, "text": "x" * (1 << 20)})
                for _ in range(20):
                    await bus.publish({"n": 2})  # the broker goes on
                assert 0 < len(encoded) < 40
                received = {json.loads(await client.recv())["ref"] for _ in range(60)}
                assert len(received) == len(encoded) == 60

    run(test)

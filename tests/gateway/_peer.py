"""An MQTT client that does what a test says, packet by packet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from tests.gateway.conftest import broker

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, PacketKind
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.writing import write

SECONDS = 60.0
KEPT = 600  # seconds for which a session outlives its connection


class Peer:
    """One connection."""

    writers: ClassVar[list[asyncio.StreamWriter]] = []

    def __init__(self, port: int, version: int = V5) -> None:
        self.port = port
        self.version = version
        self._last_id = 0
        self._found: list[Any] = []

    async def connect(
        self, name: str, *, clean: bool = True, will: mq.Will | None = None, **properties: Any
    ) -> mq.ConnackPacket:
        """The CONNACK; `properties` are those of CONNECT."""
        await self.open()
        given = properties if self.version == V5 else {}
        self.send(mq.ConnectPacket(self.version, name, clean, 60, will, properties=given))
        connack = await self.next()
        assert isinstance(connack, mq.ConnackPacket)
        return connack

    async def open(self, *, receive_buffer: int = 0) -> None:
        """Connect; `receive_buffer` is the number of bytes that the system takes for it."""
        self._read = PacketReader(1 << 21, self.version)
        self._found.clear()
        bound = socket.socket()
        bound.setblocking(False)
        if receive_buffer:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(bound, ("127.0.0.1", self.port))
        self._reader, self._writer = await asyncio.open_connection(sock=bound)
        self.writers.append(self._writer)

    async def kept(self, name: str, **properties: Any) -> bool:
        """Connect with a session that stays; was there one?"""
        connack = await self.connect(name, clean=False, session_expiry=KEPT, **properties)
        assert connack.reason == 0
        return connack.session_present

    def send(self, packet: mq.Packet) -> None:
        self._writer.write(write(packet, self.version))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def next(self) -> Any:
        """The next packet; None when the broker has closed the connection."""
        async with asyncio.timeout(SECONDS):
            while not self._found:
                try:
                    data = await self._reader.read(65536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._found += self._read.feed(data)
        return self._found.pop(0)

    @classmethod
    async def publishing(cls, port: int, payloads: list[bytes], topic: str = "t", **options: Any) -> None:
        """Publish with a client of its own."""
        publisher = cls(port)
        await publisher.connect("publisher")
        for payload in payloads:
            assert await publisher.publish(topic, payload, **options) < 0x80
        publisher.disconnect()

    def _id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def subscribe(self, filter: str, qos: int = 0, *, handling: int = 0, **options: Any) -> int:
        """The reason of the SUBACK."""
        wish = mq.SubscriptionRequest(filter, qos, handling=handling, **options)
        self.send(mq.SubscribePacket(self._id(), [wish]))
        suback = await self.next()
        assert isinstance(suback, mq.SubackPacket), suback
        [reason] = suback.reasons
        return reason

    async def unsubscribe(self, filter: str) -> int:
        self.send(mq.UnsubscribePacket(self._id(), [filter]))
        unsuback = await self.next()
        assert isinstance(unsuback, mq.UnsubackPacket), unsuback
        return unsuback.reasons[0] if unsuback.reasons else 0

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 1, *, retain: bool = False, **properties: Any
    ) -> int:
        """Publish; the reason of the answer. QoS 2 is completed, and QoS 0 has no answer."""
        packet_id = self._id() if qos else 0
        self.send(mq.PublishPacket(topic, payload, qos, retain, False, packet_id, properties))
        if not qos:
            return 0
        ack = await self.next()
        assert isinstance(ack, mq.AckPacket), ack
        assert ack.packet_id == packet_id
        if qos == 2 and ack.reason < 0x80:
            self.send(mq.AckPacket(PacketKind.PUBREL, packet_id))
            assert isinstance(await self.next(), mq.AckPacket)
        return ack.reason

    async def message(self, *, acknowledge: bool = True) -> mq.PublishPacket:
        """The next message, acknowledged unless the test says otherwise."""
        found = await self.next()
        assert isinstance(found, mq.PublishPacket), found
        if acknowledge and found.qos == 1:
            self.send(mq.AckPacket(PacketKind.PUBACK, found.packet_id))
        elif acknowledge and found.qos == 2:
            self.send(mq.AckPacket(PacketKind.PUBREC, found.packet_id))
            others: list[Any] = []
            while not isinstance(packet := await self.next(), mq.AckPacket):
                others.append(packet)
            self._found[:0] = others
            self.send(mq.AckPacket(PacketKind.PUBCOMP, found.packet_id))
        return found

    async def waiting(self, *, acknowledge: bool = True) -> list[Any]:
        """All packets that come before the answer to a ping; messages are acknowledged."""
        self.send(mq.PingPacket())
        found: list[Any] = []
        while not isinstance(packet := await self.next(), mq.PingPacket):
            assert packet is not None, "the broker closed the connection"
            found.append(packet)
            if not acknowledge:
                continue
            if isinstance(packet, mq.PublishPacket) and packet.qos:
                kind = PacketKind.PUBACK if packet.qos == 1 else PacketKind.PUBREC
                self.send(mq.AckPacket(kind, packet.packet_id))
            elif isinstance(packet, mq.AckPacket) and packet.kind is PacketKind.PUBREL:
                self.send(mq.AckPacket(PacketKind.PUBCOMP, packet.packet_id))
            elif isinstance(packet, mq.AckPacket) and packet.kind is PacketKind.PUBREC:
                self.send(mq.AckPacket(PacketKind.PUBREL, packet.packet_id))
        return found

    async def payloads(self, count: int) -> list[bytes]:
        """The payloads of so many messages, which are acknowledged."""
        return [(await self.message()).payload for _ in range(count)]

    async def ends(self) -> int | None:
        """The reason of the DISCONNECT with which the broker ends the connection; None without one."""
        reason = None
        while (packet := await self.next()) is not None:
            if isinstance(packet, mq.DisconnectPacket):
                reason = packet.reason
        return reason

    def disconnect(self, reason: int = 0, **properties: Any) -> None:
        self.send(mq.DisconnectPacket(reason, properties))
        self._writer.close()

    def drop(self) -> None:
        """Break the connection, as a network does."""
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


async def close_all() -> None:
    """Close what the peers of a test have left open."""
    while Peer.writers:
        writer = Peer.writers.pop()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def run(test: Callable[[], Awaitable[None]], seconds: float = 120.0) -> None:
    async def bounded() -> None:
        try:
            async with asyncio.timeout(seconds):
                await test()
        finally:
            await close_all()

    asyncio.run(bounded())


def port_of(service: Any) -> int:
    return int(service.gateways.addresses["mqtt"].rpartition(":")[2])


@asynccontextmanager
async def at(folder: Path | None = None, **options: Any) -> AsyncIterator[int]:
    async with broker(folder, mqtt="127.0.0.1:0", **options) as service:
        yield port_of(service)

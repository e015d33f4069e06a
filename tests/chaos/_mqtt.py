"""A broker process with the MQTT gateway, and a client that stops where a test says.

The client is a socket and the codec: it stops where the test says, as a client does whose network broke.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, PacketKind
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.sessions_file import FILE
from tidings.gateway.mqtt.writing import write

SOURCE = Path(tidings.__file__).parents[1]
SECONDS = 60.0


class Broker:
    """A broker process with a store and the MQTT gateway."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])

    def start(self) -> None:
        command = [sys.executable, "-m", "tidings", "broker", "--dev", "--name", "b1", "--json"]
        command += ["--listen", "127.0.0.1:0", "--gateway-mqtt", "127.0.0.1:0"]
        command += ["--store", str(self._folder / "b1")]
        with (self._folder / "errors").open("a") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "PYTHONPATH": self._path},
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self._folder / "errors").read_text()
        stated = json.loads(line)
        self.address: str = stated["address"]
        self.port = int(stated["gateways"]["mqtt"].rpartition(":")[2])

    @property
    def sessions(self) -> Path:
        """The file of sessions."""
        return self._folder / "b1" / FILE

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


class Client:
    """One connection, of a session that is kept unless the test says otherwise."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._found: list[Any] = []
        self._writer: asyncio.StreamWriter | None = None

    async def connect(
        self,
        broker: Broker,
        name: str,
        *,
        ahead: int = 0,
        expiry: int = 600,
        clean: bool = False,
        will: mq.Will | None = None,
    ) -> bool:
        """Was there a session?"""
        if self._writer is not None:
            self._writer.close()
        self._read = PacketReader(1 << 20, self._version)
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", broker.port)
        properties = {"session_expiry": expiry} if self._version == V5 else {}
        if ahead:
            properties["receive_maximum"] = ahead
        self.send(mq.ConnectPacket(self._version, name, clean, 60, will, properties=properties))
        connack = await self.next()
        assert isinstance(connack, mq.ConnackPacket)
        assert connack.reason == 0
        return connack.session_present

    def send(self, packet: mq.Packet) -> None:
        assert self._writer is not None
        self._writer.write(write(packet, self._version))

    async def next(self) -> Any:
        async with asyncio.timeout(SECONDS):
            while not self._found:
                data = await self._reader.read(65536)
                assert data, "the broker closed the connection"
                self._found += self._read.feed(data)
        return self._found.pop(0)

    async def answered(self, kind: PacketKind, packet_id: int) -> None:
        ack = await self.next()
        assert isinstance(ack, mq.AckPacket)
        assert (ack.kind, ack.packet_id) == (kind, packet_id)

    async def subscribed(self, filter: str, qos: int) -> None:
        self.send(mq.SubscribePacket(1, [mq.SubscriptionRequest(filter, qos)]))
        suback = await self.next()
        assert isinstance(suback, mq.SubackPacket)
        assert suback.reasons == [qos]

    async def message(self) -> mq.PublishPacket:
        found = await self.next()
        assert isinstance(found, mq.PublishPacket), found
        return found

    async def no_message(self) -> None:
        """No message comes before the answer to a ping; a PUBREL may be said again, which repeats nothing."""
        self.send(mq.PingPacket())
        while not isinstance(found := await self.next(), mq.PingPacket):
            assert isinstance(found, mq.AckPacket), found
            assert found.kind is PacketKind.PUBREL

    def close(self) -> None:
        assert self._writer is not None
        self._writer.close()


async def log_of(broker: Broker) -> list[bytes | None]:
    async with tidings.connect(broker.address, name="look", timeout=SECONDS) as bus:
        return [entry.event.payload for entry in (await bus.read_log("TRUE")).entries]


async def until_logged(broker: Broker, count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while len(await log_of(broker)) < count:
            await asyncio.sleep(0)


def play(story: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(240):
            await story

    asyncio.run(bounded())

"""MQTT QoS 2 with a kept session over kill -9 of the broker: once, in both directions, at each step of the exchange.

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

import pytest

import tidings
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, Kind
from tidings.gateway.mqtt.reading import Reader
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
        said = json.loads(line)
        self.address: str = said["address"]
        self.port = int(said["gateways"]["mqtt"].rpartition(":")[2])

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
    """One connection of a session that is kept."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._found: list[Any] = []
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, broker: Broker, name: str) -> bool:
        """Was there a session?"""
        if self._writer is not None:
            self._writer.close()
        self._read = Reader(1 << 20, self._version)
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", broker.port)
        properties = {"session_expiry": 600} if self._version == V5 else {}
        self.send(mq.Connect(self._version, name, clean=False, keep_alive=60, properties=properties))
        connack = await self.next()
        assert isinstance(connack, mq.Connack)
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

    async def answered(self, kind: Kind, packet_id: int) -> None:
        ack = await self.next()
        assert isinstance(ack, mq.Ack)
        assert (ack.kind, ack.packet_id) == (kind, packet_id)

    async def no_message(self) -> None:
        """No message comes before the answer to a ping; a PUBREL may be said again, which repeats nothing."""
        self.send(mq.Ping())
        while not isinstance(found := await self.next(), mq.Ping):
            assert isinstance(found, mq.Ack), found
            assert found.kind is Kind.PUBREL

    def close(self) -> None:
        assert self._writer is not None
        self._writer.close()


def message(packet_id: int, text: str, *, dup: bool = False, topic: str = "t") -> mq.Publish:
    return mq.Publish(topic, text.encode(), 2, dup=dup, packet_id=packet_id)


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
            await client.answered(Kind.PUBREC, 7)
            broker.kill()  # between PUBREC and PUBREL
            broker.start()
            assert await client.connect(broker, "dev")
            client.send(message(7, "one", dup=True))
            await client.answered(Kind.PUBREC, 7)
            client.send(mq.Ack(Kind.PUBREL, 7))
            await client.answered(Kind.PUBCOMP, 7)
            broker.kill()  # PUBCOMP was read: the packet id is free, the same words are another message
            broker.start()
            assert await client.connect(broker, "dev")
            client.send(message(7, "one"))
            await client.answered(Kind.PUBREC, 7)
            client.send(mq.Ack(Kind.PUBREL, 7))
            await client.answered(Kind.PUBCOMP, 7)
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
            client.send(mq.Subscribe(1, [mq.Wish("q/#", 2)]))
            assert isinstance(await client.next(), mq.Suback)
            async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
                await bus.publish({}, topic="q/1", payload=b"one")
            first = await client.next()
            assert isinstance(first, mq.Publish)
            broker.kill()  # the client has it; its PUBREC is lost
            broker.start()
            assert await client.connect(broker, "sub")
            again = await client.next()
            assert isinstance(again, mq.Publish)
            assert (again.packet_id, again.dup, again.payload) == (first.packet_id, True, b"one")
            client.send(mq.Ack(Kind.PUBREC, first.packet_id))
            await client.answered(Kind.PUBREL, first.packet_id)
            broker.kill()  # PUBCOMP is lost, and so may be what the broker knew of the acknowledgement
            broker.start()
            assert await client.connect(broker, "sub")
            await client.answered(Kind.PUBREL, first.packet_id)
            client.send(mq.Ack(Kind.PUBCOMP, first.packet_id))
            async with tidings.connect(broker.address, name="p", timeout=SECONDS) as bus:
                await bus.publish({}, topic="q/1", payload=b"two")
            second = await client.next()
            assert isinstance(second, mq.Publish)
            assert (second.payload, second.dup) == (b"two", False)
            client.send(mq.Ack(Kind.PUBREC, second.packet_id))
            await client.answered(Kind.PUBREL, second.packet_id)
            client.send(mq.Ack(Kind.PUBCOMP, second.packet_id))
            await client.no_message()
            broker.kill()
            broker.start()
            assert await client.connect(broker, "sub")
            await client.no_message()
            client.close()

    play(story())

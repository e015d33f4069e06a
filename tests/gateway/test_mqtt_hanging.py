"""MQTT clients that hang: they read nothing of what waits for them, and still can be ended."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway._peer import KEPT, Peer, port_of, run
from tests.gateway.conftest import broker
from websockets.asyncio.client import connect as connect_socket

from tidings.gateway.mqtt import connection, stream
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.keep_alive import LOOKS, KeepAlive
from tidings.gateway.mqtt.packets import V5, V311, Reason
from tidings.gateway.mqtt.stream import ByteStream
from tidings.gateway.mqtt.writing import write
from tidings.runtime.service import Service

PAYLOAD = b"p" * 50_000
COUNT = 120  # more bytes than the system takes for a client that does not read
SMALL = 4096  # bytes


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LINGER_SECONDS", 0.05)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def hang(port: int, name: str, *, version: int = V5, keep_alive: int = 60, will: Any = None) -> Peer:
    """A client with more messages of QoS 1 than it reads: it reads nothing from now on."""
    peer = Peer(port, version)
    await peer.open(receive_buffer=SMALL)
    properties: mq.Properties = {"session_expiry": KEPT} if version == V5 else {}
    peer.send(mq.ConnectPacket(version, name, False, keep_alive, will, properties=properties))
    assert isinstance(await peer.next(), mq.ConnackPacket)
    await peer.subscribe(f"{name}/#", 1)
    await Peer.publishing(port, [PAYLOAD] * COUNT, f"{name}/x")
    return peer


@pytest.mark.parametrize("version", [V311, V5])
def test_a_client_that_hangs_returns_at_once_with_its_own_id(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            await hang(port_of(service), "a", version=version)
            again = Peer(port_of(service), version)
            connack = await again.connect("a", clean=False, session_expiry=KEPT)
            assert (connack.reason, connack.session_present) == (0, True)
            assert await again.payloads(COUNT) == [PAYLOAD] * COUNT
            again.disconnect()
            await until(lambda: len(service.server.admission) == 0)

    run(test)


def test_keep_alive_ends_a_client_that_hangs_and_its_will_is_published(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            heir = Peer(port_of(service))
            await heir.connect("heir")
            await heir.subscribe("will", 1)
            await hang(port_of(service), "a", keep_alive=1, will=mq.Will("will", b"gone", 1, False))
            assert (await heir.message()).payload == b"gone"
            heir.disconnect()
            await until(lambda: len(service.server.admission) == 0)

    run(test)


def test_the_connection_of_a_principal_that_is_ended_ends_although_its_client_hangs(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            await hang(port_of(service), "a")
            await until(lambda: len(service.server.admission) == 1)
            for session in list(service.server.sessions.all()):
                service.server.sessions.end(session.number, "it has to go")
            await until(lambda: len(service.server.admission) == 0)

    run(test)


@asynccontextmanager
async def hanging_socket(service: Service) -> AsyncIterator[None]:
    """A client over WebSocket that reads nothing."""
    assert service.gateways is not None
    address = service.gateways.addresses["mqtt over websocket"]  # type: ignore[attr-defined]
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        bound.connect(("127.0.0.1", int(address.rpartition(":")[2])))
        options: dict[str, Any] = {"sock": bound, "subprotocols": ["mqtt"], "max_queue": 4, "max_size": None}
        async with connect_socket(address, **options) as client:
            wish = mq.SubscriptionRequest("a/#", 1)
            await client.send(
                write(mq.ConnectPacket(V5, "a", False, 60, properties={"session_expiry": KEPT}), V5)
            )
            await client.recv()
            await client.send(write(mq.SubscribePacket(1, [wish]), V5))
            await client.recv()
            await Peer.publishing(port_of(service), [PAYLOAD] * COUNT, "a/x")
            yield
            client.transport.abort()


def test_a_client_over_websocket_that_hangs_can_be_taken_over_and_ended(tmp_path: Path) -> None:
    async def test() -> None:
        listen = dict.fromkeys(("mqtt", "mqtt_websocket"), "127.0.0.1:0")
        async with broker(tmp_path, **listen) as service:
            async with hanging_socket(service):
                again = Peer(port_of(service))
                assert await again.kept("a")
                assert await again.payloads(COUNT) == [PAYLOAD] * COUNT
                await until(lambda: len(service.server.admission) == 1)
                again.disconnect()
            async with hanging_socket(service):
                for session in list(service.server.sessions.all()):
                    service.server.sessions.end(session.number, "it has to go")
                await until(lambda: len(service.server.admission) == 0)

    run(test)


def test_a_stop_waits_neither_for_a_connect_nor_for_a_client_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 1e9)
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            silent = Peer(port_of(service))
            await silent.open()
            hanging = await hang(port_of(service), "a")
            await until(lambda: len(service.server.admission) == 2)
        assert len(service.server.admission) == 0
        assert await silent.ends() is None
        assert await hanging.next() is not None  # bytes that the system had taken

    run(test)


class Unread:
    """The wire of a peer that does not read; `taken` of the written bytes have left."""

    def __init__(self) -> None:
        self.taken = 0
        self.looks = 0
        self.step = 1

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        self.taken += self.step
        return 1_000_000 - self.taken

    def pause_reading(self) -> None: ...


def test_a_client_that_reads_slowly_is_alive_as_long_as_it_takes_bytes() -> None:
    async def test() -> None:
        unread, ends = Unread(), list[Reason]()
        slow = ByteStream()
        slow.wire = unread  # type: ignore[assignment]
        slow.pause_writing()
        alive = KeepAlive(slow, 0.02, lambda: 0.0, lambda: 1_000_000, ends.append)
        await until(lambda: unread.looks > 5 * LOOKS)
        assert not ends
        unread.step = 0
        await until(lambda: bool(ends))
        assert ends == [Reason.KEEP_ALIVE]
        alive.stop()

    run(test)


def test_the_silence_of_a_client_that_was_not_read_from_says_nothing() -> None:
    async def test() -> None:
        ends: list[Reason] = []
        busy = ByteStream()
        busy.wire = Unread()  # type: ignore[assignment]
        looks = 0

        def read_at() -> float:  # called once at each look
            nonlocal looks
            looks += 1
            return 0.0

        alive = KeepAlive(busy, 0.01, read_at, lambda: 0, ends.append)
        await until(lambda: looks == 3)  # nobody waits for bytes: the task is at work
        busy.sink = lambda data: None
        for count in (4, 5, 6):
            busy.pauses += 1  # it was paused, and is not any more
            await until(lambda count=count: looks == count)  # type: ignore[misc]
        assert not ends
        await until(lambda: bool(ends))
        alive.stop()

    run(test)

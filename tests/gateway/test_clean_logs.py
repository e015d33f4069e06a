"""Faults of clients, and a stop with open streams, leave no traceback in the log."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import struct
from urllib.parse import urlsplit

import pytest
from tests.gateway._peer import Peer, at, run
from tests.gateway.conftest import broker

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.writing import write

NO_TEXT = bytes((0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE))  # a frame of text that is no UTF-8
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
DOORS = {
    "http": ("/events/socket", UPGRADE, 101),
    "mqtt over websocket": ("/", UPGRADE + "Sec-WebSocket-Protocol: mqtt\r\n", 101),
    "mqtt over websocket, without its protocol": ("/", UPGRADE, 400),
}


@pytest.fixture(autouse=True)
def no_garbage() -> None:
    """What other tests left is logged now, not in a test of the log."""
    gc.collect()


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info]


async def asked(address: str, path: str, more: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    Peer.writers.append(writer)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n".encode())
    return reader, writer


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_text_or_no_websocket_is_no_traceback(door: str, caplog: pytest.LogCaptureFixture) -> None:
    path, more, status = DOORS[door]

    async def test() -> None:
        async with broker(http="127.0.0.1:0", mqtt_websocket="127.0.0.1:0") as service:
            assert service.gateways is not None
            address = service.gateways.addresses[door.partition(",")[0]]
            reader, writer = await asked(address, path, more)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(f"HTTP/1.1 {status}".encode())
            writer.write(NO_TEXT)
            assert b"\x03\xef" in await reader.read() or status == 400  # its code: 1007, data of another kind

    with caplog.at_level(logging.INFO):
        run(test)
    assert not tracebacks(caplog)


def test_a_stop_ends_open_streams(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[bytes] = []

    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            reader, _ = await asked(service.gateways.addresses["http"], "/events", "")
            while not (await reader.readuntil(b"\n")).startswith(b": listening"):
                pass
        ended.append(await reader.read())

    with caplog.at_level(logging.INFO):
        run(test)
    assert ended[0].endswith(b"0\r\n\r\n"), "the stream ended as a whole, it was not cut"
    assert not tracebacks(caplog)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_clients_that_reset_their_connection_at_once_are_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Their address was asked for, or an answer written, when the transport was closed already."""
    connects = [
        write(mq.ConnectPacket(5, "c"), 5),
        write(mq.ConnectPacket(5, "c", user="nobody", password=b"wrong"), 5),
        write(mq.ConnectPacket(5, "c"), 5)[:-1] + b"\xff",
    ]

    async def test() -> None:
        async with at() as port:
            for number in range(60):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.send(connects[number % 3])
                    for _ in range(number % 4):
                        await asyncio.sleep(0)
            assert (await Peer(port).connect("after")).reason == 0

    with caplog.at_level(logging.INFO):
        run(test)
    assert not tracebacks(caplog)

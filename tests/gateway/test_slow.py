"""Slow and silent clients of the gateways: they are left after a while, and keep nobody else out
(reproduction t10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.gateway.conftest import broker
from websockets.asyncio.client import connect as connect_socket

from tidings.runtime.connection import NetworkSettings
from tidings.runtime.service import Service

QUICK = NetworkSettings(handshakes=64, handshakes_per_address=8, request_seconds=0.2, idle_seconds=60)
PATIENT = NetworkSettings(handshakes=64, handshakes_per_address=8, request_seconds=60, handshake_seconds=60)
HTTP_HEAD = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "  # and no end
MQTT_HEAD = b"\x10"


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def opened(address: str, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(address)
    assert where.hostname is not None
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(first)
    return reader, writer


def address(service: Service, name: str) -> str:
    assert service.gateways is not None
    found: dict[str, Any] = service.gateways.addresses  # type: ignore[attr-defined]
    return str(found[name])


@pytest.mark.parametrize(
    ("name", "head"), [("http", HTTP_HEAD), ("mqtt", MQTT_HEAD), ("mqtt over websocket", b"GET")]
)
def test_half_a_request_makes_room_for_newcomers(name: str, head: bytes) -> None:
    async def test() -> None:
        listen = dict.fromkeys(("http", "mqtt", "mqtt_websocket"), "127.0.0.1:0")
        async with broker(network=PATIENT, **listen) as service:
            admission = service.server.admission
            slow = [await opened(address(service, name), head) for _ in range(30)]
            await until(lambda: admission.figures["connections evicted"] >= 22)
            assert admission.waiting <= 8
            async with httpx.AsyncClient(base_url=address(service, "http")) as client:
                assert (await client.get("/openapi.json")).status_code == 200
            for _, writer in slow:
                writer.close()
            await until(lambda: admission.waiting == 0)

    run(test)


def test_a_request_whose_head_does_not_come_is_answered_with_a_timeout_and_left() -> None:
    async def test() -> None:
        async with broker(network=QUICK, http="127.0.0.1:0") as service:
            reader, writer = await opened(address(service, "http"), HTTP_HEAD)
            assert (await reader.read()).startswith(b"HTTP/1.1 408")
            writer.close()
            reader, writer = await opened(
                address(service, "http"), b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            )
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.write(HTTP_HEAD)  # half of a second request, on a connection that was served
            assert (await reader.read()).endswith(
                b"408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            writer.close()
            await until(lambda: len(service.server.admission) == 0)

    run(test)


def test_streams_and_sockets_that_are_served_are_counted_until_they_end() -> None:
    async def test() -> None:
        async with broker(network=QUICK, http="127.0.0.1:0") as service:
            admission, base = service.server.admission, address(service, "http")
            async with (
                httpx.AsyncClient(base_url=base) as client,
                client.stream("GET", "/events", params={"filter": "n > 1"}) as stream,
                connect_socket(base.replace("http", "ws") + "/events/socket") as socket,
            ):
                assert stream.status_code == 200
                await socket.send('{"op": "subscribe", "ref": "a", "filter": "n > 1"}')
                await socket.recv()
                slow = [await opened(base, HTTP_HEAD) for _ in range(20)]
                await until(lambda: admission.figures["connections evicted"] >= 12)
                await client.post("/events", json={"n": 2}, headers={"content-type": "application/json"})
                assert len(admission) >= 2
                for _, writer in slow:
                    writer.close()
            await until(lambda: len(admission) == 0)

    run(test)

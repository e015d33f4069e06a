"""Operators see which clients of gateways are connected now, from where, and which are away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import websockets
from tests.gateway import _peer, test_http
from tests.gateway._peer import Peer, port_of
from tests.gateway.conftest import broker

from tidings.gateway import http_sessions
from tidings.security.principal import Principal, ProofMethod

ANYBODY = Principal("anonymous", ProofMethod.ANONYMOUS)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def listeners(service: Any) -> list[int]:
    rows = await service.server.informed(ANYBODY, "subscriptions", {})
    return [row["listeners"] for row in rows]


def presence(service: Any) -> list[tuple[str, str, bool | None]]:
    rows = service.administration.sessions()
    return sorted((row["client"].rpartition("/")[2], row["peer"], row["connected"]) for row in rows)


def test_an_mqtt_device_that_is_away_is_told_from_a_connected_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with broker(tmp_path, mqtt="127.0.0.1:0") as service:
            figures = service.server.figures
            device = Peer(port_of(service))
            await device.kept("device")
            await device.subscribe("t", 1)
            assert presence(service) == [("device", "127.0.0.1", True)]
            assert (await listeners(service), figures()["gateway connections"]) == ([1], 1)
            (before,) = service.administration.sessions()
            device.drop()
            await until(lambda: figures()["gateway connections"] == 0)
            assert presence(service) == [("device", "", False)]
            assert (await listeners(service), figures()["local clients"]) == ([0], 1)
            again = Peer(port_of(service))
            assert await again.kept("device"), "the session went on"
            assert presence(service) == [("device", "127.0.0.1", True)]
            assert (await listeners(service), figures()["gateway connections"]) == ([1], 1)
            (row,) = service.administration.sessions()
            assert row["since"] > before["since"], "since the present connection"
            again.disconnect(session_expiry=0)
            await until(lambda: figures()["local clients"] == 0)
            assert presence(service) == []

    _peer.run(story)


def test_a_stream_by_http_is_a_session_as_long_as_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that had ended ten minutes earlier was still listed."""
    monkeypatch.setattr(http_sessions, "IDLE_SECONDS", 0.0)

    async def story() -> None:
        async with test_http.at(tmp_path) as (http, service):
            figures = service.server.figures
            query = {"filter": "n >= 0", "name": "web"}
            async with http.stream("GET", "/events", params=query) as stream:
                await anext(stream.aiter_bytes())
                assert presence(service) == [("http", "127.0.0.1", True), ("web", "127.0.0.1", True)]
                assert figures()["gateway connections"] == 1
            await until(lambda: presence(service) == [])
            assert figures()["gateway connections"] == 0
            await http.post("/events", **test_http.ce(test_http.event("1", n=1)))
            await until(lambda: figures()["local clients"] == 0)  # though no other request comes

    test_http.run(story)


def test_a_websocket_is_a_session_as_long_as_it_lasts(tmp_path: Path) -> None:
    async def story() -> None:
        async with test_http.at(tmp_path) as (http, service):
            figures = service.server.figures
            where = str(http.base_url).rstrip("/").replace("http", "ws") + "/events/socket"
            async with websockets.connect(where, proxy=None) as socket:
                await socket.send('{"op": "subscribe", "ref": "a", "filter": "n > 0"}')
                await socket.recv()
                assert figures()["gateway connections"] == 1
                assert all(row[1:] == ("127.0.0.1", True) for row in presence(service))
            await until(lambda: presence(service) == [])
            assert figures()["gateway connections"] == 0

    test_http.run(story)

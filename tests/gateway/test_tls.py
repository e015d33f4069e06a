"""The doors behind the broker's own certificate:

HTTP, WebSocket, MQTT and MQTT over WebSocket, by others' clients.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiomqtt
import httpx
import pytest
import websockets
from tests.gateway.conftest import USERS
from tests.gateway.test_mqtt import heard, run

from tidings.gateway.listeners import Gateways
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, GatewaySettings, SecuritySettings, TlsSettings

DOORS = {"http": "127.0.0.1:0", "mqtt": "127.0.0.1:0", "mqtt_websocket": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    issue(folder, "b1", hosts=("127.0.0.1",), broker=True)
    return folder


@asynccontextmanager
async def behind_tls(certs: Path, home: Path) -> AsyncIterator[dict[str, str]]:
    (home / "users.toml").write_text(USERS)
    settings = BrokerSettings(
        name="b1",
        listen="127.0.0.1:0",
        security=SecuritySettings(users=str(home / "users.toml")),
        tls=TlsSettings(
            certificate=f"{certs}/b1.pem", key=f"{certs}/b1.key", authority=f"{certs}/authority.pem"
        ),
        gateway=GatewaySettings(**DOORS),
    )
    async with Service(settings, gateways=Gateways) as service:
        assert service.gateways is not None
        yield service.gateways.addresses


def trusting(certs: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=f"{certs}/authority.pem")


def mqtt(address: str, name: str, certs: Path, **options: Any) -> aiomqtt.Client:
    where = urlsplit(address)
    assert where.port is not None
    return aiomqtt.Client(
        "127.0.0.1", where.port, identifier=name, username="market", password="m", timeout=120,
        tls_context=trusting(certs), **options,
    )  # fmt: skip


@pytest.mark.parametrize("door", ["mqtt", "mqtt over websocket"])
def test_mqtt(door: str, certs: Path, tmp_path: Path) -> None:
    async def test() -> None:
        options = {"transport": "websockets"} if door == "mqtt over websocket" else {}
        async with behind_tls(certs, tmp_path) as gateways:
            assert gateways[door].startswith(("mqtts://", "wss://"))
            async with (
                mqtt(gateways[door], "s", certs, **options) as s,
                mqtt(gateways["mqtt"], "p", certs) as p,
            ):
                await s.subscribe("quotes/#", qos=1)
                await p.publish("quotes/IBM", b"131", qos=1)
                assert [m.payload for m in await heard(s, 1)] == [b"131"]

    run(test)


def test_http_and_websocket(certs: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with behind_tls(certs, tmp_path) as gateways, httpx.AsyncClient(verify=trusting(certs)) as web:
            assert gateways["http"].startswith("https://")
            stream = gateways["http"].replace("https", "wss") + "/events/socket"
            basic = httpx.BasicAuth("market", "m")
            proof = next(basic.auth_flow(httpx.Request("GET", gateways["http"]))).headers["Authorization"]
            async with websockets.connect(
                stream, ssl=trusting(certs), additional_headers={"Authorization": proof}
            ) as socket:
                await socket.send(json.dumps({"op": "subscribe", "ref": "a", "filter": "price > 100"}))
                assert json.loads(await socket.recv())["op"] == "subscribed"
                answer = await web.post(
                    f"{gateways['http']}/events", json={"price": 131},
                    auth=basic,
                )  # fmt: skip
                assert answer.is_success, answer.text
                assert "131" in str(await socket.recv())

    run(test)


@pytest.mark.parametrize("door", ["http", "mqtt"])
def test_who_speaks_in_the_clear_or_does_not_trust_the_broker_gets_nowhere(
    door: str, certs: Path, tmp_path: Path
) -> None:
    async def test() -> None:
        async with behind_tls(certs, tmp_path) as gateways:
            port = urlsplit(gateways[door]).port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert not (await reader.read()).startswith(b"HTTP/1.1 2")
            writer.close()
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())

    run(test)

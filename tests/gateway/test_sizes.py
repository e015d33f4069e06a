"""An event over the limit is refused at publish by every listener, with the limit named, and nothing is cut
by it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import aiomqtt
import httpx
import msgspec
import pytest
import websockets
from tests.gateway.conftest import broker

import tidings
from tidings.errors import TooLargeError
from tidings.gateway import bodies
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.connection import NetworkSettings

FRAME = 64 << 10
LIMIT = DEFAULT_LIMITS.fitted(FRAME).event_bytes
LARGE = "x" * (LIMIT + 1)


def test_every_listener_refuses_an_event_over_the_limit_and_names_it() -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(120),
            broker(
                network=NetworkSettings(max_frame_bytes=FRAME), http="127.0.0.1:0", mqtt="127.0.0.1:0"
            ) as service,
        ):
            assert service.gateways is not None
            addresses = service.gateways.addresses
            await _over_tcp(service.server.address)
            await _over_http(addresses["http"])
            await _over_websocket(addresses["http"].replace("http", "ws", 1))
            await _over_mqtt(int(addresses["mqtt"].rpartition(":")[2]))
            assert service.server.figures()["messages too large"] == 0

    asyncio.run(run())


async def _over_tcp(address: str) -> None:
    async with tidings.connect(address, name="p") as bus:
        for text in (LARGE, "x" * (1 << 20)):  # larger than a frame of the broker, too
            with pytest.raises(TooLargeError, match=f"{LIMIT} at most"):
                await bus.publish({"text": text})
        await bus.publish({"text": "x" * (LIMIT - 1000)})
        assert bus.state == "up"


async def _over_http(base: str) -> None:
    async with httpx.AsyncClient(base_url=base) as http:
        headers = {"content-type": "application/json"}
        answer = await http.post("/events", content=json.dumps({"text": LARGE}), headers=headers)
        assert answer.status_code == 413
        assert answer.json()["code"] == "too large"
        assert f"{LIMIT} at most" in answer.json()["detail"]
        assert (await http.post("/events", content=json.dumps({"text": "x"}), headers=headers)).is_success


async def _over_websocket(base: str) -> None:
    async with websockets.connect(base.rstrip("/") + "/events/socket") as socket:
        event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"text": LARGE}}
        await socket.send(json.dumps({"op": "publish", "call": 7, "event": event}))
        fields: dict[str, Any] = json.loads(await socket.recv())
        assert fields["op"] == "error"
        assert fields["code"] == "too large"
        await socket.send(json.dumps({"op": "publish", "call": 8, "event": event | {"data": {"text": "x"}}}))
        assert json.loads(await socket.recv())["op"] == "published"


async def _over_mqtt(port: int) -> None:
    five = aiomqtt.ProtocolVersion.V5
    async with aiomqtt.Client("127.0.0.1", port, identifier="m", protocol=five, timeout=120) as client:
        delivered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        before = client._client.on_publish
        client._client.on_publish = lambda *stated: delivered.done() or delivered.set_result(stated[3].value)
        client._client.publish("t", LARGE.encode(), qos=1)
        assert await delivered == 0x97, "quota exceeded: a limit that the broker imposes"
        client._client.on_publish = before
        await client.publish("t", b"x", qos=1)


def test_an_embedded_broker_refuses_it_too() -> None:
    async def run() -> None:
        async with tidings.connect() as bus:
            with pytest.raises(TooLargeError, match=f"{DEFAULT_LIMITS.event_bytes} at most"):
                await bus.publish({}, payload=b"x" * (DEFAULT_LIMITS.event_bytes + 1))
            await bus.publish({"x": 1})

    asyncio.run(run())


def test_a_body_of_too_many_attributes_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found from outside: 300,000 attributes in one HTTP body stopped everybody for half a second."""
    decoded: list[int] = []
    decode = msgspec.json.decode

    def counted(body: Any, **options: Any) -> Any:
        decoded.append(len(body))
        return decode(body, **options)

    monkeypatch.setattr(bodies.msgspec.json, "decode", counted)
    crowd, fewer = (
        "{" + ",".join(f'"a{number}":{{}}' for number in range(count)) + "}" for count in (100_000, 20_000)
    )

    async def run() -> None:
        async with asyncio.timeout(60), broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            async with httpx.AsyncClient(base_url=service.gateways.addresses["http"]) as http:
                for path, media, body in (
                    ("/events", "application/json", crowd),
                    ("/events", "application/json", fewer),
                    ("/events", "application/cloudevents+json", crowd),
                    ("/events", "application/cloudevents-batch+json", f"[{crowd}]"),
                    ("/explain", "application/json", f'{{"filter":"TRUE","event":{crowd}}}'),
                ):
                    answer = await http.post(path, content=body, headers={"content-type": media})
                    trial = path == "/explain"  # has a bound of bytes, which is lower
                    assert answer.status_code == (413 if trial else 400), (path, media)
                    assert "1048576" in answer.text if trial else re.search("1024|262144", answer.text)
                assert not [size for size in decoded if size >= len(fewer)]
                many = {f"a{number}": "x,y" for number in range(1000)}
                assert (await http.post("/events", json=many)).is_success

    asyncio.run(run())

"""Events that a listener cannot pass on as they are: they stop neither a session nor the events
behind them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import pytest
import websockets
from aiomqtt import ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.gateway._sinks import listening
from tests.gateway.conftest import broker

import tidings
from tidings.errors import EventError, RefusedError
from tidings.model.event import Event
from tidings.protocol.client_bounds import check_message
from tidings.protocol.limits import ClientLimits, ResourceLimits
from tidings.protocol.messages import Publish

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
TOPIC = "é" * 40_000  # 80,000 bytes: MQTT carries 65,535
HEADER = "a/b\r\nX: 1"
WIDE = ResourceLimits(client=ClientLimits(topic=100_000))  # a log may hold such topics of earlier versions


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


def mqtt_port(service: Any) -> int:
    return int(service.gateways.addresses["mqtt"].rpartition(":")[2])


def kept(port: int, version: ProtocolVersion) -> aiomqtt.Client:
    """A client whose session outlives its connection."""
    options: dict[str, Any] = {"clean_session": False}
    if version is V5:
        connect = Properties(PacketTypes.CONNECT)
        connect.SessionExpiryInterval = 3600
        options = {"clean_start": False, "properties": connect}
    return aiomqtt.Client("127.0.0.1", port, identifier="k", protocol=version, timeout=60, **options)


async def payloads(client: aiomqtt.Client, count: int) -> list[Any]:
    found: list[Any] = []
    async for message in client.messages:
        found.append(message.payload)
        if len(found) == count:
            break
    return found


def test_a_topic_that_mqtt_cannot_carry_is_refused_at_publish_with_the_limit_named() -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            async with tidings.connect(service.server.address, name="p") as bus:
                with pytest.raises(RefusedError, match="has 80000 bytes; at most 65535"):
                    await bus.publish({}, topic=TOPIC)
                await bus.publish({}, topic="é" * 32_767)
            async with httpx.AsyncClient(base_url=service.gateways.addresses["http"]) as http:
                event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": TOPIC}
                answer = await http.post(
                    "/events",
                    content=json.dumps(event),
                    headers={"content-type": "application/cloudevents+json"},
                )
                assert answer.status_code == 403
                assert "at most 65535" in answer.json()["detail"]

    run(test)


@pytest.mark.parametrize("version", [V311, V5], ids=["v311", "v5"])
@pytest.mark.parametrize("topic", [TOPIC, "∅"], ids=["long", "empty"])
def test_an_event_that_mqtt_cannot_carry_is_a_dead_letter_and_later_ones_are_delivered(
    tmp_path: Path, version: ProtocolVersion, topic: str
) -> None:
    async def test() -> None:
        async with (
            broker(tmp_path, mqtt="127.0.0.1:0", resources=WIDE) as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            port = mqtt_port(service)

            async def publish(name: str, payload: bytes) -> None:
                await bus.publish({}, topic=name, payload=payload)

            async with kept(port, version) as client, aiomqtt.Client("127.0.0.1", port) as plain:
                await client.subscribe("#", qos=1)
                await plain.subscribe("#", qos=0)
                for name, payload in (("ok", b"1"), (topic, b"poison"), ("ok", b"2")):
                    await publish(name, payload)
                assert await payloads(client, 2) == [b"1", b"2"]
                assert await payloads(plain, 2) == [b"1", b"2"]
            await publish(topic, b"poison")
            await publish("ok", b"3")
            async with kept(port, version) as client:  # the session returns healthy
                await publish("ok", b"4")
                assert await payloads(client, 2) == [b"3", b"4"]
            assert service.server.figures()["dead letters"] == 2

    run(test)


@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        ({"v": "v" * 70_000}, {}),
        ({"n" * 70_000: "v"}, {}),
        ({"v": "a\0b"}, {}),
        ({"response_topic": 7}, {}),
        ({"response_topic": "a/#"}, {}),
        ({"response_topic": "a" * 70_000}, {}),
        ({"payload_format": "yes"}, {}),
        ({"payload_format": 300}, {}),
        ({"correlation": "00" * 70_000}, {}),
        ({"mqtt_user": json.dumps([["a", "v" * 70_000], ["b", "\0"]])}, {}),
        ({"mqtt_user": json.dumps([["a", "b"]] * 2000)}, {}),
        ({}, {"expires": math.inf}),
    ],
)
def test_a_property_that_mqtt_cannot_carry_is_left_out_and_the_payload_is_delivered(
    attributes: dict[str, Any], options: dict[str, Any]
) -> None:
    async def test() -> None:
        async with (
            broker(mqtt="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="p") as bus,
        ):
            for qos in (0, 1):
                async with aiomqtt.Client("127.0.0.1", mqtt_port(service), protocol=V5) as client:
                    await client.subscribe("#", qos=qos)
                    await bus.publish(
                        {**attributes, "fine": "x"},
                        topic="t",
                        payload=b"poison",
                        **{"content_type": "text/plain", **options},
                    )
                    await bus.publish({}, topic="t", payload=b"ok")
                    assert await payloads(client, 2) == [b"poison", b"ok"]

    run(test)


class Sink:
    """A web server that answers each request with `answer` and keeps its head."""

    def __init__(self, answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n", more: bytes = b"") -> None:
        self.answer, self.more = answer, more
        self.heads: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = 0
        self.is_left = asyncio.Event()

    async def __aenter__(self) -> str:
        self._server = listening(self._serve)
        return f"http://localhost:{await self._server.__aenter__()}/"

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = next(
                    (line for line in head.split(b"\r\n") if line.startswith(b"content-length")), b":0"
                )
                await reader.readexactly(int(length.partition(b":")[2]))
                self.heads.put_nowait(head)
                writer.write(self.answer)
                while self.more:  # without an end
                    writer.write(self.more)
                    self.sent += len(self.more)
                    await writer.drain()
        self.is_left.set()


@contextlib.asynccontextmanager
async def hooked(service: Any, sink: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=service.gateways.addresses["http"]) as http:
        requested = {"sink": sink, "filters": [{"tidings": "go > 0"}]}
        assert (await http.post("/subscriptions", json=requested)).status_code == 201
        yield http


def test_a_content_type_with_control_characters_is_refused_at_publish() -> None:
    with pytest.raises(EventError, match="control character"):
        tidings.make_event({}, source="s", id="1", payload=b"x", content_type=HEADER)
    with pytest.raises(RefusedError, match=r"content_type holds a control character"):  # of a foreign client
        check_message(Publish(1, Event("s", "1", payload=b"x", content_type=HEADER), 1))


def test_a_request_that_can_never_be_sent_is_a_dead_letter_and_later_events_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("model.event", "protocol.client_bounds"):  # a log of an earlier version holds such events
        monkeypatch.setattr(f"tidings.{module}.CONTROL", frozenset())

    async def test() -> None:
        sink = Sink()
        async with (
            broker(http="127.0.0.1:0", webhooks=("localhost",)) as service,
            sink as address,
            tidings.connect(service.server.address, name="p") as bus,
            hooked(service, address),
        ):
            await bus.publish({"go": 1}, id="poison", payload=b"x", content_type=HEADER)
            await bus.publish({"go": 1}, id="after")
            assert b"ce-id: after" in await sink.heads.get()
            assert service.server.figures()["dead letters"] == 1

    run(test)


def test_the_body_of_a_sink_s_answer_is_read_up_to_a_bound_and_never_decoded() -> None:
    async def test() -> None:
        endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
        sink = Sink(endless, b"10000\r\n" + bytes(65_536) + b"\r\n")
        async with (
            broker(http="127.0.0.1:0", webhooks=("localhost",)) as service,
            sink as address,
            tidings.connect(service.server.address, name="p") as bus,
            hooked(service, address) as http,
        ):
            for number in range(2):
                await bus.publish({"go": 1}, id=str(number))
                assert b"accept-encoding: identity" in await sink.heads.get()
                await sink.is_left.wait()
                sink.is_left.clear()
            while (await http.get("/subscriptions")).json()[0]["status"]["sent"] < 2:
                await asyncio.sleep(0)
            assert sink.sent < 32 << 20  # what sockets between the two hold

    run(test)


@pytest.mark.parametrize(
    "field",
    [
        {"sink": "http://localhost:1/" + "x" * 3000},
        {"protocolsettings": {"secret": "s" * 20_000}},
        {"protocolsettings": {"headers": {"X": "s" * 20_000}}},
        {"protocolsettings": {"headers": {f"X{n}": "s" for n in range(3000)}}},
        {"config": {"a": "x" * 20_000}},
        {"sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": "x" * 20_000}},
        {"types": ["x" * 20_000]},
        {"source": "x" * 2000},
    ],
)
def test_every_field_of_a_webhook_has_a_bound(field: dict[str, Any]) -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0", webhooks=("localhost",)) as service:
            assert service.gateways is not None
            async with httpx.AsyncClient(base_url=service.gateways.addresses["http"]) as http:
                answer = await http.post("/subscriptions", json={"sink": "http://localhost:1/", **field})
                assert answer.status_code == 400
                assert f"the subscription.{next(iter(field))} has" in answer.json()["detail"]
                assert "at most" in answer.json()["detail"]

    run(test)


def test_the_name_of_a_subscription_on_a_websocket_has_a_bound() -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            base = service.gateways.addresses["http"].replace("http", "ws", 1)
            async with websockets.connect(base.rstrip("/") + "/events/socket") as socket:
                await socket.send(json.dumps({"op": "subscribe", "ref": "r" * 900_000, "filter": "a = 1"}))
                stated = json.loads(await socket.recv())
                assert stated["op"] == "error"
                assert "at most 1024" in stated["detail"]
                assert "ref" not in stated

    run(test)


def test_events_by_http_have_the_limit_of_attributes_that_frames_have() -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            async with httpx.AsyncClient(base_url=service.gateways.addresses["http"]) as http:
                for inner in ("1", "{}"):
                    many = "{" + ",".join(f'"a{n}":{inner}' for n in range(3000)) + "}"
                    event = '{"specversion":"1.0","id":"1","source":"/s","type":"t","data":' + many + "}"
                    for kind, body in (("json", many), ("cloudevents+json", event)):
                        answer = await http.post(
                            "/events", content=body, headers={"content-type": f"application/{kind}"}
                        )
                        assert answer.status_code == 400
                        assert "the most is 1024" in answer.json()["detail"]

    run(test)


def test_attributes_are_counted_before_they_are_built() -> None:
    class Counting(dict[str, Any]):
        read = 0

        def items(self) -> Any:
            for pair in super().items():
                self.read += 1
                yield pair

    for value in (1, {}):
        many = Counting({f"a{n}": value for n in range(5000)})
        with pytest.raises(EventError, match="the most is 1024"):
            tidings.make_event(many, source="s", id="1")
        assert many.read == 1025


def test_a_request_with_two_lengths_is_refused_and_ends_its_connection() -> None:
    async def test() -> None:
        async with broker(http="127.0.0.1:0") as service:
            assert service.gateways is not None
            host, _, port = service.gateways.addresses["http"].removeprefix("http://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 6\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            )
            answers = await reader.read()
            writer.close()
            assert answers.startswith(b"HTTP/1.1 400")
            assert answers.count(b"HTTP/1.1") == 1

    run(test)

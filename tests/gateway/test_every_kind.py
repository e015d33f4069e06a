"""Every kind of value and every kind of class through every path: in process, over brokers, HTTP and MQTT.

The clients of HTTP and MQTT are not ours. A path gives one mapping from case to result, so that a failure
names the kinds that differ.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiomqtt
import httpx
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.gateway._kinds import CLASSES, KINDS
from tests.gateway.conftest import broker

import tidings
from tidings.errors import SchemaError
from tidings.model.cloudevents import STRUCTURED_TYPE, from_structured, to_binary, to_structured
from tidings.model.event import Event, make_event
from tidings.model.schemas import SCHEMAS
from tidings.model.serialisers import SERIALISERS, avro, decode, encode, register
from tidings.model.typed import event_fields
from tidings.testing.network import linked, serving, settled

TOPICS = "kinds/#"
EVERY = f"topic = '{TOPICS}'"
ARRIVES = {kind: repr(case.arrives) for kind, case in KINDS.items()}
AS_JSON = {kind: repr(case.as_json) for kind, case in KINDS.items()}
JSON = {"content-type": "application/json"}


class Paths(NamedTuple):
    """A broker's clients: two of ours at two linked brokers, one of HTTP, one of MQTT."""

    near: Any
    far: Any
    http: httpx.AsyncClient
    mqtt: aiomqtt.Client
    messages: AsyncIterator[Any]
    servers: tuple[Any, Any]

    async def post(self, body: bytes, headers: dict[str, str], **query: str) -> None:
        answer = await self.http.post("/events", content=body, headers=headers, params=query)
        assert answer.is_success, answer.text


@asynccontextmanager
async def paths() -> AsyncIterator[Paths]:
    async with (
        broker(http="127.0.0.1:0", mqtt="127.0.0.1:0") as service,
        serving("b2", join=[service.server.address]) as other,
        tidings.connect(service.server.address, name="near") as near,
        tidings.connect(other.address, name="far") as far,
    ):
        assert service.gateways is not None
        addresses = service.gateways.addresses
        host, _, port = addresses["mqtt"].rpartition("//")[2].rpartition(":")
        async with (
            httpx.AsyncClient(base_url=addresses["http"], trust_env=False, timeout=120) as http,
            aiomqtt.Client(host, int(port), protocol=aiomqtt.ProtocolVersion.V5) as mqtt,
        ):
            await mqtt.subscribe(TOPICS, qos=1)
            await linked(service.server, other)
            yield Paths(near, far, http, mqtt, aiter(mqtt.messages), (service.server, other))


def run(test: Callable[[Paths], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120), paths() as found:
            await test(found)

    asyncio.run(bounded())


def context(id: str, **more: str) -> dict[str, str]:
    """The context of another producer's CloudEvent."""
    return {"specversion": "1.0", "id": id, "source": "/f", "type": "T", **more}


def event_of(body: Any, id: str, topic: str, kind: str = "T") -> Event:
    return make_event(body, source="/s", id=id, topic=topic, type=(kind,))


async def through(
    publish: Callable[[Any, str], Awaitable[Any]], receive: Callable[[], Awaitable[tuple[Any, Any]]]
) -> dict[str, str]:
    """Publish every case at its topic and receive all, as text that tells 1 from True."""
    kinds = {f"kinds/{number}": kind for number, kind in enumerate(KINDS)}
    await asyncio.gather(*(publish(KINDS[kind], topic) for topic, kind in kinds.items()))
    received = [await receive() for _ in kinds]
    return {kinds[str(topic)]: repr(body) for topic, body in received}


def received_by(listener: Any) -> Callable[[], Awaitable[tuple[Any, Any]]]:
    async def receive() -> tuple[Any, Any]:
        event = await listener.get()
        return event.topic, event.attributes

    return receive


def test_in_process_and_over_brokers() -> None:
    async def test(at: Paths) -> None:
        async with tidings.connect() as own:
            for publisher, subscriber in (
                (own, own),
                (at.near, at.near),
                (at.near, at.far),
                (at.far, at.near),
            ):
                every = await subscriber.subscribe(EVERY)
                await settled(*at.servers)

                async def publish(case: Any, topic: str, publisher: Any = publisher) -> None:
                    await publisher.publish(case.body, topic=topic)

                assert await through(publish, received_by(every)) == ARRIVES
                await every.close()

    run(test)


def test_into_http_and_mqtt() -> None:
    """CloudEvents that we wrote keep every kind; JSON of others has text for a kind that JSON lacks."""

    async def test(at: Paths) -> None:
        every = await at.near.subscribe(EVERY)

        async def structured(case: Any, topic: str) -> None:
            event = event_of(case.body, "s" + topic, topic)
            await at.post(to_structured(event), {"content-type": STRUCTURED_TYPE})

        async def binary(case: Any, topic: str) -> None:
            headers, body = to_binary(event_of(case.body, "b" + topic, topic))
            await at.post(body, headers)

        async def foreign_structured(case: Any, topic: str) -> None:
            document = context("f" + topic, subject=topic) | {"data": case.as_json}
            await at.post(json.dumps(document).encode(), {"content-type": STRUCTURED_TYPE})

        async def foreign_binary(case: Any, topic: str) -> None:
            fields = context("g" + topic, subject=topic)
            headers = JSON | {f"ce-{name}": text for name, text in fields.items()}
            await at.post(json.dumps(case.as_json).encode(), headers)

        async def plain(case: Any, topic: str) -> None:
            await at.post(json.dumps(case.as_json).encode(), JSON, topic=topic)

        async def mqtt(case: Any, topic: str) -> None:
            await at.mqtt.publish(topic, json.dumps(case.as_json), qos=1)

        for publish in (structured, binary):
            assert await through(publish, received_by(every)) == ARRIVES
        for publish in (foreign_structured, foreign_binary, plain, mqtt):
            assert await through(publish, received_by(every)) == AS_JSON

    run(test)


def test_out_of_http_and_mqtt() -> None:
    async def test(at: Paths) -> None:
        async def publish(case: Any, topic: str) -> None:
            await at.near.publish(case.body, topic=topic)

        async def message() -> tuple[Any, Any]:
            received = await anext(at.messages)
            return received.topic, json.loads(bytes(received.payload))

        assert await through(publish, message) == AS_JSON
        async with at.http.stream("GET", "/events", params={"filter": EVERY}) as stream:
            lines = aiter(stream.aiter_lines())

            async def streamed() -> tuple[Any, Any]:
                async for line in lines:
                    if line.startswith("data:"):
                        event = from_structured(line.removeprefix("data:").strip())
                        return event.topic, event.attributes
                raise AssertionError("the stream ended")

            assert await through(publish, streamed) == ARRIVES

    run(test)


def test_classes() -> None:
    """An object arrives as the same object, also from JSON that another program wrote."""

    async def test(at: Paths) -> None:
        for kind, (cls, given) in CLASSES.items():
            lineage, attributes = ((), given) if isinstance(given, dict) else event_fields(given)
            body, name = encode(attributes, "application/json"), lineage[0] if lineage else "T"
            near, far = await at.near.subscribe(cls), await at.far.subscribe(cls)
            await settled(*at.servers)
            await at.near.publish(given)
            event = event_of(attributes, "s" + kind, "kinds", name)
            headers, binary = to_binary(event_of(attributes, "b" + kind, "kinds", name))
            foreign = {f"ce-{field}": text for field, text in context(kind, type=name).items()}
            await asyncio.gather(
                at.post(to_structured(event), {"content-type": STRUCTURED_TYPE}),
                at.post(binary, headers),
                at.post(body, JSON, type=name),
                at.post(body, JSON | foreign),
            )
            ways = 5
            if kind == "TypedDict":  # by its keys: a message of MQTT has no type
                await at.mqtt.publish("kinds", body, qos=1)
                ways = 6
            for listener in (near, far):
                for _ in range(ways):
                    received = await listener.get()
                    assert received == given, kind
                    assert type(received) is type(given)
                await listener.close()

    run(test)


def test_a_schema_is_checked_on_every_path() -> None:
    """Of each path one event fits, and one has an id that is no UUID: a subscriber with the class receives
    the fitting ones alone."""
    cls, given = CLASSES["dataclass"]
    name, attributes = cls.__name__, event_fields(given)[1]
    good = encode(attributes, "application/json")
    bad = encode({**attributes, "id": "7"}, "application/json")

    async def test(at: Paths) -> None:
        SCHEMAS.attach(cls)
        SCHEMAS.attach(cls, topic="kinds/order")
        typed, every = await at.near.subscribe(cls), await at.near.subscribe(EVERY)
        await at.near.publish(given)
        with pytest.raises(SchemaError, match="id is '7', which is no uuid"):
            await at.near.publish({**attributes, "id": "7"}, type=name)
        foreign = {f"ce-{field}": text for field, text in context("1", type=name).items()}
        for headers, query in ((JSON, {"type": name}), (JSON | foreign, {})):
            await at.post(good, headers, **query)
            answer = await at.http.post("/events", content=bad, headers=headers, params=query)
            assert (answer.status_code, answer.json()["code"]) == (400, "schema")
        assert [await typed.get() for _ in range(3)] == [given] * 3
        for body in (bad, good):
            await at.mqtt.publish("kinds/order", body, qos=1)
        assert (await every.get())["data.id"] == str(given.id)

    try:
        run(test)
    finally:
        SCHEMAS.detach(type=name)
        SCHEMAS.detach(topic="kinds/order")


def test_payloads_by_content_type() -> None:
    """A body is written by the serialiser of its content type, and MQTT and HTTP carry those bytes."""
    schema = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}

    async def test(at: Paths) -> None:
        every = await at.near.subscribe(EVERY)
        for kind in ("application/msgpack", "application/json", avro_type):
            written = encode({"n": 7}, kind)
            await at.near.publish({"n": 7}, topic="kinds/a", content_type=kind)
            message = await anext(at.messages)
            assert (bytes(message.payload), message.properties.ContentType) == (written, kind)
            properties = Properties(PacketTypes.PUBLISH)
            properties.ContentType = kind
            await at.mqtt.publish("kinds/b", written, qos=1, properties=properties)
            fields = context(kind, subject="kinds/c").items()
            await at.post(written, {"content-type": kind, **{f"ce-{field}": text for field, text in fields}})
            for _ in range(2):  # its own at MQTT, and that of HTTP
                await anext(at.messages)
            for event in [await every.get() for _ in range(3)]:
                assert decode(event.payload, event.content_type) == {"n": 7}

    avro_type = register(avro(schema)).content_type
    try:
        run(test)
    finally:
        SERIALISERS.unregister(avro_type)


def test_the_page_of_events_has_a_row_for_every_kind_and_class() -> None:
    """The table of `docs/events.md` names them, with the text that stands for a value which JSON lacks."""
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    table = page.partition("### Kinds and paths")[2].partition("## What comes out")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    in_json = {row[0].removeprefix("| "): row[3] for row in rows}
    several = {name for row in in_json if row not in KINDS for name in row.split(", ")}
    assert {*KINDS, *CLASSES} == {*(row for row in in_json if row in KINDS), *several}
    for kind, case in KINDS.items():
        text = case.as_json.get("x")
        if isinstance(text, str) and repr(case.arrives) != repr(case.as_json):
            assert f"`{text}`" in in_json[kind], kind

"""One rich body through every way in and out: TCP, HTTP and MQTT, by clients that are not ours."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import aiomqtt
import httpx
from tests.gateway.conftest import broker

import tidings


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Order:
    id: UUID
    day: date
    tags: list[str]
    lines: list[Line]
    note: str | None = None


ORDER = Order(
    UUID(int=7), date(2026, 3, 1), ["red", "big"], [Line("a", Decimal("120.10")), Line("b", Decimal(5))]
)
FILTER = "'red' IN tags AND ANY(lines.price > 100)"
PLAIN: dict[str, Any] = {"id": 7, "tags": ["red"], "lines": [{"sku": "a", "price": 120.5}]}


def test_a_body_goes_through_brokers_http_and_mqtt() -> None:
    async def run() -> None:
        async with (
            broker(http="127.0.0.1:0", mqtt="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="ann") as bus,
            httpx.AsyncClient(
                base_url=service.gateways.addresses["http"], trust_env=False, timeout=120
            ) as http,  # type: ignore[union-attr]
        ):
            host, _, port = service.gateways.addresses["mqtt"].rpartition("//")[2].rpartition(":")  # type: ignore[union-attr]
            typed = await bus.subscribe(Order, FILTER)
            every = await bus.subscribe(FILTER)
            async with aiomqtt.Client(host, int(port), protocol=aiomqtt.ProtocolVersion.V5) as mqtt:
                await mqtt.subscribe("shop/#", qos=1)
                await bus.publish(ORDER, topic="shop/orders")
                assert await typed.get() == ORDER
                assert (await every.get())["lines"][0]["price"] == Decimal("120.10")
                message = await anext(aiter(mqtt.messages))
                assert json.loads(bytes(message.payload)) == {  # type: ignore[arg-type]
                    "id": str(ORDER.id), "day": "2026-03-01", "tags": ["red", "big"], "note": None,
                    "lines": [{"sku": "a", "price": "120.10"}, {"sku": "b", "price": "5"}],
                }  # fmt: skip
                await mqtt.publish("shop/orders", json.dumps(PLAIN), qos=1)
                received = await every.get()
                assert {name: received.attributes[name] for name in PLAIN} == PLAIN
            answer = await http.post("/events", json=PLAIN, params={"topic": "shop/orders"})
            assert answer.is_success, answer.text
            received = await every.get()
            assert received.attributes == PLAIN
            assert received["data.id"] == 7
            cloud = {"specversion": "1.0", "id": "c", "source": "/shop", "type": "T", "data": PLAIN}
            kind = {"content-type": "application/cloudevents+json"}
            assert (await http.post("/events", content=json.dumps(cloud), headers=kind)).is_success
            received = await every.get()
            assert (received["id"], received["data.id"], received["tags"]) == ("c", 7, ["red"])

    asyncio.run(asyncio.wait_for(run(), 120))


def test_plain_http_takes_the_longest_lists_and_refuses_longer_ones_by_their_number() -> None:
    async def run() -> None:
        async with (
            broker(http="127.0.0.1:0") as service,
            tidings.connect(service.server.address, name="ann") as bus,
            httpx.AsyncClient(
                base_url=service.gateways.addresses["http"], trust_env=False, timeout=120
            ) as http,  # type: ignore[union-attr]
        ):
            listening = await bus.subscribe("LENGTH(n) > 9 OR LENGTH(lines) > 9")
            for body in (
                {"n": list(range(65_536))},
                {"lines": [{"s": "a,b"}] * 32_768},
            ):
                answer = await http.post("/events", json=body)
                assert answer.is_success, answer.text
                assert (await listening.get()).attributes == body
            answer = await http.post("/events", json={"n": list(range(65_537))})
            assert answer.status_code == 400
            assert "65537 elements; the most is 65536" in answer.text

    asyncio.run(asyncio.wait_for(run(), 120))

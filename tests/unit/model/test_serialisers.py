"""Serialisers: payloads by content type, through the registry and at publish."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

import tidings
from tidings.errors import EventError
from tidings.model.serialisers import (
    JSON,
    MSGPACK,
    SERIALISERS,
    Serialiser,
    avro,
    decode,
    encode,
    protobuf,
    register,
)

ORDER = {"name": "Order", "type": "record", "fields": [{"name": "id", "type": "long"},
         {"name": "tags", "type": {"type": "array", "items": "string"}}]}  # fmt: skip
BODY: dict[str, Any] = {"id": 7, "tags": ["red"]}
FORMATS = ("application/avro; schema=Order", "application/protobuf; message=google.protobuf.Struct")


@pytest.fixture(autouse=True)
def formats() -> Iterator[None]:
    register(avro(ORDER))
    register(protobuf(Struct))
    yield
    for content_type in FORMATS:
        SERIALISERS.unregister(content_type)


@pytest.mark.parametrize("content_type", [MSGPACK, JSON, "Application/JSON; charset=utf-8", *FORMATS])
def test_a_body_is_written_and_read(content_type: str) -> None:
    assert decode(encode(BODY, content_type), content_type) == BODY


def test_messagepack_keeps_every_kind_and_json_writes_text() -> None:
    body = {"price": Decimal("1.10"), "raw": b"x"}
    assert decode(encode(body)) == body
    assert json.loads(encode(body, JSON)) == {"price": "1.10", "raw": "eA=="}


@pytest.mark.parametrize("content_type", FORMATS)
def test_a_body_that_does_not_fit_and_a_payload_that_cannot_be_read(content_type: str) -> None:
    if "avro" in content_type:
        with pytest.raises(EventError, match="cannot be written"):
            encode({"id": "x", "tags": 5}, content_type)
    with pytest.raises(EventError, match="cannot be read"):
        decode(b"\xff\xff", content_type)
    with pytest.raises(EventError, match="no serialiser"):
        decode(b"", "application/x-unknown")


def test_attributes_and_payload_are_made_from_one_another() -> None:
    async def run() -> None:
        async with tidings.connect() as bus:
            received = await bus.subscribe("'red' IN tags")
            for content_type in (JSON, MSGPACK, *FORMATS):
                await bus.publish(BODY, content_type=content_type)
                written = await received.get()
                assert decode(written.payload or b"", content_type) == BODY
                await bus.publish(payload=written.payload, content_type=content_type)
                assert (await received.get()).attributes == BODY
            await bus.publish(payload=b"{", content_type=JSON)
            with pytest.raises(EventError, match="cannot be read"):
                await bus.publish(payload=b"\xff", content_type=FORMATS[0])

    asyncio.run(run())


def test_a_serialiser_of_your_own() -> None:
    register(
        Serialiser(
            "text/x-pairs",
            lambda body: ",".join(body).encode(),
            lambda data: dict.fromkeys(data.decode().split(","), 1),
        )
    )
    assert decode(encode({"a": 1, "b": 1}, "text/x-pairs"), "text/x-pairs") == {"a": 1, "b": 1}
    SERIALISERS.unregister("text/x-pairs")

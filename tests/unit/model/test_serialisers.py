"""Serialisers: payloads by content type, through the registry and at publish."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from google.protobuf import duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct

import tidings
from tidings.errors import EventError
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
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


def _message() -> Any:
    """A message with integers of 64 bits in every place, and bytes."""
    file = FileDescriptorProto(name="tidings_test.proto", package="t", syntax="proto3")
    for of in (wrappers_pb2, timestamp_pb2, duration_pb2):
        file.dependency.append(of.DESCRIPTOR.name)
    made = file.message_type.add(name="M")
    inner = made.nested_type.add(name="Inner")
    inner.field.add(name="n", number=1, type=4, label=1)  # uint64
    entry = made.nested_type.add(name="MapEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=3, label=1)  # int64
    for number, (name, kind, label, of) in enumerate(
        [("i", 3, 1, ""), ("l", 16, 3, ""), ("s", 9, 1, ""), ("d", 1, 3, ""), ("inner", 11, 1, ".t.M.Inner"),
         ("map", 11, 3, ".t.M.MapEntry"), ("w", 11, 1, ".google.protobuf.Int64Value"), ("b", 12, 1, ""),
         ("r", 12, 3, ""), ("v", 11, 1, ".google.protobuf.BytesValue"),
         ("at", 11, 1, ".google.protobuf.Timestamp"), ("took", 11, 3, ".google.protobuf.Duration"),
         ("one_d", 1, 1, ""), ("f", 2, 1, "")], 1
    ):  # fmt: skip
        made.field.add(name=name, number=number, type=kind, label=label, type_name=of or None)
    pool = DescriptorPool()
    for of in (wrappers_pb2, timestamp_pb2, duration_pb2):
        pool.AddSerializedFile(of.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("t.M"))


def test_integers_of_64_bits_all_doubles_and_bytes_of_protobuf_are_themselves() -> None:
    kind = _message()
    message = kind(
        i=-(2**62), l=[1, 2], s="7", d=[math.inf, 1.5], inner={"n": 2**64 - 1}, map={"k": 5}, w={"value": 9},
        b=b"\x00\xff", r=[b"a", b""], v={"value": b"\xfe"}, one_d=0.1, f=0.5,
    )  # fmt: skip
    read = protobuf(kind).decode(message.SerializeToString())
    assert read == {"i": -(2**62), "l": [1, 2], "s": "7", "d": [math.inf, 1.5], "inner": {"n": 2**64 - 1},
                    "map": {"k": 5}, "w": 9, "b": b"\x00\xff", "r": [b"a", b""], "v": b"\xfe", "took": [],
                    "one_d": 0.1, "f": 0.5}  # fmt: skip
    event = make_event(read, source="s", id="1")
    assert accepts(
        parse_filter("i < 0 AND inner.n > 5 AND map.k = 5 AND 2 IN l AND s = '7' AND w = 9"), event
    )
    again = protobuf(kind)
    assert again.decode(again.encode(read)) == read


def test_json_has_durations_as_iso_8601_and_names_of_doubles_that_it_lacks() -> None:
    body = {"d": timedelta(days=1, microseconds=5), "n": [math.nan, math.inf, -math.inf]}
    assert json.loads(encode(body, JSON)) == {"d": "P1DT0.000005S", "n": ["NaN", "Infinity", "-Infinity"]}


NOON = datetime(2026, 1, 1, 12, microsecond=5, tzinfo=UTC)


@pytest.mark.parametrize(
    "body",
    [
        {"at": NOON, "took": [timedelta(days=-1, microseconds=5), timedelta(0)]}, {"at": datetime.min.replace(
        tzinfo=UTC)}, {"one_d": Decimal("1.5")}, {"one_d": 2**60}, {"i": Decimal(5)}, {"inner": {"n": 5.0}},
        {"f": math.inf}, {"one_d": math.inf}, {"i": None}, {"map": {"a": 5}}, {"b": b""},
        {"at": NOON.astimezone(timezone(timedelta(hours=2)))},
    ],
)  # fmt: skip
def test_a_body_in_protobuf_is_read_as_it_was_written(body: dict[str, Any]) -> None:
    kind = protobuf(_message())
    read = kind.decode(kind.encode(body))
    assert all(read[name] == value or value is None for name, value in body.items())


def test_moments_and_durations_of_protobuf_have_microseconds() -> None:
    message = _message()()
    message.at.FromJsonString("2026-01-01T12:00:00.000005999Z")
    message.took.add().FromJsonString("-1.5s")
    read = protobuf(type(message)).decode(message.SerializeToString())
    assert (read["at"], read["took"]) == (NOON, [timedelta(seconds=-1.5)])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"one_d": 2**53 + 1}, "one_d is 9007199254740993, and would be read as 9007199254740992.0"),
        ({"one_d": Decimal("1.1")}, "one_d is Decimal"), ({"oneD": 1.5}, "oneD would be read as one_d"),
        ({"d": [1.5, Decimal("0.1")]}, "d is Decimal"), ({"f": 0.123456789}, "f is 0.123456789"),
        ({"one_d": True}, "one_d is True"), ({"at": datetime(2026, 1, 1)}, "at M.at"),
        ({"took": [timedelta(4_000_000)]}, "Duration is not valid"), ({"f": 1e300}, "too large"),
        ({"i": "5"}, "i is '5', and would be read as 5"), ({"one_d": "1.5"}, "one_d is '1.5'"),
        ({"b": "AA=="}, "b is 'AA=='"), ({"r": [b"a", "AA=="]}, "r is 'AA=='"), ({"l": ["1", 2]}, "l is '1'"),
        ({"w": "5"}, "w is '5'"), ({"inner": {"n": "5"}}, "inner.n is '5'"),
        ({"map": {"k": "5"}}, "map.k is"),
        ({"at": "2026-01-01T00:00:00.123456789Z"}, "at is '2026"), ({"took": ["1.5s"]}, "took is '1.5s'"),
        ({"f": "NaN"}, "f is 'NaN'"),
    ],
)  # fmt: skip
def test_a_value_that_protobuf_changes_is_refused(body: dict[str, Any], problem: str) -> None:
    kind = register(protobuf(_message())).content_type
    with pytest.raises(EventError, match=f"cannot be written as {kind}: .*{problem}"):
        encode(body, kind)
    SERIALISERS.unregister(kind)


def test_a_text_field_of_protobuf_takes_a_value_that_json_lacks_as_its_text() -> None:
    kind = protobuf(_message())
    for value in (UUID(int=7), Decimal("1.10"), date(2026, 1, 1), NOON, b"a", time(8, 30), timedelta(1)):
        assert isinstance(kind.decode(kind.encode({"s": value}))["s"], str)
    with pytest.raises(ValueError, match="s"):
        kind.encode({"s": 5})


def _logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("of", "kept", "changed"),
    [
        ("float", [0.5, math.inf, 5], [1e300, 0.1]),
        ("double", [0.1, 5, Decimal("1.5"), 2**60], [2**53 + 1, Decimal("1.1"), True]),
        ("int", [2**31 - 1, 5.0], [2**31, 5.5, True]),
        ("long", [2**63 - 1], [2**63, 5.5]),
        (["long", "double"], [5, 1.5, 2**53 + 1], [2**63 + 1]),
        (_logical("long", "timestamp-millis"), [NOON.replace(microsecond=5000)], [NOON]),
        (_logical("long", "timestamp-micros"), [NOON], [NOON.replace(tzinfo=None), 5]),
        (_logical("long", "local-timestamp-micros"), [NOON.replace(tzinfo=None)], [NOON]),
        (_logical("int", "date"), [date(2026, 1, 1)], [NOON, NOON.replace(tzinfo=None)]),
        (_logical("long", "time-micros"), [time(8, 30, 0, 5)], [time(8, 30, tzinfo=UTC)]),
        (_logical("bytes", "decimal", precision=4, scale=2), [Decimal("1.1")], [Decimal("1.234"), 1.5]),
        ({"type": "array", "items": "float"}, [[0.5]], [[0.1]]),
        ([_logical("int", "date"), "string"], [date(2026, 1, 1)], ["2026-01-01"]),
        (["null", _logical("string", "uuid")], [UUID(int=7), None], [str(UUID(int=7))]),
        ("null", [None], [0, False, ""]), (["null", "string"], [None, "a"], [0]),
        ({"type": "map", "values": "double"}, [{"a": 1.5}], [{"a": 2**53 + 1}]),
    ],
)  # fmt: skip
def test_a_value_that_avro_changes_is_refused(of: Any, kept: list[Any], changed: list[Any]) -> None:
    kind = register(avro({"name": "R", "type": "record", "fields": [{"name": "x", "type": of}]})).content_type
    for value in kept:
        assert decode(encode({"x": value}, kind), kind) == {"x": value}
    for value in changed:
        with pytest.raises(EventError, match="cannot be written as application/avro"):
            encode({"x": value}, kind)
    SERIALISERS.unregister(kind)

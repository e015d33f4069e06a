"""Targets beside those of the wire: what comes through gateways, and in files that people write."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tidings.availability.records import Append
from tidings.cli.events import event_of, json_object
from tidings.errors import CorruptionError, EventError, FilterError, HistoryError, InputError, SettingsError
from tidings.gateway.bodies import BATCH_TYPE, STRUCTURED_TYPE, read_requested
from tidings.gateway.bridges.bridge import read_bridge
from tidings.gateway.mqtt.events import event_of_packet, wanted
from tidings.gateway.mqtt.packets import (
    ConnectPacket,
    Malformed,
    PingPacket,
    PublishPacket,
    SubscribePacket,
    SubscriptionRequest,
)
from tidings.gateway.mqtt.reading import PacketReader
from tidings.gateway.mqtt.writing import write
from tidings.gateway.problems import Problem
from tidings.gateway.problems import json_object as body_object
from tidings.history.files import read_history
from tidings.language.eventbridge import from_pattern, to_pattern
from tidings.model.event import checked_event, make_event
from tidings.pipeline.flows import read_flow
from tidings.runtime.coercion import event_from
from tidings.runtime.settings import read_settings
from tidings.store.guard import append_from, entry_from, entry_key, guarded, stored_entry
from tidings_quality.documents import read_json, read_xml, write_json, write_xml
from tidings_quality.running_example import running_example
from tidings_quality.schema import read_schema, write_schema
from tidings_quality.settings import read_settings as read_organisation
from tidings_quality.spark.settings import read_plan
from tidings_quality.subscription import parse_subscription, subscription_of

SCHEMA = running_example()
GOLDEN = Path(__file__).parents[1] / "golden" / "history"
FOLDER = Path(tempfile.mkdtemp(prefix="tidings-fuzz-"))
DEEP = b"[" * 3000  # what nests deeper than a parser's own stack
NESTED = b'{"a": ' * 900 + b"1" + b"}" * 900  # what it just stands
LONG = b"1" * 5000  # more digits than Python turns into a number
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MEDIA = (STRUCTURED_TYPE, BATCH_TYPE, "application/json", "text/plain", "")


def as_file(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def mqtt(data: bytes) -> None:
    """Packets of a client, in pieces, and what becomes of them; the first byte says which
    version, and how."""
    if not data:
        return
    how, data = data[0], data[1:]
    reader = PacketReader(65_536, version=(0, 3, 4, 5)[how & 3])
    step = max(1, how >> 2)
    with contextlib.suppress(Malformed):
        for at in range(0, len(data), step):
            for packet in reader.feed(data[at : at + step]):
                version = packet.version if isinstance(packet, ConnectPacket) else reader.version
                reader.version = version
                again = list(PacketReader(1 << 20, version=version).feed(write(packet, version)))
                assert again == [packet], (packet, again)
                if isinstance(packet, PublishPacket) and packet.topic:
                    with contextlib.suppress(EventError):
                        event = event_of_packet(packet, "s", None, NOW)
                        assert checked_event(event) == event, packet
                if isinstance(packet, SubscribePacket):
                    for wish in packet.wishes:
                        with contextlib.suppress(FilterError):
                            wanted(wish.filter, packet.properties)


def bodies(data: bytes) -> None:
    """What is published over HTTP: the first byte says as what; then lines of headers, then the body."""
    if not data:
        return
    head, _, body = data[1:].partition(b"\n\n")
    lines = [line.partition(":") for line in head.decode("latin-1").splitlines()]
    headers = {"content-type": MEDIA[data[0] % len(MEDIA)], **{name.lower(): text for name, _, text in lines}}
    query = {name[2:]: text for name, text in headers.items() if name.startswith("q-")}
    with contextlib.suppress(EventError, Problem):
        for requested in read_requested(headers, query, body):
            event_from(requested.what, dict(requested.options), "s")
    with contextlib.suppress(InputError, Problem):
        body_object(body)


def patterns(data: bytes) -> None:
    """Filters in the manner of EventBridge, and quality subscriptions."""
    with contextlib.suppress(FilterError):
        filter = from_pattern(data)
        with contextlib.suppress(FilterError):
            from_pattern(to_pattern(filter))
    with contextlib.suppress(FilterError):
        parse_subscription(data.decode("utf-8", errors="replace"))
    with contextlib.suppress(InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        given = msgspec.json.decode(data)
        if isinstance(given, dict):
            subscription_of(given)


def objects(data: bytes) -> None:
    """Objects with their qualities, as JSON and as XML, and their schema."""
    for read, back in ((read_json, write_json), (read_xml, lambda found: write_xml(found, SCHEMA))):
        with contextlib.suppress(InputError):
            found = read(data, SCHEMA)
            assert read(back(found), SCHEMA) == found  # type: ignore[operator]
    with contextlib.suppress(InputError):
        read_schema(data)


def histories(data: bytes) -> None:
    with contextlib.suppress(HistoryError):
        list(read_history(as_file("history.jsonl", data)))


def events(data: bytes) -> None:
    """A line of the command line's input."""
    with contextlib.suppress(InputError):
        event_of(json_object(data.decode("utf-8", errors="replace"), "line 1"))


def tables(data: bytes) -> None:
    """Settings of a broker, an organisation, a factory and a bridge, and flows."""
    file = as_file("settings.toml", data)
    readers: tuple[Callable[[Path], Any], ...] = (
        read_settings,
        read_organisation,
        read_plan,
        read_flow,
        read_bridge,
    )
    for read in readers:
        with contextlib.suppress(SettingsError):
            read(file)


def records(data: bytes) -> None:
    """What a store finds under a key, with a checksum that is right."""
    key = entry_key(7)
    for read in (append_from, entry_from):
        with contextlib.suppress(CorruptionError):
            read(key, guarded(key, data), "here")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "mqtt": mqtt,
    "bodies": bodies,
    "patterns": patterns,
    "objects": objects,
    "histories": histories,
    "events": events,
    "tables": tables,
    "records": records,
}


def corpus(name: str) -> list[bytes]:
    return {"mqtt": _packets, "records": _records}.get(name, lambda: CORPORA[name])()


def _packets() -> list[bytes]:
    found = []
    for position, version in enumerate((3, 4, 5), 1):
        packets = [
            ConnectPacket(version=version, client_id="ann", keep_alive=60),
            PublishPacket(topic="a/b", payload=b'{"price": 3, "in": {"x": true}}', qos=1, packet_id=7),
            PublishPacket(topic="a", payload=b'{"a": ' + DEEP, qos=0),
            SubscribePacket(packet_id=1, wishes=[SubscriptionRequest(filter="$share/g/a/+/#", qos=1)]),
            PingPacket(),
        ]
        found += [bytes((position | 252,)) + write(packet, version) for packet in packets]
    return found


def _records() -> list[bytes]:
    event = make_event({"price": 3, "deep": {"a": 1.5}}, source="s", id="1", topic="a/b", payload=b"x")
    return [stored_entry(Append(7, event, 1.0))[2][4:], b"\x94\x00\x00\x00" + DEEP]


CORPORA: dict[str, list[bytes]] = {
    "bodies": [
        b'\x00\n\n{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}, '
        b'"time": "2026-01-01T00:00:00Z"}',
        b'\x00\n\n{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": "\\ud800"}',
        b'\x01\n\n[{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data_base64": "AAA="}]',
        b'\x02q-topic:a/b\nq-lifetime:forever\nq-expires:1e9\n\n{"price": 3, "in": {"x": true}}',
        b"\x03ce-specversion:1.0\nce-id:1\nce-source:/s\nce-type:t\nce-tidings:{}\n\nhello",
        b"\x00\n\n" + DEEP,
        b"\x02\n\n" + NESTED,
        b"\x02\n\n" + DEEP,
        b'\x02\n\n{"a": ' + LONG + b"}",
    ],
    "patterns": [
        b'{"price": [{"numeric": [">", 3, "<=", 5]}], "name": [{"prefix": "a"}, null], "$or": '
        b'[{"a": ["b"]}, {"c": [{"exists": false}]}]}',
        b'{"a": {"b": [{"anything-but": ["x", 1]}, {"wildcard": "a*b"}, {"equals-ignore-case": "X"}]}}',
        b"ON Enterprise/Holder FROM INPS, INAIL WHERE Name.accuracy <= 'medium' AND FiscalCode = 'x'",
        b'{"class": "Enterprise", "sources": ["INPS"], "data": "Code = 1", "quality": null}',
        b'{"class": "Enterprise", "sources": 3, "data": 4}',
        b'{"a": ' + DEEP,
        b'{"a": [' + LONG + b"]}",
    ],
    "objects": [
        b'[{"class": "Enterprise", "key": "1", "values": {"Code": "1", "EntName": "APT A"}, '
        b'"quality": {"EntName": {"accuracy": 0.7}}, "children": [{"class": "Holder", "values": '
        b'{"Name": "A", "FiscalCode": "x"}}]}]',
        write_schema(SCHEMA),
        b'[{"class": "Enterprise", "values": {"Code": ' + LONG + b"}}]",
        DEEP,
        b"<d2q>" * 3000,
        b'<!DOCTYPE d2q [<!ENTITY a "aa">]><d2q><data>&a;</data></d2q>',
    ],
    "histories": [
        *(line + b"\n" for path in sorted(GOLDEN.glob("*.jsonl"))
          for line in path.read_bytes().splitlines()[:12]),
        DEEP,
        b'{"time": ' + LONG + b"}\n",
    ],
    "events": [
        b'{"id": 3, "topic": "a/b", "type": ["A", "B"], "time": "2026-01-01T00:00:00Z", "price": '
        b'3, "in": {"x": [1]}}',
        b'{"specversion": "1.0", "data": {"a": 1}, "datacontenttype": "application/json"}',
        b'{"a": ' + DEEP,
        NESTED,
        b'{"a": ' + LONG + b"}",
        b'{"a": NaN, "b": 1e999}',
    ],
    "tables": [
        b'name = "b1"\nlisten = "127.0.0.1:0"\n[network]\nhandshake_seconds = '
        b'3.0\n[security]\nanonymous = true\n',
        b'schema = "schema.json"\nname = "INPS"\n[tls]\nca = "x"\n',
        b'name = "f"\n[parameters]\nx = "1"\n[sources.a]\nkind = "json"\npath = '
        b'"${x}"\n[matches.m]\nevents = "a"\nsubscriptions = "s"\n',
        b"a = " + DEEP,
        b"port = " + LONG,
        b"tls = 3\nschema = 'x'\n",
    ],
}  # fmt: skip

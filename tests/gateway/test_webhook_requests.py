"""Requests of webhooks: an event fits the headers of an ordinary sink, or goes in structured mode."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.events import event_of_packet
from tidings.gateway.webhooks import MOST_HEADERS, Sink
from tidings.model.cloudevents import STRUCTURED_TYPE, from_binary, from_structured
from tidings.model.event import Event, make_event

SINK = Sink(address="http://sink.example/")
TEXT = "x" * 60_000
LARGE = [
    make_event({"n": 1, "text": TEXT}, source="s", id="1", payload=b"\xff", content_type="application/x"),
    make_event({"n": 1, "text": "\u4e16" * 500}, source="s", id="1", payload=b"\xff"),
    make_event({"text": TEXT}, source="s", id="1", payload=b"plain", content_type="text/plain"),
]


def from_mqtt(payload: bytes, **properties: object) -> Event:
    packet = mq.PublishPacket("w/x", payload, 1, False, False, 1, dict(properties))
    return event_of_packet(packet, "s", "1", datetime.now(UTC))


def compact(event: Event) -> tuple[object, ...]:
    return event.identity, event.topic, event.type, event.attributes, event.payload, event.content_type


def test_a_json_payload_of_mqtt_goes_once_as_the_body() -> None:
    payload = json.dumps({"n": 1, "text": TEXT}).encode()
    for event in (from_mqtt(payload), from_mqtt(payload, content_type="application/json")):
        headers, body = SINK.request(event, 0)
        assert body == payload
        assert sum(map(len, headers.values())) < 512
        assert compact(from_binary(headers, body)) == compact(event)


@pytest.mark.parametrize("event", LARGE)
def test_attributes_that_no_header_holds_go_in_structured_mode(event: Event) -> None:
    headers, body = SINK.request(event, 0)
    assert headers["content-type"] == STRUCTURED_TYPE
    assert sum(map(len, headers.values())) < MOST_HEADERS
    assert compact(from_structured(body)) == compact(event)


def test_small_attributes_stay_in_headers() -> None:
    event = make_event({"n": 1}, source="s", id="1", payload=b"\xff", content_type="image/png")
    headers, body = SINK.request(event, 0)
    assert (headers["content-type"], body) == ("image/png", b"\xff")
    assert compact(from_binary(headers, body)) == compact(event)

"""Fields of an MQTT message in the header of its event, apart from the content."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from tidings.gateway.bridges.bridge import read_event
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.events import event_of_packet, header_of, publish_of, qos_of
from tidings.model.event import Event, make_event

NOW = datetime.now(UTC)


def made(packet: mq.PublishPacket) -> Event:
    """The event of a packet, as a broker's disk would give it back."""
    event = event_of_packet(packet, "/s", "1", NOW)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event)


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "1"), ("b", "2")],
        [("b", "2"), ("a", "1"), ("b", "3")],
        [("id", "x"), ("a.b", "y"), ("", "z")],
        [("price", "131")],
        [("response_topic", "r"), ("mqtt_user", "[]")],
    ],
    ids=["plain", "a name twice", "names of no attribute", "as in the payload", "our own names"],
)
@pytest.mark.parametrize("payload", [b"", b'{"price": "131", "b": "0"}'], ids=["empty", "json"])
def test_user_properties_go_on_as_they_came(pairs: list[tuple[str, str]], payload: bytes) -> None:
    came = mq.PublishPacket("a", payload, properties={"user": pairs})
    event = made(came)
    gone = publish_of(event, 0, retain=False, with_properties=True, header=header_of(event))
    assert gone.properties["user"] == pairs
    assert gone.payload == payload


@pytest.mark.parametrize("field", [{"correlation_data": b""}, {"content_type": "x" * 65535}], ids=list)
def test_a_property_at_the_edge_goes_on_as_it_came(field: dict[str, str | bytes]) -> None:
    event = made(mq.PublishPacket("a", b"x", properties=dict(field)))
    assert len(event.content_type or "") <= 1024  # the bound of every client
    gone = publish_of(event, 0, retain=False, with_properties=True, header=header_of(event))
    assert gone.properties == field


FAR = 1e12  # every event is older
FORGED = {
    "mqtt_qos": 0,
    "mqtt_user": '[["a", "b"]]',
    "response_topic": "r",
    "correlation": "ff",
    "payload_format": 1,
}


@pytest.mark.parametrize("by", ["payload", "user properties"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_payload_sets_nothing_that_the_gateway_writes(by: str, qos: int) -> None:
    payload = json.dumps(FORGED | {"n": 1}).encode() if by == "payload" else b""
    pairs = [] if by == "payload" else [(name, str(value)) for name, value in FORGED.items()]
    event = made(mq.PublishPacket("a", payload, qos, properties={"user": pairs} if pairs else {}))
    header = header_of(event, legacy_before=FAR)
    assert qos_of(header, 2) == qos
    gone = publish_of(event, qos, retain=False, with_properties=True, header=header)
    assert gone.properties == ({"user": pairs} if pairs else {})
    assert (event.attributes.get("n"), gone.payload) == (1 if payload else None, payload)


def test_events_that_the_last_version_stored_keep_their_fields() -> None:
    attributes = {"mqtt_qos": 1, "response_topic": "r", "correlation": "ff", "payload_format": 1, "a": "b"}
    stored = make_event(attributes, source="/s", id="1", topic="a", payload=b"x", time=datetime.now(UTC))
    header = header_of(stored, legacy_before=FAR)
    gone = publish_of(stored, qos_of(header, 2), retain=False, with_properties=True, header=header)
    assert gone.qos == 1
    # no address of a reply: a publisher can set the time of an event, and no guard looked at this one
    assert gone.properties == {"payload_format": 1, "user": [("a", "b")]}


def test_attributes_of_other_publishers_are_no_fields_of_a_message() -> None:
    event = make_event(FORGED | {"response_topic": 5}, source="/s", id="1", topic="a", time=datetime.now(UTC))
    header = header_of(event)
    assert qos_of(header, 2) == 2
    gone = publish_of(event, 2, retain=False, with_properties=True, header=header)
    assert gone.properties == {"content_type": "application/json"}


def test_a_payload_that_comes_over_a_bridge_lowers_no_qos() -> None:
    event = read_event(b'{"mqtt_qos": 0, "n": 1}', source="/bridge", id="1", topic="a", lifetime=0.0)
    assert (dict(event.attributes), qos_of(header_of(event), 2)) == ({"mqtt_qos": 0, "n": 1}, 2)

"""Between MQTT's messages and events.

Rules
- The payload stays what it is, byte for byte. When it is a JSON object, its members are attributes, so that
  filters can ask for them; user properties are attributes too, and win over members.
- Attributes that stand for fields of a PUBLISH (`OURS`) are written from those fields alone: members of a
  payload and user properties of these names are no attributes. A payload with `"mqtt_qos": 0` lowers no QoS.
- Topics of MQTT may have empty levels, and ours not: an empty level is written `∅` here.
- A retained message is an event that lives forever and supersedes the one before on its topic; an empty one
  supersedes and does not stay. A message's expiry is the event's end.
- User properties go on as they came, in their order: where attributes cannot say that (a name twice, say),
  the list is kept beside them (`mqtt_user`).
- A message that came with QoS 0 or 1 goes on with no more (attribute `mqtt_qos`); others with what was asked
  for.
- A wildcard at the first level does not stand for topics that begin with `$`.
- A subscription may carry a content filter: `filter` among the user properties of its SUBSCRIBE.
- MQTT writes a text in 65,535 bytes at most, without U+0000. A property is left out if its value does not
  fit, and the payload is delivered. A topic that does not fit cannot be left out: such an event is
  `UnsendableEvent`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tidings.errors import EventError, FilterError
from tidings.gateway.mqtt.packets import LONGEST_TEXT, Malformed, Properties, PublishPacket, Reason
from tidings.language.build import Condition, attr, topic
from tidings.language.parser import parse
from tidings.model.body import is_list_of_values
from tidings.model.decoding import UNREADABLE, is_crowded
from tidings.model.event import FOREVER, MAX_ATTRIBUTES, RESERVED, Event
from tidings.model.filter import Filter
from tidings.model.textual import json_ready
from tidings.model.topic import ROOT, check_topic, is_pattern
from tidings.model.value import INT_MAX, INT_MIN

EMPTY = "∅"
SHARE = "$share/"
KEY = "mqtt:"  # before the topic, in the key of what is retained
FILTER = "filter"  # the user property of a subscription
QOS = "mqtt_qos"
USER = "mqtt_user"
OURS = frozenset({QOS, USER, "response_topic", "correlation", "payload_format"})
_TAKEN = RESERVED | OURS
JSON_TYPE = "application/json"


class UnsendableEvent(EventError):
    """An event that no PUBLISH packet can carry."""


def our_topic(name: str) -> str:
    """The topic of ours for a topic name or a topic filter."""
    return "/".join(level or EMPTY for level in name.split("/"))


def their_topic(ours: str | None) -> str:
    if ours is None or ours == ROOT:
        return "/"
    return "/".join("" if level == EMPTY else level for level in ours.split("/"))


def wanted(text: str, properties: Properties) -> tuple[Filter, str | None]:
    """The filter of a SUBSCRIBE's entry, and the group when it is shared. Raises `FilterError`."""
    group = None
    if text.startswith(SHARE):
        group, _, text = text.removeprefix(SHARE).partition("/")
        if not group or is_pattern(group) or not text:
            raise FilterError("a shared subscription is $share/GROUP/FILTER")
    if not text:
        raise FilterError("the topic filter is empty")
    condition = topic(our_topic(text))
    if text[0] in "+#":
        condition = condition & ~attr("topic").startswith("$")
    for name, said in properties.get("user", ()):
        if name == FILTER:
            condition = condition & Condition(parse(said))
    return condition.filter(), group


def filters_of(user: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The user properties of a SUBSCRIBE that the gateway interprets: its content filters."""
    return [(name, said) for name, said in user if name == FILTER]


# -- inward ------------------------------------------------------------------------------------------


def options_of(publish: PublishPacket) -> dict[str, Any]:
    """Options of `Bus.publish` beside the attributes. Raises `Malformed`."""
    try:
        name = check_topic(our_topic(publish.topic))
    except EventError as error:
        raise Malformed(error.message, Reason.TOPIC_NAME) from None
    expiry = publish.properties.get("message_expiry")
    options: dict[str, Any] = {
        "topic": name,
        "payload": publish.payload,
        "content_type": publish.properties.get("content_type"),
        "expires": None if expiry is None else float(expiry),
        "time": datetime.now(UTC),
    }
    if publish.retain:
        options["key"] = KEY + name
        options["lifetime"] = FOREVER if publish.payload else 0.0
    return options


def attributes_of(publish: PublishPacket) -> dict[str, Any]:
    properties = publish.properties
    if properties.get("payload_format") == 1:
        try:
            publish.payload.decode()
        except UnicodeDecodeError:
            raise Malformed("the payload is said to be UTF-8", Reason.PAYLOAD_FORMAT) from None
    attributes = members_of(publish.payload, properties.get("content_type"))
    if publish.qos < 2:
        attributes[QOS] = publish.qos
    for name in ("response_topic", "payload_format"):
        if name in properties:
            attributes[name] = properties[name]
    if "correlation_data" in properties:
        attributes["correlation"] = properties["correlation_data"].hex()
    said = properties.get("user", ())
    if said:
        members = dict(attributes)
        for name, value in said:
            if name and name not in _TAKEN and "." not in name:
                attributes[name] = value
        if _user(attributes, members) != list(said):
            attributes[USER] = msgspec.json.encode(said).decode()
    return attributes


def _user(attributes: Mapping[str, Any], members: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The user properties that the attributes stand for, beside the payload's members."""
    return [
        (name, value)
        for name, value in attributes.items()
        if isinstance(value, str) and members.get(name) != value and name not in OURS
    ]


def _kept_user(said: Any) -> list[tuple[str, str]] | None:
    try:
        listed = msgspec.json.decode(said, type=list[tuple[str, str]])
    except (*UNREADABLE, TypeError):
        return None  # it came by another way, and is no list of ours
    return listed if len(listed) <= MAX_ATTRIBUTES else None


def members_of(payload: bytes, content_type: str | None = None) -> dict[str, Any]:
    """The members of a JSON object that can be attributes.

    None of them is an attribute that this gateway reads.
    """
    if not payload.startswith(b"{") or content_type not in (None, JSON_TYPE) or is_crowded(payload):
        return {}
    try:
        read = msgspec.json.decode(payload)
    except UNREADABLE:
        return {}
    return _plain(read, 1)


def _plain(members: Mapping[str, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in members.items():
        if not name or "." in name or (depth == 1 and name in OURS):
            continue
        if isinstance(value, dict) and depth < 8:
            kept[name] = _plain(value, depth + 1)
        elif (
            type(value) in (bool, str, float)
            or (type(value) is int and INT_MIN <= value <= INT_MAX)
            or is_list_of_values(value)
        ):
            kept[name] = value
    return kept


# -- outward -----------------------------------------------------------------------------------------


def qos_of(event: Event, granted: int) -> int:
    """No more than it was published with."""
    said = event.attributes.get(QOS)
    return min(granted, said) if type(said) is int and said >= 0 else granted


def publish_of(event: Event, qos: int, *, retain: bool, with_properties: bool) -> PublishPacket:
    """The event as a message that can be encoded. Raises `UnsendableEvent`."""
    name = their_topic(event.topic)
    if not name or not _fits(name):
        raise UnsendableEvent(
            f"its topic has {len(name.encode())} bytes; MQTT carries 1 to {LONGEST_TEXT}",
            hint="publish it under a shorter topic",
        )
    payload = event.payload
    if payload is None:
        payload = msgspec.json.encode(json_ready(event.attributes), enc_hook=str) if event.body else b""
    properties = _properties(event, payload) if with_properties else {}
    return PublishPacket(name, payload, qos, retain, properties=properties)


def _fits(text: Any) -> bool:
    """Can MQTT write this as a text?"""
    if not isinstance(text, str) or "\0" in text:
        return False
    return len(text) * 4 <= LONGEST_TEXT or len(text.encode()) <= LONGEST_TEXT


def _properties(event: Event, payload: bytes) -> Properties:
    properties: Properties = {}
    if event.content_type is not None:
        if _fits(event.content_type):
            properties["content_type"] = event.content_type
    elif event.payload is None:
        properties["content_type"] = JSON_TYPE
    if event.expires is not None and math.isfinite(event.expires):
        waited = 0.0 if event.time is None else (datetime.now(UTC) - event.time).total_seconds()
        properties["message_expiry"] = min(max(round(event.expires - waited), 0), 2**32 - 1)
    attributes = event.attributes
    response = attributes.get("response_topic")
    if _fits(response) and response and not is_pattern(response):
        properties["response_topic"] = response
    if type(attributes.get("payload_format")) is int and attributes["payload_format"] in (0, 1):
        properties["payload_format"] = attributes["payload_format"]
    if isinstance(attributes.get("correlation"), str):
        with contextlib.suppress(ValueError):  # it came by another way, and is no correlation of MQTT
            correlation = bytes.fromhex(attributes["correlation"])
            if len(correlation) <= LONGEST_TEXT:
                properties["correlation_data"] = correlation
    user = _kept_user(attributes[USER]) if USER in attributes else None
    if user is None:
        user = _user(attributes, members_of(payload, event.content_type))
    user = [(name, value) for name, value in user if _fits(name) and _fits(value)]
    return properties | ({"user": user} if user else {})

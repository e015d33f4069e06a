"""Between MQTT's messages and events.

Rules
- The payload stays what it is, byte for byte. When it is a JSON object, its members are attributes, so that
  filters can ask for them; user properties are attributes too, and win over members.
- Fields of a PUBLISH that are no part of an event (QoS, RETAIN, response topic, correlation data, payload
  format, the list of user properties) travel in a header of the event (`MessageHeader`), never among its
  attributes. An event without one came by another protocol: its attributes are content, whatever their names
  are.
- Events that the last version stored have these fields among their attributes (`LEGACY`). They are read from
  there when the event is older than the first start of this version on the store (`legacy_before`), but for
  response topic and correlation data: a publisher sets the time of its event, and the guard checks the
  address of a reply in its `ReplyHeader` alone.
- Topics of MQTT may have empty levels, and ours not: an empty level is written `∅` here, and a level of one
  or more `∅` with one more of them.
- A retained message is an event that lives forever and supersedes the one before on its topic; an empty one
  supersedes and does not stay. A message's expiry is the event's end.
- A message goes on with no more than the QoS that it came with; others with what was asked for.
- A wildcard at the first level does not stand for topics that begin with `$`.
- A subscription may carry a content filter: `filter` among the user properties of its SUBSCRIBE.
- MQTT writes a text in 65,535 bytes at most, without U+0000. A property is left out if its value does not
  fit, and the payload is delivered. A topic that does not fit cannot be left out: such an event is
  `UnsendableEvent`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from sys import modules
from typing import Any

import msgspec

from tidings.errors import EventError, FilterError
from tidings.gateway.mqtt.packets import LONGEST_TEXT, Malformed, Properties, PublishPacket, Reason
from tidings.language.build import Condition, attr, topic
from tidings.language.lists import prefixes
from tidings.language.parser import parse
from tidings.model.body import MAX_NESTING, is_list_of_values
from tidings.model.decoding import UNREADABLE, is_crowded, remembering
from tidings.model.event import (
    DEFAULT_LIFETIME,
    FOREVER,
    MAX_ATTRIBUTES,
    RESERVED,
    UNNUMBERED,
    Event,
    body_of,
    check_content_type,
)
from tidings.model.filter import Filter
from tidings.model.reply_header import ReplyHeader, encoded, reply_header_of
from tidings.model.textual import json_ready
from tidings.model.topic import ROOT, check_topic, is_pattern
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.telemetry import carried

EMPTY = "∅"
SHARE = "$share/"
SHORT = 256  # characters of a topic name that is remembered as checked
KEY = "mqtt:"  # before the topic, in the key of what is retained
FILTER = "filter"  # the user property of a subscription
QOS = "mqtt_qos"
USER = "mqtt_user"
LEGACY = frozenset({QOS, USER, "response_topic", "correlation", "payload_format"})
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*+(:)?', re.DOTALL)
PROTOCOL = "mqtt"  # the name of our header in `Event.headers`
JSON_TYPE = "application/json"


class UnsendableEvent(EventError):
    """An event that no PUBLISH packet can carry."""


class MessageHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields of a PUBLISH that an event carries beside its content."""

    qos: int = 2
    retain: bool = False
    payload_format: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None  # one longer than the bound `name` of clients


_PLAIN = tuple({PROTOCOL: msgspec.msgpack.encode(MessageHeader(qos))} for qos in range(3))


def is_plain_header(headers: Mapping[str, bytes]) -> bool:
    """Are these the headers of a message without properties and RETAIN, that this process wrote?"""
    return headers is _PLAIN[0] or headers is _PLAIN[1] or headers is _PLAIN[2]


@remembering
def _decoded(data: bytes) -> MessageHeader | None:
    try:
        return msgspec.msgpack.decode(data, type=MessageHeader)
    except UNREADABLE:
        return None  # some client of another protocol wrote it


def header_of(event: Event, legacy_before: float = 0.0) -> MessageHeader | None:
    """The header that the gateway gave the event; None: it came by another protocol."""
    data = event.headers.get(PROTOCOL) if event.headers else None
    if data is not None:
        return _decoded(data)
    if event.time is not None and event.time.timestamp() < legacy_before:
        return _legacy_header(event)
    return None


def _legacy_header(event: Event) -> MessageHeader | None:
    """The header of an event that the last version stored, from its attributes."""
    attributes = event.shared_attributes
    if event.key is None and LEGACY.isdisjoint(attributes):
        return None
    qos, form = attributes.get(QOS), attributes.get("payload_format")
    user = _kept_user(attributes[USER]) if USER in attributes else None
    if user is None:
        user = _user(attributes, members_of(event.payload or b"", event.content_type))
    return MessageHeader(
        qos if type(qos) is int and 0 <= qos <= 2 else 2,
        event.key is not None and event.key.startswith(KEY),
        form if type(form) is int else None,
        tuple(user),
    )


def our_topic(name: str) -> str:
    """The topic of ours for a topic name or a topic filter."""
    levels = name.split("/")
    if EMPTY not in name and "" not in levels:
        return name
    return "/".join(level if level.strip(EMPTY) else level + EMPTY for level in levels)


def their_topic(ours: str | None) -> str:
    if ours is None or ours == ROOT:
        return "/"
    if EMPTY not in ours:
        return ours
    return "/".join(level if level.strip(EMPTY) else level[1:] for level in ours.split("/"))


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
    for name, stated in properties.get("user", ()):
        if name == FILTER:
            condition = condition & Condition(parse(stated))
    return condition.filter(), group


def filters_of(user: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The user properties of a SUBSCRIBE that the gateway interprets: its content filters."""
    return [(name, text) for name, text in user if name == FILTER]


# -- inward ------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _checked_topic(name: str) -> str:
    return check_topic(our_topic(name))


def _topic_of(publish: PublishPacket) -> str:
    name = publish.topic
    try:
        return _checked_topic(name) if len(name) <= SHORT else check_topic(our_topic(name))
    except EventError as error:
        raise Malformed(error.message, Reason.TOPIC_NAME) from None


def event_of_packet(publish: PublishPacket, source: str, id: str | None, now: datetime) -> Event:
    """The event of a packet; without an id the client numbers it. Raises `Malformed`, and `EventError` for a
    content type that no event can have."""
    topic, payload, properties = _topic_of(publish), publish.payload, publish.properties
    headers = _PLAIN[publish.qos]
    content_type = expires = key = None
    lifetime = DEFAULT_LIFETIME
    if publish.retain:
        key, lifetime = KEY + topic, FOREVER if payload else 0.0
    if properties or publish.retain:
        headers = {PROTOCOL: msgspec.msgpack.encode(_header(publish))} | _reply(properties)
    if properties:
        content_type, expires = _content_type(properties), properties.get("message_expiry")
    attributes: Mapping[str, Any] | None = None
    if properties or payload[:1] in _OPENING:
        attributes = attributes_of(publish)
    if "opentelemetry" in modules:
        attributes = carried(attributes)
    body, rich = _body(attributes) if attributes else ({}, False)
    return Event(
        source, id or UNNUMBERED, body, topic, (), now, payload, content_type, lifetime, key,
        None if expires is None else float(expires), rich, headers,
    )  # fmt: skip


def _content_type(properties: Properties) -> str | None:
    """The content type of the event; a longer one goes into the header."""
    content_type: str | None = properties.get("content_type")
    if content_type is None or len(content_type) > DEFAULT_LIMITS.client.name:
        return None
    return check_content_type(content_type)


def _body(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The attributes as the body of an event. More than an event holds: the payload is bytes as any other."""
    try:
        return body_of(attributes)
    except EventError:
        return {}, False


def _reply(properties: Properties) -> dict[str, bytes]:
    response, correlation = properties.get("response_topic"), properties.get("correlation_data")
    if response is None and correlation is None:
        return {}
    return encoded(ReplyHeader(None if response is None else our_topic(response), correlation))


def _header(publish: PublishPacket) -> MessageHeader:
    properties = publish.properties
    content_type = properties.get("content_type", "")
    return MessageHeader(
        publish.qos,
        publish.retain,
        payload_format=properties.get("payload_format"),
        user=tuple(properties.get("user", ())),
        content_type=content_type if len(content_type) > DEFAULT_LIMITS.client.name else None,
    )


def attributes_of(publish: PublishPacket) -> dict[str, Any]:
    """The attributes of the event: members of a JSON payload, and user properties. Raises `Malformed`."""
    properties = publish.properties
    if not properties:
        return members_of(publish.payload)
    if properties.get("payload_format") == 1:
        try:
            publish.payload.decode()
        except UnicodeDecodeError:
            raise Malformed("the payload is said to be UTF-8", Reason.PAYLOAD_FORMAT) from None
    attributes = members_of(publish.payload, properties.get("content_type"))
    for name, value in properties.get("user", ()):
        if name and name not in RESERVED and ("." not in name or not _leads_to(attributes, name)):
            attributes[name] = value
    return attributes


def _leads_to(members: Mapping[str, Any], name: str) -> bool:
    """Does a dotted name lead to a member inside an object?"""
    for position in prefixes(name):
        inside = members.get(position)
        if isinstance(inside, dict) and position != name:
            rest = name[len(position) + 1 :]
            if rest in inside or _leads_to(inside, rest):
                return True
    return False


def _user(attributes: Mapping[str, Any], members: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The user properties that the attributes stand for, beside the payload's members."""
    return [
        (name, value)
        for name, value in attributes.items()
        if isinstance(value, str) and members.get(name) != value and name not in LEGACY
    ]


def _kept_user(stated: Any) -> list[tuple[str, str]] | None:
    try:
        listed = msgspec.json.decode(stated, type=list[tuple[str, str]])
    except (*UNREADABLE, TypeError):
        return None  # some other client wrote it
    return listed if len(listed) <= MAX_ATTRIBUTES else None


_BLANKS = b" \t\r\n"  # before an object of JSON
_OPENING = frozenset({b"{", b" ", b"\t", b"\r", b"\n"})


def members_of(payload: bytes, content_type: str | None = None) -> dict[str, Any]:
    """The members of a JSON object that can be attributes."""
    if not payload.lstrip(_BLANKS).startswith(b"{") or content_type not in (None, JSON_TYPE):
        return {}
    if (payload.count(b":") > MAX_ATTRIBUTES and _has_many_members(payload)) or is_crowded(payload):
        return {}
    try:
        read = msgspec.json.decode(payload)
    except UNREADABLE:
        return {}
    return _plain(read, "", 1, set())


def _has_many_members(payload: bytes) -> bool:
    """Has this JSON more members, at all depths, than an event has attributes? Found without decoding it."""
    names = (found for found in _STRING.finditer(payload) if found[1])
    return next(islice(names, MAX_ATTRIBUTES, None), None) is not None


def _plain(members: Mapping[str, Any], prefix: str, depth: int, seen: set[str]) -> dict[str, Any]:
    """Of two members with one dotted name (`{"a.b": 1, "a": {"b": 2}}`) the first: an event has it once."""
    kept: dict[str, Any] = {}
    for name, value in members.items():
        path = prefix + name
        if path in seen:
            continue
        if isinstance(value, dict):
            if depth < MAX_NESTING:
                kept[name] = _plain(value, f"{path}.", depth + 1, seen)
        elif not isinstance(value, list) or is_list_of_values(value):
            seen.add(path)
            kept[name] = value
    return kept


# -- outward -----------------------------------------------------------------------------------------


def qos_of(header: MessageHeader | None, granted: int) -> int:
    """No more than it was published with."""
    return granted if header is None or not 0 <= header.qos < granted else header.qos


def has_expired(event: Event, header: MessageHeader | None) -> bool:
    """Is a message of MQTT past its expiry? The broker ends events of others."""
    if event.expires is None or header is None or event.time is None:
        return False
    return (datetime.now(UTC) - event.time).total_seconds() >= event.expires


def publish_of(
    event: Event,
    qos: int,
    *,
    retain: bool,
    with_properties: bool,
    header: MessageHeader | None = None,
) -> PublishPacket:
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
    properties = _properties(event, payload, header) if with_properties else {}
    return PublishPacket(name, payload, qos, retain, properties=properties)


def _fits(text: Any) -> bool:
    """Can MQTT write this as a text?"""
    if not isinstance(text, str) or "\0" in text:
        return False
    return len(text) * 4 <= LONGEST_TEXT or len(text.encode()) <= LONGEST_TEXT


def _properties(event: Event, payload: bytes, header: MessageHeader | None) -> Properties:
    properties: Properties = {}
    if event.content_type is not None:
        if _fits(event.content_type):
            properties["content_type"] = event.content_type
    elif event.payload is None:
        properties["content_type"] = JSON_TYPE
    if event.expires is not None and math.isfinite(event.expires):
        waited = 0.0 if event.time is None else (datetime.now(UTC) - event.time).total_seconds()
        properties["message_expiry"] = min(max(math.ceil(event.expires - waited), 0), 2**32 - 1)
    user: Iterable[tuple[str, str]]
    reply = reply_header_of(event)
    response, correlation = (None, None) if reply is None else (reply.topic, reply.correlation)
    if header is None:
        user = _user(event.shared_attributes, members_of(payload, event.content_type))
    else:
        user = header.user[:MAX_ATTRIBUTES]  # some other client may have written more
        if header.content_type is not None and _fits(header.content_type):
            properties["content_type"] = header.content_type
        if header.payload_format in (0, 1):
            properties["payload_format"] = header.payload_format
    if response and _fits(response) and not is_pattern(response):
        properties["response_topic"] = their_topic(response)
    if correlation is not None and len(correlation) <= LONGEST_TEXT:
        properties["correlation_data"] = correlation
    user = [(name, value) for name, value in user if _fits(name) and _fits(value)]
    return properties | ({"user": user} if user else {})

"""MQTT packets as values, versions 3.1, 3.1.1 and 5 (OASIS). `reading.py` and `writing.py` are their bytes.

Properties are a mapping by name; user properties are a list of pairs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

V31, V311, V5 = 3, 4, 5
MOST_SUBSCRIPTIONS = 10_000  # of one session, and topic filters of one packet
LONGEST_TEXT = 0xFFFF  # bytes of a text or of binary data: two bytes say how many
NAMES = {V31: b"MQIsdp", V311: b"MQTT", V5: b"MQTT"}


class PacketKind(IntEnum):
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Reason(IntEnum):
    """Reason codes of version 5 that are used here."""

    SUCCESS = 0x00
    WITH_WILL = 0x04
    NO_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL = 0x82
    IMPLEMENTATION = 0x83
    VERSION = 0x84
    CLIENT_ID = 0x85
    PASSWORD = 0x86
    NOT_AUTHORISED = 0x87
    UNAVAILABLE = 0x88
    BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    AUTHENTICATION = 0x8C
    KEEP_ALIVE = 0x8D
    TAKEN_OVER = 0x8E
    TOPIC_FILTER = 0x8F
    TOPIC_NAME = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM = 0x93
    TOPIC_ALIAS = 0x94
    TOO_LARGE = 0x95
    QUOTA = 0x97
    PAYLOAD_FORMAT = 0x99
    NO_SHARED = 0x9E


class Malformed(Exception):
    """Not a packet; `reason` says what is wrong in MQTT's words."""

    def __init__(self, words: str, reason: Reason = Reason.MALFORMED) -> None:
        super().__init__(words)
        self.reason = reason


Properties = dict[str, Any]

# identifier -> (name, kind); kinds: 1, 2, 4 bytes, v variable integer, s text, b bytes, p pair of texts
PROPERTIES = {
    0x01: ("payload_format", "1"), 0x02: ("message_expiry", "4"), 0x03: ("content_type", "s"),
    0x08: ("response_topic", "s"), 0x09: ("correlation_data", "b"), 0x0B: ("subscription_id", "v"),
    0x11: ("session_expiry", "4"), 0x12: ("assigned_client_id", "s"), 0x13: ("server_keep_alive", "2"),
    0x15: ("authentication_method", "s"), 0x16: ("authentication_data", "b"),
    0x17: ("request_problem", "1"), 0x18: ("will_delay", "4"), 0x19: ("request_response", "1"),
    0x1A: ("response_information", "s"), 0x1C: ("server_reference", "s"), 0x1F: ("reason", "s"),
    0x21: ("receive_maximum", "2"), 0x22: ("topic_alias_maximum", "2"), 0x23: ("topic_alias", "2"),
    0x24: ("maximum_qos", "1"), 0x25: ("retain_available", "1"), 0x26: ("user", "p"),
    0x27: ("maximum_packet", "4"), 0x28: ("wildcards_available", "1"),
    0x29: ("subscription_ids_available", "1"), 0x2A: ("shared_available", "1"),
}  # fmt: skip
IDENTIFIERS = {name: (identifier, kind) for identifier, (name, kind) in PROPERTIES.items()}
MANY = {"user", "subscription_id"}  # may stand more than once
ALLOWED: dict[PacketKind | str, frozenset[str]] = {
    PacketKind.CONNECT: frozenset(
        [
            "session_expiry",
            "receive_maximum",
            "maximum_packet",
            "topic_alias_maximum",
            "request_response",
            "request_problem",
            "user",
            "authentication_method",
            "authentication_data",
        ]
    ),
    "will": frozenset(
        [
            "will_delay",
            "payload_format",
            "message_expiry",
            "content_type",
            "response_topic",
            "correlation_data",
            "user",
        ]
    ),
    PacketKind.CONNACK: frozenset(
        [
            "session_expiry",
            "receive_maximum",
            "maximum_qos",
            "retain_available",
            "maximum_packet",
            "assigned_client_id",
            "topic_alias_maximum",
            "reason",
            "user",
            "wildcards_available",
            "subscription_ids_available",
            "shared_available",
            "server_keep_alive",
            "response_information",
            "server_reference",
            "authentication_method",
            "authentication_data",
        ]
    ),
    PacketKind.PUBLISH: frozenset(
        [
            "payload_format",
            "message_expiry",
            "topic_alias",
            "response_topic",
            "correlation_data",
            "user",
            "subscription_id",
            "content_type",
        ]
    ),
    PacketKind.SUBSCRIBE: frozenset({"subscription_id", "user"}),
    PacketKind.UNSUBSCRIBE: frozenset({"user"}),
    PacketKind.DISCONNECT: frozenset({"session_expiry", "reason", "user", "server_reference"}),
    PacketKind.AUTH: frozenset({"authentication_method", "authentication_data", "reason", "user"}),
}
_PUBLISH_REASONS = frozenset([0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99])
_RELEASE_REASONS = frozenset([0x00, 0x92])
REASONS = {  # reason codes that a packet of version 5 may have, in both directions
    PacketKind.PUBACK: _PUBLISH_REASONS,
    PacketKind.PUBREC: _PUBLISH_REASONS,
    PacketKind.PUBREL: _RELEASE_REASONS,
    PacketKind.PUBCOMP: _RELEASE_REASONS,
    PacketKind.DISCONNECT: frozenset([0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91),
    *range(0x93, 0xA3)]), PacketKind.AUTH: frozenset([0x00, 0x18, 0x19]),
}  # fmt: skip
REASON_PROPERTIES = frozenset({"reason", "user"})  # of every acknowledgement


class Packet(msgspec.Struct):
    pass


class Will(msgspec.Struct):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = {}


class ConnectPacket(Packet):
    version: int
    client_id: str
    clean: bool = True
    keep_alive: int = 0
    will: Will | None = None
    user: str | None = None
    password: bytes | None = None
    properties: Properties = {}


class ConnackPacket(Packet):
    reason: int
    session_present: bool = False
    properties: Properties = {}


class PublishPacket(Packet):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = {}


class AckPacket(Packet):
    """PUBACK, PUBREC, PUBREL and PUBCOMP."""

    kind: PacketKind
    packet_id: int
    reason: int = 0
    properties: Properties = {}


class SubscriptionRequest(msgspec.Struct):
    """One entry of a SUBSCRIBE."""

    filter: str
    qos: int
    no_local: bool = False
    as_published: bool = False
    handling: int = 0  # of retained ones: 0 send, 1 send when new, 2 don't


class SubscribePacket(Packet):
    packet_id: int
    wishes: list[SubscriptionRequest]
    properties: Properties = {}
    beyond: int = 0  # filters beyond the reader's bound, which were not read


class SubackPacket(Packet):
    packet_id: int
    reasons: list[int]
    properties: Properties = {}


class UnsubscribePacket(Packet):
    packet_id: int
    filters: list[str]
    properties: Properties = {}


class UnsubackPacket(Packet):
    packet_id: int
    reasons: list[int]


class PingPacket(Packet):
    is_answer: bool = False


class DisconnectPacket(Packet):
    reason: int = 0
    properties: Properties = {}


class AuthPacket(Packet):
    reason: int = 0
    properties: Properties = {}

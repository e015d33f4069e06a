"""Handshake of an MQTT connection: which CONNECT is accepted, and the words of CONNACK."""

from __future__ import annotations

import ipaddress
import secrets
from datetime import UTC, datetime

from tidings.errors import EventError, RefusedError, StoreFullError, TidingsError
from tidings.gateway.authentication import ConnectionOrigin
from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.events import event_of_packet
from tidings.gateway.mqtt.packets import V5, V31, Malformed, Reason
from tidings.gateway.mqtt.publishing import message_of
from tidings.gateway.mqtt.stream import Wire
from tidings.gateway.mqtt.topic_aliases import ALIASES
from tidings.security.attempts import TooManyAttempts

NEVER = 0xFFFFFFFF  # an expiry
OLD_CODES = {
    Reason.VERSION: 1, Reason.CLIENT_ID: 2, Reason.UNAVAILABLE: 3, Reason.PASSWORD: 4,
    Reason.NOT_AUTHORISED: 5,
}  # fmt: skip


class ClientIdTooLong(RefusedError):
    """The client id makes a name that is longer than the broker keeps."""


def reason_of(error: TidingsError, connect: mq.ConnectPacket) -> Reason:
    """The reason of a CONNACK for a client that was not let in."""
    if isinstance(error, TooManyAttempts | StoreFullError):
        return Reason.UNAVAILABLE
    if isinstance(error, ClientIdTooLong):
        return Reason.CLIENT_ID
    return Reason.NOT_AUTHORISED if connect.password is None else Reason.PASSWORD


def check_connect(connect: mq.ConnectPacket) -> None:
    """Refuse a CONNECT that can be read and breaks a rule, or whose will could not be published, and name a
    client without an id. Raises `Malformed`."""
    properties = connect.properties
    for name in ("receive_maximum", "maximum_packet"):
        if properties.get(name) == 0:
            raise Malformed(f"{name} is 0", Reason.PROTOCOL)
    if "authentication_method" in properties:
        raise Malformed("no such method", Reason.AUTHENTICATION)
    if "authentication_data" in properties:
        raise Malformed("authentication data without a method", Reason.PROTOCOL)
    if connect.will is not None:
        try:
            event_of_packet(message_of(connect.will), "", "", datetime.now(UTC))
        except EventError as error:
            raise Malformed(f"the will: {error.message}", Reason.IMPLEMENTATION) from None
    if not connect.client_id:
        if connect.version == V31 or (connect.version != V5 and not connect.clean):
            raise Malformed("a session without a client id", Reason.CLIENT_ID)
        connect.client_id = f"auto-{secrets.token_hex(8)}"
        properties["assigned"] = connect.client_id


def stated(connect: mq.ConnectPacket, receive_maximum: int, maximum_packet: int, inbox: str) -> mq.Properties:
    """The properties of a CONNACK, with our bounds; `inbox` is the topic for Response Topics below it."""
    if connect.version != V5:
        return {}
    properties: mq.Properties = {
        "receive_maximum": receive_maximum,
        "maximum_packet": maximum_packet,
        "topic_alias_maximum": ALIASES,
        "subscription_ids_available": 1,
        "shared_available": 1,
    }
    if inbox and connect.properties.get("request_response") == 1:
        properties["response_information"] = inbox
    if "assigned" in connect.properties:
        properties["assigned_client_id"] = connect.properties["assigned"]
    return properties


def expiry_of(connect: mq.ConnectPacket) -> int:
    """Seconds for which the session outlives the connection."""
    if connect.version == V5:
        return int(connect.properties.get("session_expiry", 0))
    return 0 if connect.clean else NEVER


def origin_of(wire: Wire) -> ConnectionOrigin:
    peer = wire.get_extra_info("peername") or ("",)
    try:
        is_loopback = ipaddress.ip_address(peer[0]).is_loopback
    except ValueError:
        is_loopback = False
    return ConnectionOrigin(str(peer[0]), is_loopback, wire.get_extra_info("ssl_object") is not None)

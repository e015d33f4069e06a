"""MQTT packets to bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tidings.gateway.mqtt.packets import (
    IDENTIFIERS,
    MANY,
    NAMES,
    V5,
    AckPacket,
    AuthPacket,
    ConnackPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    PacketKind,
    PingPacket,
    Properties,
    PublishPacket,
    SubackPacket,
    SubscribePacket,
    UnsubackPacket,
    UnsubscribePacket,
)


def write(packet: Packet, version: int) -> bytes:
    """The packet's bytes."""
    head, body = _WRITERS[type(packet)](packet, version)
    return bytes([head]) + variable(len(body)) + body


def variable(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _blob(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def _text(text: str) -> bytes:
    return _blob(text.encode())


def write_properties(properties: Properties, version: int) -> bytes:
    """The properties with their length before them; none before version 5."""
    if version != V5:
        return b""
    out = bytearray()
    for name, given in properties.items():
        identifier, kind = IDENTIFIERS[name]
        for value in given if name in MANY else (given,):
            out.append(identifier)
            if kind == "s":
                out += _text(value)
            elif kind == "b":
                out += _blob(value)
            elif kind == "p":
                out += _text(value[0]) + _text(value[1])
            elif kind == "v":
                out += variable(value)
            else:
                out += int(value).to_bytes(int(kind), "big")
    return variable(len(out)) + bytes(out)


def _write_connect(p: ConnectPacket, version: int) -> tuple[int, bytes]:
    flags = (
        (2 if p.clean else 0) | (0x80 if p.user is not None else 0) | (0x40 if p.password is not None else 0)
    )
    if p.will is not None:
        flags |= 4 | p.will.qos << 3 | (0x20 if p.will.retain else 0)
    body = _blob(NAMES[p.version]) + struct.pack(">BBH", p.version, flags, p.keep_alive)
    body += write_properties(p.properties, version) + _text(p.client_id)
    if p.will is not None:
        body += write_properties(p.will.properties, version) + _text(p.will.topic) + _blob(p.will.payload)
    body += _text(p.user) if p.user is not None else b""
    return 0x10, body + (_blob(p.password) if p.password is not None else b"")


def _write_publish(p: PublishPacket, version: int) -> tuple[int, bytes]:
    head = 0x30 | (8 if p.dup else 0) | p.qos << 1 | (1 if p.retain else 0)
    number = struct.pack(">H", p.packet_id) if p.qos else b""
    return head, b"".join((_text(p.topic), number, write_properties(p.properties, version), p.payload))


def _write_ack(p: AckPacket, version: int) -> tuple[int, bytes]:
    body = struct.pack(">H", p.packet_id)
    if version == V5 and (p.reason or p.properties):
        body += bytes([p.reason]) + (write_properties(p.properties, version) if p.properties else b"")
    return p.kind << 4 | (2 if p.kind is PacketKind.PUBREL else 0), body


def _write_connack(p: ConnackPacket, version: int) -> tuple[int, bytes]:
    return 0x20, bytes([p.session_present, p.reason]) + write_properties(p.properties, version)


def _write_subscribe(p: SubscribePacket, version: int) -> tuple[int, bytes]:
    body = struct.pack(">H", p.packet_id) + write_properties(p.properties, version)
    for wish in p.wishes:
        options = wish.qos
        if version == V5:
            options |= wish.no_local << 2 | wish.as_published << 3 | wish.handling << 4
        body += _text(wish.filter) + bytes([options])
    return 0x82, body


def _write_suback(p: SubackPacket, version: int) -> tuple[int, bytes]:
    return 0x90, struct.pack(">H", p.packet_id) + write_properties(p.properties, version) + bytes(p.reasons)


def _write_unsubscribe(p: UnsubscribePacket, version: int) -> tuple[int, bytes]:
    body = struct.pack(">H", p.packet_id) + write_properties(p.properties, version)
    return 0xA2, body + b"".join(map(_text, p.filters))


def _write_unsuback(p: UnsubackPacket, version: int) -> tuple[int, bytes]:
    encoded = write_properties({}, version) + bytes(p.reasons) if version == V5 else b""
    return 0xB0, struct.pack(">H", p.packet_id) + encoded


def _write_ping(p: PingPacket, version: int) -> tuple[int, bytes]:
    del version
    return 0xD0 if p.is_answer else 0xC0, b""


def _write_reason(head: int) -> Any:
    def write_reason(p: DisconnectPacket | AuthPacket, version: int) -> tuple[int, bytes]:
        if version != V5 or not (p.reason or p.properties):
            return head, b""
        return head, bytes([p.reason]) + (write_properties(p.properties, version) if p.properties else b"")

    return write_reason


_WRITERS: dict[type, Callable[[Any, int], tuple[int, bytes]]] = {
    ConnectPacket: _write_connect, ConnackPacket: _write_connack, PublishPacket: _write_publish,
    AckPacket: _write_ack,
    SubscribePacket: _write_subscribe, SubackPacket: _write_suback, UnsubscribePacket: _write_unsubscribe,
    UnsubackPacket: _write_unsuback, PingPacket: _write_ping, DisconnectPacket: _write_reason(0xE0),
    AuthPacket: _write_reason(0xF0),
}  # fmt: skip

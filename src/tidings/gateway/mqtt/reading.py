"""Bytes to MQTT packets. No I/O: bytes come, packets go.

Rules (OASIS MQTT 3.1.1 and 5.0; 3.1 differs in its name and in a flag)
- A malformed packet raises `Malformed` with the reason code of version 5; the reader never guesses.
- Text is UTF-8 without NUL and without surrogates. A packet is no longer than the reader's bound, and CONNECT
  no longer than `first`: its sender is not authenticated. The fixed header says how long a packet is.
- The number of user properties and of topic filters of a packet is bounded while they are read (0x97).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidings.gateway.mqtt.packets import (
    ALLOWED,
    MANY,
    MOST_SUBSCRIPTIONS,
    NAMES,
    PROPERTIES,
    REASON_PROPERTIES,
    REASONS,
    V5,
    V31,
    AckPacket,
    AuthPacket,
    ConnackPacket,
    ConnectPacket,
    DisconnectPacket,
    Malformed,
    Packet,
    PacketKind,
    PingPacket,
    Properties,
    PublishPacket,
    Reason,
    SubackPacket,
    SubscribePacket,
    SubscriptionRequest,
    UnsubackPacket,
    UnsubscribePacket,
    Will,
)
from tidings.model.event import MAX_ATTRIBUTES
from tidings.protocol.limits import DEFAULT_LIMITS

MOST_TOPICS = 1024  # of one reader that are remembered as checked ...
SHORT = 256  # ... when they have no more characters
ANY = "*"  # stands for every name of a user property
MOST_USER_PROPERTIES = MAX_ATTRIBUTES  # of one packet
FEW = 4  # packets that are read without a look at the clock


class _PacketBytes:
    """Walks through a packet's body."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise Malformed("the packet ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def variable(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if shift and byte == 0:
                    raise Malformed("a length is written longer than it needs")
                return value
        raise Malformed("a length of more than four bytes")

    def blob(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        try:
            text = self.blob().decode()
        except UnicodeDecodeError:
            raise Malformed("text that is no UTF-8") from None
        if "\0" in text:
            raise Malformed("text that holds NUL")
        return text

    def properties(self, allowed: frozenset[str], user: str | None = ANY) -> Properties:
        """The properties; of user properties those of this name, all, or (None) none."""
        size = self.variable()
        if size > self.left:
            raise Malformed("properties longer than their packet")
        inner = _PacketBytes(self.data, self.at, self.at + size)
        self.at += size
        found: Properties = {}
        repeated = 0
        while inner.left:
            identifier = inner.variable()
            if identifier not in PROPERTIES:
                raise Malformed(f"no property is called 0x{identifier:02x}")
            name, kind = PROPERTIES[identifier]
            if name not in allowed:
                raise Malformed(f"{name} has no place here")
            repeated += name in MANY
            if repeated > MOST_USER_PROPERTIES:
                raise Malformed(f"more than {MOST_USER_PROPERTIES} user properties", Reason.QUOTA)
            inner.property(name, kind, found, user)
        return found

    def property(self, name: str, kind: str, found: Properties, user: str | None) -> None:
        value: Any
        if kind == "s":
            value = self.text()
        elif kind == "b":
            value = self.blob()
        elif kind == "p":
            value = (self.text(), self.text())
            if user != ANY and value[0] != user:
                return
        elif kind == "v":
            value = self.variable()
        else:
            value = self.number(int(kind))
            if kind == "1" and value > 1:
                raise Malformed(f"{name} is {value}", Reason.PROTOCOL)
        if name in MANY:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Malformed(f"{name} stands twice", Reason.PROTOCOL)
        else:
            found[name] = value

    def finish(self) -> None:
        if self.left:
            raise Malformed(f"{self.left} bytes too many")


def read_properties(data: bytes, allowed: frozenset[str]) -> Properties:
    """Properties that `write_properties` wrote. Raises `Malformed`."""
    return _PacketBytes(data).properties(allowed)


class PacketReader:
    """Bytes of one direction to packets. `version` is set once it is known."""

    def __init__(
        self,
        largest: int,
        version: int = 0,
        topic_filters: int = DEFAULT_LIMITS.client.topic_filters,
        *,
        first: int | None = None,
        user: Mapping[PacketKind, str] | None = None,
    ) -> None:
        self.version = version
        self._first = (
            largest if first is None else first
        )  # bytes of the first packet, while no version is known
        self._topic_filters = topic_filters  # of one SUBSCRIBE
        self._largest = largest
        self._user = user  # by kind of packet: the user properties that are kept; None: all of all packets
        self._buffer = bytearray()  # of a packet that is not whole
        self._needed = 0  # bytes of it, once its length is known
        self._topics: dict[bytes, str] = {}  # topic names that were checked

    def feed(self, data: bytes) -> Iterator[Packet]:
        """The packets that are whole now. Raises `Malformed` after those before the malformed one."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        at, length = 0, len(data)
        while length - at >= 2:
            head, size, start = data[at], data[at + 1], at + 2
            if size >= 0x80:
                size, start = self._length(data, at + 1)
            end = start + size
            if end - at > (self._largest if self.version else self._first) and start <= length:
                raise Malformed(f"a packet of {end - at} bytes", Reason.TOO_LARGE)
            if end > length:
                break
            if 0x30 <= head < 0x40 and self.version:
                yield self._plain_publish(head & 0x0F, data, start, end)
            elif size == 2 and head in _ACKS and self.version:
                yield AckPacket(_ACKS[head], _packet_id(_PacketBytes(data, start, end)))
            else:
                yield self._read(head >> 4, head & 0x0F, _PacketBytes(data[start:end]))
            at = end
        else:
            end = at + 2
        self._buffer += data[at:]
        self._needed = end - at

    @staticmethod
    def _length(data: bytes, at: int) -> tuple[int, int]:
        """The length of a packet from this place on, and where its body begins; beyond the data while it is
        not whole."""
        size = shift = 0
        for position in range(at, at + 4):
            if position >= len(data):
                return 0, position + 1
            byte = data[position]
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if not byte and position > at:
                    raise Malformed("a length is written longer than it needs")
                return size, position + 1
        raise Malformed("a length of more than four bytes")

    def _plain_publish(self, flags: int, data: bytes, start: int, end: int) -> PublishPacket:
        """A PUBLISH, without a walk through its bytes when it is of the common kind: no properties, a known
        topic."""
        qos, begin = flags >> 1 & 3, start + 2
        if end > begin and qos < 3 and (qos or not flags & 8):
            at = begin + (data[start] << 8 | data[start + 1])
            topic = self._topics.get(data[begin:at])
            packet_id, body = 0, at
            if qos:
                body += 2
                packet_id = data[at] << 8 | data[at + 1] if body <= end else 0
            if topic is not None and (packet_id or not qos):
                if self.version != V5:
                    return PublishPacket(
                        topic, data[body:end], qos, bool(flags & 1), bool(flags & 8), packet_id, {}
                    )
                if body < end and not data[body]:
                    payload = data[body + 1 : end]
                    return PublishPacket(topic, payload, qos, bool(flags & 1), bool(flags & 8), packet_id, {})
        packet = self._publish(flags, _PacketBytes(data, start, end))
        name = packet.topic
        if name and len(self._topics) < MOST_TOPICS and len(name) <= SHORT:
            self._topics[name.encode()] = name
        return packet

    def _read(self, number: int, flags: int, body: _PacketBytes) -> Packet:
        if number == 0:
            raise Malformed("a packet of kind 0")
        kind = PacketKind(number)
        if self.version == V31 and kind in _FLAGGED:
            flags &= ~8  # it could say there that it sends again
        if kind is not PacketKind.PUBLISH and flags != (2 if kind in _FLAGGED else 0):
            raise Malformed(f"{kind.name} with flags {flags}")
        if self.version == 0 and kind is not PacketKind.CONNECT:
            raise Malformed(f"{kind.name} before CONNECT", Reason.PROTOCOL)
        packet = self._of_kind(kind, flags, body)
        body.finish()
        return packet

    def _of_kind(self, kind: PacketKind, flags: int, body: _PacketBytes) -> Packet:
        match kind:
            case PacketKind.CONNECT:
                return self._connect(body)
            case PacketKind.CONNACK:
                present, reason = body.number(1), body.number(1)
                return ConnackPacket(reason, bool(present), self._properties(kind, body))
            case PacketKind.PUBLISH:
                return self._publish(flags, body)
            case PacketKind.PUBACK | PacketKind.PUBREC | PacketKind.PUBREL | PacketKind.PUBCOMP:
                return AckPacket(kind, _packet_id(body), *self._reason(kind, body))
            case PacketKind.SUBSCRIBE:
                return self._subscribe(body)
            case PacketKind.UNSUBSCRIBE:
                return self._unsubscribe(body)
            case PacketKind.SUBACK:
                packet_id, properties = _packet_id(body), self._properties(REASON_PROPERTIES, body)
                return SubackPacket(packet_id, list(body.take(body.left)), properties)
            case PacketKind.UNSUBACK:
                packet_id = _packet_id(body)
                self._properties(REASON_PROPERTIES, body)
                return UnsubackPacket(packet_id, list(body.take(body.left if self.version == V5 else 0)))
            case PacketKind.PINGREQ | PacketKind.PINGRESP:
                return PingPacket(kind is PacketKind.PINGRESP)
            case PacketKind.DISCONNECT:
                return DisconnectPacket(*self._reason(kind, body, ALLOWED[kind]))
            case PacketKind.AUTH:
                if self.version != V5:
                    raise Malformed("AUTH before version 5", Reason.PROTOCOL)
                return AuthPacket(*self._reason(kind, body, ALLOWED[kind]))

    def _properties(self, allowed: PacketKind | frozenset[str], body: _PacketBytes) -> Properties:
        if self.version != V5:
            return {}
        if not isinstance(allowed, PacketKind):
            return body.properties(allowed)
        return body.properties(ALLOWED[allowed], ANY if self._user is None else self._user.get(allowed))

    def _reason(
        self, kind: PacketKind, body: _PacketBytes, allowed: frozenset[str] = REASON_PROPERTIES
    ) -> tuple[int, Properties]:
        if self.version != V5 or not body.left:
            return 0, {}
        reason = body.number(1)
        if reason not in REASONS[kind]:
            raise Malformed(f"{kind.name} with reason {reason:#04x}", Reason.PROTOCOL)
        return reason, body.properties(allowed, ANY if self._user is None else None) if body.left else {}

    def _connect(self, body: _PacketBytes) -> ConnectPacket:
        if self.version:
            raise Malformed("CONNECT twice", Reason.PROTOCOL)
        name, version = body.blob(), body.number(1)
        if NAMES.get(version) != name:
            raise Malformed(f"{name!r} of version {version}", Reason.VERSION)
        self.version = version
        flags = body.number(1)
        will_qos, has_will = flags >> 3 & 3, bool(flags & 4)
        if flags & 1 or will_qos == 3 or (not has_will and flags & 0x38):
            raise Malformed(f"CONNECT with flags {flags:#x}")
        if version != V5 and flags & 0x40 and not flags & 0x80:
            raise Malformed("a password without a name")
        connect = ConnectPacket(version, "", bool(flags & 2), body.number(2))
        connect.properties = self._properties(PacketKind.CONNECT, body)
        connect.client_id = body.text()
        if has_will:
            connect.will = self._will(body, will_qos, bool(flags & 0x20))
        connect.user = body.text() if flags & 0x80 else None
        connect.password = body.blob() if flags & 0x40 else None
        return connect

    def _will(self, body: _PacketBytes, qos: int, retain: bool) -> Will:
        properties = _answerable(self._properties(ALLOWED["will"], body))
        return Will(check_name(body.text()), body.blob(), qos, retain, properties)

    def _publish(self, flags: int, body: _PacketBytes) -> PublishPacket:
        qos = flags >> 1 & 3
        if qos == 3 or (qos == 0 and flags & 8):
            raise Malformed(f"PUBLISH with flags {flags}")
        topic = body.text()
        packet_id = _packet_id(body, Reason.PROTOCOL) if qos else 0
        properties = _answerable(self._properties(PacketKind.PUBLISH, body))
        if properties.get("topic_alias") == 0:
            raise Malformed("topic alias 0", Reason.TOPIC_ALIAS)
        if topic or self.version != V5:
            check_name(topic)
        elif "topic_alias" not in properties:  # 3.3.2.3.4
            raise Malformed("neither a topic nor an alias", Reason.PROTOCOL)
        return PublishPacket(
            topic, body.take(body.left), qos, bool(flags & 1), bool(flags & 8), packet_id, properties
        )

    def _subscribe(self, body: _PacketBytes) -> SubscribePacket:
        packet_id, properties = _packet_id(body), self._properties(PacketKind.SUBSCRIBE, body)
        if properties.get("subscription_id") in ([0],) or len(properties.get("subscription_id", ())) > 1:
            raise Malformed("subscription id", Reason.PROTOCOL)
        wishes: list[SubscriptionRequest] = []
        beyond = 0
        while body.left:
            _check_entries(len(wishes) + beyond)
            if len(wishes) == self._topic_filters:  # counted for the answer, and not read
                body.take(body.number(2) + 1)
                beyond += 1
                continue
            filter, options = _filter(body), body.number(1)
            if options & 3 == 3 or options & (0xC0 if self.version == V5 else 0xFC) or options >> 4 & 3 == 3:
                raise Malformed(f"subscription options {options:#x}")
            wishes.append(
                SubscriptionRequest(
                    filter, options & 3, bool(options & 4), bool(options & 8), options >> 4 & 3
                )
            )
        if not wishes:
            raise Malformed("SUBSCRIBE to nothing", Reason.PROTOCOL)
        return SubscribePacket(packet_id, wishes, properties, beyond)

    def _unsubscribe(self, body: _PacketBytes) -> UnsubscribePacket:
        packet_id, properties = _packet_id(body), self._properties(PacketKind.UNSUBSCRIBE, body)
        filters: list[str] = []
        while body.left:
            _check_entries(len(filters))
            filters.append(_filter(body))
        if not filters:
            raise Malformed("UNSUBSCRIBE from nothing", Reason.PROTOCOL)
        return UnsubscribePacket(packet_id, filters, properties)


class UnhandledPackets:
    """Packets of one read that wait to be handled, a slice of them at a time. `is_late` says when a slice
    ends early."""

    __slots__ = ("_is_late", "_most", "_source", "is_done", "packets", "pause", "violation")

    def __init__(
        self, source: Iterator[Packet], most: int, is_late: Callable[[], bool], pause: float = 0.0
    ) -> None:
        self._source = source
        self._most = most
        self._is_late = is_late
        self.pause = pause  # seconds before they are handled
        self.packets: list[Packet] = []
        self.is_done = False  # are there no more than these?
        self.violation: Malformed | None = None  # behind them

    def read_slice(self) -> None:
        """Read the next packets, one at least."""
        packets = self.packets = []
        try:
            for packet in self._source:
                packets.append(packet)
                count = len(packets)
                if count == self._most or (not count % FEW and self._is_late()):
                    return
        except Malformed as error:  # those before it stay
            self.violation = error
        self.is_done = True


_ACKS = {
    0x40: PacketKind.PUBACK, 0x50: PacketKind.PUBREC, 0x62: PacketKind.PUBREL, 0x70: PacketKind.PUBCOMP,
}  # fmt: skip
_FLAGGED = (PacketKind.PUBREL, PacketKind.SUBSCRIBE, PacketKind.UNSUBSCRIBE)


def _packet_id(body: _PacketBytes, reason: Reason = Reason.MALFORMED) -> int:
    packet_id = body.number(2)
    if not packet_id:
        raise Malformed("packet id 0", reason)
    return packet_id


def _filter(body: _PacketBytes) -> str:
    text = body.text()
    if not text:
        raise Malformed("an empty topic filter")
    return text


def _check_entries(count: int) -> None:
    if count >= MOST_SUBSCRIPTIONS:
        raise Malformed(f"more than {MOST_SUBSCRIPTIONS} topic filters", Reason.QUOTA)


def _answerable(properties: Properties) -> Properties:
    """The properties, unless their response topic is no topic name (MQTT-3.3.2-14). Raises `Malformed`."""
    response = properties.get("response_topic")
    if response is not None and (not response or "+" in response or "#" in response):
        raise Malformed(f"the response topic {response!r}", Reason.PROTOCOL)
    return properties


def check_name(topic: str) -> str:
    """A topic that can be published to."""
    if not topic or "+" in topic or "#" in topic:
        raise Malformed(f"the topic name {topic!r}", Reason.TOPIC_NAME)
    return topic

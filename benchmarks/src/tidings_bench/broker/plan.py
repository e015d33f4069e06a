"""The plan of a run: connections, the first messages of each, and the events.

Everything that needs our codec is made here, with the real one; `load.c` only sends it and fills the fields
of a Publish that differ from event to event. Rules
- A class of events is a symbol and a band of `change`; a subscriber wants one class, or no event that counts.
- A Publish is cut into pieces at marks, which stand for the fields; that the pieces and the marks are the
  whole frame is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tidings.errors import TidingsError
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol.inputs import ALL_FEATURES
from tidings.protocol.messages import AckMode, Hello, Message, Publish, Subscribe
from tidings.runtime.messages import BESIDE, HANDSHAKE, KeepaliveAck, OpenSession
from tidings.wire.codec import HEAD, Codec

NO_CLASS = 0xFFFFFFFF
CREDIT = 4096  # of a subscriber; it gives back what it used, 64 at a time
TOPIC = "bench/t0"
SPAN = 20.0  # changes lie in -10 .. 10

TEXT, CALL, SEQUENCE, ID, SYMBOL, CHANGE, PAYLOAD = range(7)
_MARK_CALL, _MARK_SEQUENCE, _MARK_SYMBOL, _MARK_CHANGE = 0x1122334D, 0x5566778D, 0x6ABD, 1234.56789
_MARK_PAYLOAD = b"\x00payload goes here\x00" * 16
_MARK_ID = "incarnation-sequence-and-so-on-to-32-and-more"

_codec = Codec((*HANDSHAKE, *BESIDE))
_OPTIONS = DeliveryOptions(queue=100_000, policy=Policy.DISCONNECT)  # a loss would be told, never silent
_DURABLE = DeliveryOptions(durable=True)


class Subscriber(NamedTuple):
    """A connection with subscriptions; all of them together want one class."""

    filters: Sequence[str]
    wants: int = NO_CLASS
    port: int | None = None  # None: that of the plan


class LoadPlan(NamedTuple):
    """Input of `load.c`."""

    port: int
    subscribers: Sequence[Subscriber]
    publishers: int = 1
    mode: AckMode = AckMode.BEST_EFFORT
    symbols: int = 1
    bands: int = 1
    publisher_ports: Sequence[int] = ()
    credit: int = CREDIT
    run: int = 0  # of several at one broker: publishers of another run are others
    durable: bool = False  # are subscriptions durable?

    def write(self, path: Path) -> None:
        """The binary file that the generator reads."""
        head = (len(self.subscribers), self.publishers, self.symbols, self.bands)
        parts = [struct.pack("<4I", *head), _sized(_codec.encode(KeepaliveAck()))]
        for number, subscriber in enumerate(self.subscribers):
            parts += self._subscriber(number, subscriber)
        for number in range(self.publishers):
            parts += self._publisher(number)
        path.write_bytes(b"".join(parts))

    def _subscriber(self, number: int, subscriber: Subscriber) -> Iterable[bytes]:
        name = f"s{number}" if not self.run else f"s{number}.{self.run}"
        messages: list[Message] = [Hello(name, "1")]
        options = _DURABLE if self.durable else _OPTIONS
        for ref, text in enumerate(subscriber.filters, 1):
            messages.append(
                Subscribe(ref, ref, f"w{ref}", parse_filter(text), options, self.durable, {}, self.credit)
            )
        yield from self._connection(subscriber.port or self.port, name, messages, subscriber.wants, ())

    def _publisher(self, number: int) -> Iterable[bytes]:
        name = f"p{number}" if not self.run else f"p{number}.{self.run}"
        port = self.publisher_ports[number % len(self.publisher_ports)] if self.publisher_ports else self.port
        pieces = publish_pieces(name, f"i{number}", self.mode, with_content=self.symbols > 1)
        yield from self._connection(port, name, [Hello(name, f"i{number}")], NO_CLASS, pieces)

    def _connection(
        self,
        port: int,
        name: str,
        messages: Sequence[Message],
        wants: int,
        pieces: Sequence[tuple[int, bytes]],
    ) -> Iterable[bytes]:
        yield struct.pack("<I", port)
        yield _sized(_codec.encode(OpenSession("client", name, mechanism="anonymous", features=ALL_FEATURES)))
        yield _sized(b"".join(map(_codec.encode, messages)))
        yield struct.pack("<3I", len(messages), wants, len(pieces))  # each of what it says is answered once
        for kind, text in pieces:
            yield struct.pack("<I", kind) + _sized(text)


def publish_pieces(
    source: str, incarnation: str, mode: AckMode, *, with_content: bool
) -> list[tuple[int, bytes]]:
    """A Publish without its head, as pieces (kind, text)."""
    content = {"symbol": _MARK_SYMBOL, "change": _MARK_CHANGE} if with_content else {}
    topic = None if with_content else TOPIC
    event = Event(source, _MARK_ID, content, topic, payload=_MARK_PAYLOAD)
    body = _codec.encode(Publish(_MARK_CALL, event, _MARK_SEQUENCE, mode))[HEAD.size :]
    marks = {
        CALL: struct.pack(">BI", 0xCE, _MARK_CALL),
        ID: bytes((0xD9, len(_MARK_ID))) + _MARK_ID.encode(),
        PAYLOAD: struct.pack(">BH", 0xC5, len(_MARK_PAYLOAD)) + _MARK_PAYLOAD,
        SEQUENCE: struct.pack(">BI", 0xCE, _MARK_SEQUENCE),
    }
    if with_content:
        marks |= {
            SYMBOL: struct.pack(">BH", 0xCD, _MARK_SYMBOL),
            CHANGE: struct.pack(">Bd", 0xCB, _MARK_CHANGE),
        }
    positions = sorted((body.index(mark), kind, mark) for kind, mark in marks.items())
    pieces: list[tuple[int, bytes]] = []
    at = 0
    for position, kind, mark in positions:
        pieces += [(TEXT, body[at:position]), (kind, incarnation.encode() if kind == ID else b"")]
        at = position + len(mark)
    pieces.append((TEXT, body[at:]))
    if sum(body.count(mark) for mark in marks.values()) != len(marks):
        raise TidingsError("a Publish is not encoded as the load generator expects")
    return pieces


def content_filter(symbol: int, band: int, bands: int) -> str:
    """One band of one symbol's changes."""
    low = -SPAN / 2 + band * SPAN / bands
    return f"symbol = {symbol} AND change >= {low} AND change < {low + SPAN / bands}"


def content_subscribers(count: int, symbols: int, bands: int) -> list[Subscriber]:
    """Each wants one class; there are as many classes as subscribers, or some classes have several."""
    found = []
    for number in range(count):
        symbol, band = number % symbols, number // symbols % bands
        found.append(Subscriber([content_filter(symbol, band, bands)], symbol * bands + band))
    return found


def topic_subscribers(count: int) -> list[Subscriber]:
    return [Subscriber([f"topic = '{TOPIC}'"], 0)] * count


def _sized(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text

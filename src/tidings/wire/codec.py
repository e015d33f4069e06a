"""Messages to bytes and back.

A frame is `length (4 bytes) | version (1) | CRC32C of version and body (4) | body`, numbers
big-endian, where `length` counts everything after itself and the body is one message in
MessagePack. Rules
- A frame is decoded only if its length is within bounds and its checksum is right.
- A foreign frame is a `WireError` that says what is wrong; the link it came on is closed,
  since after one bad frame the start of the next is unknown.
- A broker reads its own version and the one before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from copy import copy
from typing import Annotated, Any

import msgspec
from crc32c import crc32c
from msgspec import Raw

from tidings.errors import WireError
from tidings.model.event import Event
from tidings.model.subscription import Position
from tidings.protocol.inputs import Feature
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import VERSION, AckMode, Deliver, DeliverAll, Message, Publish, tag_of, union

PUBLISHES = 64  # in one frame at most: more gain little, and the first waits for the last
HEAD = struct.Struct(">IBI")
LENGTH = struct.Struct(">I")
HEAD_SIZE, LENGTH_SIZE = HEAD.size, LENGTH.size
SMALL = 4096  # bytes of a frame that are sooner copied than looked at in place
READABLE = frozenset({VERSION, VERSION - 1} - {0})
BEGUN = {version: crc32c(bytes((version,))) for version in READABLE}  # a checksum begins with the version
_BEGUN = BEGUN[VERSION]
_head, _unpack, _length = HEAD.pack, HEAD.unpack_from, LENGTH.unpack_from


NOT_OURS = (msgspec.DecodeError, RecursionError, ValueError, OverflowError)  # raised by decoding a body


def not_ours(error: Exception) -> WireError:
    """The error of a body that is no message of ours."""
    return WireError(f"a frame holds no message of ours: {error}")


class _EncodedDeliver(Message, frozen=True, tag="Deliver"):
    """A `Deliver` with an event that is encoded already; the same on the wire."""

    ref: int
    tag: int
    event: Raw
    position: Position | None
    attempt: int
    again: bool


class PublishAll(Message, frozen=True, tag="PublishAll"):
    """`Publish` for each of these events, whose calls and numbers follow one another, in one frame; only to a
    broker that announces `Feature.PUBLISH_ALL`. The reader of frames returns single messages."""

    call: int  # of the first; those of the others follow
    sequence: int  # likewise
    mode: AckMode
    events: Annotated[tuple[Raw, ...], msgspec.Meta(max_length=PUBLISHES)]  # to be sent: events themselves

    @classmethod
    def of(cls, publishes: list[Publish]) -> PublishAll:
        first, events = publishes[0], tuple([each.event for each in publishes])
        return cls(first.call, first.sequence, first.mode, events)  # type: ignore[arg-type]

    def one_by_one(self) -> list[Publish]:
        """What was read in single messages. Each event is decoded by itself, so that its size is known."""
        sequence, mode, publishes = self.sequence - self.call, self.mode, list[Publish]()
        for call, raw in enumerate(self.events, self.call):
            event = _decode_event(raw)
            event.__dict__["size"] = len(raw)
            publishes += (Publish(call, event, sequence + call, mode),)
        return publishes


_DELIVER = b"\x97\xa7Deliver"  # an array of seven, the first the tag of the message
_DELIVER_ALL = b"\x94\xaaDeliverAll"  # an array of four ...
_DELIVER_RUN = b"\x96\xaaDeliverAll"  # ... or six, when a log holds the events
_FIRST = b"\xc0\x01\xc2"  # in no log, the first attempt, not sent before
_SMALL = tuple(bytes((number,)) for number in range(128))
_WIDTHS = bytes((1,) * 8 + (2,) + (3,) * 8 + (5,) * 16 + (9,) * 32)  # of a number by its bits, in bytes
_AROUND = {mode: 14 + 1 + len(mode) for mode in AckMode}  # bytes of a `Publish` beside event and numbers
_join = b"".join
_decode_event = msgspec.msgpack.Decoder(Event).decode


def _number(number: int) -> bytes:
    """A whole number as MessagePack has it."""
    if 0 <= number < 128:
        return _SMALL[number]
    if 256 <= number < 1 << 16:
        return b"\xcd" + number.to_bytes(2, "big")
    return msgspec.msgpack.encode(number)


class Codec:
    """Encodes and decodes the messages of one composition."""

    def __init__(
        self, declared: Iterable[type[Message]] = (), *, max_frame_bytes: int = DEFAULT_LIMITS.frame_bytes
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._encode = msgspec.msgpack.Encoder().encode
        decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(union((*declared, PublishAll)))
        self.decode_raw = decoder.decode  # the message of a frame with a right checksum; raises `NOT_OURS`
        self._last_event: Event | None = None  # encoded once for all receivers, one after the other
        self._last_raw = b""
        self._last_events: tuple[Event, ...] | None = None
        self._last_raws = b""
        self._last_message: Message | None = None
        self._last_body = b""
        self._sibling: Codec | None = None

    def read_by(self, features: int) -> Codec:
        """The codec of one connection to a peer that announced these features (`inputs.Feature`)."""
        if features & Feature.RICH_BODIES and features & Feature.EVENT_RUNS:
            return self
        from tidings.wire.earlier import EarlierForm

        form, made = EarlierForm(features), copy(self)

        # Encoded by this codec: events that most peers receive alike are encoded once for all of them.
        def encode(message: Message) -> bytes:
            return _join([self.encode(part) for part in form.parts(message)])

        made.encode = encode  # type: ignore[method-assign]
        return made

    def limited(self, max_frame_bytes: int) -> Codec:
        """The codec of the same messages with another limit.

        The last one is kept: most peers have the same.
        """
        if max_frame_bytes == self.max_frame_bytes:
            return self
        if self._sibling is None or self._sibling.max_frame_bytes != max_frame_bytes:
            self._sibling = copy(self)
            self._sibling.max_frame_bytes = max_frame_bytes
            self._sibling._sibling = None
        return self._sibling

    def encode(self, message: Message) -> bytes:
        """A whole frame. An event is encoded once for all its receivers."""
        if type(message) is Deliver:
            event: Event = message.event
            if event is self._last_event:
                raw = self._last_raw
            else:
                raw = self._last_raw = self._encode(event)
                self._last_event = event
            if message.position is None and message.attempt == 1 and not message.again:
                ref, tag = message.ref, message.tag
                data = _SMALL[ref] if 0 <= ref < 128 else _number(ref)
                body = _join((_DELIVER, data, _SMALL[tag] if 0 <= tag < 128 else _number(tag), raw, _FIRST))
            else:
                delivered = (message.ref, message.tag, Raw(raw), message.position)
                body = self._encode(_EncodedDeliver(*delivered, message.attempt, message.again))
        elif type(message) is DeliverAll:  # it may be large: the raw events are copied once
            begin, raw = _DELIVER_ALL, self._raw_of(message.events)
            if message.offsets:
                begin, raw = _DELIVER_RUN, raw + self._encode(message.log) + self._encode(message.offsets)
            begin += _number(message.ref) + _number(message.tag)
            if (length := len(begin) + len(raw) + 5) > self.max_frame_bytes:
                raise self._too_large(message, length)
            return _join((_head(length, VERSION, crc32c(raw, crc32c(begin, _BEGUN))), begin, raw))
        elif message is self._last_message:
            body = self._last_body
        else:
            body = self._encode(message)
            if message.is_hop:  # several links are often sent the same one
                self._last_message, self._last_body = message, body
        if (length := len(body) + 5) > self.max_frame_bytes:
            raise self._too_large(message, length)
        return _head(length, VERSION, crc32c(body, _BEGUN)) + body

    def _too_large(self, message: Message, length: int) -> WireError:
        return WireError(
            f"a {tag_of(type(message))} of {length} bytes; a frame holds {self.max_frame_bytes} at most",
            hint="put large payloads elsewhere and publish where they are",
        )

    def _raw_of(self, events: tuple[Event, ...]) -> bytes:
        """These events in bytes. Many receivers get the same ones, one after the other."""
        if events is not self._last_events:
            self._last_raws = self._encode(events)
            self._last_events = events
        return self._last_raws

    def decode(self, frame: bytes | memoryview) -> Message:
        """The message of one whole frame."""
        if len(frame) < HEAD.size:
            raise WireError(f"a frame of {len(frame)} bytes is cut short")
        length, version, checksum = HEAD.unpack_from(frame)
        self.check_length(length)
        if length != len(frame) - LENGTH.size:
            raise WireError(f"a frame says {length} bytes and has {len(frame) - LENGTH.size}")
        body = frame[HEAD.size :]
        if crc32c(body, BEGUN.get(version) or crc32c(bytes((version,)))) != checksum:
            raise WireError("a frame fails its checksum: it was damaged on the way")
        if version not in READABLE:
            raise WireError(
                f"a frame of wire version {version}; this broker reads "
                f"{', '.join(map(str, sorted(READABLE)))}",
                hint="bring both ends to the same release or to neighbouring ones",
            )
        return self.decode_body(body)

    def decode_body(self, body: memoryview | bytes) -> Message:
        """The message of a frame with a right checksum."""
        try:
            message: Message = self.decode_raw(body)
        except NOT_OURS as error:
            raise not_ours(error) from None
        return message

    def check_length(self, length: int) -> None:
        if not 5 < length <= self.max_frame_bytes:
            raise WireError(f"a frame of {length} bytes; this side takes {self.max_frame_bytes} at most")


class FrameReader:
    """Cuts a stream of bytes into messages; holds at most one unfinished frame."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._rest = bytearray()  # of a frame that is not complete
        self._needed = LENGTH.size  # bytes until there is more to know of it
        self._ready: list[Message] = []  # of a frame that was read, beyond the limit
        self.has_more = False  # may frames be complete that were not returned?

    def feed(self, data: bytes, limit: int = 1 << 62) -> list[Message]:
        """The messages that are complete now, the first `limit` of them; then `has_more` says that others may
        be. A bad frame raises, and the stream is over."""
        self.has_more = False
        messages: list[Message] = []
        if self._ready:
            messages, self._ready = self._ready[:limit], self._ready[limit:]
            limit -= len(messages)
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                self.has_more = bool(self._ready)
                return messages  # however slowly a large frame comes, it is looked at once
            data = bytes(self._rest)
            self._rest.clear()
        begin, size, most = 0, len(data), self._codec.max_frame_bytes
        view, decode = memoryview(data), self._codec.decode_raw
        around, widths = _AROUND, _WIDTHS
        try:
            while size - begin >= LENGTH_SIZE:
                if limit <= 0:
                    self._needed, self.has_more = 0, True
                    break
                if size - begin >= HEAD_SIZE:
                    length, version, checksum = _unpack(data, begin)
                else:
                    length = _length(data, begin)[0]
                if not 5 < length <= most:
                    self._codec.check_length(length)
                end = begin + 4 + length
                if end > size:
                    self._needed = end - begin
                    break
                body = data[begin + 9 : end] if length < SMALL else view[begin + 9 : end]
                is_good = version == VERSION and crc32c(body, _BEGUN) == checksum
                message: Any = decode(body) if is_good else self._codec.decode(view[begin:end])
                begin = end
                if (kind := type(message)) is Publish:
                    if length < SMALL:  # the size of the event as it came: that of the frame but for the rest
                        numbers = widths[message.call.bit_length()] + widths[message.sequence.bit_length()]
                        message.event.__dict__["size"] = length - around[message.mode] - numbers
                elif kind is PublishAll:
                    publishes = message.one_by_one()
                    messages += publishes[:limit] if limit < PUBLISHES else publishes
                    self._ready += publishes[limit:]
                    limit -= len(publishes)
                    continue
                messages += (message,)
                limit -= 1
            else:
                self._needed = LENGTH_SIZE
        except WireError:
            raise
        except NOT_OURS as error:
            raise not_ours(error) from None
        if begin < size:
            self._rest += view[begin:]
        if self._ready:
            self.has_more = True
        return messages

    def clear(self) -> None:
        """Forget the frame that is not complete."""
        self._rest = bytearray()
        self._ready = []
        self.has_more = False

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._rest)

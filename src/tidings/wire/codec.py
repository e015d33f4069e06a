"""Messages to bytes and back.

A frame is `length (4 bytes) | version (1) | CRC32C of version and body (4) | body`, numbers
big-endian, where `length` counts everything after itself and the body is one message in
MessagePack. Rules
- Nothing is decoded before its length is within bounds and its checksum is right.
- A frame that is not ours is a `WireError` that says what is wrong; the link it came on is closed,
  since after one bad frame nobody knows where the next begins.
- A broker reads its own version and the one before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import msgspec
from crc32c import crc32c

from tidings.errors import WireError
from tidings.model.event import Event
from tidings.model.subscription import Position
from tidings.protocol.messages import VERSION, Deliver, Message, union

HEAD = struct.Struct(">IBI")
LENGTH = struct.Struct(">I")
MAX_FRAME = 16 << 20  # bytes; a larger event does not belong on a bus
READABLE = frozenset({VERSION, VERSION - 1} - {0})
BEGUN = {version: crc32c(bytes((version,))) for version in READABLE}  # a checksum begins with the version
_BEGUN = BEGUN[VERSION]
_head = HEAD.pack
WIRE = "_wire"  # where an event keeps its own bytes, for everybody who is told of it


class _Told(Message, frozen=True, tag="Deliver"):
    """A `Deliver` whose event is in bytes already; the same on the wire."""

    ref: int
    tag: int
    event: msgspec.Raw
    position: Position | None
    attempt: int
    again: bool


class Codec:
    """Encodes and decodes the messages of one composition."""

    def __init__(self, declared: Iterable[type[Message]] = (), *, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(union(declared))

    def encode(self, message: Message) -> bytes:
        """A whole frame. An event is encoded once, however many it is told to."""
        if type(message) is Deliver:
            event: Event = message.event
            raw = event.__dict__.get(WIRE)
            if raw is None:
                raw = event.__dict__[WIRE] = msgspec.Raw(self._encode(event))
            told = _Told(message.ref, message.tag, raw, message.position, message.attempt, message.again)
            body = self._encode(told)
        else:
            body = self._encode(message)
        length = len(body) + 5
        if length > self.max_frame:
            raise WireError(
                f"a {type(message).__name__} of {length} bytes; a frame holds {self.max_frame} at most",
                hint="put large payloads elsewhere and publish where they are",
            )
        return _head(length, VERSION, crc32c(body, _BEGUN)) + body

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
                f"a frame of wire version {version}; this broker reads {', '.join(map(str, sorted(READABLE)))}",
                hint="bring both ends to the same release or to neighbouring ones",
            )
        try:
            message: Message = self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, ValueError, OverflowError) as error:
            raise WireError(f"a frame holds no message of ours: {error}") from None
        return message

    def check_length(self, length: int) -> None:
        if not 5 < length <= self.max_frame:
            raise WireError(f"a frame of {length} bytes; this side takes {self.max_frame} at most")


class FrameReader:
    """Cuts a stream of bytes into messages; holds at most one unfinished frame."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now. A bad frame raises, and the stream is over."""
        self._buffer += data
        messages = []
        begin = 0
        view = memoryview(self._buffer)
        try:
            while len(view) - begin >= LENGTH.size:
                (length,) = LENGTH.unpack_from(view, begin)
                self._codec.check_length(length)
                end = begin + LENGTH.size + length
                if end > len(view):
                    break
                messages.append(self._codec.decode(view[begin:end]))
                begin = end
        finally:
            view.release()
        del self._buffer[:begin]
        return messages

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

"""The codec: whole frames come back, damaged ones never."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import WireError
from tidings.model.event import Event, make_event
from tidings.model.filter import EVERYTHING
from tidings.model.subscription import DeliveryOptions, Position
from tidings.protocol import messages as m
from tidings.protocol.messages import Deliver
from tidings.wire.codec import HEAD, Codec, FrameReader

EVENT = Event("s", "1", {"a": 1, "n": {"b": 2.5}}, topic="x/y", payload=b"\x00\xff", lifetime=60.0)
MESSAGES: list[m.Message] = [
    m.Hello("c", "i"),
    m.Welcome("b", "b#1"),
    m.Publish(1, EVENT, 7, m.AckMode.KEPT),
    m.Published(1, Position("b#1", 9)),
    m.Subscribe(2, 1, "n", EVERYTHING, DeliveryOptions(durable=True)),
    m.Subscribed(2, 1, "c", "n", resumed=True),
    m.Credit(1, 5),
    m.Deliver(1, 3, EVENT, Position("b#1", 9), 2),
    m.Ack(1, (1, 2, 3)),
    m.Nack(1, (4,), counted=False),
    m.Silence(1, Position("b#1", 12)),
    m.Unsubscribe(3, 1, end=False),
    m.Unsubscribed(3, 1),
    m.Refused(4, "filter", "no"),
    m.Closed(1, "slow", "too slow"),
]


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_as_it_was(codec: Codec, message: m.Message) -> None:
    assert codec.decode(codec.encode(message)) == message


def each_bit_flipped(frame: bytes) -> Iterator[bytes]:
    for bit in range(len(frame) * 8):
        spoiled = bytearray(frame)
        spoiled[bit // 8] ^= 1 << (bit % 8)
        yield bytes(spoiled)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_flipped_bit_is_noticed(codec: Codec, message: m.Message) -> None:
    for spoiled in each_bit_flipped(codec.encode(message)):
        with pytest.raises(WireError):
            codec.decode(spoiled)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_flipped_bit_of_a_stream_is_noticed(codec: Codec, message: m.Message) -> None:
    """Or more is waited for, when the length is what was flipped."""
    for spoiled in each_bit_flipped(codec.encode(message)):
        reader = FrameReader(codec)
        try:
            received = reader.feed(spoiled)
        except WireError:
            continue
        assert (received, reader.pending) == ([], len(spoiled))


def test_every_cut_is_noticed(codec: Codec) -> None:
    frame = codec.encode(MESSAGES[2])
    for end in range(len(frame)):
        with pytest.raises(WireError):
            codec.decode(frame[:end])


def test_a_frame_of_another_version_says_which(codec: Codec) -> None:
    body = codec.encode(MESSAGES[0])[9:]
    from crc32c import crc32c

    frame = struct.pack(">IBI", len(body) + 5, 99, crc32c(body, crc32c(b"\x63"))) + body
    with pytest.raises(WireError, match="wire version 99"):
        codec.decode(frame)


def test_an_event_too_large_for_a_frame_is_refused_before_it_is_sent() -> None:
    small = Codec(max_frame_bytes=64)
    with pytest.raises(WireError, match="64 at most"):
        small.encode(m.Publish(1, Event("s", "1", {"a": "x" * 100}), 1))


def test_a_length_out_of_bounds_ends_the_stream_at_once(codec: Codec) -> None:
    reader = FrameReader(codec)
    with pytest.raises(WireError, match="4294967295 bytes"):
        reader.feed(b"\xff\xff\xff\xff")


@given(cuts=st.lists(st.integers(1, 40), max_size=40))
@settings(deadline=None, max_examples=50)
def test_a_stream_may_be_cut_anywhere(cuts: list[int]) -> None:
    codec = Codec()
    stream = b"".join(codec.encode(message) for message in MESSAGES)
    reader = FrameReader(codec)
    received: list[m.Message] = []
    for cut in [*cuts, len(stream)]:
        part, stream = stream[:cut], stream[cut:]
        received += reader.feed(part)
    assert received == MESSAGES
    assert reader.pending == 0


@given(junk=st.binary(max_size=200))
@settings(deadline=None, max_examples=300)
def test_junk_is_a_wire_error_and_nothing_else(junk: bytes) -> None:
    codec = Codec()
    with pytest.raises(WireError):
        codec.decode(junk)
    from crc32c import crc32c

    dressed = struct.pack(">IBI", len(junk) + 5, 1, crc32c(junk, crc32c(b"\x01"))) + junk
    try:
        message = codec.decode(dressed)
    except WireError:
        return
    assert isinstance(message, m.Message)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -1])
def test_a_delivery_is_encoded_as_any_message_whatever_its_numbers(number: int) -> None:
    event = make_event({"a": 1}, source="s", id="1", payload=b"x" * 300)
    codec = Codec()
    for message in (
        Deliver(number, 7, event),
        Deliver(7, number, event),
        Deliver(7, number, event, Position("b", 2)),
        Deliver(7, number, event, None, 2),
        Deliver(7, number, event, None, 1, True),
    ):
        frame = codec.encode(message)
        assert frame[HEAD.size :] == msgspec.msgpack.encode(message)
        assert codec.decode(frame) == message


@pytest.mark.parametrize("number", [0, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**63, -1, -(2**40)])
@pytest.mark.parametrize("payload", [b"", b"x" * 5_000])
def test_a_published_event_knows_its_size_without_being_encoded_again(number: int, payload: bytes) -> None:
    codec = Codec()
    event = msgspec.structs.replace(EVENT, payload=payload)
    for mode in m.AckMode:
        (message,) = FrameReader(codec).feed(codec.encode(m.Publish(number, event, abs(number), mode)))
        assert isinstance(message, m.Publish)
        assert ("size" in message.event.__dict__) is (not payload)  # a large one is measured
        assert abs(message.event.size - len(msgspec.msgpack.encode(event))) <= (number < 0)


def test_a_frame_that_comes_byte_by_byte_is_looked_at_when_it_is_whole() -> None:
    codec = Codec()
    frames = [codec.encode(m.Ack(1, (2,))), codec.encode(m.Credit(1, 3)), codec.encode(m.Ack(4, ()))]
    reader = FrameReader(codec)
    received = [reader.feed(bytes((byte,))) for byte in b"".join(frames)]
    assert [message for messages in received for message in messages] == [
        m.Ack(1, (2,)),
        m.Credit(1, 3),
        m.Ack(4, ()),
    ]
    ends = [len(frames[0]) - 1, len(frames[0] + frames[1]) - 1, len(b"".join(frames)) - 1]
    assert [position for position, messages in enumerate(received) if messages] == ends
    assert reader.pending == 0

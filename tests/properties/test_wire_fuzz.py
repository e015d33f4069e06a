"""Any bytes at all: the decoder, the handshake, and a client that was let in and says what it likes.

What may happen is a `WireError`, a refusal, or a connection that ends. What may not: any other exception,
a frame held beyond its bound, somebody let in who did not say who they are, a node that fails.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from crc32c import crc32c
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidings.availability.records import Loaded
from tidings.errors import WireError
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import messages as msg
from tidings.protocol.effects import Send
from tidings.protocol.inputs import Fetched, LinkDown, LinkUp, Persisted, Received, Started, TimerFired
from tidings.runtime.admission import Admission
from tidings.runtime.client_ingress import ClientIngress
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.handshake import Handshake
from tidings.runtime.messages import BESIDE, HANDSHAKE, OpenSession
from tidings.security.interfaces import LoopbackOnly
from tidings.systems import Site, find_system
from tidings.wire.codec import HEAD, VERSION, Codec, FrameReader

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "wire").glob("*/*.bin"))
FRAMES = [path.read_bytes() for path in GOLDEN]
CODEC = Codec((*HANDSHAKE, *BESIDE))
BOUNDED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def framed(body: bytes) -> bytes:
    """A frame with the right length and the right checksum around any body."""
    return HEAD.pack(len(body) + 5, VERSION, crc32c(body, crc32c(bytes((VERSION,))))) + body


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good frame with its body damaged and its checksum put right again."""
    body = bytearray(draw(st.sampled_from(FRAMES))[HEAD.size :])
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(body) - 1))
        body[position : position + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
        if not body:
            body = bytearray(b"\xc0")
    return framed(bytes(body))


anything = st.one_of(st.binary(max_size=200), mutated(), st.sampled_from(FRAMES))


@BOUNDED
@given(st.one_of(st.binary(max_size=400), mutated()))
def test_a_frame_is_a_message_or_a_wire_error(frame: bytes) -> None:
    try:
        message = CODEC.decode(frame)
    except WireError:
        return
    assert isinstance(message, msg.Message)


@BOUNDED
@given(
    (st.lists(anything, max_size=4) | st.lists(st.sampled_from(FRAMES), max_size=4)).map(b"".join),
    st.randoms(use_true_random=False),
)
def test_a_stream_gives_the_same_however_it_is_cut(stream: bytes, rng: Random) -> None:
    parts, at = [], 0
    while at < len(stream):
        step = rng.randint(1, 64)
        parts.append(stream[at : at + step])
        at += step
    assert read_in(parts) == read_in([stream])


def read_in(parts: list[bytes]) -> list[msg.Message] | None:
    """The messages of a stream that comes in these parts; None: it has a bad frame."""
    reader = FrameReader(CODEC)
    try:
        return [message for part in parts for message in reader.feed(part)]
    except WireError:
        return None


class Wire:
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_over = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def abort(self) -> None:
        self.is_over = True

    close = abort

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


OPENING = CODEC.encode(OpenSession("client", "ann"))
openings = st.builds(
    OpenSession, st.sampled_from(["client", "broker", "", "root"]), st.text(max_size=4), st.just("tidings")
).map(CODEC.encode)
pieces_of_a_handshake = st.lists(anything | openings | st.just(OPENING), min_size=1, max_size=6)


@BOUNDED
@example([OPENING])
@given(pieces_of_a_handshake)
def test_nobody_is_let_in_by_bytes_that_say_nothing(pieces: list[bytes]) -> None:
    async def play() -> None:
        admitted: list[OpenSession] = []
        bounds = NetworkSettings(handshake_frame_bytes=4096)

        def admit(connection: Connection, open: OpenSession, proved: Any) -> None:
            admitted.append(open)
            connection.end("enough")

        reception = Handshake("tidings", LoopbackOnly(), bounds, WriteCoalescer(), admit)
        visit = Admission().enter(None, lambda reason: None)
        assert visit is not None
        connection = reception.connection(visit)
        wire = Wire()
        connection.connection_made(wire)  # type: ignore[arg-type]
        for piece in pieces:
            connection.data_received(piece)
            assert connection.pending <= bounds.handshake_frame_bytes + max(map(len, pieces))
        for open in admitted:
            assert open.role in ("client", "broker")
            assert open.name.isprintable()
            assert framed_in(open, b"".join(pieces))
        assert len(admitted) <= 1
        if pieces[0] == OPENING:
            assert [(open.role, open.name) for open in admitted] == [("client", "ann")]
        reception.close()
        assert len(reception) == 0

    asyncio.run(play())


def framed_in(open: OpenSession, stream: bytes) -> bool:
    return msgspec.msgpack.encode(open.name) in stream


# -- a client that was let in ------------------------------------------------------------------------

small = st.integers(-2, 5)
names = st.sampled_from(["", "a", "b", "x" * 2000])
FILTERS = [parse_filter(text) for text in ("n > 1", "n < 1 OR m = 2", "n > 3 AND n < 2", "TRUE")]
filters = st.sampled_from(FILTERS)
events = st.builds(
    Event,
    source=st.sampled_from(["", "s", "t"]),
    id=st.sampled_from(["", "1", "2", "3"]),
    body=st.dictionaries(st.sampled_from(["n", "m", "id", "a.b"]), st.sampled_from([0, 2, "x", None, [1]])),
    topic=st.sampled_from([None, "a/b", "a/#", "/"]),
    lifetime=st.sampled_from([0.0, 5.0, float("inf"), -1.0, float("nan")]),
    key=st.sampled_from([None, "k"]),
    expires=st.sampled_from([None, 0.0, 3.0]),
)
options = st.builds(
    DeliveryOptions,
    durable=st.booleans(),
    queue=st.sampled_from([-1, 0, 1, 2, 1000]),
    policy=st.sampled_from(list(Policy)),
    group=st.sampled_from([None, "g"]),
    max_deliveries=st.sampled_from([0, 1, 2]),
    keep_seconds=st.sampled_from([None, 0.0, 1.0]),
    keep_events=st.sampled_from([None, 0, 1]),
    replay=st.booleans(),
    dead_letters_of=st.sampled_from([None, "a"]),
)
tokens = st.dictionaries(st.sampled_from(["", "b1", "other#1"]), st.integers(-3, 10), max_size=2)
tags = st.lists(small, max_size=3).map(tuple)
holdings = st.dictionaries(st.sampled_from(["", "b1", "other#1"]), tags, max_size=2)
said = st.one_of(
    st.builds(msg.Hello, st.just("c"), names),
    st.builds(msg.Publish, small, events, small, st.sampled_from(list(msg.AckMode))),
    st.builds(msg.Subscribe, small, small, names, filters, options, st.booleans(), tokens, small),
    st.builds(msg.Unsubscribe, small, small, st.booleans(), st.booleans()),
    st.builds(msg.Credit, small, st.integers(-1000, 1000)),
    st.builds(msg.Ack, small, tags),
    st.builds(msg.Nack, small, tags, st.booleans()),
    st.builds(msg.Advertise, small, names, filters),
    st.builds(msg.Unadvertise, small, names),
    st.builds(msg.Fence, small, small),
    st.builds(msg.Home, small, names),
    st.builds(msg.MemberHoldings, small, holdings, holdings),
    st.builds(msg.ReadLog, small, filters, small, small, st.sampled_from(["", "other"])),
    st.builds(
        msg.StageEvents, small, names, small, small, st.lists(events, max_size=2).map(tuple), st.just("")
    ),
    st.builds(msg.CommitStaged, small, names, small, small, st.just("")),
    st.builds(msg.AskCommitted, small, names),
)


def unheard(message: Any) -> None:
    """Nobody listens."""


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(said, st.sampled_from(["timer", "link"])), max_size=25))
def test_whatever_a_client_says_the_node_stands(script: list[Any]) -> None:
    node = find_system("tidings").build(Site(name="b1", brokers=("b1",)), Random(1))
    from tidings.store.memory import MemoryStore

    disk, now = MemoryStore(), 100.0
    sent: list[tuple[str, Any]] = []

    def hand(input: Any) -> None:
        for effect in node.handle(input, now):
            if isinstance(effect, Send):
                sent.append((effect.to, effect.message))
            if type(effect).__name__ == "Persist":
                disk.commit(effect.records)
                hand(Persisted(effect.token))
            elif type(effect).__name__ == "Fetch":
                found = disk.fetch(effect.from_offset, effect.limit, effect.max_bytes)
                hand(Fetched(effect.request, tuple(found)))
        node.check()

    hand(Started(Loaded.empty()))
    hand(LinkUp("c#1"))
    gate = ClientIngress("c", "c", None, say=unheard, hand_in=unheard, beside=unheard)
    for line in [msg.Hello("c", "i"), *script]:
        now += 0.1
        if line == "timer":
            now += 5
            hand(TimerFired())
        elif line == "link":
            hand(LinkDown("c#1"))
            hand(LinkUp("c#1"))
        else:
            try:
                received = gate.inward([CODEC.decode(CODEC.encode(line))])
            except WireError:
                continue
            for message in received:
                hand(Received("c#1", message))
    hand(LinkUp("d#1"))
    hand(Received("d#1", msg.Hello("d", "i")))
    assert [type(message) for to, message in sent if to == "d#1"] == [msg.Welcome], "others are served"

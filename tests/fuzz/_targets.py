"""What is fuzzed: each target takes any bytes, and raises only when something is wrong with us.

What a target allows is written in it: the error that its input is refused with. Everything else that
comes out is a defect, and so is whoever is let in without a proof.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from crc32c import crc32c
from tests.fuzz import _documents as documents

from tidings.errors import FilterError, SettingsError, WireError
from tidings.language import parse_filter
from tidings.language.limits import Limits
from tidings.protocol.messages import Message
from tidings.runtime.admission import Admission
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.handshake import Handshake
from tidings.runtime.http import OperatorHttp, OperatorPage
from tidings.runtime.messages import BESIDE, HANDSHAKE, OpenSession
from tidings.security.audit import Audit
from tidings.security.authenticator import ByUsers
from tidings.security.revocation import parse_revoked
from tidings.security.scram import make_key
from tidings.security.users import parse_users
from tidings.systems import Site, find_system
from tidings.wire.codec import HEAD, VERSION, Codec, FrameReader

GOLDEN = Path(__file__).parents[1] / "golden" / "wire"
LOOP = asyncio.new_event_loop()
SECRET = b"0123456789abcdef0123456789abcdef"
USERS = f"""
[users.ann]
password = "{make_key("pencil", iterations=4096)}"
[[allow]]
who = "ann"
action = "subscribe"
filter = "level < 5"
[[issuers]]
issuer = "i"
audience = "a"
key_file = "k"
"""


def _messages() -> tuple[type[Message], ...]:
    node = find_system("tidings").build(Site(name="b1", brokers=("b1",)), Random(1))
    declared = tuple(message for slot in node.slots.values() for message in slot.messages)
    return (*declared, *HANDSHAKE, *BESIDE)


CODEC = Codec(_messages())


def framed(body: bytes) -> bytes:
    """A frame with the right length and checksum: the fuzzer need not find those."""
    return HEAD.pack(len(body) + 5, VERSION, crc32c(body, crc32c(bytes((VERSION,))))) + body


def wire(data: bytes) -> None:
    """The decoder of everything that brokers and clients say, in pieces; the first byte says how."""
    if not data:
        return
    how, data = data[0], data[1:]
    stream = framed(data) if how & 1 else data
    step = max(1, how >> 1)
    reader = FrameReader(CODEC)
    try:
        for at in range(0, len(stream), step):
            for message in reader.feed(stream[at : at + step]):
                assert isinstance(message, Message)
                frame = CODEC.encode(message)
                assert (
                    CODEC.encode(CODEC.decode(frame)) == frame
                )  # messages may hold NaN, which equals nothing
    except WireError:
        return


class _Nowhere:
    """A transport whose other end says what the fuzzer likes."""

    def __init__(self) -> None:
        self.is_over = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: bytes) -> None:
        assert len(data) <= 65_536, "an answer before the welcome is small"

    def abort(self) -> None:
        self.is_over = True

    close = abort

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


USERS_READ = parse_users(USERS, read=lambda name: SECRET)


def handshake(data: bytes) -> None:
    """Everything before somebody has proved who they are: nobody here has."""

    async def play() -> None:
        clock = LOOP.time
        audit = Audit(lambda entry: None, clock)
        listener = ByUsers(lambda: USERS_READ, clock=clock, pepper=b"p" * 32, audit=audit)
        bounds = NetworkSettings(handshake_frame_bytes=16_384)

        def admit(connection: Connection, open: OpenSession, proved: Any) -> None:
            raise AssertionError(f"let in without a proof: {open} as {proved}")

        coalescer = WriteCoalescer()
        reception = Handshake("tidings", listener, bounds, coalescer, admit)
        visit = Admission().enter(None, lambda reason: None)
        assert visit is not None
        connection = reception.connection(visit)
        connection.connection_made(_Nowhere())  # type: ignore[arg-type]
        for part in _parts(data):
            connection.data_received(part)
            coalescer.flush()
            assert connection.pending <= bounds.handshake_frame_bytes + len(data)
        reception.close()
        assert len(reception) == 0

    LOOP.run_until_complete(play())


def _parts(data: bytes) -> list[bytes]:
    """Each part begins with its length in two bytes, and whether it is framed for the fuzzer."""
    parts = []
    while len(data) > 3:
        size, how, data = int.from_bytes(data[:2], "big"), data[2], data[3:]
        body, data = data[:size], data[size:]
        parts.append(framed(body) if how & 1 else body)
    return parts


def http(data: bytes) -> None:
    """The operator's port: a request is answered, or dropped."""

    async def play() -> None:
        pages = OperatorHttp({"/metrics": lambda: OperatorPage(b"x")})
        reader = asyncio.StreamReader(limit=8_192)
        reader.feed_data(data)
        reader.feed_eof()
        answer = await pages._answer(reader)
        assert answer is None or answer.startswith(b"HTTP/1.1 ")

    LOOP.run_until_complete(play())


LIMITS = Limits()


def filter(data: bytes) -> None:
    """Filter texts of both dialects."""
    text = data[1:].decode("utf-8", errors="replace")
    try:
        parse_filter(text, dialect="cesql" if data[:1] > b"\x7f" else "tidings", limits=LIMITS)
    except FilterError:
        return


def settings_files(data: bytes) -> None:
    """The users file and the list of certificates that were taken back."""
    with contextlib.suppress(SettingsError):
        parse_revoked(data, b"", "list")
    try:
        parse_users(data.decode("utf-8", errors="replace"), read=lambda name: SECRET)
    except SettingsError:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    "wire": wire,
    "handshake": handshake,
    "http": http,
    "filter": filter,
    "settings": settings_files,
    **documents.TARGETS,
}
BEFORE_LOGIN = ("wire", "handshake", "http", "mqtt")  # what a stranger reaches, without a proof of a name


def corpus(name: str) -> list[bytes]:
    """What a fuzzer begins with."""
    if name in documents.TARGETS:
        return documents.corpus(name)
    frames = [path.read_bytes()[HEAD.size :] for path in sorted(GOLDEN.glob("*/*.bin"))]
    if name == "wire":
        return [bytes((how,)) + frame for frame in frames for how in (1, 9, 255)]
    if name == "handshake":
        opens = [
            CODEC.encode(OpenSession(role, "ann", "tidings", mechanism, proof))[HEAD.size :]
            for role in ("client", "broker")
            for mechanism, proof in (
                ("scram-sha-256", b"n,,n=ann,r=fyko+d2lbbFgONRv9qkxdawL"),
                ("token", b"a.b.c"),
                ("certificate", b""),
                ("anonymous", b""),
            )
        ]
        return [len(body).to_bytes(2, "big") + b"\x01" + body for body in opens]
    return {
        "http": [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.0\r\n\r\n"],
        "filter": [
            b"\x00topic = 'a/+/b' AND (price < 5 OR name LIKE '%a_') AND NOT EXISTS x",
            b"\x00a BETWEEN 1 AND 2.5e3 OR b IN (1, 'x', TRUE) AND type IS A Thing",
            b"\x80UPPER(a) = 'B' XOR INT(c) + 1 > 3",
        ],
        "settings": [USERS.encode(), b"3F  # ann\n"],
    }[name]

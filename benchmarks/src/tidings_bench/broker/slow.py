"""Latency of subscribers that read beside slow consumers that do not.

Ten subscribers of one topic at a steady rate, first by themselves, then beside consumers that never read. One
of these has granted credit without bound, so that what it is sent fills its connection until the broker
leaves it; one has granted little, so that its queue fills and its policy drops. No event of the others may be
lost.
"""

from __future__ import annotations

import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from tidings.language import parse_filter
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol.messages import Hello, Subscribe
from tidings.runtime.messages import BESIDE, HANDSHAKE, OpenSession
from tidings.wire.codec import Codec
from tidings_bench.broker import brokers
from tidings_bench.broker.generators import Figures, load_ours
from tidings_bench.broker.plan import TOPIC, LoadPlan, topic_subscribers
from tidings_bench.broker.rows import OURS, Row, left_out, row
from tidings_bench.broker.works import trouble

FAN = 10
RATE = 5_000  # events a second; so many that 8 MiB wait for who does not read within a few seconds
UNBOUNDED, LITTLE = 1 << 30, 64  # credit

_codec = Codec((*HANDSHAKE, *BESIDE))


def slow(seconds: float) -> Iterator[Row]:
    """Latencies beside none and beside two that do not read."""
    work = "slow consumers"
    for credits, beside in (((), "none"), ((UNBOUNDED, LITTLE), "two")):
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            found = _measured(Path(folder), credits, seconds)
        problem = trouble(found)
        if problem:
            yield left_out(work, FAN, OURS, f"beside {beside}: {problem}")
            continue
        yield row(work, FAN, OURS, found["lat_p50_us"], f"us p50 beside {beside}")
        yield row(work, FAN, OURS, found["lat_p99_us"], f"us p99 beside {beside}")


def _measured(folder: Path, credits: tuple[int, ...], seconds: float) -> Figures:
    with brokers.ours(folder) as broker, ExitStack() as stack:
        for number, credit in enumerate(credits):
            stack.enter_context(closing(deaf(broker.port, f"deaf{number}", credit)))
        plan = LoadPlan(broker.port, topic_subscribers(FAN))
        return load_ours(plan, folder, [broker.pid], secs=seconds, rate=RATE)


def deaf(port: int, name: str, credit: int) -> socket.socket:
    """A consumer that has subscribed and reads no more."""
    options = DeliveryOptions(queue=1_000, policy=Policy.DROP_OLDEST)
    subscribe = Subscribe(1, 1, "w", parse_filter(f"topic = '{TOPIC}'"), options, False, {}, credit)
    line = socket.create_connection((brokers.HOST, port), 10.0)
    for stated in (OpenSession("client", name, mechanism="anonymous"), Hello(name, "1"), subscribe):
        line.sendall(_codec.encode(stated))
        _read_frame(line)
    return line


def _read_frame(line: socket.socket) -> None:
    (length,) = struct.unpack(">I", _read(line, 4))
    _read(line, length)


def _read(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = line.recv(count - len(found))
        if not part:
            raise ConnectionError("the broker left")
        found += part
    return found

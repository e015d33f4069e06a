"""Idle connections over TLS, and the latency of a small load beside them; a process of the benchmark.

    python -m tidings_bench.broker.probe PORT BROKER_PID AUTHORITY COUNT SECONDS

It measures before and after the idle connections come, with the same subscriber and publisher, so that what
Python costs here is in both. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol.messages import (
    Ack,
    AckMode,
    Credit,
    Deliver,
    DeliverAll,
    Hello,
    Message,
    Publish,
    Subscribe,
    Subscribed,
)
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.dialling import Address, dial
from tidings.runtime.messages import BESIDE, HANDSHAKE, OpenSession
from tidings.runtime.process import run
from tidings.security.interfaces import NoCredentials
from tidings.wire.codec import Codec
from tidings_bench.broker.plan import TOPIC

RATE = 200  # events a second
AT_ONCE = 100  # connections that are being made
PATIENCE_SECONDS = 30.0  # for the last events; the longest wait is in the figures


class IdleProbe:
    """The near end of all connections."""

    def __init__(self, port: int, authority: str) -> None:
        self._address = Address("127.0.0.1", port, True)
        self._tls = ssl.create_default_context(cafile=authority)
        self._codec = Codec((*HANDSHAKE, *BESIDE))
        self._coalescer = WriteCoalescer()
        self._settings = NetworkSettings(connect_seconds=60.0)
        self._latencies: list[float] = []
        self._sequence = 0
        self.open: list[Connection] = []
        self._ready = asyncio.Event()

    async def connect(self, name: str) -> Connection:
        dialled = await dial(
            self._address,
            lambda: OpenSession("client", name, mechanism="anonymous"),
            self._codec,
            self._coalescer,
            self._settings,
            credentials=NoCredentials(),
            lost=lambda connection, reason: None,
            most_bytes=1 << 24,
            tls=self._tls,
        )
        connection = dialled.connection
        connection.receive = _answer
        connection.release("early")
        connection.send(Hello(name, "i"))
        self.open.append(connection)
        return connection

    async def idle(self, count: int) -> None:
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(
                *(self.connect(f"idle{n}") for n in range(first, min(first + AT_ONCE, count)))
            )

    async def begin(self) -> None:
        """One subscriber and one publisher."""
        connection = await self.connect("hearing")
        connection.receive = self._receive
        options = DeliveryOptions(queue=100_000, policy=Policy.DISCONNECT)
        connection.send(
            Subscribe(1, 1, "w", parse_filter(f"topic = '{TOPIC}'"), options, False, {}, 1_000_000)
        )
        self._saying = await self.connect("saying")
        await self._ready.wait()

    def _receive(self, connection: Connection, messages: list[Message]) -> None:
        now = time.monotonic()
        for message in connection.answered(messages):
            if isinstance(message, Deliver | DeliverAll):
                for delivery in message.one_by_one() if isinstance(message, DeliverAll) else (message,):
                    self._latencies.append(now - float(delivery.event.attributes["sent"]))
                    connection.send(Ack(1, (delivery.tag,)))
                    connection.send(Credit(1, 1))
            elif isinstance(message, Subscribed):
                self._ready.set()

    async def latencies(self, seconds: float) -> dict[str, float]:
        """p50 and p99 in microseconds, at a small rate."""
        self._latencies.clear()
        start = time.monotonic()
        for number in range(int(seconds * RATE)):
            await asyncio.sleep(max(0.0, start + number / RATE - time.monotonic()))
            self._sequence += 1
            event = Event(
                "saying", f"i-{self._sequence}", {"sent": time.monotonic()}, TOPIC, payload=b"x" * 100
            )
            self._saying.send(Publish(self._sequence, event, self._sequence, AckMode.BEST_EFFORT))
        until = time.monotonic() + PATIENCE_SECONDS
        while len(self._latencies) < int(seconds * RATE) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        found = sorted(self._latencies)
        if len(found) != int(seconds * RATE):
            raise SystemExit(f"{len(found)} of {int(seconds * RATE)} events came")
        return {"p50": found[len(found) // 2] * 1e6, "p99": found[len(found) * 99 // 100] * 1e6}


def _answer(connection: Connection, messages: list[Message]) -> None:
    connection.answered(messages)


def _resident(pid: int) -> int:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


async def main(port: int, pid: int, authority: str, count: int, seconds: float) -> dict[str, Any]:
    probe = IdleProbe(port, authority)
    await probe.begin()
    await probe.latencies(0.5)
    alone = await probe.latencies(seconds)
    before, began = _resident(pid), time.monotonic()
    await probe.idle(count)
    took = time.monotonic() - began
    grown = _resident(pid) - before
    beside = await probe.latencies(seconds)
    lost = sum(connection.is_over for connection in probe.open)
    if lost:
        raise SystemExit(f"{lost} connections were lost")
    return {"alone": alone, "beside": beside, "bytes_each": grown / count, "connects_per_s": count / took}


if __name__ == "__main__":
    words = sys.argv[1:]
    print(json.dumps(run(main(int(words[0]), int(words[1]), words[2], int(words[3]), float(words[4])))))

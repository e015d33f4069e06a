"""MQTT clients of the gateway benchmark, for works that the generator in C does not know: QoS 2, retained
messages, wildcards, TLS, the pings of a neighbour.

The same clients drive every server, in this process; the servers have processes of their own. So a ratio near
1 may mean that the clients were the bound.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

SECONDS = 60.0  # a server that says nothing for so long does not count
PAYLOAD = bytes(100)
WINDOW = 500  # messages on their way
TOPICS = 1000
FILTERS = 250  # of one SUBSCRIBE


class LoadClient(asyncio.Protocol):
    """One connection of version 3.1.1. `on_packet` gets each packet's first byte and body."""

    def __init__(self) -> None:
        self._rest = b""
        self.on_packet: Callable[[int, bytes], None] = lambda head, body: None
        self._answers: asyncio.Queue[int] = asyncio.Queue()
        self.transport: asyncio.Transport

    @classmethod
    async def connect(cls, port: int, name: str, tls: ssl.SSLContext | None = None) -> LoadClient:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(cls, "127.0.0.1", port, ssl=tls)
        client.on_packet = lambda head, body: client._answers.put_nowait(head)
        client.write(packet(0x10, text("MQTT"), b"\x04\x02\x00\x00", text(name)))
        await client.answer()
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.write = self.transport.write

    async def answer(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self._answers.get()

    async def subscribe(self, *filters: str, qos: int = 0) -> None:
        parts = [text(each) + bytes([qos]) for each in filters]
        self.write(packet(0x82, b"\x00\x01", *parts))
        await self.answer()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, length = 0, len(data)
        while length - at >= 2:
            size, shift, start = 0, 0, at + 1
            while start < length:
                byte = data[start]
                size |= (byte & 0x7F) << shift
                shift, start = shift + 7, start + 1
                if byte < 0x80:
                    break
            else:
                break
            if start + size > length:
                break
            self.on_packet(data[at], data[start : start + size])
            at = start + size
        self._rest = data[at:]


def text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def packet(head: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size, length = len(body), bytearray()
    while True:
        size, low = size >> 7, size & 0x7F
        length.append(low | (0x80 if size else 0))
        if not size:
            return bytes([head]) + bytes(length) + body


async def exchanges(port: int, seconds: float, in_flight: int = 64) -> float:
    """Publishes of QoS 2, so many at a time; completed ones a second."""
    client = await LoadClient.connect(port, "two")
    done, finished, until = 0, asyncio.Event(), time.perf_counter() + seconds

    def publish(id: bytes) -> None:
        client.write(packet(0x34, text("two"), id, PAYLOAD))

    def on_packet(head: int, body: bytes) -> None:
        nonlocal done
        if head >> 4 == 5:
            client.write(b"\x62\x02" + body[:2])
        elif head >> 4 == 7:
            done += 1
            if time.perf_counter() < until:
                publish(body[:2])
            else:
                finished.set()

    client.on_packet = on_packet
    begun = time.perf_counter()
    for id in range(1, in_flight + 1):
        publish(id.to_bytes(2, "big"))
    async with asyncio.timeout(seconds + SECONDS):
        await finished.wait()
    rate = done / (time.perf_counter() - begun)
    client.transport.close()
    return rate


async def _retain(port: int, count: int) -> LoadClient:
    """Have the server keep so many retained messages; their publisher."""
    publisher = await LoadClient.connect(port, "keeper")
    for number in range(count):
        publisher.write(packet(0x33, text(f"r/{number}"), (number % 60_000 + 1).to_bytes(2, "big"), PAYLOAD))
        if number % 50 == 49 or number == count - 1:
            for _ in range(number % 50 + 1):
                await publisher.answer()
    return publisher


async def neighbour(port: int, count: int, filters: int) -> dict[str, float]:
    """Microseconds that the pings of a client take while another one subscribes to so many retained messages
    and then with so many filters, each of which brings one of them."""
    publisher = await _retain(port, count)
    greedy, pinging = await LoadClient.connect(port, "greedy"), await LoadClient.connect(port, "neighbour")
    left, finished, taken = count + filters, asyncio.Event(), list[float]()

    def on_packet(head: int, body: bytes) -> None:
        nonlocal left
        del body
        left -= head >> 4 == 3
        if not left:
            finished.set()

    async def ping() -> None:
        while not finished.is_set():
            begun = time.perf_counter()
            pinging.write(b"\xc0\x00")
            await pinging.answer()
            taken.append((time.perf_counter() - begun) * 1e6)
            await asyncio.sleep(0.001)

    greedy.on_packet = on_packet
    task = asyncio.create_task(ping())
    greedy.write(packet(0x82, b"\x00\x01", text("r/#"), b"\x00"))
    for begin in range(0, filters, FILTERS):
        names = [f"r/{number}" for number in range(begin, min(begin + FILTERS, filters))]
        id = (2 + begin // FILTERS).to_bytes(2, "big")
        greedy.write(packet(0x82, id, *(text(name) + b"\x00" for name in names)))
    async with asyncio.timeout(SECONDS):
        await finished.wait()
    await task
    for client in (publisher, greedy, pinging):
        client.transport.close()
    taken.sort()
    return {"p50": taken[len(taken) // 2], "p99": taken[int(len(taken) * 0.99)], "max": taken[-1]}


async def retained(port: int, count: int) -> float:
    """Retained messages that a new subscriber receives, a second."""
    publisher = await _retain(port, count)
    subscriber = await LoadClient.connect(port, "new")
    left, finished = count, asyncio.Event()

    def on_packet(head: int, body: bytes) -> None:
        nonlocal left
        del body
        left -= head >> 4 == 3
        if not left:
            finished.set()

    subscriber.on_packet = on_packet
    begun = time.perf_counter()
    subscriber.write(packet(0x82, b"\x00\x01", text("r/#"), b"\x00"))
    async with asyncio.timeout(SECONDS):
        await finished.wait()
    rate = count / (time.perf_counter() - begun)
    for client in (publisher, subscriber):
        client.transport.close()
    return rate


async def deliveries(
    port: int, seconds: float, filters: list[list[str]], tls: ssl.SSLContext | None = None
) -> float:
    """QoS 0 on topics `t/N/x`, in turn; deliveries a second to clients with these filters, of which each
    message has to reach all."""
    count, finished = 0, asyncio.Event()
    publisher = await LoadClient.connect(port, "p", tls)
    clients = [publisher]
    sent, fan, until = 0, len(filters), time.perf_counter() + seconds

    def publish(some: int) -> None:
        nonlocal sent
        publisher.write(
            b"".join(
                packet(0x30, text(f"t/{number % TOPICS}/x"), PAYLOAD) for number in range(sent, sent + some)
            )
        )
        sent += some

    def on_packet(head: int, body: bytes) -> None:
        nonlocal count
        del body
        if head >> 4 != 3:
            return
        count += 1
        if time.perf_counter() > until:
            if count == sent * fan:
                finished.set()
        elif not count % (50 * fan):
            publish(50)

    for number, some in enumerate(filters):
        client = await LoadClient.connect(port, f"s{number}", tls)
        await client.subscribe(*some)
        client.on_packet = on_packet
        clients.append(client)
    begun = time.perf_counter()
    publish(WINDOW)
    async with asyncio.timeout(seconds + SECONDS):
        await finished.wait()
    rate = count / (time.perf_counter() - begun)
    for client in clients:
        client.transport.close()
    return rate

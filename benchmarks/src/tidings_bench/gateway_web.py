"""Works of the gateway benchmark by HTTP, WebSocket and server-sent events, beside bare Starlette.

The bare application reads a publish and answers at once, or sends each body that is posted to all that listen
at its WebSocket or its stream: no filters, permissions, quotas or queues.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidings.errors import UnreachableError
from tidings_bench.broker import brokers
from tidings_bench.broker.rows import DELIVERED, OURS, Row, Unit, compared

STARLETTE = "starlette, bare"
PUBLISHED = Unit("events/s", True)
BATCH = "application/cloudevents-batch+json"
BARE = """
import asyncio, socket, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute

queues = set()

async def publish(request):
    body = await request.body()
    for queue in queues:
        queue.put_nowait(body)
    return Response(status_code=202)

async def stream(request):
    queue = asyncio.Queue()
    queues.add(queue)
    async def lines():
        yield b": begin\\n\\n"
        while True:
            yield b"data: " + await queue.get() + b"\\n\\n"
    return StreamingResponse(lines(), media_type="text/event-stream")

async def talk(socket):
    await socket.accept()
    queue = asyncio.Queue()
    queues.add(queue)
    await socket.receive_text()
    await socket.send_text("begin")
    while True:
        await socket.send_bytes(await queue.get())

listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
print(listening.getsockname()[1], flush=True)
app = Starlette(routes=[
    Route("/events", publish, methods=["POST"]), Route("/events", stream),
    WebSocketRoute("/events/socket", talk),
])
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
"""


@contextmanager
def bare_starlette() -> Iterator[str]:
    """The bare application in a process of its own; its address."""
    process = subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE)  # noqa: S603
    with brokers.ending(process):
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        if not port:
            raise UnreachableError("the Starlette application did not start", hint="what it said is above")
        yield f"http://127.0.0.1:{port}"


SERVED = """
import json, sys
from tidings.gateway.listeners import Gateways
from tidings.runtime.process import run
from tidings.runtime.service import Service
from tidings.runtime.settings import (
    BrokerSettings, GatewaySettings, LogSettings, SecuritySettings, TlsSettings,
)

certificate, key, authority = sys.argv[1:]
settings = BrokerSettings(
    name="b1", listen="127.0.0.1:0", security=SecuritySettings(anonymous=True),
    log=LogSettings(level="error"), gateway=GatewaySettings(mqtt="127.0.0.1:0"),
    tls=TlsSettings(certificate=certificate, key=key, authority=authority),
)
service = Service(settings, gateways=Gateways)
ready = lambda server: print(json.dumps({"gateways": service.gateways.addresses}), flush=True)
run(service.run(ready))
"""


@contextmanager
def ours(
    folder: Path, *, store: bool = False, tls: tuple[str, str, str] | None = None
) -> Iterator[dict[str, str]]:
    """A broker with its gateways: their addresses, and the process. `tls`: certificate, key and authority, of
    a broker with MQTT alone that is open to all, which no setting of a development broker allows."""
    stated = {"name": "b1", "listen": "127.0.0.1:0", "log.level": "error"}
    stated |= {"gateway.http": "127.0.0.1:0", "gateway.mqtt": "127.0.0.1:0"}
    stated |= {"store": str(folder / "store")} if store else {}
    words = ["-m", "tidings.gateway.development", json.dumps(stated)] if tls is None else ["-c", SERVED, *tls]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
    )
    with brokers.ending(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise UnreachableError("the broker did not start", hint="what it said is above")
        yield {**json.loads(line)["gateways"], "pid": str(process.pid)}


def http(seconds: float) -> Iterator[Row]:
    """Eight requests at once, of one event or a hundred; the bare application answers requests of one."""
    with bare_starlette() as address:
        bare = asyncio.run(_post(address, 1, seconds))
    with TemporaryDirectory() as folder, ours(Path(folder)) as gateway:
        for size in (1, 100):
            figures = {OURS: asyncio.run(_post(gateway["http"], size, seconds)), STARLETTE: bare}
            yield from compared("http publish", size, PUBLISHED, figures)


def streams(kind: str, subscribers: int, seconds: float) -> Iterator[Row]:
    """Deliveries to this many subscribers by WebSocket or server-sent events, of events posted by one."""
    figures = {}
    with TemporaryDirectory() as folder, ours(Path(folder)) as gateway:
        figures[OURS] = asyncio.run(_broadcast(kind, gateway["http"], subscribers, seconds))
    with bare_starlette() as address:
        figures[STARLETTE] = asyncio.run(_broadcast(kind, address, subscribers, seconds))
    yield from compared(f"{kind} delivery", subscribers, DELIVERED, figures)


def _event(id: str) -> dict[str, Any]:
    data = {"StockName": "IBM", "change": 1}
    return {"specversion": "1.0", "id": id, "source": "bench", "type": "quote", "data": data}


async def _post(address: str, size: int, seconds: float) -> float:
    """Eight requests at once, each of `size` CloudEvents, for a while; events a second."""
    import httpx

    count = 0
    until = time.perf_counter() + seconds

    async with httpx.AsyncClient(base_url=address, timeout=30, trust_env=False) as client:

        async def keep_on(worker: int) -> None:
            nonlocal count
            turn = 0
            while time.perf_counter() < until:
                turn += 1
                batch = [_event(f"{worker}-{turn}-{number}") for number in range(size)]
                answer = await client.post(
                    "/events", content=json.dumps(batch), headers={"content-type": BATCH}
                )
                answer.raise_for_status()
                count += size

        begun = time.perf_counter()
        await asyncio.gather(*(keep_on(worker) for worker in range(8)))
        return count / (time.perf_counter() - begun)


async def _broadcast(kind: str, address: str, subscribers: int, seconds: float) -> float:
    """Post one event after the other, a few at a time ahead of those that listen; deliveries a second."""
    import httpx

    received, moved = [0] * subscribers, asyncio.Event()

    def count(number: int, some: int) -> None:
        received[number] += some
        moved.set()

    begin = _open_stream if kind == "sse" else _open_socket
    tasks = [await begin(address, number, count) for number in range(subscribers)]
    sent, until, begun = 0, time.perf_counter() + seconds, time.perf_counter()
    headers = {"content-type": "application/cloudevents+json"}
    try:
        async with httpx.AsyncClient(base_url=address, timeout=30, trust_env=False) as client:
            while time.perf_counter() < until:
                posts = [
                    client.post("/events", content=json.dumps(_event(str(sent + n))), headers=headers)
                    for n in range(8)
                ]
                for answer in await asyncio.gather(*posts):
                    answer.raise_for_status()
                sent += 8
                async with asyncio.timeout(30):
                    while min(received) < sent - 32:
                        moved.clear()
                        await moved.wait()
            async with asyncio.timeout(30):
                while min(received) < sent:
                    moved.clear()
                    await moved.wait()
        return sum(received) / (time.perf_counter() - begun)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _open_stream(address: str, number: int, count: Any) -> asyncio.Task[None]:
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
    writer.write(f"GET /events HTTP/1.1\r\nhost: {host}:{port}\r\naccept: text/event-stream\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")

    async def read() -> None:
        try:
            async for line in reader:
                if line.startswith(b"data:"):
                    count(number, 1)
        finally:
            writer.close()

    return asyncio.create_task(read())


async def _open_socket(address: str, number: int, count: Any) -> asyncio.Task[None]:
    from websockets.asyncio.client import connect

    socket = await connect(address.replace("http", "ws", 1) + "/events/socket", compression=None)
    await socket.send(json.dumps({"op": "subscribe", "ref": "a"}))
    await socket.recv()

    async def read() -> None:
        try:
            async for _ in socket:
                count(number, 1)
        finally:
            await socket.close()

    return asyncio.create_task(read())

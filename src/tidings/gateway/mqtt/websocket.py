"""MQTT over WebSocket, for browsers: the same door, behind a socket of the web."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tidings.gateway.mqtt.door import LARGEST, MqttDoor
from tidings.gateway.origins import Addresses
from tidings.gateway.serving import bind


class _Writer:
    """What a connection needs of a stream's writer."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()
        self._bytes = 0
        self.transport = self

    def set_write_buffer_limits(self, high: int) -> None:
        """The socket has its own."""

    def get_write_buffer_size(self) -> int:
        return self._bytes

    def write(self, data: bytes) -> None:
        self._bytes += len(data)
        self._waiting.put_nowait(data)
        if self._waiting.qsize() > 1000:
            self._room.clear()

    async def drain(self) -> None:
        await self._room.wait()

    def close(self) -> None:
        self._waiting.put_nowait(None)

    def get_extra_info(self, name: str) -> Any:
        return self._socket.transport.get_extra_info(name)

    async def run(self) -> None:
        """Send what was written, until it is closed."""
        with contextlib.suppress(ConnectionClosed):
            while (data := await self._waiting.get()) is not None:
                await self._socket.send(data)
                self._bytes -= len(data)
                if self._waiting.qsize() < 500:
                    self._room.set()
            await self._socket.close()
        self._room.set()


class MqttSocketDoor:
    """Listens, and hands each connection to the door for MQTT, whose sessions it shares."""

    def __init__(self, door: MqttDoor, addresses: Addresses, tls: ssl.SSLContext | None) -> None:
        self._door = door
        self._addresses = addresses
        self._tls = tls
        self._server: Server | None = None
        self.address = ""

    async def start(self) -> None:
        bound = bind(self._addresses.listen, "gateway.mqtt_websocket")
        host, port = bound.getsockname()[:2]
        self._server = await serve(
            self._serve, sock=bound, ssl=self._tls, subprotocols=["mqtt"], max_size=LARGEST, compression=None,  # type: ignore[list-item]
            process_request=self._check,
        )  # fmt: skip
        self.address = f"{'ws' if self._tls is None else 'wss'}://{host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        reason = self._addresses.refusal({name.lower(): value for name, value in request.headers.raw_items()})
        return socket.respond(HTTPStatus.FORBIDDEN, reason + "\n") if reason else None

    async def _serve(self, socket: ServerConnection) -> None:
        reader = asyncio.StreamReader()
        writer = _Writer(socket)
        sending = asyncio.create_task(writer.run())
        serving = asyncio.create_task(self._door.serve(reader, writer))  # type: ignore[arg-type]
        try:
            async for data in socket:
                if isinstance(data, str):
                    break  # MQTT is bytes
                reader.feed_data(data)
        except ConnectionClosed as error:
            del error  # gone: the reader ends
        finally:
            reader.feed_eof()
            await serving
            await sending

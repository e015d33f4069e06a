"""MQTT over WebSocket, for browsers: the same listener, behind a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from functools import partial
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tidings.gateway.mqtt.connection import BUFFER, LARGEST
from tidings.gateway.mqtt.listener import MqttListener
from tidings.gateway.mqtt.stream import LINGER_SECONDS, ByteStream
from tidings.gateway.origins import Addresses
from tidings.gateway.paced import PacedReading
from tidings.gateway.serving import bind, without_traceback
from tidings.runtime.admission import Admission, AdmittedConnection
from tidings.runtime.fairness import Fairness
from tidings.runtime.local_clients import LocalClientHost


class _Admitted(ServerConnection):
    """A connection that counts among those of all listeners, from its first byte."""

    def __init__(self, admission: Admission, fairness: Fairness, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._admission, self._fairness = admission, fairness
        self.visit: AdmittedConnection | None = None
        self._reading: PacedReading | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.visit = self._admission.enter(
            transport.get_extra_info("peername"), lambda reason: self.transport.abort()
        )
        if self.visit is None:
            self.transport.abort()
            return
        parse = super().data_received
        self._reading = PacedReading(
            self._fairness, self.visit.address, self.transport, parse, self._may_read
        )

    def data_received(self, data: bytes) -> None:
        if self._reading is not None:
            self._reading.feed(data)

    def _may_read(self) -> bool:
        """A client that does not read its pongs is not read from."""
        return not self.paused and not self.recv_messages.paused

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.recv_messages.paused:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.visit is not None:
            self.visit.leave()
        if self._reading is not None:
            self._reading.close()
        super().connection_lost(exc)


class _SocketStream(ByteStream):
    """Bytes over a connection, which is its own wire. A client that is not read from fills its socket."""

    def __init__(self, socket: ServerConnection) -> None:
        super().__init__()
        self.wire = self
        self._socket = socket
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._bytes = 0  # written and not yet sent ...
        self._present = 0  # ... of the message that the socket has
        self._may_read = asyncio.Event()
        self._may_read.set()

    def get_write_buffer_size(self) -> int:
        return self._bytes

    def unsent(self) -> int:
        """Bytes that the system has not taken: those of the present message leave one by one."""
        return self._bytes - self._present + self._socket.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        self._bytes += len(data)
        self._waiting.put_nowait(data)
        if self._bytes > BUFFER or self._waiting.qsize() > 1000:
            self.pause_writing()

    def close(self) -> None:
        self._waiting.put_nowait(None)

    def abort(self) -> None:
        self._socket.transport.abort()

    def is_closing(self) -> bool:
        return self._socket.transport.is_closing()

    def get_extra_info(self, name: str) -> Any:
        return self._socket.transport.get_extra_info(name)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def receive(self) -> None:
        """Feed what comes, until the client leaves or says something else than bytes."""
        try:
            async for data in self._socket:
                if isinstance(data, str):
                    break  # MQTT is bytes
                if data:
                    self.feed(data)
                await self._may_read.wait()
        except ConnectionClosed as error:
            del error  # gone: the bytes end
        finally:
            self.feed_eof()

    def feed_eof(self) -> None:
        self._may_read.set()
        super().feed_eof()

    async def send(self) -> None:
        """Send what was written, until it is closed."""
        with contextlib.suppress(ConnectionClosed):
            while (data := await self._waiting.get()) is not None:
                self._present = len(data)
                await self._socket.send(data)
                self._bytes -= len(data)
                self._present = 0
                if self._bytes <= BUFFER // 4 and self._waiting.qsize() < 500:
                    self.resume_writing()
            await self._socket.close()
        self._bytes = 0
        self.resume_writing()


class MqttWebSocketListener:
    """Listens, and hands each connection to the MQTT listener; the two share their sessions."""

    def __init__(
        self, host: LocalClientHost, listener: MqttListener, addresses: Addresses, tls: ssl.SSLContext | None
    ) -> None:
        self._host = host
        self._listener = listener
        self._addresses = addresses
        self._tls = tls
        self._server: Server | None = None
        self.address = ""

    async def start(self) -> None:
        bound = bind(self._addresses.listen, "gateway.mqtt_websocket")
        host, port = bound.getsockname()[:2]
        seconds = self._host.network.handshake_seconds
        options: dict[str, Any] = {} if self._tls is None else {"ssl_handshake_timeout": seconds}
        logging.getLogger("websockets.server").addFilter(without_traceback)
        self._server = await serve(
            self._serve,
            sock=bound,
            ssl=self._tls,
            subprotocols=["mqtt"],  # type: ignore[list-item]
            max_size=LARGEST,
            compression=None,
            close_timeout=LINGER_SECONDS,
            open_timeout=seconds,
            process_request=self._check,
            create_connection=partial(_Admitted, self._host.admission, self._host.reading.fairness),  # type: ignore[arg-type]
            **options,
        )
        self.address = f"{'ws' if self._tls is None else 'wss'}://{host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        reason = self._addresses.refusal({name.lower(): value for name, value in request.headers.raw_items()})
        return socket.respond(HTTPStatus.FORBIDDEN, reason + "\n") if reason else None

    async def _serve(self, socket: ServerConnection) -> None:
        assert isinstance(socket, _Admitted)
        if socket.visit is None:
            return
        stream = _SocketStream(socket)
        sending = asyncio.create_task(stream.send())
        serving = asyncio.create_task(self._listener.serve(stream, socket.visit))
        serving.add_done_callback(lambda _: stream.feed_eof())
        try:
            await stream.receive()
        finally:
            await serving
            await sending
            stream.lost()

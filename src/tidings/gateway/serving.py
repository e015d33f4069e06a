"""An HTTP server inside the broker's event loop: started, stopped and given its TLS by the broker.

Rules
- Each connection is admitted together with those of all other listeners (`runtime/admission.py`). It counts
  as waiting until the head of a request is complete, and again between two requests.
- What comes is parsed in slices, in turns with all other work of the broker (`paced.py`).
- If a client does not read its WebSocket, pongs included, the WebSocket is not read from.
- The state of a request has `abort`, which ends its connection at once, also when its client does not read.
- The address of a client is that of its connection, and TLS is what this listener itself took:
  `X-Forwarded-For`, `X-Forwarded-Proto` and `Forwarded` are not read, because any client can send them.
- A head that is not complete within `request_seconds` ends the connection, as does a pause of `idle_seconds`
  between two requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tidings.errors import SettingsError
from tidings.gateway.paced import PacedReading
from tidings.runtime.admission import Admission, AdmittedConnection, SocketListener, admission_settings
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.dialling import port_of
from tidings.runtime.fairness import Fairness

PEER_FAULTS = ("Invalid UTF-8 sequence received from client.", "opening handshake failed")
NOSNIFF = (b"x-content-type-options", b"nosniff")  # a browser takes no answer for another type
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def _problem(detail: str) -> bytes:
    """A problem object for a request that cannot be read, as the gateways answer."""
    status = HTTPStatus.BAD_REQUEST
    return msgspec.json.encode({"title": status.phrase, "status": int(status), "detail": detail})


AMBIGUOUS = _problem("Content-Length and Transfer-Encoding in one request")


def without_traceback(record: logging.LogRecord) -> bool:
    """Filter of a server's log: faults of clients are a line each, at level INFO. They came with a
    traceback, with which anyone could fill the log."""
    if record.msg in PEER_FAULTS:
        record.levelno, record.levelname, record.exc_info = logging.INFO, "INFO", None
    return True


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's."""
        yield


class _BoundedHttp(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """One connection, within bounds of time."""

    visit: AdmittedConnection
    seconds: float  # for the head of a request
    fairness: Fairness
    _reading: PacedReading
    _timer: asyncio.TimerHandle | None = None
    ws_protocol_class: Any
    _is_socket = False  # it carries a WebSocket from now on

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.visit.end = lambda reason: transport.abort()
        self._reading = PacedReading(
            self.fairness, self.visit.address, transport, self._parse, lambda: not self.flow.read_paused
        )
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._reading.feed(data)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def handle_websocket_upgrade(self, *args: Any) -> None:
        """The WebSocket's own protocol takes over; the visit ends with it."""
        self._is_socket = True
        self._stop_waiting()
        made, visit, reading = self.ws_protocol_class, self.visit, self._reading

        def make(**options: Any) -> Any:
            protocol = made(**options)
            lost, received, resumed = (
                protocol.connection_lost, protocol.data_received, protocol.resume_writing
            )  # fmt: skip

            def connection_lost(exc: Exception | None) -> None:
                visit.leave()
                reading.close()
                lost(exc)

            def may_read() -> bool:  # a client that does not read its pongs is not read from
                return not protocol.read_paused and bool(protocol.writable.is_set())

            def resume_writing() -> None:
                resumed()
                if not protocol.read_paused:
                    protocol.transport.resume_reading()

            first = [received]  # the request that asked for the socket, which was read already

            def data_received(data: bytes) -> None:
                (first.pop() if first else reading.feed)(data)

            reading.parse, reading.may_read = received, may_read
            protocol.connection_lost, protocol.data_received = connection_lost, data_received
            protocol.resume_writing = resume_writing
            return protocol

        self.ws_protocol_class = make
        super().handle_websocket_upgrade(*args)

    def send_400_response(self, msg: str) -> None:
        """The request cannot be read. In its place uvicorn would answer with plain text."""
        body = _problem(msg)
        head = (
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
            f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_busy:
            self.visit.wait()  # uvicorn ends it after `idle_seconds` without data

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.visit.leave()
        self._reading.close()
        super().connection_lost(exc)

    @property
    def _is_busy(self) -> bool:
        return self._is_socket or (self.cycle is not None and not self.cycle.response_complete)

    def _look(self) -> None:
        if self._is_busy:
            self._stop_waiting()
        elif self._timer is None:
            self._wait()

    def _wait(self) -> None:
        self.visit.wait()
        self._timer = asyncio.get_running_loop().call_later(self.seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        self.visit.serve()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(TOO_SLOW)
            self.transport.close()


class _UnambiguousRequest:
    """An ASGI application that requires one length of each request: with two, a proxy and the broker could
    disagree about where the next request begins, so such a request is refused and ends its connection."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        names = {name for name, _ in scope["headers"]}
        if not {b"content-length", b"transfer-encoding"} <= names:
            await self._app(scope, receive, _unsniffed(send))
            return
        headers = [
            (b"connection", b"close"),
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(AMBIGUOUS)).encode()),
            NOSNIFF,
        ]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": AMBIGUOUS})


def _unsniffed(send: Any) -> Any:
    """Sends each answer with the header `NOSNIFF`."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != NOSNIFF[0]]
            message = {**message, "headers": [*headers, NOSNIFF]}
        await send(message)

    return sending


class Serving:
    """Serves an ASGI application at host:port (port 0: a free one)."""

    def __init__(
        self,
        app: Any,
        listen: str,
        tls: ssl.SSLContext | None = None,
        *,
        setting: str = "gateway.http",
        network: NetworkSettings | None = None,
        admission: Admission | None = None,
        fairness: Fairness | None = None,
    ) -> None:
        self._network = network or NetworkSettings()
        self._admission = Admission(admission_settings(self._network)) if admission is None else admission
        self._fairness = Fairness() if fairness is None else fairness
        self._listener: SocketListener | None = None
        self._app = app
        self._setting = setting  # that said where, for who has to change it
        self._listen = listen
        self._tls = tls
        self._server: _QuietServer | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""

    async def start(self) -> None:
        bound = bind(self._listen, self._setting)
        host, port = bound.getsockname()[:2]
        config = uvicorn.Config(
            _UnambiguousRequest(self._app),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            ws_max_size=4 * 2**20,
            ws_per_message_deflate=False,  # no decompression bombs: the data of clients is never decompressed
            server_header=False,
            proxy_headers=False,  # any client of this machine could claim another address, and TLS
            timeout_keep_alive=max(1, round(self._network.idle_seconds)),
        )
        config.load()
        logging.getLogger("uvicorn.error").addFilter(without_traceback)  # the same filter is there once
        self._server = server = _QuietServer(config)
        self._task = asyncio.create_task(server.serve(sockets=[]), name="tidings http")
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.005)
        if self._task.done():
            self._task.result()
        seconds = self._network.request_seconds

        def connection(visit: AdmittedConnection) -> asyncio.Protocol:
            state: dict[str, Any] = {}
            made = _BoundedHttp(config=config, server_state=server.server_state, app_state=state)
            state["abort"] = lambda: made.transport.abort()
            made.visit, made.seconds, made.fairness = visit, seconds, self._fairness
            return made

        self._listener = SocketListener(
            bound,
            connection,
            self._admission,
            tls=self._tls,
            handshake_seconds=self._network.handshake_seconds,
        )
        scheme = "http" if self._tls is None else "https"
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()

    async def close(self) -> None:
        self.stop_listening()
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await asyncio.gather(self._task, return_exceptions=True)


def bind(listen: str, what: str) -> socket.socket:
    """A socket at host:port. Raises `SettingsError`."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    number = port_of(port)
    if number is None:
        raise SettingsError(f"{what} is {listen!r}", hint="write host:port")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, number))
    except OSError as error:
        bound.close()
        raise SettingsError(f"{what}: cannot listen at {listen}: {error.strerror or error}") from None
    return bound

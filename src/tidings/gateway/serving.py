"""An HTTP server inside the broker's event loop: started, stopped and given its TLS by the broker."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tidings.errors import SettingsError
from tidings.runtime.dialling import port_of


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's."""
        yield


class Serving:
    """Serves an ASGI application at host:port (port 0: a free one)."""

    def __init__(
        self, app: Any, listen: str, tls: ssl.SSLContext | None = None, *, setting: str = "gateway.http"
    ) -> None:
        self._app = app
        self._setting = setting  # that said where, for who has to change it
        self._listen = listen
        self._tls = tls
        self._server: _Quiet | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""

    async def start(self) -> None:
        bound = bind(self._listen, self._setting)
        host, port = bound.getsockname()[:2]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            ws_max_size=4 * 2**20,
            ws_per_message_deflate=False,  # no bombs: nothing that a client sends is decompressed
            server_header=False,
        )
        config.load()
        config.ssl = self._tls
        self._server = _Quiet(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]), name="tidings http")
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.005)
        if self._task.done():
            self._task.result()
        scheme = "http" if self._tls is None else "https"
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
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

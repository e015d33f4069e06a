"""A small HTTP server for the operator: /metrics, /healthz and /readyz, and nothing else.

Rules
- GET and HEAD alone; one request a connection; a request that is too long or too slow is dropped.
- It says nothing that needs a permission: counters, and whether the broker is well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

LONGEST = 8_192  # bytes of a request's head
SECONDS = 5.0  # to send it
MOST = 64  # requests at once


class Page(NamedTuple):
    body: bytes
    content_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


Handler = Callable[[], Page]


class Http:
    """`pages` are by path."""

    def __init__(self, pages: dict[str, Handler]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open = 0
        self.address = ""

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, limit=LONGEST)
        name, number = self._server.sockets[0].getsockname()[:2]
        self.address = f"http://{f'[{name}]' if ':' in name else name}:{number}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            page = await self._answer(reader) if self._open <= MOST else _said(HTTPStatus.SERVICE_UNAVAILABLE)
            if page is not None:
                writer.write(page)
                await writer.drain()
        except (ConnectionError, TimeoutError) as error:
            del error  # whoever asked has gone
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes | None:
        try:
            async with asyncio.timeout(SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _said(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except asyncio.IncompleteReadError:
            return None
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("ascii", errors="replace")
        if method not in (b"GET", b"HEAD"):
            return _said(HTTPStatus.METHOD_NOT_ALLOWED)
        handler = self._pages.get(path)
        if handler is None:
            return _said(HTTPStatus.NOT_FOUND)
        return _written(handler(), with_body=method == b"GET")


def _said(status: HTTPStatus) -> bytes:
    return _written(Page(f"{status.phrase}\n".encode(), "text/plain", status))


def _written(page: Page, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")

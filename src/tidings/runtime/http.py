"""A small HTTP server for the operator: /metrics, /healthz and /readyz alone.

Rules
- GET and HEAD alone; one request a connection; a request that is too long or too slow is dropped.
- Its connections are admitted by themselves, out of the descriptors that all other listeners leave
  (`admission.py`). When too many wait, the oldest of them goes, so a new request is answered. - It shows no
  data that needs a permission: counters, and whether the broker is well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from tidings.runtime.admission import (
    Admission,
    AdmissionSettings,
    AdmittedConnection,
    SocketListener,
    listeners_at,
    streamed,
)

LONGEST = 8_192  # bytes of a request's head
SECONDS = 5.0  # to send it
MOST = 32  # requests at once


class OperatorPage(NamedTuple):
    body: bytes
    content_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


Handler = Callable[[], OperatorPage | Awaitable[OperatorPage]]


class OperatorHttp:
    """`pages` are by path."""

    def __init__(self, pages: dict[str, Handler]) -> None:
        self._pages = pages
        self._listeners: list[SocketListener] = []
        settings = AdmissionSettings(waiting=MOST, waiting_per_address=MOST, connections=2 * MOST)
        self._admission = Admission(settings)
        self.address = ""

    async def start(self, host: str, port: int) -> None:
        self._listeners = await listeners_at(host, port, streamed(self._serve, LONGEST), self._admission)
        name, number = self._listeners[0].name
        self.address = f"http://{f'[{name}]' if ':' in name else name}:{number}"

    async def close(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: AdmittedConnection
    ) -> None:
        try:
            async with asyncio.timeout(2 * SECONDS):
                page = await self._answer(reader)
                if page is not None:
                    writer.write(page)
                    await writer.drain()
        except (ConnectionError, TimeoutError) as error:
            del error  # the client has gone
        finally:
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
        page = handler()
        if not isinstance(page, OperatorPage):
            page = await page
        return _written(page, with_body=method == b"GET")


def _said(status: HTTPStatus) -> bytes:
    return _written(OperatorPage(f"{status.phrase}\n".encode(), "text/plain", status))


def _written(page: OperatorPage, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")

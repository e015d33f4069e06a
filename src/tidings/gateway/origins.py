"""Host and origin of a request: checked before anything else, at every web listener.

Rules
- A listener on loopback answers to names of this machine alone (and to those in `gateway.hosts`): a foreign
  page that points its own name at this machine is refused.
- A request that carries `Origin` comes from a page. It is refused unless the page is of this very address, or
  its origin is allowed (`gateway.origins`). Programs send none.
- A browser sends no `Origin` for a picture, a script, a frame or a link, and a GET may have effects: a stream
  commits. It says in `Sec-Fetch-Site` that the page is another one; such a request is refused too. A page of
  ours for people (the console) may be the target of a link.
- A refused request is answered after a pause, and its connection can send no other one meanwhile: a flood of
  guesses or of forged requests costs its sender time, and other clients none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from fnmatch import fnmatchcase
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tidings.runtime.settings import host_of, is_loopback

REFUSAL_PAUSE = 0.2  # seconds before the answer to a request that was refused
PAUSED = frozenset({401, 429})  # answers of the application that are refusals: not proved, too many attempts
OTHER_HOST = "this server is not called {!r}"
OTHER_ORIGIN = "a page of {!r} may not use this server"
OTHER_SITE = "a page of another address may not use this server"
FOREIGN = frozenset({"cross-site", "same-site"})  # `Sec-Fetch-Site`; of one site are all ports of a host


class Addresses(msgspec.Struct, frozen=True):
    """The names and origins that one listener answers to."""

    listen: str
    hosts: tuple[str, ...] = ()  # further names of it; * is a wildcard
    origins: tuple[str, ...] = ()  # of foreign pages that may use it; * is a wildcard
    may_be_linked: bool = False  # has it pages for people, to which other pages may lead?

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Why a request with these headers is refused; empty: it is not.

        Names of headers are in small letters.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_called(_name(host)):
            return OTHER_HOST.format(_name(host))
        if origin is None:
            return OTHER_SITE if self._is_foreign(headers) else ""
        if _matches(origin, self.origins) or _place(origin) == host.lower() != "":
            return ""
        return OTHER_ORIGIN.format(origin[:100])

    def _is_foreign(self, headers: Mapping[str, str]) -> bool:
        """Does another page ask, in a way that names no origin?"""
        if headers.get("sec-fetch-site", "") not in FOREIGN:
            return False
        return not self.may_be_linked or headers.get("sec-fetch-dest") != "document"

    def _is_called(self, name: str) -> bool:
        own = host_of(self.listen)
        if not is_loopback(own) and not self.hosts:
            return True  # TLS, or the proxy in front, knows its names
        return _is_this_machine(name) or name == own or _matches(name, self.hosts)


def _is_this_machine(name: str) -> bool:
    """A name that cannot be another's: 127.evil.example can."""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text.lower(), pattern.lower()) for pattern in patterns)


def _name(host: str) -> str:
    try:
        return urlsplit("//" + host).hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """The part of an origin that a page of ours has in common with `LocalClientHost`."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def addressed(app: Any, addresses: Addresses) -> Any:
    """The application, for requests that are addressed to it and come from no foreign page."""

    def paused(send: Any) -> Any:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] in PAUSED:
                await asyncio.sleep(REFUSAL_PAUSE)
            await send(message)

        return sending

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            reason = addresses.refusal(headers)
            if reason:
                await asyncio.sleep(REFUSAL_PAUSE)
                await _refuse(scope["type"], reason, send)
                return
        await app(scope, receive, paused(send) if scope["type"] == "http" else send)

    return checked


async def _refuse(kind: str, reason: str, send: Any) -> None:
    if kind == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
        return
    status = HTTPStatus.FORBIDDEN
    body = msgspec.json.encode(
        {
            "title": status.phrase,
            "status": int(status),
            "detail": reason,
            "hint": "names and origins are allowed by gateway.hosts and gateway.origins",
        }
    )
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})

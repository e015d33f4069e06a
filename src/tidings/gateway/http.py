"""The HTTP gateway: publish, subscribe by CloudEvents' Subscriptions API, hear, look back, ask why.

Rules
- A client authenticates with each request: by a token (`Authorization: Bearer`), or by a name and a password
  (`Basic`). Only a development broker, on loopback, admits clients without credentials.
- An answer is JSON; a refusal is a problem object that says what to do.
- An event is published once, however often it is sent: by its source and id.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from fnmatch import translate
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from tidings.errors import EventError, InputError, RefusedError, TidingsError
from tidings.gateway import openapi
from tidings.gateway.authentication import ConnectionOrigin, GatewayAuthenticator
from tidings.gateway.bodies import MOST_BYTES, RequestedEvent, read_requested
from tidings.gateway.http_sessions import HttpSession, HttpSessions
from tidings.gateway.origins import Addresses, addressed
from tidings.gateway.problems import (
    Problem,
    answering,
    json_object,
    problem_document,
    status_of,
    streaming,
    unrouted,
    whole_body,
)
from tidings.gateway.serving import Serving
from tidings.gateway.streams import Streams
from tidings.gateway.subscriptions import WebhookSubscriptions
from tidings.gateway.trials import FilterTrials
from tidings.language import parse_filter
from tidings.matching.explain import Explanation, explain_briefly
from tidings.model.cloudevents import from_mapping, to_mapping
from tidings.model.event import make_event
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.runtime.local_clients import LocalClientHost, charge
from tidings.runtime.settings import GatewaySettings
from tidings.security.attempts import TooManyAttempts
from tidings.security.interfaces import Guard

CHALLENGE = {"WWW-Authenticate": 'Bearer, Basic realm="tidings"'}
MOST_ENTRIES = 1000  # of the log in one answer


class HttpGateway:
    """The application; `app` is what a server serves."""

    def __init__(
        self,
        host: LocalClientHost,
        prover: GatewayAuthenticator,
        subscriptions: WebhookSubscriptions,
        addresses: Addresses | None = None,
        guard: Guard[Any] | None = None,
    ) -> None:
        self._host = host
        self._trials = FilterTrials(guard, host.reading.fairness)
        self._prover = prover
        self._subscriptions = subscriptions
        self.http_sessions = HttpSessions(host)
        self._streams = streams = Streams(self.session)
        routes = [
            Route("/events", answering(self.publish), methods=["POST"]),
            Route("/events", streaming(streams.listen, "GET, POST"), methods=["GET"]),
            WebSocketRoute("/events/socket", streams.socket),
            Route("/subscriptions", answering(self.create), methods=["POST"]),
            Route("/subscriptions", answering(self.list), methods=["GET"]),
            Route("/subscriptions/{id}", answering(self.read), methods=["GET"]),
            Route("/subscriptions/{id}", answering(self.update), methods=["PUT"]),
            Route("/subscriptions/{id}", answering(self.delete), methods=["DELETE"]),
            Route("/log", answering(self.log), methods=["GET"]),
            Route("/explain", answering(self.explain), methods=["POST"]),
            Route("/figures", answering(self.figures), methods=["GET"]),
            Route("/trace/{id:path}", answering(self.trace), methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/asyncapi.json", self.asyncapi, methods=["GET"]),
        ]
        app: Any = Starlette(routes=routes, exception_handlers={HTTPException: unrouted})
        if addresses is not None:
            app = addressed(_for_pages(app, addresses.origins), addresses)
        self.app = app

    async def end_streams(self) -> None:
        await self._streams.end()

    async def close(self) -> None:
        await self._streams.close()
        await self.http_sessions.close()

    # -- who --------------------------------------------------------------------------------------

    async def principal(self, request: HTTPConnection) -> Any:
        return await principal_of(self._prover, request)

    @asynccontextmanager
    async def session(self, request: HTTPConnection) -> AsyncIterator[HttpSession]:
        peer = where_of(request).peer
        async with self.http_sessions.of(await self.principal(request), peer) as session:
            yield session

    # -- publishing -------------------------------------------------------------------------------

    async def publish(self, request: Request) -> Response:
        async with self.session(request) as session:
            body = await whole_body(request, MOST_BYTES)
            await asyncio.sleep(charge(session.bus, len(body)))
            requests = read_requested(request.headers, request.query_params, body)
            if len(requests) == 1:
                return JSONResponse({"events": [await _published(session, requests[0])]})
            done = [await _published_or_refused(session, requested) for requested in requests]
        has_problems = any("code" in one for one in done)
        return JSONResponse({"events": done}, HTTPStatus.MULTI_STATUS if has_problems else HTTPStatus.OK)

    # -- subscriptions ----------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        principal = await self.principal(request)
        made = await self._subscriptions.create(principal, json_object(await whole_body(request, MOST_BYTES)))
        where = f"/subscriptions/{made['id']}"
        return JSONResponse(made, HTTPStatus.CREATED, headers={"Location": where})

    async def list(self, request: Request) -> Response:
        return JSONResponse(self._subscriptions.of(await self.principal(request)))

    async def read(self, request: Request) -> Response:
        principal = await self.principal(request)
        return JSONResponse(self._subscriptions.shown(principal, request.path_params["id"]))

    async def update(self, request: Request) -> Response:
        principal = await self.principal(request)
        body = json_object(await whole_body(request, MOST_BYTES))
        return JSONResponse(await self._subscriptions.update(principal, request.path_params["id"], body))

    async def delete(self, request: Request) -> Response:
        principal = await self.principal(request)
        await self._subscriptions.delete(principal, request.path_params["id"])
        return Response(status_code=HTTPStatus.NO_CONTENT)

    # -- looking back, and why --------------------------------------------------------------------

    async def log(self, request: Request) -> Response:
        query = request.query_params
        limit = _whole(query, "limit", 100, most=MOST_ENTRIES)
        after = _whole(query, "after", 0)
        async with self.session(request) as session:
            page = await session.bus.read_log(
                query.get("filter"), after=after, limit=limit, log=query.get("log", "")
            )
        entries = [
            {"offset": entry.offset, "accepted": entry.accepted, "event": to_mapping(entry.event)}
            for entry in page.entries
        ]
        return JSONResponse(
            {"log": page.log, "entries": entries, "upto": page.upto, "begin": page.begin, "end": page.end}
        )

    async def explain(self, request: Request) -> Response:
        principal = await self.principal(request)
        self._trials.authorize(principal, "explain")
        body = await whole_body(request, self._host.resources.trial_bytes)
        explained = await self._trials.answer(principal, where_of(request).peer, lambda: _explained(body))
        return Response(explained, media_type="application/json")

    async def figures(self, request: Request) -> Response:
        return await self._informed(request, "figures", {})

    async def trace(self, request: Request) -> Response:
        """By the event's id; `source` and `subscription` in the query ask more closely."""
        query = request.query_params
        about = {name: query[name] for name in ("source", "subscription") if query.get(name)}
        return await self._informed(request, "trace", {"id": request.path_params["id"], **about})

    async def _informed(self, request: Request, what: str, about: dict[str, Any]) -> Response:
        found = await self._host.informed(await self.principal(request), what, about)
        return Response(msgspec.json.encode(found, enc_hook=str), media_type="application/json")

    # -- documents --------------------------------------------------------------------------------

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(openapi.document(str(request.base_url).rstrip("/")))

    async def asyncapi(self, request: Request) -> Response:
        return JSONResponse(openapi.channels(str(request.base_url.netloc)))


def _for_pages(app: Any, origins: tuple[str, ...]) -> Any:
    """Pages of allowed origins may read the answers, and send what a browser asks about first."""
    if not origins:
        return app
    allowed = "|".join(translate(origin) for origin in origins)
    return CORSMiddleware(
        app,
        allow_origin_regex=allowed,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Location"],
    )


class HttpListener:
    """The gateway with its server."""

    def __init__(
        self,
        host: LocalClientHost,
        prover: GatewayAuthenticator,
        folder: Path | None,
        settings: GatewaySettings,
        tls: ssl.SSLContext | None,
        limits: ResourceLimits = DEFAULT_LIMITS,
        guard: Guard[Any] | None = None,
    ) -> None:
        self._subscriptions = WebhookSubscriptions(host, folder, settings.webhooks, prover.refreshed, limits)
        self.webhooks = self._subscriptions  # for operators
        addresses = Addresses(settings.http, settings.hosts, settings.origins)
        self._gateway = HttpGateway(host, prover, self._subscriptions, addresses, guard)
        self._serving = Serving(
            self._gateway.app,
            settings.http,
            tls,
            network=host.network,
            admission=host.admission,
            fairness=host.reading.fairness,
        )

    @property
    def address(self) -> str:
        return self._serving.address

    async def start(self) -> None:
        await self._subscriptions.start()
        await self._serving.start()

    async def close(self) -> None:
        self._serving.stop_listening()
        await self._gateway.end_streams()
        await self._serving.close()
        await self._subscriptions.close()
        await self._gateway.close()


async def principal_of(prover: GatewayAuthenticator, request: HTTPConnection) -> Any:
    """Principal of a request, by its headers. Raises `Problem` (401)."""
    where = where_of(request)
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    try:
        match scheme.lower():
            case "":
                return await prover.anonymous("anonymous", where)
            case "bearer":
                return await prover.token(rest.strip(), where)
            case "basic":
                return await prover.password(*name_and_password(rest), where)
        raise RefusedError(f"no scheme is called {scheme!r} here", hint="use Bearer or Basic")
    except TooManyAttempts as error:
        later = {"Retry-After": str(error.seconds)}
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS, error.message, hint=error.hint or "", headers=later
        ) from None
    except RefusedError as error:
        raise Problem(
            HTTPStatus.UNAUTHORIZED, error.message, hint=error.hint or "", headers=CHALLENGE
        ) from None


def _explained(body: bytes) -> Explanation:
    requested = json_object(body)
    text, event = requested.get("filter"), requested.get("event")
    if not isinstance(text, str) or not isinstance(event, dict):
        raise EventError("send a filter (text) and an event (an object)")
    filter = parse_filter(text, dialect=str(requested.get("dialect", "tidings")))
    read = from_mapping(event) if "specversion" in event else make_event(event, source="you", id="1")
    return explain_briefly(read, filter)


async def _published(session: HttpSession, requested: RequestedEvent) -> dict[str, Any]:
    receipt = await session.bus.publish(requested.what, **requested.options)
    where = receipt.position
    position = None if where is None else {"log": where.log, "offset": where.offset}
    return {"source": receipt.source, "id": receipt.id, "position": position}


async def _published_or_refused(session: HttpSession, requested: RequestedEvent) -> dict[str, Any]:
    """Of a batch: one that is refused does not stop the others."""
    try:
        return await _published(session, requested)
    except TidingsError as error:
        return {"status": int(status_of(error)), **problem_document(error)}


def where_of(request: HTTPConnection) -> ConnectionOrigin:
    host = request.client.host if request.client is not None else ""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    return ConnectionOrigin(host, is_loopback, request.url.scheme in ("https", "wss"))


def name_and_password(text: str) -> tuple[str, str]:
    """The credentials of the scheme Basic. Raises `RefusedError`."""
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise RefusedError("the name and the password cannot be read", hint="base64 of name:password")
    return name, password


def _whole(query: Mapping[str, str], name: str, default: int, most: int = 2**63 - 1) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise InputError(f"{name} is {text!r}", hint=f"a number from 0 to {most}")
    return int(text)

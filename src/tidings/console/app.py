"""The console as an application: its pages, its live stream, and what they ask.

Rules
- Pages load no resource from another site, and a header tells the browser to forbid it (`POLICY`).
- Viewing needs the right to observe; publishing and subscribing need theirs: each request goes to the
  broker in the visitor's name, and the broker decides.
- A refusal is a problem object that says what to do, as at the HTTP gateway.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tidings._version import __version__
from tidings.console import pages
from tidings.console.bodies import read_object
from tidings.console.queries import ConsoleQueries
from tidings.console.sessions import ConsoleSessions, Visitor
from tidings.console.watch import NetworkWatches, Viewer
from tidings.gateway.authentication import GatewayAuthenticator
from tidings.gateway.http import where_of
from tidings.gateway.origins import Addresses, addressed
from tidings.gateway.problems import Problem, answering, streaming
from tidings.gateway.serving import Serving
from tidings.gateway.streams import ABORT_SECONDS
from tidings.runtime.service import Service
from tidings.security.rules import Action

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


class ConsoleApp:
    """The application; `app` is what a server serves."""

    def __init__(self, service: Service, prover: GatewayAuthenticator) -> None:
        self._service = service
        self._guard = service.secured.guard
        settings = service.settings
        self._sessions = ConsoleSessions(prover, service.server.clock.now)
        self._watches = NetworkWatches(service)
        self._asking = ConsoleQueries(service, self._watches)
        addresses = Addresses(settings.console.listen, settings.gateway.hosts, may_be_linked=True)
        self.app = _with_headers(addressed(Starlette(routes=self._routes()), addresses))

    def _routes(self) -> list[Route]:
        requests = self._asking
        return [
            Route("/api/session", answering(self.session), methods=["GET"]),
            Route("/api/session", answering(self.sign_in), methods=["POST"]),
            Route("/api/session", answering(self.sign_out), methods=["DELETE"]),
            Route("/api/live", streaming(self.live), methods=["GET"]),
            *(
                Route(path, answering(self._visited(ask)), methods=[method])
                for method, path, ask in requests.routes()
            ),
            Route("/{path:path}", pages.serve, methods=["GET"]),
        ]

    def _visited(
        self, ask: Callable[[Request, Visitor], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def asked(request: Request) -> Response:
            return await ask(request, await self._sessions.visitor(request))

        return asked

    # -- sessions --------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """The visitor of the session; for an unknown visitor: the request to sign in."""
        try:
            visitor = await self._sessions.visitor(request)
        except Problem as problem:
            if problem.status != 401:
                raise
            return JSONResponse({"is_known": False, **self._about()})
        return JSONResponse(self._described(visitor))

    async def sign_in(self, request: Request) -> Response:
        fields = await read_object(request)
        answer = JSONResponse({})
        visitor = await self._sessions.sign_in(request, fields, answer)
        answer.body = answer.render(self._described(visitor))
        answer.headers["content-length"] = str(len(answer.body))
        return answer

    async def sign_out(self, request: Request) -> Response:
        answer = JSONResponse({"is_known": False, **self._about()})
        self._sessions.sign_out(request, answer)
        return answer

    def _about(self) -> dict[str, Any]:
        return {"broker": self._service.server.name, "version": __version__}

    def _described(self, visitor: Visitor) -> dict[str, Any]:
        principal = visitor.principal
        may = {
            str(action): not self._guard.right(principal, action).filter.is_never_true
            for action in (Action.OBSERVE, Action.PUBLISH, Action.SUBSCRIBE, Action.ADMIN)
        }
        reported = {
            "is_known": True,
            "name": principal.name,
            "is_anonymous": principal.is_anonymous,
            "may": may,
        }
        return reported | self._about()

    # -- live -------------------------------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        visitor = await self._sessions.visitor(request)
        self._guard.observe(visitor.principal, "console")
        watch = await self._watches.of(visitor)
        ending = _StreamEnding(request)
        with ExitStack() as opened:
            opened.callback(ending.done)
            opened.callback(self._sessions.follow(request, visitor, ending.end))
            sessions = self._service.server.sessions
            peer = where_of(request).peer
            session = sessions.open(visitor.principal, lambda reason: ending.end(), "console", peer)
            opened.callback(session.close)
            closed = opened.pop_all()
        return _LiveStream(watch.stream(ending.viewer), closed.close)

    def end_streams(self) -> None:
        self._watches.end_streams()

    async def close(self) -> None:
        await self._asking.close()
        await self._watches.close()


class _LiveStream(StreamingResponse):
    """Server-sent events. `end` is called when the stream is over, also when its browser left before the
    first of them."""

    def __init__(self, frames: AsyncGenerator[bytes, None], end: Callable[[], None]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._frames, self._end = frames, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()
            await self._frames.aclose()


class _StreamEnding:
    """The end of one live stream, when its session ends. A browser that does not read gets no last part, so
    its connection is aborted."""

    def __init__(self, request: Request) -> None:
        self.viewer = Viewer()
        self._abort: Callable[[], None] = request.scope["state"]["abort"]
        self._timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        self.viewer.end()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ABORT_SECONDS, self._abort)

    def done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class ConsoleListener:
    """The console with its server."""

    def __init__(self, service: Service, prover: GatewayAuthenticator, tls: ssl.SSLContext | None) -> None:
        self._console = ConsoleApp(service, prover)
        listen = service.settings.console.listen
        server = service.server
        self._serving = Serving(
            self._console.app,
            listen,
            tls,
            setting="console.listen",
            network=server.network,
            admission=server.admission,
            fairness=server.reading.fairness,
        )

    @property
    def address(self) -> str:
        return self._serving.address

    async def start(self) -> None:
        await self._serving.start()

    async def close(self) -> None:
        self._console.end_streams()  # else the server would wait for every browser
        await self._serving.close()
        await self._console.close()


def _with_headers(app: Any) -> Any:
    """Every answer with what the browser is to forbid; the API is never kept by caches."""

    async def wrapped(scope: Message, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [] if not scope["path"].startswith("/api/") else [(b"cache-control", b"no-store")]
                kept = [pair for pair in message["headers"] if not own or pair[0].lower() != b"cache-control"]
                message["headers"] = [*kept, *HEADERS, *own]
            await send(message)

        await app(scope, receive, sending)

    return wrapped

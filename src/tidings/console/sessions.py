"""Sessions of the console: one for each browser, with the same permissions as other clients.

Rules
- A browser authenticates once, by a name and a password or by a token. The credentials stay in
  this process; the browser holds a random session id, in a cookie that no script can read.
- Every request is proved anew through the `GatewayAuthenticator`, so that a user who is taken away is away
  here too.
- A development broker admits visitors without credentials, from this machine.
- A session that ends (its page signed out, a newer login took its place, its user was taken away) ends its
  live streams. A page that streams is not idle.
- A request with `Authorization` is its sender's, not the session's of a cookie that came along. Its
  credentials are proved here first; then they authenticate to the other brokers as those of a session do,
  over the same links and to no other address.
- A request that changes state has to come from our own page (its header says so, which no other page
  can make a browser say). Its host and its origin were checked before (`gateway/origins.py`).
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.errors import InputError, RefusedError
from tidings.gateway.authentication import GatewayAuthenticator
from tidings.gateway.http import name_and_password, principal_of, where_of
from tidings.gateway.problems import Problem
from tidings.security.attempts import TooManyAttempts
from tidings.security.credentials import PasswordCredentials, TokenCredentials
from tidings.security.interfaces import Credentials, NoCredentials

COOKIE = "tidings_console"
OURS = "x-tidings-console"  # a header that only a page of ours can send
IDLE_SECONDS = 12 * 3600.0
MOST_SESSIONS = 1_000
MOST_OF_ONE = 20  # of one principal; then its longest idle one ends
LONGEST_SECRET = 16_384  # characters of a password or a token


class SessionSecret(msgspec.Struct, frozen=True):
    """Credentials of a browser."""

    name: str = ""
    password: str = ""
    token: str = ""

    def credentials(self) -> Credentials:
        if self.token:
            return TokenCredentials(lambda: self.token)
        return PasswordCredentials(self.name, self.password) if self.name else NoCredentials()


NOTHING = SessionSecret()


class _ConsoleSession(msgspec.Struct):
    secret: SessionSecret
    seen_at: float
    owner: Any
    streams: list[Callable[[], None]] = []  # what ends each of its open live streams


class Visitor(msgspec.Struct, frozen=True):
    """The visitor behind a request, with the credentials for other brokers."""

    principal: Any
    secret: SessionSecret = NOTHING


class ConsoleSessions:
    def __init__(self, prover: GatewayAuthenticator, now: Callable[[], float]) -> None:
        self._prover, self._now = prover, now
        self._sessions: dict[str, _ConsoleSession] = {}

    async def visitor(self, request: Request) -> Visitor:
        """Raises `Problem`: 401 for who is not known, 403 for a request that is not from our page."""
        self._check_origin(request)
        session = self._find(request)
        if session is None:
            principal = await principal_of(self._prover, request)
            return Visitor(principal, _stated(request))
        try:
            principal = await self._proved(session.secret, request)
        except TooManyAttempts as error:
            raise _later(error) from None
        except RefusedError as error:
            self._end(request.cookies.get(_cookie(request), ""))
            raise Problem(HTTPStatus.UNAUTHORIZED, error.message, hint="sign in again") from None
        session.seen_at = self._now()
        return Visitor(principal, session.secret)

    async def sign_in(self, request: Request, fields: dict[str, Any], answer: Response) -> Visitor:
        self._check_origin(request)
        secret = _read(fields)
        try:
            principal = await self._proved(secret, request)
        except TooManyAttempts as error:
            raise _later(error) from None
        except RefusedError as error:
            raise Problem(HTTPStatus.UNAUTHORIZED, error.message, hint=error.hint or "") from None
        owner = getattr(principal, "owner", principal)
        self._tidy(owner)
        name = secrets.token_urlsafe(32)
        self._sessions[name] = _ConsoleSession(secret, self._now(), owner)
        is_tls = request.url.scheme == "https"
        answer.set_cookie(_cookie(request), name, httponly=True, samesite="strict", secure=is_tls, path="/")
        return Visitor(principal, secret)

    def sign_out(self, request: Request, answer: Response) -> None:
        self._check_origin(request)
        self._end(request.cookies.get(_cookie(request), ""))
        answer.delete_cookie(_cookie(request), path="/", httponly=True, samesite="strict")

    def follow(self, request: Request, visitor: Visitor, end: Callable[[], None]) -> Callable[[], None]:
        """Have a stream of this request end with the session of its cookie. Meanwhile the session is not
        idle. The result is called when the stream is over. A request without a session proved itself.
        Raises `Problem` when the session has ended since the visitor was found."""
        if visitor.secret == NOTHING or _states_credentials(request):
            return lambda: None
        session = self._find(request)
        if session is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, "the session has ended", hint="sign in again")
        session.streams.append(end)

        def left() -> None:
            session.streams.remove(end)
            session.seen_at = self._now()

        return left

    def _end(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        for end in list(session.streams) if session is not None else ():
            end()

    async def _proved(self, secret: SessionSecret, request: Request) -> Any:
        where = where_of(request)
        if secret.token:
            return await self._prover.token(secret.token, where)
        return await self._prover.password(secret.name, secret.password, where)

    def _find(self, request: Request) -> _ConsoleSession | None:
        if _states_credentials(request):
            return None  # who proves itself with the request acts as that, whatever cookie a browser adds
        session = self._sessions.get(request.cookies.get(_cookie(request), ""))
        return session if session and self._now() - self._used_at(session) < IDLE_SECONDS else None

    def _used_at(self, session: _ConsoleSession) -> float:
        """When it was used last; a page that streams uses it now."""
        return self._now() if session.streams else session.seen_at

    def _tidy(self, owner: Any) -> None:
        """Make room for one more session: a principal at its bound, and then the one that has most, gives
        one."""
        now = self._now()
        for name, session in list(self._sessions.items()):
            if now - self._used_at(session) >= IDLE_SECONDS:
                self._end(name)
        owned = Counter(session.owner for session in self._sessions.values())
        if owned[owner] >= MOST_OF_ONE:
            self._end_longest_idle(owner)
        elif len(self._sessions) >= MOST_SESSIONS:
            self._end_longest_idle(max(owned, key=owned.__getitem__))

    def _end_longest_idle(self, owner: Any) -> None:
        own = [name for name, session in self._sessions.items() if session.owner == owner]

        def last_use(name: str) -> tuple[float, float]:
            session = self._sessions[name]
            return self._used_at(session), session.seen_at

        self._end(min(own, key=last_use))

    def _check_origin(self, request: Request) -> None:
        if request.method not in ("GET", "HEAD") and request.headers.get(OURS) != "1":
            raise Problem(
                HTTPStatus.FORBIDDEN, "this request is not from a page of the console", hint=f"send {OURS}: 1"
            )


def _states_credentials(request: Request) -> bool:
    return bool(request.headers.get("authorization"))


def _stated(request: Request) -> SessionSecret:
    """Credentials of a request's header, which were proved; nothing without one."""
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer":
            return SessionSecret(token=rest.strip())
        case "basic":
            name, password = name_and_password(rest)
            return SessionSecret(name, password)
    return NOTHING


def _later(error: TooManyAttempts) -> Problem:
    headers = {"Retry-After": str(error.seconds)}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, error.message, hint=error.hint or "", headers=headers)


def _cookie(request: Request) -> str:
    """Cookies of one machine are shared by all its ports: each console has a name of its own for its."""
    server = request.scope.get("server") or ("", 0)
    return f"{COOKIE}_{server[1]}"


def _read(fields: dict[str, Any]) -> SessionSecret:
    try:
        secret = msgspec.convert(fields, SessionSecret)
    except msgspec.ValidationError as error:
        raise InputError(f"sign in by `name` and `password`, or by `token`: {error}") from None
    if not secret.token and not secret.name:
        raise InputError("sign in by `name` and `password`, or by `token`")
    if any(len(text) > LONGEST_SECRET for text in (secret.name, secret.password, secret.token)):
        raise InputError(f"at most {LONGEST_SECRET} characters")
    return secret

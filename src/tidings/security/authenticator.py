"""Who is this? The broker's half of every conversation, by the mechanism that the client chose.

Rules
- A broker authenticates only by a broker's certificate that carries its name (except
  in development, on loopback).
- A password or a token is accepted over TLS, or from this machine; other connections could be overheard.
- A refusal says no more than the other side may know.
- A password is looked at only when its name and its address have not failed too often (`attempts.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.errors import RefusedError
from tidings.security.attempts import Attempts, TooManyAttempts
from tidings.security.audit import OK, REFUSED, Audit
from tidings.security.certificates import principal_of
from tidings.security.interfaces import (
    BROKER,
    AuthenticationExchange,
    AuthenticationRequest,
    AuthenticationResult,
)
from tidings.security.principal import Principal, ProofMethod
from tidings.security.revocation import NONE_REVOKED, Revoked
from tidings.security.scram import ServerSide
from tidings.security.users import Users

MECHANISMS = (ProofMethod.SCRAM, ProofMethod.TOKEN, ProofMethod.CERTIFICATE, ProofMethod.ANONYMOUS)
LONGEST_STEP = 16_384  # bytes of one step


class ByUsers:
    """Admits users of the users file. `users` is called each time, so a reload counts at once."""

    def __init__(
        self,
        users: Callable[[], Users],
        *,
        clock: Callable[[], float],
        pepper: bytes,
        audit: Audit,
        allow_anonymous: bool = False,
        revoked: Callable[[], Revoked] = lambda: NONE_REVOKED,
    ) -> None:
        self._users = users
        self._clock = clock
        self._pepper = pepper  # makes decoys for unknown names where the users file holds no stored key
        self._audit = audit
        self._allow_anonymous = allow_anonymous
        self._revoked = revoked  # asked each time, too
        self._attempts = Attempts(clock)

    def begin(self, request: AuthenticationRequest) -> AuthenticationExchange:
        users = self._users()
        try:
            conversation = self._begin(request)
        except RefusedError as error:
            self._note(request, request.name, REFUSED, error.message)
            raise
        return _Audited(
            conversation,
            lambda name, outcome, why: self._note(request, name, outcome, why),
            request,
            lambda: self._users() is users,
        )

    def _begin(self, request: AuthenticationRequest) -> AuthenticationExchange:
        if request.role == BROKER and not (
            request.mechanism == ProofMethod.ANONYMOUS and self._allow_anonymous
        ):
            return _Certified(request, self._users(), self._revoked())
        if request.mechanism not in tuple(MECHANISMS):
            raise RefusedError(
                f"no mechanism is called {request.mechanism!r} here", hint=f"one of {', '.join(MECHANISMS)}"
            )
        if request.mechanism == ProofMethod.CERTIFICATE:
            return _Certified(request, self._users(), self._revoked())
        if request.mechanism == ProofMethod.ANONYMOUS:
            return _Anonymous(request, self._users(), allowed=self._allow_anonymous)
        if not (request.is_tls or request.is_loopback):
            raise RefusedError(
                f"{request.mechanism} is taken over TLS only", hint="connect by tidings+tls://"
            )
        if request.mechanism == ProofMethod.TOKEN:
            return _Token(request, self._users(), self._clock)
        return _Scram(request, self._users(), self._pepper, self._attempts)

    def _note(self, request: AuthenticationRequest, principal: str, outcome: str, why: str) -> None:
        if outcome == OK:
            self._audit.check()
        unproved = "" if outcome == REFUSED else None  # who is refused can choose any name
        self._audit.note(
            "connect",
            outcome,
            principal,
            whose=unproved,
            method=request.mechanism,
            peer=request.peer,
            client=request.name,
            reason=why,
        )


class _Audited:
    """Audits the end of the conversation. A reload meanwhile invalidates the result."""

    def __init__(
        self,
        inner: AuthenticationExchange,
        note: Callable[[str, str, str], None],
        request: AuthenticationRequest,
        is_current: Callable[[], bool],
    ) -> None:
        self._inner = inner
        self._is_current = is_current
        self._note = note
        self._request = request

    def step(self, data: bytes) -> bytes | AuthenticationResult:
        try:
            if len(data) > LONGEST_STEP:
                raise RefusedError(f"a step of {len(data)} bytes is too long")
            answer = self._inner.step(data)
            if isinstance(answer, AuthenticationResult) and not self._is_current():
                raise RefusedError("the users file was read again meanwhile", hint="connect again")
        except RefusedError as error:
            self._note(self._request.name, REFUSED, error.message)
            raise
        if isinstance(answer, AuthenticationResult):
            self._note(answer.principal.name, OK, "")
        return answer


class _Certified:
    def __init__(self, request: AuthenticationRequest, users: Users, revoked: Revoked) -> None:
        self._request = request
        self._users = users
        self._revoked = revoked

    def step(self, data: bytes) -> AuthenticationResult:
        del data  # the certificate was shown to TLS
        request = self._request
        if request.certificate is None:
            raise RefusedError(
                "no certificate was shown", hint="a broker joins, and `certificate` proves, over mutual TLS"
            )
        if self._revoked.holds(request.certificate):
            raise RefusedError(
                "this certificate was revoked", hint="ask the operator of the network for a new one"
            )
        principal = principal_of(request.certificate)
        if request.role == BROKER and not (principal.is_broker and principal.name == request.name):
            raise RefusedError(
                f"the certificate of {principal.name!r} is not that of broker {request.name!r}",
                hint="make it with `tidings certs broker`, for the broker's name",
            )
        return AuthenticationResult(_bound(self._users.complete(principal), request))


class _Anonymous:
    def __init__(self, request: AuthenticationRequest, users: Users, *, allowed: bool) -> None:
        if not (allowed and request.is_loopback):
            raise RefusedError(
                "this broker asks who you are", hint="connect with a password, token or certificate"
            )
        self._request = request
        self._users = users

    def step(self, data: bytes) -> AuthenticationResult:
        del data
        return AuthenticationResult(Principal(self._request.name, ProofMethod.ANONYMOUS, names=("*",)))


class _Token:
    def __init__(self, request: AuthenticationRequest, users: Users, clock: Callable[[], float]) -> None:
        self._request = request
        self._users = users
        self._clock = clock

    def step(self, data: bytes) -> AuthenticationResult:
        try:
            token = data.decode("ascii")
        except UnicodeDecodeError:
            raise RefusedError("the token is not valid here") from None
        principal = self._users.verifier.principal(token, self._clock())
        return AuthenticationResult(_bound(self._users.complete(principal), self._request))


class _Scram:
    def __init__(
        self, request: AuthenticationRequest, users: Users, pepper: bytes, attempts: Attempts
    ) -> None:
        self._request = request
        self._users = users
        self._server = ServerSide(users.keys.get, users.decoy or pepper, users.key_like)
        self._attempts = attempts
        self._kind = "sent" if request.is_sent else "proved"
        self._has_begun = False

    def step(self, data: bytes) -> bytes | AuthenticationResult:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise RefusedError("the name or the password is wrong") from None
        if not self._has_begun:
            self._has_begun = True
            challenge = self._server.first(text).encode()
            self._attempts.check(self._kind, self._server.name, self._request.peer, begins=True)
            return challenge
        tried = self._kind, self._server.name, self._request.peer
        pause = self._attempts.check(*tried)  # others may have failed since this one began
        is_spared = not pause or (
            self._server.name in self._users.keys and self._attempts.is_spared(self._kind, self._request.peer)
        )
        try:
            server_final = self._server.final(text)
        except RefusedError:
            self._attempts.failed(*tried)
            if pause:
                raise TooManyAttempts(pause) from None
            raise
        if not is_spared:
            raise TooManyAttempts(pause)
        self._attempts.succeeded(*tried)
        principal = self._users.complete(Principal(self._server.name, ProofMethod.SCRAM))
        return AuthenticationResult(_bound(principal, self._request), server_final.encode())


def _bound(principal: Principal, request: AuthenticationRequest) -> Principal:
    """One tenant per connection: the proved one; a request for another is refused."""
    if request.tenant and request.tenant != principal.tenant:
        raise RefusedError(f"{principal.name} does not belong to the tenant {request.tenant!r}")
    return principal

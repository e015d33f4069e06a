"""Authentication of clients of a foreign protocol, with a name and a password, or with a token.

The broker knows conversations (`security/interfaces.py`); here both halves of one are held in this process,
away from the event loop, since checking a password takes milliseconds on purpose. Rules
- Few threads of their own do that, and few wait for them: guessing takes a bounded share of the machine.
- A proof counts for some minutes after its last use, as long as the stored key stays; then a client
  that came before is admitted though others guess under its name. Only a keyed digest of the password is
  remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from tidings.errors import RefusedError
from tidings.runtime.sessions import until_of
from tidings.security.attempts import TooManyAttempts
from tidings.security.credentials import PasswordCredentials, TokenCredentials
from tidings.security.interfaces import (
    CLIENT,
    AuthenticationRequest,
    AuthenticationResult,
    Authenticator,
    Credentials,
    NoCredentials,
)

REMEMBERED_SECONDS = 600.0
MOST_REMEMBERED = 10_000
REFUSAL_SECONDS = (
    1.0  # before a login within its pause is refused: a client that tries at once again is slowed
)
THREADS = 2
MOST_WAITING = 256  # for a thread; one is done in some 50 ms


class _CachedProof:
    """A proof that counts for a while."""

    def __init__(self, principal: Any, key: Any, version: int) -> None:
        self.principal = principal
        self.key = key  # that it was checked against
        self.version = version  # of the rules
        self.ends_at = 0.0


class ConnectionOrigin(msgspec.Struct, frozen=True):
    """Facts known of a connection."""

    peer: str
    is_loopback: bool
    is_tls: bool


class GatewayAuthenticator:
    """Proves principals to gateways. `version` is that of the rules: when it grows, all is asked anew."""

    def __init__(
        self,
        authenticator: Authenticator,
        clock: Callable[[], float],
        version: Callable[[], int],
        refreshed: Callable[[Any], Any] = lambda principal: principal,
        key_of: Callable[[Any], Any] = lambda principal: None,
    ) -> None:
        self._authenticator = authenticator
        self._key_of = key_of  # what a principal's proof is checked against
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tidings proving")
        self._waiting = 0
        self.refreshed = refreshed  # a principal that was proved earlier, as it stands now; raises
        self._clock = clock
        self._version = version
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, _CachedProof] = {}

    async def password(self, name: str, password: str, where: ConnectionOrigin) -> Any:
        """The principal. Raises `RefusedError`."""
        return await self._proved(PasswordCredentials(name, password), name, f"{name}\0{password}", where)

    async def token(self, token: str, where: ConnectionOrigin) -> Any:
        return await self._proved(TokenCredentials(lambda: token), "", token, where)

    async def anonymous(self, name: str, where: ConnectionOrigin) -> Any:
        """A client without credentials: admitted by a development broker alone."""
        return self._converse(NoCredentials(), name, where)

    async def _proved(self, credentials: Credentials, name: str, secret: str, where: ConnectionOrigin) -> Any:
        text = f"{credentials.mechanism}\0{where.is_tls or where.is_loopback}\0{secret}"
        digest = hmac.digest(self._key, text.encode(errors="surrogatepass"), hashlib.sha256)
        known = self._known.get(digest)
        if known is not None and self._still(known):
            return known.principal
        version = self._version()
        try:
            principal = await self._hashed(credentials, name, where)
        except TooManyAttempts:
            await asyncio.sleep(REFUSAL_SECONDS)
            raise
        if version != self._version():
            raise RefusedError("the users file was read again meanwhile", hint="try again")
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        known = self._known[digest] = _CachedProof(principal, self._key_of(principal), version)
        self._used(known)
        return principal

    def _still(self, known: _CachedProof) -> bool:
        """Does the proof count now?

        After a reload: with the principal as it stands then. Raises `RefusedError`.
        """
        if known.ends_at <= self._clock():
            return False
        version = self._version()
        if known.version != version:
            if self._key_of(known.principal) != known.key:
                return False
            known.principal, known.version = self.refreshed(known.principal), version
        self._used(known)
        return True

    def _used(self, known: _CachedProof) -> None:
        until, ends_at = until_of(known.principal), self._clock() + REMEMBERED_SECONDS
        known.ends_at = ends_at if until is None else min(until, ends_at)

    async def _hashed(self, credentials: Credentials, name: str, where: ConnectionOrigin) -> Any:
        if self._waiting >= MOST_WAITING:
            raise TooManyAttempts(1.0)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._converse, credentials, name, where
            )
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _converse(self, credentials: Credentials, name: str, where: ConnectionOrigin) -> Any:
        request = AuthenticationRequest(
            CLIENT,
            name,
            credentials.mechanism,
            peer=where.peer,
            is_loopback=where.is_loopback,
            is_tls=where.is_tls,
            is_sent=True,
        )
        conversation = self._authenticator.begin(request)
        data = credentials.first()
        for _ in range(8):
            answer = conversation.step(data)
            if isinstance(answer, AuthenticationResult):
                return answer.principal
            data = credentials.answer(answer)
        raise RefusedError("the proof does not end")

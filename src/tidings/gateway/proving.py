"""Who is this? For those who come by another protocol, with a name and a password, or with a token.

The broker knows conversations (`security/doors.py`); here both halves of one are held in this process,
away from the event loop, since checking a password takes milliseconds on purpose. What was proved counts
for a minute, as long as the rules stay; only a keyed digest of the password is remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.errors import RefusedError
from tidings.runtime.sessions import until_of
from tidings.security.credentials import PasswordCredentials, TokenCredentials
from tidings.security.doors import CLIENT, Asked, Authenticator, Credentials, NoCredentials, Proved

REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 10_000


class Where(msgspec.Struct, frozen=True):
    """What is known of a connection."""

    peer: str
    is_loopback: bool
    is_tls: bool


class Prover:
    """Proves principals to gateways. `version` is that of the rules: when it grows, all is asked anew."""

    def __init__(
        self,
        authenticator: Authenticator,
        clock: Callable[[], float],
        version: Callable[[], int],
        refreshed: Callable[[Any], Any] = lambda principal: principal,
    ) -> None:
        self._authenticator = authenticator
        self.refreshed = refreshed  # a principal that was proved earlier, as it stands now; raises
        self._clock = clock
        self._version = version
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, tuple[Any, float, int]] = {}

    async def password(self, name: str, password: str, where: Where) -> Any:
        """The principal. Raises `RefusedError`."""
        return await self._proved(PasswordCredentials(name, password), name, f"{name}\0{password}", where)

    async def token(self, token: str, where: Where) -> Any:
        return await self._proved(TokenCredentials(lambda: token), "", token, where)

    async def nobody(self, name: str, where: Where) -> Any:
        """Somebody who proves nothing: let in by a development broker alone."""
        return self._converse(NoCredentials(), name, where)

    async def _proved(self, credentials: Credentials, name: str, secret: str, where: Where) -> Any:
        said = f"{credentials.mechanism}\0{where.is_tls or where.is_loopback}\0{secret}"
        digest = hmac.digest(self._key, said.encode(errors="surrogatepass"), hashlib.sha256)
        known = self._known.get(digest)
        now = self._clock()
        version = self._version()
        if known is not None and known[1] > now and known[2] == version:
            return known[0]
        principal = await asyncio.to_thread(self._converse, credentials, name, where)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        until = until_of(principal)
        ends_at = now + REMEMBERED_SECONDS if until is None else min(until, now + REMEMBERED_SECONDS)
        self._known[digest] = (principal, ends_at, version)  # of before: a reload meanwhile counts
        return principal

    def _converse(self, credentials: Credentials, name: str, where: Where) -> Any:
        asked = Asked(
            CLIENT,
            name,
            credentials.mechanism,
            peer=where.peer,
            is_loopback=where.is_loopback,
            is_tls=where.is_tls,
        )
        conversation = self._authenticator.begin(asked)
        said = credentials.first()
        for _ in range(8):
            answer = conversation.step(said)
            if isinstance(answer, Proved):
                return answer.principal
            said = credentials.answer(answer)
        raise RefusedError("the proof does not end")

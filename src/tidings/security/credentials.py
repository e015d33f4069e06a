"""Credentials of a client, or of a joining broker: the other half of each conversation.

Secrets come from files and the environment, never from arguments; none of these shows one.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.errors import RefusedError
from tidings.security.principal import ProofMethod
from tidings.security.scram import ClientSide


class PasswordCredentials:
    """A name and a password, by SCRAM-SHA-256: the password never leaves this process."""

    mechanism = str(ProofMethod.SCRAM)

    def __init__(self, name: str, password: str) -> None:
        self._name = name
        self._password = password
        self._talk: ClientSide | None = None

    @property
    def name(self) -> str:
        """The user, and a client's name unless it is given another."""
        return self._name

    def first(self) -> bytes:
        self._talk = ClientSide(self._name, self._password)
        return self._talk.first().encode()

    def answer(self, challenge: bytes) -> bytes:
        return self._talking().final(challenge.decode(errors="replace")).encode()

    def finish(self, server_final: bytes) -> None:
        self._talking().check(server_final.decode(errors="replace"))

    def _talking(self) -> ClientSide:
        if self._talk is None:
            raise RefusedError("the broker answered before it was asked")
        return self._talk

    def __repr__(self) -> str:
        return f"PasswordCredentials({self._name!r})"


class _OneWord:
    """A proof without questions."""

    mechanism = ""

    def first(self) -> bytes:
        return b""

    def answer(self, challenge: bytes) -> bytes:
        del challenge
        raise RefusedError(f"the broker asks more than {self.mechanism} answers")

    def finish(self, server_final: bytes) -> None:
        """TLS has proved the broker already."""


class TokenCredentials(_OneWord):
    """A signed token; `get` is called for each connection, so a token can be renewed."""

    mechanism = str(ProofMethod.TOKEN)

    def __init__(self, get: Callable[[], str]) -> None:
        self._get = get

    def first(self) -> bytes:
        return self._get().strip().encode("ascii", errors="replace")


class CertificateCredentials(_OneWord):
    """The certificate that was shown to TLS. `name` is that of the certificate, where it is known: the
    client's name unless it is given another."""

    mechanism = str(ProofMethod.CERTIFICATE)

    def __init__(self, name: str = "") -> None:
        self.name = name

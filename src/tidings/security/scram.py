"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a password is proved without being sent or stored.

Rules
- A users file holds `StoredKey`s: salt, iterations, stored key, server key. From them no password
  can be computed without trying them all, and they are no credentials for another server.
- An unknown name walks the same steps as a wrong password, with a salt that is always the same
  for that name, so a stranger learns no names.
- The words are those of the RFC; `scramp` does the arithmetic.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.errors import MissingDependencyError, RefusedError, SettingsError, install_command

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 100_000  # of a new stored key: a guess costs so many hashes
FEWEST_ITERATIONS = 4_096  # RFC 7677
SALT_BYTES = 32  # of a new stored key
MOST_ITERATIONS = 10_000_000
REFUSED = "the name or the password is wrong"


class StoredKey(msgspec.Struct, frozen=True):
    """Stored form of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        """One line of text, as PostgreSQL writes it."""
        salt, stored, server = map(_text, (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    def __repr__(self) -> str:
        return "StoredKey(...)"  # it helps a guessing attacker; it belongs in no log


def make_key(password: str, *, iterations: int = ITERATIONS, salt: bytes | None = None) -> StoredKey:
    """Compute the stored form of a password."""
    if not password:
        raise SettingsError("a password cannot be empty")
    salt, stored, server, count = _mechanism().make_auth_info(password, iteration_count=iterations, salt=salt)
    return StoredKey(salt, count, stored, server)


def read_key(text: str) -> StoredKey:
    """The stored key that a line of text stands for."""
    try:
        mechanism, numbers, keys = text.split("$")
        iterations, salt = numbers.split(":")
        stored, server = keys.split(":")
        key = StoredKey(_bytes(salt), int(iterations), _bytes(stored), _bytes(server))
    except (ValueError, binascii.Error):
        raise SettingsError(
            "a stored key is not of the form SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER",
            hint="make one with `tidings users key`; a plain password is never stored",
        ) from None
    sizes = len(key.stored_key), len(key.server_key)
    if mechanism != MECHANISM or sizes != (32, 32) or len(key.salt) < 12:
        raise SettingsError(
            f"a stored key is not one of {MECHANISM}", hint="make it with `tidings users key`"
        )
    if not FEWEST_ITERATIONS <= key.iterations <= MOST_ITERATIONS:
        raise SettingsError(
            f"a stored key has {key.iterations} iterations",
            hint=f"use {FEWEST_ITERATIONS} to {MOST_ITERATIONS}",
        )
    return key


def matches(key: StoredKey, password: str) -> bool:
    """Is it the password of this key? For protocols that send it over TLS (HTTP, MQTT)."""
    other = make_key(password, iterations=key.iterations, salt=key.salt)
    return hmac.compare_digest(key.stored_key, other.stored_key)


class ServerSide:
    """A broker's half of one conversation: `first`, then `final`; then `name` is proved."""

    def __init__(
        self,
        find: Callable[[str], StoredKey | None],
        pepper: bytes,
        like: Callable[[int], StoredKey | None] = lambda number: None,
    ) -> None:
        self._find = find
        self._like = (
            like  # some stored key, by a number: a decoy has its iterations and the length of its salt
        )
        self._pepper = pepper
        self._name: str | None = None
        self._is_known = False
        self._server = _mechanism().make_server(self._key_of)

    def first(self, text: str) -> str:
        """The answer to the client's first words."""
        return str(
            self._step(lambda: (self._server.set_client_first(text), self._server.get_server_first())[1])
        )

    def final(self, text: str) -> str:
        """The answer to its proof; raises `RefusedError` for a wrong proof."""
        self._step(lambda: self._server.set_client_final(text))
        if not self._is_known:
            raise RefusedError(REFUSED)
        return str(self._step(self._server.get_server_final))

    @property
    def name(self) -> str:
        """The authenticated name, after `final`."""
        if self._name is None:  # no assert: it has to hold with `python -O` too
            raise RefusedError(REFUSED)
        return self._name

    def _key_of(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self._name = name
        key = self._find(name)
        self._is_known = key is not None
        if key is None:
            key = self._decoy(name)
        return key.salt, key.stored_key, key.server_key, key.iterations

    def _decoy(self, name: str) -> StoredKey:
        """For an unknown name: the same key each time, and no password matches it."""
        salt = hmac.new(self._pepper, b"salt:" + name.encode(), hashlib.sha512).digest()
        lock = hmac.new(self._pepper, b"lock:" + name.encode(), hashlib.sha256).digest()
        like = self._like(int.from_bytes(lock[:8], "big"))
        length, iterations = (SALT_BYTES, ITERATIONS) if like is None else (len(like.salt), like.iterations)
        return StoredKey(salt[:length], iterations, lock, lock)

    @staticmethod
    def _step(step: Callable[[], Any]) -> Any:
        from scramp import ScramException

        try:
            return step()
        except (ScramException, UnicodeError, ValueError):
            raise RefusedError(REFUSED) from None


class ClientSide:
    """A client's half: `first`, then `final(answer)`, then `check(answer)` proves the broker too."""

    def __init__(self, name: str, password: str) -> None:
        from scramp import ScramClient

        self._client = self._step(lambda: ScramClient([MECHANISM], name, password))

    def first(self) -> str:
        return str(self._client.get_client_first())

    def final(self, text: str) -> str:
        self._step(lambda: self._client.set_server_first(text))
        return str(self._step(self._client.get_client_final))

    def check(self, text: str) -> None:
        """Raises `RefusedError` when the broker does not know the stored key."""
        self._step(lambda: self._client.set_server_final(text))

    @staticmethod
    def _step(step: Callable[[], Any]) -> Any:
        from scramp import ScramException

        try:
            return step()
        except (ScramException, UnicodeError, ValueError):
            raise RefusedError("the broker did not prove that it knows the password") from None


def _mechanism() -> Any:
    try:
        from scramp import ScramMechanism
    except ImportError:
        raise MissingDependencyError(
            "passwords need the package scramp", hint=install_command("tidings[server]")
        ) from None
    return ScramMechanism(MECHANISM)


def _text(part: bytes) -> str:
    return base64.b64encode(part).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

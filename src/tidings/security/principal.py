"""The principal: who is at the other end of a connection, and how that was proved.

Rules
- A principal's name is given by what proved it (a stored key, a token, a certificate), never by
  the client's own word.
- Names of clients and of sources belong to a principal: its own name, that name with `/...`
  behind it, and additions of the users file. So no principal resumes another's subscription or publishes
  in another's name.
"""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from tidings.errors import RefusedError

LONGEST_NAME = 200  # characters


class ProofMethod(StrEnum):
    """Mechanism that proved the principal."""

    ANONYMOUS = "anonymous"
    SCRAM = "scram-sha-256"
    TOKEN = "token"  # nosec B105 # noqa: S105 - a word, no secret
    CERTIFICATE = "certificate"
    EMBEDDED = "embedded"  # in the broker's own process


class ProofValidity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a proof that can lose its force while a session is open."""

    until: float | None = None  # seconds since the epoch at which a token or a certificate ends
    issuer: str = ""  # of the token
    tenant: str = ""  # that the token gives
    groups: tuple[str, ...] = ()  # that the token gives
    serial: str = ""  # of the certificate, in hexadecimal


NO_PROOF = ProofValidity()


class Principal(msgspec.Struct, frozen=True, cache_hash=True):
    """Who it is. Rules are looked up by `name` and `groups`."""

    name: str
    means: ProofMethod
    tenant: str = ""  # tenants are isolated from one another
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # further names that it may use for its clients and sources; * is a wildcard
    is_broker: bool = False  # its certificate is that of a broker: it may speak for clients
    proof: ProofValidity = NO_PROOF

    @property
    def owner(self) -> tuple[str, str]:
        """Key that stays equal for another mechanism or other groups: tenant and name."""
        return self.tenant, self.name

    @property
    def is_anonymous(self) -> bool:
        return self.means is ProofMethod.ANONYMOUS

    def may_be_called(self, name: str, owner: str | None = None) -> bool:
        """May its client, or the source of its events, have this name? `owner`: the principal that the name
        begins with, maybe another one: `ann/desk` is not for `ann` when the users file names `ann/desk`."""
        if (name == self.name or name.startswith(self.name + "/")) and owner in (None, self.name):
            return True
        return any(fnmatchcase(name, allowed) for allowed in self.names)

    def check_name(self, name: str, what: str, owner: str | None = None) -> None:
        if self.may_be_called(name, owner):
            return
        hint = (
            f"use {self.name!r}, a name that begins with {self.name + '/'!r}, or have it "
            f"added to `names` in the users file"
        )
        if self.may_be_called(name):  # but for its owner
            hint = (
                f"it belongs to {owner!r}; a principal with `/` in its name has names of its own "
                f"when the users file names it, by [users] or by `who` of a rule"
            )
        raise RefusedError(f"{self.name} may not use the {what} {name!r}", hint=hint)


GROUP = "group:"
ANYONE = "anyone"  # every principal that proved who it is
ANONYMOUS = "anonymous"  # those that did not
RESERVED = frozenset({ANYONE, ANONYMOUS})
ANYBODY = Principal("anonymous", ProofMethod.ANONYMOUS, names=("*",))  # of a development cluster on loopback


def proved_name(name: str, what: str = "a principal's name") -> str:
    """A name that an issuer or an authority gives: none that rules give a meaning of their own."""
    if name in RESERVED or name.startswith(GROUP):
        raise RefusedError(f"{what} is {name!r}, which rules use for others", hint="choose another name")
    return checked_name(name, what)


def checked_name(name: str, what: str = "a principal's name") -> str:
    """A name that can stand in a file, a log and a subscription's identity."""
    if not name or len(name) > LONGEST_NAME:
        raise RefusedError(f"{what} has {len(name)} characters", hint=f"use 1 to {LONGEST_NAME}")
    if any(unicodedata.category(sign)[0] in "CZ" and sign != " " for sign in name):
        raise RefusedError(f"{what} {name!r} holds a control character")
    if "*" in name or name != name.strip():
        raise RefusedError(f"{what} {name!r} holds a wildcard, or spaces at its ends")
    return name

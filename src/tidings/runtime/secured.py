"""Security as a broker process has it: the users file read, the audit written, both renewed on demand.

A users file that is wrong leaves everything as it was, and says so in the log and in the audit.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.errors import RefusedError, SettingsError, TidingsError
from tidings.model.event import Event
from tidings.runtime.audit_file import AuditFile
from tidings.runtime.settings import SecuritySettings, TlsSettings
from tidings.security import audit as auditing
from tidings.security.audit import Audit, AuditEntry
from tidings.security.authenticator import ByUsers
from tidings.security.authorization import Authorizer
from tidings.security.principal import Principal, ProofMethod
from tidings.security.quotas import UNBOUNDED
from tidings.security.revocation import NONE_REVOKED, Revoked, parse_revoked
from tidings.security.rules import ALL_ALLOWED
from tidings.security.users import NO_USERS, Users, parse_users

log = logging.getLogger("tidings.audit")

MOST_STANDINGS = 10_000  # remembered; then they are made anew


def text_of(settings: SecuritySettings) -> str:
    """The users file as it is written; empty without one."""
    if not settings.users:
        return ""
    try:
        return Path(settings.users).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the users file {settings.users} cannot be read: {_why(error)}") from None


def load_users(settings: SecuritySettings) -> Users:
    """The users file; without one no user is known, and in development every client may do everything."""
    if settings.users:
        file = Path(settings.users)
        return parse_users(
            text_of(settings), read=lambda name: (file.parent / name).read_bytes(), where=str(file)
        )
    if settings.anonymous:
        return Users({}, {}, ALL_ALLOWED, {}, UNBOUNDED, NO_USERS.verifier)
    return NO_USERS


def load_revoked(tls: TlsSettings) -> Revoked:
    """The certificates that were taken back. Raises `SettingsError`."""
    if not tls.revoked:
        return NONE_REVOKED
    found = []
    for name in (tls.revoked, tls.authority):
        try:
            found.append(Path(name).read_bytes())
        except OSError as error:
            raise SettingsError(f"{name} cannot be read: {_why(error)}") from None
    return parse_revoked(found[0], found[1], tls.revoked)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it is not text in UTF-8"


class Secured:
    """The authenticator and the guard of one broker, with their audit."""

    def __init__(
        self,
        settings: SecuritySettings,
        clock: Callable[[], float],
        on_withheld: Callable[[str, Event], None] | None = None,
        tls: TlsSettings | None = None,
    ) -> None:
        self.revoked = load_revoked(tls or TlsSettings())
        self._anonymous = settings.anonymous
        self._standings: dict[Principal, Any] = {}
        self._file = AuditFile(settings.audit)
        self._unwritten = 0  # entries that a defect kept out of the audit
        self.audit = Audit(self._write, clock, self._check_audit)
        self.guard = Authorizer(load_users(settings), clock=clock, audit=self.audit, on_withheld=on_withheld)
        self.authenticator = ByUsers(
            lambda: self.guard.users,
            clock=clock,
            pepper=secrets.token_bytes(32),
            audit=self.audit,
            allow_anonymous=settings.anonymous,
            revoked=lambda: self.revoked,
        )

    def reload(self, settings: SecuritySettings, tls: TlsSettings | None = None) -> None:
        """Read the users file, and what was revoked, again. Raises `SettingsError`; then everything stays
        as it was."""
        try:
            users = load_users(settings)
            revoked = load_revoked(tls or TlsSettings())
            self._file.reopen(settings.audit)
        except TidingsError as error:
            self.audit.note("reload", auditing.REFUSED, "operator", reason=error.message)
            raise
        self.guard.replace(users)
        self.revoked = revoked
        self._standings.clear()
        self.audit.note("reload", auditing.OK, "operator", subject=settings.users)

    def refreshed(self, principal: Principal) -> Principal:
        """The principal with what the users file says of it now. Raises `RefusedError` when its proof is no
        longer valid."""
        if principal.is_anonymous:
            if not self._anonymous:
                raise RefusedError("this broker asks for a proof", hint="connect with credentials")
            return principal
        proof = principal.proof
        if principal.means is ProofMethod.CERTIFICATE and self.revoked.holds_serial(proof.serial):
            raise RefusedError("this certificate was revoked")
        if principal.means is ProofMethod.TOKEN and proof.until is None:
            raise RefusedError("it is not known until when the token counts", hint="prove it again")
        return self.guard.users.refreshed(principal)

    def key_of(self, principal: Principal) -> Any:
        """Reference for the proof of a principal: its stored key, or the issuer of its token."""
        users = self.guard.users
        if principal.means is ProofMethod.TOKEN:
            return users.verifier.issuer(principal.proof.issuer)
        return users.keys.get(principal.name)

    def standing(self, principal: Principal) -> Any:
        """Identity and rights of the principal now, as a value to compare (see `runtime/sessions.py`). Raises
        `RefusedError` when it is not, or no longer, the principal that the users file knows."""
        found = self._standings.get(principal)
        if found is None:
            if self.refreshed(principal) != principal:
                raise RefusedError(f"what is known of {principal.name} has changed", hint="connect again")
            if len(self._standings) >= MOST_STANDINGS:
                self._standings.clear()
            found = self._standings[principal] = self.guard.users.standing(principal)
        return found

    def figures(self) -> dict[str, int]:
        lost = self._file.lost + self._unwritten
        return {"refused by rule": self.guard.refused, "withheld": self.guard.withheld, "audit lost": lost}

    @property
    def audit_problem(self) -> str | None:
        """For people: why the audit cannot be written at the moment."""
        return self._file.flush()

    def _check_audit(self) -> None:
        problem = self.audit_problem
        if problem is not None:
            raise RefusedError(
                f"{problem}; until it can, no client is admitted and no subscription begins",
                hint="the operator has to make room where the audit is written",
            )

    def _write(self, entry: AuditEntry) -> None:
        """An entry that a defect keeps out of the audit is logged and counted; it ends no client's
        connection and answers no request."""
        try:
            self._file.write(entry)
        except Exception:
            self._unwritten += 1
            log.exception("an entry of the audit is lost: %s of %r", entry.action, entry.principal)

    def close(self) -> None:
        self._file.close()

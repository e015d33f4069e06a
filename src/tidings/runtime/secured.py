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
MOST_WAITING = 1 << 20  # bytes of entries that wait until they can be written


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
        self._file = _AuditFile(Path(settings.audit)) if settings.audit else None
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
            self._open_audit(settings.audit)
        except TidingsError as error:
            self.audit.note("reload", auditing.REFUSED, "operator", reason=error.message)
            raise
        self.guard.replace(users)
        self.revoked = revoked
        self._standings.clear()
        self.audit.note("reload", auditing.OK, "operator", subject=settings.users)

    def _open_audit(self, path: str) -> None:
        """Write to the file that has this name now: another program may have renamed the one that was
        open."""
        old, self._file = self._file, _AuditFile(Path(path)) if path else None
        if old is not None:
            if self._file is not None:
                self._file.take_over(old)
            old.close()

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
        lost = 0 if self._file is None else self._file.lost
        return {"refused by rule": self.guard.refused, "withheld": self.guard.withheld, "audit lost": lost}

    @property
    def audit_problem(self) -> str | None:
        """For people: why the audit cannot be written at the moment."""
        return None if self._file is None else self._file.flush()

    def _check_audit(self) -> None:
        problem = self.audit_problem
        if problem is not None:
            raise RefusedError(
                f"{problem}; until it can, no client is admitted and no subscription begins",
                hint="the operator has to make room where the audit is written",
            )

    def _write(self, entry: AuditEntry) -> None:
        if self._file is not None:
            self._file.write(entry)
        elif log.isEnabledFor(logging.INFO):
            log.info("%s", auditing.line(entry).decode().rstrip())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _AuditFile:
    """Appended to, line by line; readable by its owner alone.

    Lines that cannot be written wait, up to a bound.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting = bytearray()
        self._has_failed = False
        self.lost = 0  # entries beyond the bound
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
            path.chmod(0o600)
        except OSError as error:
            raise SettingsError(f"the audit cannot be written to {path}: {error.strerror}") from None

    def write(self, entry: AuditEntry) -> None:
        line = auditing.line(entry)
        if len(self._waiting) + len(line) > MOST_WAITING:
            self.lost += 1
        else:
            self._waiting += line
        self.flush()

    def take_over(self, old: _AuditFile) -> None:
        """Entries that could not be written there are written here."""
        old.flush()
        self._waiting, self.lost = old._waiting, old.lost
        self.flush()

    def flush(self) -> str | None:
        """Write waiting entries; the reason of a failure, None when all are written."""
        try:
            while self._waiting:
                del self._waiting[: self._file.write(self._waiting) or 0]
        except OSError as error:
            problem = f"the audit cannot be written to {self._path}: {error.strerror}"
            if not self._has_failed:
                log.error("%s", problem)
            self._has_failed = True
            return problem
        self._has_failed = False
        return None

    def close(self) -> None:
        self._file.close()

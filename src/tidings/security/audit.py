"""The audit: who was let in or refused, as JSON lines.

Rules
- An entry says who, from where, what, and with which outcome; never a password, a key, a token or
  an event's content.
- Refusals of one kind by one principal that come in masses are counted, and the count is written
  with the next entry: a client that is refused cannot fill the disk.
- Any thread may note: counts and entries have one lock, so entries are written in the order of their times.
- An entry that cannot be written waits. Until it is written, every operation that must be audited first
  (admitting a client, a subscription) is refused: `check` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import msgspec

from tidings.security.quotas import TokenBucket

PER_SECOND = 1.0  # entries of one kind and principal, in the long run
BURST = 20.0  # at once
MOST_KINDS = 10_000  # pairs of kind and principal that are distinguished
LONGEST = 500  # characters of a text

OK, REFUSED = "ok", "refused"


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    time: str
    action: str  # connect, disconnect, publish, subscribe, deliver, observe, reload
    outcome: str
    principal: str
    method: str = ""  # of authentication
    peer: str = ""
    client: str = ""
    subject: str = ""  # a subscription's name, an event's identity, a setting
    reason: str = ""
    suppressed: int = 0  # entries like this one that were only counted since the last


def line(entry: AuditEntry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


class Audit:
    """Turns what happened into entries; `write` takes them one by one."""

    def __init__(
        self,
        write: Callable[[AuditEntry], None],
        clock: Callable[[], float],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._write = write
        self.check = check  # raises `RefusedError` while entries cannot be written
        self._clock = clock
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}
        self._skipped: dict[tuple[str, str, str], int] = {}
        self._lock = Lock()

    def note(
        self,
        action: str,
        outcome: str,
        principal: str,
        *,
        whose: str | None = None,
        bounded: bool = True,
        **more: Any,
    ) -> None:
        """`whose`: the account of the entry; None: the principal. An unproved name counts for no account.
        Not `bounded`: it is written, however many came before."""
        key = (action, outcome, principal if whose is None else whose)
        with self._lock:
            now = self._clock()
            bucket = self._bucket(key, now)
            if bounded and not bucket.has(1.0, now):
                self._skipped[key] = self._skipped.get(key, 0) + 1
                return
            bucket.take(1.0, now)
            shown = {name: _text(value) for name, value in more.items()}
            suppressed = self._skipped.pop(key, 0)
            self._write(
                AuditEntry(_moment(now), action, outcome, _text(principal), **shown, suppressed=suppressed)
            )

    def _bucket(self, key: tuple[str, str, str], now: float) -> TokenBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MOST_KINDS:
                self._buckets.clear()
                self._skipped.clear()
            bucket = self._buckets[key] = TokenBucket(PER_SECOND, BURST, now)
        return bucket


def _text(value: Any) -> str:
    """At most `LONGEST` characters; half a surrogate pair, which UTF-8 does not have, is a question mark."""
    return str(value)[:LONGEST].encode(errors="replace").decode()


def _moment(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

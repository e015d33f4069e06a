"""Sessions by principal: the one place that ends them when a principal changes or its proof ends.

Every listener opens a session here for each connection, stream, worker and console view that acts for a
principal, and is called back when the session has to end. Rules
- A session opens only for a principal that stands now: a proof from before a reload does not count after it.
- `standing` gives a comparable value (what the users file says of the principal and lets it do), or raises.
  A review after each reload ends the sessions whose standing is another one, or none.
- A proof with an end (a token, a certificate) ends its sessions within `LOOK_SECONDS` of that end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

from tidings.errors import RefusedError
from tidings.runtime.clock import RuntimeClock

log = logging.getLogger("tidings.broker")

LOOK_SECONDS = 0.25  # between two looks for proofs that have ended
CHANGED = "the rights of this principal have changed"
EXPIRED = "the token or certificate of this session has expired"

End = Callable[[str], None]  # called once with the reason, when the session has to end


class PrincipalSession:
    """One session of one principal. `close` it when its listener has ended it."""

    __slots__ = ("_all", "by", "end", "number", "peer", "principal", "since", "standing")

    def __init__(
        self,
        principal: Any,
        standing: Any,
        end: End,
        all: dict[PrincipalSession, None],
        since: float = 0.0,
        number: int = 0,
        by: str = "other",
        peer: str = "",
    ) -> None:
        self.principal = principal
        self.peer = peer  # address of a listener's own connection, where no client of the broker has one
        self.by = by  # the listener, where no client of the broker says it
        self.since = since
        self.number = number  # of all sessions of this process
        self.standing = standing
        self.end = end
        self._all = all

    def close(self) -> None:
        self._all.pop(self, None)


class PrincipalSessions:
    """All sessions of one broker."""

    def __init__(self, standing: Callable[[Any], Any] | None, clock: RuntimeClock) -> None:
        self._standing = standing or (lambda principal: None)
        self._clock = clock
        self._open: dict[PrincipalSession, None] = {}
        self._last = 0
        self._looking: asyncio.TimerHandle | None = None
        self.on_ended: Callable[[Any], None] = lambda principal: None  # called for each that was ended here

    def open(self, principal: Any, end: End, by: str = "other", peer: str = "") -> PrincipalSession:
        """Raises `RefusedError` when the principal does not stand."""
        standing = self._standing(principal)
        until = until_of(principal)
        if until is not None:
            if until <= self._clock.now():
                raise RefusedError(EXPIRED, hint="get a new one")
            self._look_later()
        self._last += 1
        now = self._clock.now()
        session = PrincipalSession(principal, standing, end, self._open, now, self._last, by, peer)
        self._open[session] = None
        return session

    def principals(self) -> Iterator[Any]:
        """The principal of each open session."""
        return (session.principal for session in self._open)

    def all(self) -> Iterator[PrincipalSession]:
        return iter(self._open)

    def end(self, number: int, reason: str) -> bool:
        """End one session; False: there is none of this number."""
        for session in list(self._open):
            if session.number == number:
                self._end(session, reason)
                return True
        return False

    def review(self) -> None:
        """End the sessions of principals whose standing has changed."""
        for session in list(self._open):
            try:
                reason = "" if self._standing(session.principal) == session.standing else CHANGED
            except RefusedError as error:
                reason = error.message
            if reason:
                self._end(session, reason)

    def _look_later(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        now, has_more = self._clock.now(), False
        for session in list(self._open):
            until = until_of(session.principal)
            if until is not None and until <= now:
                self._end(session, EXPIRED)
            has_more = has_more or until is not None
        if has_more:
            self._look_later()

    def _end(self, session: PrincipalSession, reason: str) -> None:
        if session not in self._open:
            return  # the end of another one ended it too
        session.close()
        try:
            session.end(reason)
        except Exception:  # a listener that fails must not keep the sessions behind it open
            log.exception("a session of %s did not end cleanly", getattr(session.principal, "name", "?"))
        self.on_ended(session.principal)

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def __len__(self) -> int:
        return len(self._open)


def until_of(principal: Any) -> float | None:
    """Time at which the proof of a principal ends."""
    proof = getattr(principal, "proof", None)
    return None if proof is None else proof.until

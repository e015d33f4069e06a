"""Bytes of frames that have not arrived whole, counted by principal over all its connections.

A frame costs memory as its bytes arrive, and the broker cannot act on it before the last one. Rules
- Below the bound every connection is read from. Above it one connection of the principal is read at a time,
  so that a frame still completes and the sum exceeds the bound by one frame at most.
- The turn passes on when a frame completes or its connection ends. A silent connection ends by its keepalive.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

REASON = "unfinished"  # for which a connection is held


class Readable(Protocol):
    """The part of a connection that is needed here."""

    def hold(self, reason: str) -> None: ...

    def release(self, reason: str) -> None: ...


class PrincipalFrames:
    """The unfinished frames of one principal."""

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self.users = 0  # connections that count here
        self._most = most
        self._turn: Readable | None = None  # the one that is read from above the bound
        self._waiting: dict[Readable, None] = {}

    def count(self, connection: Readable, more: int) -> None:
        """Count bytes of this connection that wait for the end of a frame; below 0: so many fewer."""
        self.bytes += more
        if more < 0:
            self._pass_on(connection)
        elif self.bytes > self._most and connection is not self._turn:
            if self._turn is None:
                self._turn = connection
            else:
                self._waiting[connection] = None
                connection.hold(REASON)

    def leave(self, connection: Readable, counted: int) -> None:
        """The connection is over; its bytes are free."""
        self.bytes -= counted
        self._waiting.pop(connection, None)
        self._pass_on(connection)

    def _pass_on(self, connection: Readable) -> None:
        if connection is self._turn:
            self._turn = None
        if self.bytes <= self._most:
            self._turn = None
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                each.release(REASON)
        elif self._turn is None and self._waiting:
            self._turn = next(iter(self._waiting))
            del self._waiting[self._turn]
            self._turn.release(REASON)


class UnfinishedFrames:
    """The unfinished frames of all principals of one broker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: dict[Hashable, PrincipalFrames] = {}

    def of(self, principal: Hashable) -> PrincipalFrames:
        """The count of this principal, for one more connection; `end` it when the connection is over."""
        frames = self._all.get(principal)
        if frames is None:
            frames = self._all[principal] = PrincipalFrames(self._most)
        frames.users += 1
        return frames

    def end(self, principal: Hashable) -> None:
        """One connection of this principal is over."""
        frames = self._all[principal]
        frames.users -= 1
        if not frames.users:
            del self._all[principal]

    @property
    def bytes(self) -> int:
        return sum(frames.bytes for frames in self._all.values())

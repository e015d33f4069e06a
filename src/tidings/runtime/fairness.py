"""Fair use of the broker's one loop: processor time is counted by owner, and taken in turns.

An owner is a principal over all its connections on every listener, or an address where principals are
anonymous. Rules
- The time that handling an owner's messages took is charged to it, reading the log on its behalf included.
  One turn of the loop has a quantum of time for each owner.
- An owner that used more than its quantum is read from again in the next turn, after as long as it overdrew.
  So others wait for a few quanta at most, and an owner gets all the time that others leave.
- An owner that has the broker to itself (no other was active within the window) is not held at all.
- Time is measured here alone: the protocol never sees it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

REASON = "fairness"  # for which a connection is held
NEGLIGIBLE = 0.001  # seconds


class FairnessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs of sharing the loop's time, each with its price."""

    quantum: float = 0.01  # seconds of one owner in a turn; less turns oftener, more lets others wait longer
    shared: float = 1.0  # seconds since another owner was active, up to which time is shared
    pause: float = 10.0  # at most so many seconds an owner is not read from, however much it used


class OwnedConnection(Protocol):
    """A connection of an owner."""

    def hold(self, reason: str) -> None: ...

    def release(self, reason: str) -> None: ...


class TimeShare:
    """The time of one owner."""

    __slots__ = ("is_paused", "is_working", "members", "owner", "queued", "until", "used", "users")

    def __init__(self, owner: Hashable) -> None:
        self.owner = owner
        self.members: dict[OwnedConnection, None] = {}
        self.users = 0
        self.used = 0.0  # seconds in this turn
        self.is_paused = False
        self.is_working = False  # is queued work done soon?
        self.queued: deque[Callable[[], None]] = deque()
        self.until = 0.0  # when it is read from again, once the turn is over


class Fairness:
    """The shares of all owners of one broker."""

    def __init__(
        self,
        *,
        settings: FairnessSettings | None = None,
        clock: Callable[[], float] = time.perf_counter,
        later: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._settings = settings or FairnessSettings()
        self._quantum = self._settings.quantum
        self.clock = clock
        self.call_later = later or _later
        self._shares: dict[Hashable, TimeShare] = {}
        self._charged: dict[TimeShare, None] = {}  # in this turn
        self._active: set[Hashable] = set()  # owners in this window ...
        self._active_before: set[Hashable] = set()  # ... and in the one before
        self._window_end = 0.0
        self.figures = {"turns cut short": 0}

    def join(self, owner: Hashable, member: OwnedConnection | None = None) -> TimeShare:
        """The share of an owner, for one more of its connections; `leave` when that is over."""
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = TimeShare(owner)
        share.users += 1
        if member is not None:
            share.members[member] = None
            if share.is_paused:
                member.hold(REASON)
        return share

    def leave(self, share: TimeShare, member: OwnedConnection | None = None) -> None:
        share.users -= 1
        if member is not None:
            share.members.pop(member, None)
        if not share.users and not share.is_paused:
            self._shares.pop(share.owner, None)

    def charge(self, share: TimeShare, seconds: float) -> None:
        """Charge the owner the time that handling its message took."""
        self.charge_all({share: seconds})

    def charge_all(self, used: Mapping[TimeShare, float]) -> None:
        """Charge several owners for messages that were handled together."""
        now, charged, quantum = self.clock(), self._charged, self._quantum
        if now >= self._window_end:
            self._active_before = self._active if now < self._window_end + self._settings.shared else set()
            self._active = set()
            self._window_end = now + self._settings.shared
        if not charged:
            self.call_later(0.0, self._end_turn)
        active = self._active
        for share, seconds in used.items():
            share.used += seconds
            charged[share] = None
            active.add(share.owner)
            if share.used > quantum and not share.is_paused and len(active | self._active_before) > 1:
                self.figures["turns cut short"] += 1
                share.is_paused = True
                for member in share.members:
                    member.hold(REASON)

    def has_time(self, share: TimeShare) -> bool:
        """Is something of the owner's quantum left in this turn?"""
        return share.used < self._quantum and not share.is_paused

    def queue(self, share: TimeShare, work: Callable[[], None]) -> None:
        """Do the owner's work when it has time again, behind what waits already."""
        share.queued.append(work)
        if not share.is_paused:
            self._work_soon(share)

    def _work_soon(self, share: TimeShare) -> None:
        if share.queued and not share.is_working:
            share.is_working = True
            self.call_later(0.0, lambda: self._work(share))

    def _work(self, share: TimeShare) -> None:
        share.is_working = False
        while share.queued and self.has_time(share):
            share.queued.popleft()()
        if not share.is_paused:
            self._work_soon(share)

    def wait(self, share: TimeShare) -> float:
        """Seconds until the owner is read from again; 0: at once."""
        if not share.is_paused:
            return 0.0
        return max(share.until - self.clock(), share.used - self._quantum, NEGLIGIBLE)

    def _end_turn(self) -> None:
        charged, self._charged = self._charged, {}
        now = self.clock()
        for share in charged:
            over, share.used = share.used - self._quantum, 0.0
            if share.is_paused:
                has_timer = share.until > 0
                share.until = min(max(share.until, now) + max(over, 0.0), now + self._settings.pause)
                if not has_timer:
                    self._release_later(share, share.until - now)

    def _release_later(self, share: TimeShare, seconds: float) -> None:
        self.call_later(seconds, lambda: self._release(share))

    def _release(self, share: TimeShare) -> None:
        left = share.until - self.clock()
        if left > NEGLIGIBLE:  # it overdrew again meanwhile
            self._release_later(share, left)
            return
        share.is_paused, share.until = False, 0.0
        for member in list(share.members):
            member.release(REASON)
        self._work_soon(share)
        if not share.users:
            self._shares.pop(share.owner, None)


class ReadingShares:
    """Reads of the log, charged to the owner of the client that asked for them: one at a time, and the next
    one when the owner is not held."""

    def __init__(self, fairness: Fairness) -> None:
        self.fairness = fairness
        self._shares: dict[str, TimeShare] = {}  # by the client's address at the broker
        self._reads: dict[int, TimeShare] = {}  # by request: reads that are not answered
        self._waiting: dict[TimeShare, deque[Callable[[], None]]] = {}  # behind the one that is on its way
        self._deferred: dict[TimeShare, None] = {}  # owners whose next read waits until they have time
        self.on_fetched: Callable[[], None] | None = None  # what to call when a read has ended

    def add(self, address: str, share: TimeShare) -> None:
        self._shares[address] = share

    def remove(self, address: str) -> None:
        self._shares.pop(address, None)

    def fetch(self, request: int, author: str, perform: Callable[[], None]) -> None:
        share = self._shares.get(author)
        if share is None:
            perform()
            return
        self._reads[request] = share
        waiting = self._waiting.get(share)
        if waiting is None:
            self._waiting[share] = deque()
            self._start(share, perform)
        else:
            waiting.append(perform)

    def fetched(self, request: int, seconds: float) -> None:
        share = self._reads.pop(request, None)
        if share is not None:
            self.fairness.charge(share, seconds)
            waiting = self._waiting[share]
            if waiting:
                self._start(share, waiting.popleft())
            else:
                del self._waiting[share]
        if self.on_fetched is not None:
            self.on_fetched()

    @property
    def deferred(self) -> int:
        """Number of reads that wait until their owner has time."""
        return sum(1 + len(self._waiting[share]) for share in self._deferred)

    def _start(self, share: TimeShare, perform: Callable[[], None]) -> None:
        pause = self.fairness.wait(share)
        if pause:
            self._deferred[share] = None
            self.fairness.call_later(pause, partial(self._perform, share, perform))
        else:
            perform()

    def _perform(self, share: TimeShare, perform: Callable[[], None]) -> None:
        del self._deferred[share]
        perform()


def _later(seconds: float, call: Callable[[], None]) -> Any:
    loop = asyncio.get_running_loop()
    return loop.call_later(seconds, call) if seconds > 0 else loop.call_soon(call)

"""Lifetimes: which later subscriptions may still receive an event, and when its entry can be collected.

Rules
- An event accepted at t with lifetime Δ is available on [t, t + Δ). Lifetime 0 is never available to a later
  subscription; forever never ends.
- `expires_at` ends an event for all subscriptions, also for durable subscriptions that are owed it.
- Lifetimes travel as remaining seconds, so clocks of different brokers need not agree.
- Collecting goes in steps of a budget, earliest end first, so that it never stops the broker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from tidings.availability.records import Append, Entry


def available(entry: Append | Entry, now: float) -> bool:
    """May a subscription that begins now receive the event?"""
    return now < entry.ends_at


def expired(entry: Append | Entry, now: float) -> bool:
    """Has the event expired for all subscriptions?"""
    return entry.expires_at is not None and entry.expires_at <= now


def remaining(entry: Append | Entry, now: float) -> float:
    """Seconds of availability left; infinity for ever, 0 when over."""
    return max(0.0, entry.ends_at - now)


class ExpiryQueue:
    """Offsets in the order of their ends. An offset has one end; what never ends is not kept."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._ends = {entry.offset: entry.ends_at for entry in entries if entry.ends_at != math.inf}
        self.heap = [(end, offset) for offset, end in self._ends.items()]
        heapify(self.heap)

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, offset: int, ends_at: float) -> None:
        """Collect this offset when its time has come; a second call moves its end."""
        if ends_at == math.inf:
            self._ends.pop(offset, None)
            return
        self._ends[offset] = ends_at
        heappush(self.heap, (ends_at, offset))
        self._shrink()

    def discard(self, offset: int) -> None:
        """It is gone already."""
        if offset in self._ends:
            del self._ends[offset]
            self._shrink()

    def next_at(self) -> float | None:
        """Time of the next collection; None: never."""
        if not self.heap:
            return None
        self._drop_stale()
        return self.heap[0][0] if self.heap else None

    def collect(self, now: float, budget: int) -> list[int]:
        """At most `budget` expired offsets, earliest first; they are removed from the queue."""
        due: list[int] = []
        while len(due) < budget:
            self._drop_stale()
            if not self.heap or self.heap[0][0] > now:
                break
            offset = heappop(self.heap)[1]
            del self._ends[offset]
            due.append(offset)
        return due

    def _drop_stale(self) -> None:
        while self.heap and self._ends.get(self.heap[0][1]) != self.heap[0][0]:
            heappop(self.heap)

    def _shrink(self) -> None:
        """Rebuild when most of the heap is stale, so that memory follows what is in the queue."""
        if len(self.heap) > 2 * len(self._ends) + 64:
            self.heap = [(end, offset) for offset, end in self._ends.items()]
            heapify(self.heap)

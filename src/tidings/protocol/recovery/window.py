"""Window: batches that were sent to one receiver and are not acknowledged, bounded by count and by bytes.

Rules
- Entries are numbered without a hole. The receiver acknowledges a number and with it everything before. -
  While no acknowledgement comes, entries are sent again from the last acknowledged one, one batch at a time
  and with pauses that double: on a stream only a broken link or a receiver that was not ready loses anything,
  and a full window twice as often would fill a slow link.
"""

from __future__ import annotations

from collections import deque

from tidings.protocol.limits import ResourceLimits


class SendWindow:
    __slots__ = (
        "_batches",
        "_bytes",
        "_count",
        "_is_probing",
        "_limits",
        "_next_try",
        "_ticks",
        "acked",
        "sent",
    )

    def __init__(self, limits: ResourceLimits, acked: int = 0) -> None:
        self._limits = limits
        self.acked = acked
        self.sent = acked
        self._batches: deque[tuple[int, int, int]] = deque()  # the last number, how many, their bytes
        self._count = self._bytes = 0
        self._is_probing = False
        self._ticks, self._next_try = 0, 1  # ticks without an acknowledgement; when to try again

    @property
    def has_room(self) -> bool:
        if self._is_probing:
            return not self._batches
        return self._count < self._limits.window_count and self._bytes < self._limits.window_bytes

    @property
    def is_waiting(self) -> bool:
        """Is a sent entry unacknowledged?"""
        return self.sent > self.acked

    def send(self, last: int, size: int) -> None:
        """The entries behind those that were sent, up to `last`, are on their way."""
        count = last - self.sent
        self._batches.append((last, count, size))
        self._count += count
        self._bytes += size
        self.sent = last

    def acknowledge(self, upto: int) -> None:
        if upto <= self.acked:
            return
        self.acked = upto
        self.sent = max(self.sent, upto)
        self._is_probing = False
        self._ticks, self._next_try = 0, 1
        while self._batches and self._batches[0][0] <= upto:
            _, count, size = self._batches.popleft()
            self._count -= count
            self._bytes -= size

    def restart(self, acked: int) -> None:
        """The receiver has the entries up to there and no others; none is on its way."""
        self.acked = self.sent = acked
        self._batches.clear()
        self._count = self._bytes = 0

    def tick(self) -> bool:
        """A moment passed. True: what waits was lost, as it seems, and may be sent again, one batch of it."""
        if not self.is_waiting:
            self._ticks, self._next_try = 0, 1
            return False
        self._ticks += 1
        if self._ticks < self._next_try:
            return False
        self._ticks, self._next_try = 0, min(2 * self._next_try, self._limits.window_tries)
        self.restart(self.acked)
        self._is_probing = True
        return True

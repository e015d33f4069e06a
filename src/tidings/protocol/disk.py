"""A node's disk: who waits for which record.

Rules
- Records are committed in the order in which they were handed in; so are their continuations run.
- A full disk is not an error: the driver tries again by itself until there is room (`DiskFull`, then
  `Persisted`). Meanwhile `full` says why: publishes that need the disk are refused. A batch that was handed
  in before may still be kept, so its `stalled` is called once, to tell the client that the outcome is
  unknown.
- A failure is final. `otherwise` of each batch that waits is called, and of each that is handed in later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidings.availability.records import Append, Record
from tidings.protocol.effects import Effect, Fetch, Persist
from tidings.protocol.inputs import DiskFull, Fetched, FetchFailed, Persisted, PersistFailed
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits

Done = Callable[[float], None]
NotDone = Callable[[PersistFailed, float], None]
Stalled = Callable[[str], None]  # why there is no room
Read = Callable[[Sequence[Append], float], None]
NotRead = Callable[[FetchFailed, float], None]


class _PendingWrite:
    """Records that are not yet reported kept."""

    __slots__ = ("otherwise", "stalled", "then", "token")

    def __init__(
        self, token: int, then: Done | None, otherwise: NotDone | None, stalled: Stalled | None
    ) -> None:
        self.token = token
        self.then = then
        self.otherwise = otherwise
        self.stalled = stalled


class NodeDisk:
    """Implements the port `Disk`."""

    def __init__(
        self,
        emit: Callable[[Effect], None],
        *,
        stable: bool,
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        self.stable = stable
        self._limits = limits
        self.failed: PersistFailed | None = None
        self._failed_at = 0.0
        self._emit = emit
        self._token = 0
        self._waiting: deque[_PendingWrite] = deque()
        self.full: str | None = None  # why no record can be kept at the moment
        self._request = 0
        self._reads: dict[int, tuple[Read, NotRead]] = {}

    @property
    def waiting(self) -> int:
        """Number of batches that are not yet reported kept."""
        return len(self._waiting)

    def persist(
        self,
        records: Sequence[Record],
        then: Done | None = None,
        otherwise: NotDone | None = None,
        stalled: Stalled | None = None,
    ) -> None:
        if self.failed is not None:
            if otherwise is not None:
                otherwise(self.failed, self._failed_at)
            return
        self._token += 1
        is_full = self.full is not None
        self._waiting.append(_PendingWrite(self._token, then, otherwise, None if is_full else stalled))
        self._emit(Persist(self._token, tuple(records)))
        if self.full is not None and stalled is not None:
            stalled(self.full)

    def keep(self, records: Sequence[Record]) -> None:
        if records and self.stable and self.failed is None:
            self.persist(records)

    def fetch(self, from_offset: int, limit: int, then: Read, otherwise: NotRead) -> None:
        self._request += 1
        self._reads[self._request] = (then, otherwise)
        limits = self._limits
        self._emit(Fetch(self._request, from_offset, min(limit, limits.page_count), limits.page_bytes))

    # -- what the driver reports ---------------------------------------------------------

    def persisted(self, input: Persisted, now: float) -> None:
        self.full = None
        while self._waiting and self._waiting[0].token <= input.upto:
            waiting = self._waiting.popleft()
            if waiting.then is not None:
                waiting.then(now)

    def persist_failed(self, input: PersistFailed, now: float) -> None:
        self.failed, self.full, self._failed_at = input, None, now
        failed, self._waiting = self._waiting, deque()
        for waiting in failed:
            if waiting.otherwise is not None:
                waiting.otherwise(input, now)

    def disk_full(self, input: DiskFull) -> None:
        self.full = input.reason
        for waiting in list(self._waiting):  # an answer may hand in more
            stalled, waiting.stalled = waiting.stalled, None
            if stalled is not None:
                stalled(input.reason)

    def fetched(self, input: Fetched, now: float) -> None:
        then, _ = self._reads.pop(input.request)
        then(input.records, now)

    def fetch_failed(self, input: FetchFailed, now: float) -> None:
        _, otherwise = self._reads.pop(input.request)
        otherwise(input, now)

    def check(self) -> None:
        tokens = [waiting.token for waiting in self._waiting]
        assert tokens == sorted(set(tokens)), "batches wait in the order of their tokens"
        assert not (self.failed and self._waiting), "no operation waits for a disk that has failed"

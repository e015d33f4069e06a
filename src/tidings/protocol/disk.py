"""A node's disk: who waits for which record.

Rules
- Records are committed in the order in which they were handed in; so are their continuations run.
- A full disk is not an error yet: what waits is handed in again, with new tokens, every
  `RETRY_SECONDS`, and publishers wait that long. Reports on the old tokens are stale then.
- Any other failure is final. Whoever waits is told; nobody may ask for more (see `failed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidings.availability.records import Append, Record
from tidings.protocol.effects import Effect, Fetch, Persist
from tidings.protocol.inputs import Fetched, FetchFailed, Persisted, PersistFailed
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits

RETRY_SECONDS = 1.0  # how soon a full disk is tried again; sooner costs a failed write each time

Done = Callable[[float], None]
NotDone = Callable[[PersistFailed, float], None]
Read = Callable[[Sequence[Append], float], None]
NotRead = Callable[[FetchFailed, float], None]


class _Waiting:
    """Records that are not yet reported kept."""

    __slots__ = ("otherwise", "records", "then", "token")

    def __init__(
        self, token: int, records: tuple[Record, ...], then: Done | None, otherwise: NotDone | None
    ) -> None:
        self.token = token
        self.records = records
        self.then = then
        self.otherwise = otherwise


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
        self._emit = emit
        self._token = 0
        self._waiting: deque[_Waiting] = deque()
        self._retry_at: float | None = None  # not None: the disk is full
        self._request = 0
        self._reads: dict[int, tuple[Read, NotRead]] = {}

    @property
    def waiting(self) -> int:
        """How many batches are not yet reported kept."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return self._retry_at is not None

    def persist(
        self, records: Sequence[Record], then: Done | None = None, otherwise: NotDone | None = None
    ) -> None:
        assert self.failed is None, "whoever persists asks first whether the disk has failed"
        self._token += 1
        waiting = _Waiting(self._token, tuple(records), then, otherwise)
        self._waiting.append(waiting)
        if self._retry_at is None:
            self._emit(Persist(waiting.token, waiting.records))

    def fetch(self, from_offset: int, limit: int, then: Read, otherwise: NotRead) -> None:
        self._request += 1
        self._reads[self._request] = (then, otherwise)
        limits = self._limits
        self._emit(Fetch(self._request, from_offset, min(limit, limits.page_count), limits.page_bytes))

    # -- what the driver reports ---------------------------------------------------------

    def persisted(self, input: Persisted, now: float) -> None:
        if self._retry_at is not None:
            return  # what waits will be handed in again, in order
        while self._waiting and self._waiting[0].token <= input.upto:
            waiting = self._waiting.popleft()
            if waiting.then is not None:
                waiting.then(now)

    def persist_failed(self, input: PersistFailed, now: float) -> None:
        if not self._waiting or input.token < self._waiting[0].token or self._retry_at is not None:
            return  # about tokens that were handed in again since
        if input.code == "full":
            self._retry_at = now + RETRY_SECONDS
            return
        self.failed = input
        failed, self._waiting = self._waiting, deque()
        for waiting in failed:
            if waiting.otherwise is not None:
                waiting.otherwise(input, now)

    def fetched(self, input: Fetched, now: float) -> None:
        then, _ = self._reads.pop(input.request)
        then(input.records, now)

    def fetch_failed(self, input: FetchFailed, now: float) -> None:
        _, otherwise = self._reads.pop(input.request)
        otherwise(input, now)

    def on_timer(self, now: float) -> None:
        if self._retry_at is None or self._retry_at > now:
            return
        self._retry_at = None
        for waiting in self._waiting:
            self._token += 1
            waiting.token = self._token
            self._emit(Persist(waiting.token, waiting.records))

    def next_deadline(self) -> float | None:
        return self._retry_at

    def check(self) -> None:
        tokens = [waiting.token for waiting in self._waiting]
        assert tokens == sorted(set(tokens)), "batches wait in the order of their tokens"
        assert not (self.failed and self._waiting), "nobody waits for a disk that has failed"

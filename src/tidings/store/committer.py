"""Group commit: many small batches become one synced write, in a thread of its own.

Rules
- `submit(token, records)` never blocks and never fails for want of a disk. Tokens ascend; batches are kept
  in the order of submission, none overtakes another.
- While one commit syncs, the next group gathers. A single commit pays for one sync without a wait, a thousand
  at once share one.
- Publishers that wait for their answer before they publish again fall into two halves: one syncs while the
  other waits, and each sync serves half of them. So when a group is kept and others wait already, those wait
  a little longer, for as many as were answered: a quarter of what the sync took at most. When these do not
  come, the next groups do not wait.
- `on_kept(token)`: everything up to this token is on stable storage. `on_failed(error)`: no commit after the
  last kept token is, and no further one will be; called once.
- A full disk is no failure: `on_stalled(error)` reports it once, and the committer waits. The same group is
  tried again every `retry_seconds`, `is_full` is True meanwhile, and pending `Forget` records are written
  ahead of their turn, because they make room; forgetting is idempotent. The next `on_kept` ends it.
- The callbacks run in the committer's thread; a driver hands them over to its own loop. `backlog` is the
  number of records that wait: a driver takes no more publishes while it is over its bound.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from tidings.availability.records import Append, Forget, Put, Record
from tidings.errors import ClosedError, StoreFullError
from tidings.store.store import Store

MAX_GROUP_RECORDS = 8192  # more amortises no further and delays the acknowledgements of the first
MAX_GROUP_BYTES = 16 << 20  # of payloads and rows; a batch that is larger by itself goes alone
RETRY_SECONDS = 0.5  # how soon a full disk is tried again
COMPANY_SECONDS = 0.002  # that a group waits for others at most, however slow the disk is
SKIPS = 16  # groups that do not wait after one that waited in vain


class _CommitGroup:
    """Batches that share one commit."""

    __slots__ = ("batches", "bytes", "last_token", "records")

    def __init__(self) -> None:
        self.last_token = 0
        self.records: list[Record] = []
        self.batches = 0
        self.bytes = 0

    def add(self, token: int, records: Sequence[Record]) -> None:
        self.last_token = token
        self.batches += 1
        self.records.extend(records)
        self.bytes += _weight(records)


def _weight(records: Sequence[Record]) -> int:
    """About how many bytes: the parts that can be large."""
    total = 0
    for record in records:
        if isinstance(record, Append):
            total += len(record.event.payload or b"")
        elif isinstance(record, Put):
            total += len(record.value)
    return total


class Committer:
    """The one thread that commits to a store."""

    def __init__(
        self,
        store: Store,
        *,
        on_kept: Callable[[int], None],
        on_failed: Callable[[Exception], None],
        on_stalled: Callable[[StoreFullError], None] | None = None,
        max_group_records: int = MAX_GROUP_RECORDS,
        max_group_bytes: int = MAX_GROUP_BYTES,
        retry_seconds: float = RETRY_SECONDS,
        company_seconds: float = COMPANY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._on_kept = on_kept
        self._on_failed = on_failed
        self._on_stalled = on_stalled
        self._max_group_records = max_group_records
        self._max_group_bytes = max_group_bytes
        self._retry_seconds = retry_seconds
        self._company_seconds = company_seconds
        self._clock = clock
        self._took = 0.0  # by the last commit
        self._skips = 0  # groups that wait for no company
        self._queue: deque[tuple[int, Sequence[Record]]] = deque()
        self._backlog = 0
        self._last_token: int | None = None
        self._is_closing = False
        self._is_abandoned = False
        self.is_full = False
        self._changed = threading.Condition()
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="tidings-committer", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Records that were submitted and are not yet kept."""
        return self._backlog

    def submit(self, token: int, records: Sequence[Record]) -> None:
        """Have these records kept; `on_kept` says when."""
        self.submit_all([(token, records)])

    def submit_all(self, batches: Iterable[tuple[int, Sequence[Record]]]) -> None:
        """The same for many batches: they come into one group, if it holds them."""
        with self._changed:
            if self._is_closing:
                raise ClosedError("the committer is closed")
            for token, records in batches:
                if self._last_token is not None and token <= self._last_token:
                    raise ValueError(f"token {token} after token {self._last_token}: tokens ascend")
                self._last_token = token
                self._queue.append((token, records))
                self._backlog += len(records)
            self._changed.notify()

    def close(self, *, abandon: bool = False) -> None:
        """Commit what waits, then end; with `abandon` (and whenever the disk is full) leave it undone."""
        with self._changed:
            self._is_closing = True
            self._is_abandoned = self._is_abandoned or abandon
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (group := self._next_group()) is not None:
            try:
                is_kept = self._commit(group)
            except Exception as error:  # the driver must learn of every error
                with self._changed:
                    self._is_closing = True
                self._on_failed(error)
                return
            if is_kept:
                with self._changed:
                    self._backlog -= len(group.records)
                self._on_kept(group.last_token)
                self._wait_for_company(group)

    def _wait_for_company(self, kept: _CommitGroup) -> None:
        """Wait a moment, so that callers that were just answered join the next group."""
        with self._changed:
            waiting = len(self._queue)
            if not waiting:
                return
            if self._skips:
                self._skips -= 1
                return
            seconds = min(self._took / 4, self._company_seconds)
            have_come = self._changed.wait_for(
                lambda: len(self._queue) >= waiting + kept.batches or self._is_closing, timeout=seconds
            )
            if not have_come:
                self._skips = SKIPS

    def _next_group(self) -> _CommitGroup | None:
        """Wait for work and take as much of it as makes a group. None: time to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            if not self._queue or self._is_abandoned:
                return None
            group = _CommitGroup()
            while self._queue and (not group.records or self._fits(group, self._queue[0][1])):
                group.add(*self._queue.popleft())
            return group

    def _fits(self, group: _CommitGroup, records: Sequence[Record]) -> bool:
        return (
            len(group.records) + len(records) <= self._max_group_records
            and group.bytes + _weight(records) <= self._max_group_bytes
        )

    def _commit(self, group: _CommitGroup) -> bool:
        """Commit; False when the committer ends on a full disk."""
        while True:
            began = self._clock()
            try:
                self._store.commit(group.records)
            except StoreFullError as error:
                if not self.is_full and self._on_stalled is not None:
                    self._on_stalled(error)
                self.is_full = True
                if not self._wait_for_room(group.records):
                    return False
            else:
                self._took = self._clock() - began
                self.is_full = False
                self.commits += 1
                return True

    def _wait_for_room(self, stalled: list[Record]) -> bool:
        """Forget ahead what may be forgotten, then wait a little; False when closing."""
        with self._changed:
            waiting = [record for _, records in self._queue for record in records]
        new = {record.offset for record in stalled + waiting if isinstance(record, Append)}
        forgets = [r for r in stalled + waiting if isinstance(r, Forget) and r.offset not in new]
        if forgets:
            with suppress(StoreFullError):  # not even room to forget: only people can help
                self._store.commit(forgets)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, timeout=self._retry_seconds)
            self._is_abandoned = self._is_abandoned or self._is_closing
            return not self._is_closing

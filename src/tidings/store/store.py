"""Interface of a durable store: the contract of every backend.

Rules
- One owner at a time. All calls block and may come from any thread, but `commit` from one thread at a time.
- `commit` is atomic, and on stable storage when it returns. When it raises, no part of the batch may be
  taken as kept, and the store refuses every further commit, except after `StoreFullError`: then the batch
  was not written, reading goes on, and the same batch may be tried again when there is room.
- An error of the disk while syncing is final: the store stops. It is never retried, because after a failed
  sync it is unknown which pages reached the disk.
- Every read is checked: a record that fails its checksum raises `CorruptionError`, it is never served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tidings.availability.records import Append, Entry, Loaded, Record

__all__ = ["Append", "Entry", "Loaded", "Record", "Store"]


@runtime_checkable
class Store(Protocol):
    """A log of events with tables of small state beside it."""

    def load(self) -> Loaded:
        """Content of the store: the index of the log, and every row of every table."""
        ...

    def commit(self, records: Sequence[Record]) -> None:
        """Keep the records as one atomic batch; they are on stable storage when this returns."""
        ...

    def fetch(self, from_offset: int, limit: int, max_bytes: int) -> list[Append]:
        """Log entries from `from_offset` on, ascending: at most `limit` of them, and no further one once
        `max_bytes` of stored bytes are reached (so at least one, when there is one)."""
        ...

    def get(self, offset: int) -> Append | None:
        """One log entry, or None when it is not there."""
        ...

    def verify(self) -> int:
        """Read and check everything; the number of records that are sound. Raises `CorruptionError`."""
        ...

    def sizes(self) -> dict[str, int]:
        """Figures for people: `entries`, `rows`, `bytes` (on disk or in memory), `commits`."""
        ...

    def close(self) -> None:
        """Release the store. Closing twice has no effect; any other call afterwards is a `ClosedError`."""
        ...

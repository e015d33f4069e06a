"""Interface between a store and its backend: an ordered map of bytes that writes atomically.

Rules
- `write` applies all changes or none, and they are on stable storage when it returns. A value of None
  removes the key.
- `scan` yields keys in ascending order from `lower` (included) to `upper` (left out). It never ends early
  in silence: damage raises `CorruptionError`.
- The watermark is kept apart from the data: the number of the last commit that was acknowledged. It is
  written after the sync of that commit, so it is never ahead of what the data must hold.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

Change = tuple[bytes, bytes | None]


class StoreReader(Protocol):
    """Read access, also before the store is opened for writing."""

    @property
    def name(self) -> str:
        """Name of this store in errors: usually its path."""
        ...

    def read(self, key: bytes) -> bytes | None: ...

    def scan(self, lower: bytes, upper: bytes) -> Generator[tuple[bytes, bytes], None, None]: ...

    def watermark(self) -> int:
        """The number of the last commit known to be acknowledged; 0 before the first."""
        ...


class StoreEngine(StoreReader, Protocol):
    """A reader that also writes."""

    def write(self, changes: Sequence[Change]) -> None: ...

    def mark(self, commit: int) -> None:
        """Note that this commit is on stable storage and will be acknowledged."""
        ...

    def recover(self) -> None:
        """Make the engine writable again after a write that found the disk full; when there is still no
        room, raise `StoreFullError`. Afterwards the refused batch is there as a whole, or not at all."""
        ...

    def room(self) -> int | None:
        """Bytes that are free for more; None when there is no limit."""
        ...

    def size(self) -> int:
        """Bytes in use."""
        ...

    def close(self) -> None: ...

"""A store in memory, with the same contract: for tests, and as the disk of simulated brokers.

`MemoryStore()` forgets everything when it is dropped. Handing its `disk` to a new `MemoryStore` is a restart.
With a `FaultyDisk` (see `faulty.py`) the restart finds what a real disk would have kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Sequence

from tidings.store.audit import audit
from tidings.store.engine import Change
from tidings.store.keyed import KeyedStore


class MemoryDisk:
    """An engine of sorted keys in memory. It never fails and is never full."""

    name = "in memory"

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._watermark = 0

    def write(self, changes: Sequence[Change]) -> None:
        for key, value in changes:
            if value is not None:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value
            elif self._values.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def read(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def scan(self, lower: bytes, upper: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        start, stop = bisect_left(self._keys, lower), bisect_left(self._keys, upper)
        for key in self._keys[start:stop]:
            yield key, self._values[key]

    def watermark(self) -> int:
        return self._watermark

    def mark(self, commit: int) -> None:
        self._watermark = commit

    def recover(self) -> None:
        """No action: this disk is never full."""

    def room(self) -> int | None:
        return None

    def size(self) -> int:
        return sum(len(key) + len(value) for key, value in self._values.items())

    def close(self) -> None:
        """No action: the next store may use the same disk."""

    def restart(self) -> None:
        """No action: this disk has no crashes."""


class MemoryStore(KeyedStore):
    """A store on a disk in memory; `disk` outlives it."""

    def __init__(self, disk: MemoryDisk | None = None, *, reserve_bytes: int = 0) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        self._reserve = reserve_bytes
        super().__init__(self.disk, audit(self.disk), reserve_bytes=reserve_bytes)

    def reopened(self) -> MemoryStore:
        """State that the next process finds on the same disk; raises `CorruptionError` for damage."""
        self.disk.restart()
        return MemoryStore(self.disk, reserve_bytes=self._reserve)

"""A disk in memory that fails on purpose: deterministic, scripted, byte for byte the same each time.

What lies on it is a journal of bytes, one frame per write (CRC32C, length, payload), replayed on `restart`
as a real engine replays its log: a frame that the file's end cuts short is a torn write and is dropped, a
whole frame that fails its checksum is damage. What that tolerance may hide is for the store to find.

A fault comes at a numbered write (or read) of the script; at-rest faults (`flip`, `truncate`) are methods.
After a fault that stands for a crash the disk is down: every call raises until `restart`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from enum import StrEnum

import msgspec
from crc32c import crc32c

from tidings.errors import StoreError, StoreFullError
from tidings.store.engine import Change
from tidings.store.guard import damaged
from tidings.store.memory import MemoryDisk

_HEADER_BYTES = 8


class DiskFault(StrEnum):
    """What can happen to one write or read."""

    FULL = "full"  # no room: nothing is written, reading goes on; `free` ends it
    FULL_BUT_KEPT = "full but kept"  # reported as full although the bytes were kept
    LOST = "lost"  # power cut before the sync: nothing of the batch is there afterwards
    TORN = "torn"  # power cut during the sync: the first `argument` bytes of the batch are there
    KEPT = "kept"  # power cut after the sync, before anybody was told
    SYNC_ERROR = "sync error"  # the sync fails; what is on the disk is unknown (nothing, here)
    READ_ONLY = "read-only"  # writing fails from here on; reading goes on
    READ_ERROR = "read error"  # one read fails; the next may succeed


class Fault(msgspec.Struct, frozen=True):
    """A line of the script: at the write (for READ_ERROR: the read) with this number, counted from 1."""

    at: int
    kind: DiskFault
    argument: int = 0


class FaultyDisk(MemoryDisk):
    """A `MemoryDisk` whose content survives as bytes, and which fails by script."""

    name = "faulty disk"

    def __init__(
        self, script: Iterable[Fault] = (), *, capacity: int | None = None, mark_lag: int = 0
    ) -> None:
        super().__init__()
        self.journal = bytearray()
        self.capacity = capacity  # bytes of journal that fit
        self.mark_lag = mark_lag  # commits by which the watermark lags after a power cut
        self.writes = 0
        self.reads = 0
        self.happened: list[Fault] = []
        self._script = list(script)
        self._is_full = False
        self._is_read_only = False
        self._down: str | None = None

    def plan(self, fault: Fault) -> None:
        """Add a line to the script."""
        self._script.append(fault)

    def write(self, changes: Sequence[Change]) -> None:
        self._check_up()
        self.writes += 1
        if self._is_read_only:
            raise StoreError(f"{self.name}: the file system is read-only")
        frame = _frame(changes)
        fault = self._due(self.writes, reading=False)
        if fault is not None:
            self._fail(fault, frame)
        if self._is_full or (self.capacity is not None and len(self.journal) + len(frame) > self.capacity):
            raise StoreFullError(f"{self.name}: no space left")
        self.journal += frame
        super().write(changes)

    def read(self, key: bytes) -> bytes | None:
        self._check_read()
        return super().read(key)

    def scan(self, lower: bytes, upper: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        self._check_read()
        yield from super().scan(lower, upper)

    def mark(self, commit: int) -> None:
        self._check_up()
        super().mark(commit)

    def recover(self) -> None:
        if self._is_full:
            raise StoreFullError(f"{self.name}: no space left")
        self._replay()

    def room(self) -> int | None:
        return None if self.capacity is None else max(0, self.capacity - len(self.journal))

    def free(self, capacity: int | None = None) -> None:
        """Make room again, up to this many bytes in all."""
        self._is_full = False
        self.capacity = capacity

    def crash(self, *, power: bool = True) -> None:
        """The process is gone; with `power`, so is what the kernel had not yet synced (the watermark)."""
        if power:
            self._watermark = max(0, self._watermark - self.mark_lag)
        self._down = "power cut" if power else "process killed"

    def restart(self) -> None:
        """Come back with what the journal holds; raises `CorruptionError` for visible damage."""
        self._down = None
        self._is_read_only = False
        self._replay()

    def flip(self, position: int, bit: int = 0) -> None:
        """Flip a bit at rest; it is seen at the next restart."""
        self.journal[position] ^= 1 << bit

    def truncate(self, length: int) -> None:
        """Cut the journal at rest."""
        del self.journal[length:]

    def _due(self, number: int, *, reading: bool) -> Fault | None:
        for fault in self._script:
            if fault.at == number and (fault.kind is DiskFault.READ_ERROR) == reading:
                self._script.remove(fault)
                self.happened.append(fault)
                return fault
        return None

    def _fail(self, fault: Fault, frame: bytes) -> None:
        kept = {DiskFault.TORN: fault.argument, DiskFault.KEPT: None, DiskFault.FULL_BUT_KEPT: None}
        if fault.kind in kept:
            self.journal += frame[: kept[fault.kind]]
        if fault.kind in (DiskFault.FULL, DiskFault.FULL_BUT_KEPT):
            self._is_full = True
            raise StoreFullError(f"{self.name}: no space left")
        if fault.kind is DiskFault.READ_ONLY:
            self._is_read_only = True
            raise StoreError(f"{self.name}: the file system is read-only")
        if fault.kind is DiskFault.SYNC_ERROR:
            raise StoreError(f"{self.name}: the sync failed (input/output error)")
        self.crash()
        self._check_up()

    def _replay(self) -> None:
        self._values.clear()
        self._keys.clear()
        position = 0
        while (frame := _next_frame(self.journal, position, self.name)) is not None:
            changes, position = frame
            super().write(changes)
        del self.journal[position:]

    def _check_read(self) -> None:
        self._check_up()
        self.reads += 1
        if self._due(self.reads, reading=True) is not None:
            raise StoreError(f"{self.name}: read failed (input/output error)")

    def _check_up(self) -> None:
        if self._down is not None:
            raise StoreError(f"{self.name}: {self._down}")


def _frame(changes: Sequence[Change]) -> bytes:
    payload = msgspec.msgpack.encode(changes)
    return crc32c(payload).to_bytes(4, "little") + len(payload).to_bytes(4, "little") + payload


def _next_frame(journal: bytearray, position: int, name: str) -> tuple[list[Change], int] | None:
    """The frame at this position and where the next begins; None at the end or at a torn tail."""
    start = position + _HEADER_BYTES
    length = int.from_bytes(journal[position + 4 : start], "little")
    if start > len(journal) or start + length > len(journal):
        return None
    payload = bytes(journal[start : start + length])
    if crc32c(payload) != int.from_bytes(journal[position : position + 4], "little"):
        raise damaged(name, f"the frame at byte {position} fails its checksum")
    return msgspec.msgpack.decode(payload, type=list[tuple[bytes, bytes | None]]), start + length

"""The watermark: the number of the last acknowledged commit, in a small file apart from the database.

Why. The log alone does not tell whether its end was torn by a crash before the acknowledgement, or
damaged after it. The watermark tells: a commit up to it must be there.

Rules
- Two slots in two sectors, written in turn, each with its own checksum: a write that tears one leaves the
  other. Both damaged: the store is damaged.
- A mark is written after the sync of its commit and is not synced with it: that would double the price of
  a commit. It is in the kernel's hands at once, so it survives the death of the process; a thread of its
  own syncs it within `SYNC_SECONDS`, so after a power cut it may lag by that much. Lagging never refuses a
  sound store; it only narrows what can be told about damage that falls into that very window.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path

from crc32c import crc32c

from tidings.errors import StoreError
from tidings.store.guard import damaged

SYNC_SECONDS = 0.1  # how far the mark on disk may lag; less costs more syncs
_SECTOR = 512
_BODY = struct.Struct("<8sQ")
_SLOT = struct.Struct("<8sQI")
_MAGIC = b"tidings\n"


class Watermark:
    """The watermark file of a store. Reading leaves it unchanged; `settle` opens it for marking."""

    def __init__(self, path: Path, name: str, *, sync_seconds: float = SYNC_SECONDS) -> None:
        self._path = path
        self._name = name
        self._sync_seconds = sync_seconds
        self._file: int | None = None
        self._failure: OSError | None = None
        self._dirty = threading.Event()
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        content = path.read_bytes() if path.exists() else b""
        self.is_new = not content  # never marked: right for a store without commits only
        self.commit = 0 if self.is_new else self._read(content)

    def settle(self, commit: int) -> None:
        """Begin to mark: both slots state this commit, on stable storage, and so does the directory."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for number in (0, 1):
            os.pwrite(self._file, _slot(commit).ljust(_SECTOR, b"\0"), _SECTOR * number)
        os.fsync(self._file)
        sync_directory(self._path.parent)
        self.commit = commit

    def mark(self, commit: int) -> None:
        """Note an acknowledged commit; the sync follows by itself."""
        if self._failure is not None:
            raise StoreError(f"store {self._name}: the watermark cannot be synced: {self._failure}")
        assert self._file is not None
        os.pwrite(self._file, _slot(commit), _SECTOR * (commit & 1))
        self.commit = commit
        if self._syncer is None:
            self._syncer = threading.Thread(target=self._sync, name="tidings-watermark", daemon=True)
            self._syncer.start()
        if not self._dirty.is_set():  # setting it takes a lock, between a commit and its answer
            self._dirty.set()

    def close(self) -> None:
        """Sync and give the file up."""
        self._closing.set()
        self._dirty.set()
        if self._syncer is not None:
            self._syncer.join()
        if self._file is not None:
            os.fdatasync(self._file)
            os.close(self._file)
            self._file = None

    def _sync(self) -> None:
        assert self._file is not None
        while not self._closing.wait(self._sync_seconds):
            self._dirty.wait()
            self._dirty.clear()
            try:
                os.fdatasync(self._file)
            except OSError as error:  # raised by the next `mark`, which stops the store
                self._failure = error
                return

    def _read(self, content: bytes) -> int:
        slots = (content[: _SLOT.size], content[_SECTOR : _SECTOR + _SLOT.size])
        commits = [commit for slot in slots if (commit := _commit_of(slot)) is not None]
        if not commits:
            raise damaged(self._name, "its watermark cannot be read")
        return max(commits)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _slot(commit: int) -> bytes:
    body = _BODY.pack(_MAGIC, commit)
    return body + crc32c(body).to_bytes(4, "little")


def _commit_of(slot: bytes) -> int | None:
    if len(slot) != _SLOT.size:
        return None
    magic, commit, check = _SLOT.unpack(slot)
    return commit if magic == _MAGIC and check == crc32c(slot[: _BODY.size]) else None

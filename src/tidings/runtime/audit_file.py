"""The file of the audit: lines are appended, each exactly once and in the order in which they were written.

Rules
- Any thread may write: the pool that hashes passwords does, beside the event loop. One lock is held from the
  first look at what waits to the last byte that is written.
- Lines that cannot be written wait, up to a bound; a line that is written in part is completed first.
- Opening again continues in the file that has the name now. A line of which the former file has a part is
  written to the new one as a whole.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from pathlib import Path
from threading import Lock
from typing import IO

from tidings.errors import SettingsError
from tidings.security import audit as auditing
from tidings.security.audit import AuditEntry

log = logging.getLogger("tidings.audit")

MOST_WAITING = 1 << 20  # bytes of entries that wait until they can be written


class AuditFile:
    """Readable by its owner alone. Without a path, entries go to the log."""

    def __init__(self, path: str) -> None:
        self._lock = Lock()
        self._path = path
        self._file = _opened(path)
        self._waiting: deque[bytes] = deque()  # lines; the first may be written in part
        self._bytes = 0  # of all lines that wait
        self._begun = 0  # bytes of the first line that are in the file
        self._has_failed = False
        self._is_closed = False
        self.lost = 0  # entries beyond the bound, or after the end

    def write(self, entry: AuditEntry) -> None:
        line = auditing.line(entry)
        with self._lock:
            if self._is_closed or self._bytes + len(line) > MOST_WAITING:
                self.lost += 1
            else:
                self._waiting.append(line)
                self._bytes += len(line)
            self._flush()

    def flush(self) -> str | None:
        """Write waiting entries; the reason of a failure, None when all are written."""
        with self._lock:
            return self._flush()

    def reopen(self, path: str) -> None:
        """Write to the file that has this name now: another program may have renamed the one that was
        open. Raises `SettingsError`; then everything stays as it was."""
        new = _opened(path)
        with self._lock:
            self._flush()
            old, self._file, self._path = self._file, new, path
            if old is not None:
                if new is None or not os.path.sameopenfile(old.fileno(), new.fileno()):
                    self._begun = 0
                old.close()
            self._flush()

    def close(self) -> None:
        with self._lock:
            problem = self._flush()
            if problem is not None:
                log.error("%d entries of the audit are lost: %s", len(self._waiting), problem)
            self._is_closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _flush(self) -> str | None:
        """The caller holds the lock."""
        try:
            while self._waiting and not self._is_closed:
                line = self._waiting[0]
                self._begun += self._put(line[self._begun :])
                if self._begun == len(line):
                    self._waiting.popleft()
                    self._bytes, self._begun = self._bytes - len(line), 0
        except OSError as error:
            problem = f"the audit cannot be written to {self._path}: {error.strerror}"
            if not self._has_failed:
                log.error("%s", problem)
            self._has_failed = True
            return problem
        self._has_failed = False
        return None

    def _put(self, data: bytes) -> int:
        """Write bytes, at least one; returns their number."""
        if self._file is None:
            log.info("%s", data.decode().rstrip())
            return len(data)
        written = self._file.write(data)
        if not written:
            raise BlockingIOError(errno.EAGAIN, "it takes no bytes")
        return written


def _opened(path: str) -> IO[bytes] | None:
    if not path:
        return None
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.chmod(0o600)
        return file.open("ab", buffering=0)
    except OSError as error:
        raise SettingsError(f"the audit cannot be written to {path}: {error.strerror}") from None

"""The offset at which the log of a restored store goes on: above all that any life of that log has given.

Rules
- A log that is restored twice from one backup lives three times. No two lives may give the same offset, and a
  later life gives higher ones, so readers, resume tokens and neighbours of every version just read on.
- The clock in microseconds since 1970 is above every offset: no life gives one for each microsecond, and a
  restored log begins there itself. Nothing caps it.
- For clocks that were set back, the directory of the backups remembers where the last log began that was
  restored from it (`restored.json`), and its backups say how far their logs were. Where the clock is not
  above all of them, the next life begins `STRIDE` above the highest. It does so then alone: lives that were
  restored from several directories have the clock in common and nothing else.
- The directory remembers before the store is there. One that cannot be written is reported to the caller.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from tidings.errors import CorruptionError
from tidings.store.watermark import sync_directory

STRIDE = 1 << 40  # offsets: months of a broker's life
FILE = "restored.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)


class RestoreMark(msgspec.Struct, frozen=True):
    """The highest offset at which a log began that was restored from a directory of backups."""

    offset: int
    sum: str = ""

    @property
    def signed(self) -> RestoreMark:
        return RestoreMark(self.offset, hashlib.sha256(str(self.offset).encode()).hexdigest())


def claim(backups: Path, known: int, now: datetime) -> tuple[int, bool]:
    """The first offset of a log that is restored from this directory, whose backups say that the log had
    given those below `known`; and whether the directory remembers it."""
    lock = os.open(backups, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        last = max(_marked(backups), known)
        clock = (now - _EPOCH) // timedelta(microseconds=1)
        start = clock if clock > last else last + STRIDE
        return start, _mark(backups, start)
    finally:
        os.close(lock)


def _marked(backups: Path) -> int:
    path = backups / FILE
    try:
        mark = msgspec.json.decode(path.read_bytes(), type=RestoreMark)
    except FileNotFoundError:
        return 0
    except msgspec.MsgspecError:
        mark = RestoreMark(-1)
    if mark != mark.signed:
        raise CorruptionError(
            f"{path} is damaged: it says where the logs began that were restored from these backups",
            hint="move that file away when the clock of this machine is right, and restore again",
        )
    return mark.offset


def _mark(backups: Path, start: int) -> bool:
    new = backups / f"{FILE}.new"
    try:
        with new.open("wb") as file:
            file.write(msgspec.json.encode(RestoreMark(start).signed))
            file.flush()
            os.fsync(file.fileno())
        new.replace(backups / FILE)
        sync_directory(backups)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        return False
    return True

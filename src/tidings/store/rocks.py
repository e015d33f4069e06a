"""The durable store: RocksDB through the `rocksdict` package.

Layout of a store's directory: `db/` (RocksDB), `watermark` (see `watermark.py`), `lock`; while a broker runs
also `control` (`runtime/store_control.py`) and `checkpoints/`, which the next opening removes.

Rules
- One owner: an exclusive lock on `lock`, taken before anything is read.
- RocksDB opens, writes and deletes its files by name. When the directory was renamed, and another store was
  put in its place, those are the names of the other one: each read and each write first looks whether `lock`
  is the file that was locked, which takes some microseconds. If not, the store has failed, and the database
  is given up without being closed.
- Look before you touch. RocksDB deletes files it does not know when it opens for writing, so the store is
  first opened read-only and audited. A damaged store is left as it was found.
- The write-ahead log tolerates a torn tail: that is a write that was never acknowledged. Damage that this
  tolerance may hide (a damaged length reads as a torn tail) is found by the account and the watermark.
- RocksDB goes round for ever at some damaged records, so those are looked for first (`framing.py`).
- An iterator's status is checked after every scan: a damaged block otherwise just ends the iteration.
- One batch, one write, one sync of the log. The two are calls of their own: a write that syncs holds the
  interpreter's lock until the disk is done, and with it every other thread. An error while writing or syncing
  is never retried; only a full disk is recovered from, by opening the database again.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from tidings.errors import ClosedError, StoreError, StoreFullError, StoreLockedError, TidingsError, require
from tidings.store.audit import audit, read_account
from tidings.store.engine import Change
from tidings.store.framing import record_never_written
from tidings.store.guard import damaged
from tidings.store.keyed import KeyedStore
from tidings.store.watermark import SYNC_SECONDS, Watermark, sync_directory

RESERVE_BYTES = 64 << 20  # room that events may not use: for acknowledgements, flushes and compactions
WRITE_BUFFER_BYTES = 32 << 20  # more means fewer flushes, and a longer log to replay on opening
CHECKPOINTS = "checkpoints"  # directory of a store for consistent copies that are read beside it
_SLACK_BYTES = 1 << 20  # for the small files that opening writes
_FULL = ("No space left on device", "File too large", "Disk quota exceeded")


class RocksStore(KeyedStore):
    """A durable store in the directory `path`, created when it is not there."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        reserve_bytes: int = RESERVE_BYTES,
        most_bytes: int | None = None,
        watermark_seconds: float = SYNC_SECONDS,
    ) -> None:
        self.path = Path(path)
        # Opening again after a crash writes the replayed log into a table: the reserve must hold that.
        buffer_bytes = min(WRITE_BUFFER_BYTES, reserve_bytes // 2) if reserve_bytes else WRITE_BUFFER_BYTES
        engine = RocksEngine(self.path, buffer_bytes=buffer_bytes, watermark_seconds=watermark_seconds)
        try:
            found = audit(engine)
            engine.open_for_writing(found[0].account.commit)
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)  # of an earlier process
            if read_account(engine) != found[0].account:
                raise damaged(engine.name, "opening it for writing changed its account")
        except BaseException:
            engine.close()
            raise
        super().__init__(engine, found, reserve_bytes=reserve_bytes, most_bytes=most_bytes)
        self._rocks = engine

    def checkpoint(self, name: str) -> Path:
        """Make a consistent copy of the present content beside the store, of hard links; commits go on
        meanwhile.

        The copy is a store's directory without a watermark. Remove it when it was read.
        """
        self._check_open()
        folder = self.path / CHECKPOINTS / name
        folder.mkdir(parents=True)
        self._rocks.checkpoint(folder / "db")
        return folder

    def compact(self) -> None:
        """Rewrite the tables without forgotten entries; commits and reads go on meanwhile."""
        self._check_open()
        self._rocks.compact()


class RocksEngine:
    """RocksDB as an engine: read-only at first, writable after `open_for_writing`."""

    def __init__(
        self,
        path: Path,
        *,
        buffer_bytes: int = WRITE_BUFFER_BYTES,
        watermark_seconds: float = SYNC_SECONDS,
    ) -> None:
        self.name = str(path)
        self._directory, self._lock_path = path / "db", str(path / "lock")
        self._buffer_bytes = buffer_bytes
        self._database: Any = None
        self._is_empty = not (self._directory / "CURRENT").exists()
        self._readers = 0
        self._swapping = threading.Condition()  # readers are counted, so that no handle closes under them
        self._has_failed = False
        self._is_moved = False  # another directory has its name
        self._is_stalled = False  # a write found the disk full; the database must be opened again
        with contextlib.ExitStack() as undo:
            self._lock = _locked(path)
            undo.callback(os.close, self._lock)
            self._locked_file = os.fstat(self._lock)
            with self._translating():
                self._watermark = Watermark(path / "watermark", self.name, sync_seconds=watermark_seconds)
            if not self._is_empty:
                self._check_framing()
                self._database = self._opened(read_only=True)
            elif any(self._directory.glob("*.sst")):  # RocksDB would begin anew and delete them
                raise damaged(self.name, "its file db/CURRENT is gone")
            undo.pop_all()

    def open_for_writing(self, commit: int) -> None:
        """Go on after an audit that found this commit as the last one."""
        if commit and self._watermark.is_new:
            raise damaged(self.name, "its watermark is missing")
        self._swap(read_only=False)
        self._is_empty = False
        with self._translating():
            self._watermark.settle(commit)

    def write(self, changes: Sequence[Change]) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        database = self._current()
        try:
            database.write(batch)  # into the kernel's hands
            database.flush_wal(True)  # onto the disk
        except Exception as error:
            translated = self._translated(error)
            self._has_failed = True
            self._is_stalled = isinstance(translated, StoreFullError)
            raise translated from error

    def read(self, key: bytes) -> bytes | None:
        if self._is_empty:
            return None
        with self._reading() as database:
            value: bytes | None = database.get(key)
        return value

    def scan(self, lower: bytes, upper: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        if self._is_empty:
            return
        with self._reading() as database:
            cursor = database.iter()
            try:
                cursor.seek(lower)
                while cursor.valid():
                    key = cursor.key()
                    if key >= upper:
                        break
                    yield key, cursor.value()
                    cursor.next()
                cursor.status()  # raises when the iteration ended because of damage
            finally:
                del cursor  # a cursor keeps the database open

    def checkpoint(self, path: Path) -> None:
        from rocksdict import Checkpoint

        with self._reading() as database:
            # A checkpoint holds the interpreter's lock and a flush does not, so the flush comes first.
            database.flush()
            Checkpoint(database).create_checkpoint(str(path))

    def compact(self) -> None:
        with self._reading() as database:
            database.flush()
            database.compact_range(None, None)

    def watermark(self) -> int:
        return self._watermark.commit

    def mark(self, commit: int) -> None:
        try:
            self._watermark.mark(commit)
        except OSError as error:
            raise self._translated(error) from error

    def recover(self) -> None:
        """Open the database again: its log is replayed into a table, and what was written in part is
        dropped. Without room for that, reading goes on as before."""
        if not self._is_stalled:
            return
        needed = _SLACK_BYTES + sum(_size(file) for file in self._files() if file.name.endswith(".log"))
        if self.room() < needed:
            raise StoreFullError(
                f"store {self.name}: it needs {needed} free bytes to go on",
                hint="make room on that disk; publishers are refused until then, consumers go on",
            )
        self._swap(read_only=False)
        self._has_failed = self._is_stalled = False

    def room(self) -> int:
        figures = os.statvfs(self.name)
        return figures.f_bavail * figures.f_frsize

    def size(self) -> int:
        return sum(_size(file) for file in self._files())

    def close(self) -> None:
        try:
            with self._swapping:
                self._swapping.wait_for(lambda: not self._readers)
                self._close_database()
        finally:
            self._watermark.close()
            os.close(self._lock)

    @contextlib.contextmanager
    def _reading(self) -> Generator[Any, None, None]:
        """The database, held open; what it raises becomes one of our errors."""
        with self._swapping:
            database = self._current()
            self._readers += 1
        try:
            with self._translating():
                yield database
        finally:
            with self._swapping:
                self._readers -= 1
                self._swapping.notify_all()

    @contextlib.contextmanager
    def _translating(self) -> Generator[None, None, None]:
        try:
            yield
        except TidingsError:
            raise
        except Exception as error:
            raise self._translated(error) from error

    def _swap(self, *, read_only: bool) -> None:
        """Close the database and open it again; when it does not open for writing, it stays readable."""
        with self._swapping:
            self._swapping.wait_for(lambda: not self._readers)
            self._close_database()
            try:
                self._database = self._opened(read_only=read_only)
            except StoreFullError:
                self._database = self._opened(read_only=True)
                raise

    def _current(self) -> Any:
        if self._database is None:
            raise ClosedError(f"store {self.name} is closed")
        self._check_place()
        return self._database

    def _opened(self, *, read_only: bool) -> Any:
        require("rocksdict", "a store on disk")
        from rocksdict import AccessType, Rdict

        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        with self._translating():
            # No column families are named, or else it would read the notes on options first, and end the
            # process at one damaged title among them.
            database = Rdict(
                str(self._directory), _options(self._buffer_bytes), column_families={}, access_type=access
            )
            if self._is_empty:
                sync_directory(self._directory.parent)
        return database

    def _has_moved(self) -> bool:
        self._is_moved = self._is_moved or not _is_same(self._lock_path, self._locked_file)
        return self._is_moved

    def _check_place(self) -> None:
        """Raise `StoreError` when another directory has the name of this store, or none."""
        if self._has_moved():
            raise StoreError(
                f"store {self.name} was moved away or replaced while it was open",
                hint="nothing was written into what is there now; stop this broker, and start it on its own "
                "store, or on the one that was restored in its place",
            )

    def _check_framing(self) -> None:
        """Before RocksDB looks: it would look for ever."""
        for file in (*self._directory.glob("MANIFEST-*"), *self._directory.glob("*.log")):
            position = record_never_written(file)
            if position is not None:
                raise damaged(self.name, f"db/{file.name} has a record of a foreign kind at byte {position}")

    def _close_database(self) -> None:
        """Closing writes the content of the log into a table. A failure loses no data, because the
        next opening replays the log; it is reported all the same, unless it only repeats an earlier failure.
        """
        database, self._database = self._database, None
        if database is None:
            return
        if self._has_moved():
            # Its destructor would delete files by name too.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
            return
        try:
            database.close()
        except Exception as error:
            translated = self._translated(error)
            if not self._has_failed and not isinstance(translated, StoreFullError):
                raise translated from error

    def _files(self) -> list[os.DirEntry[str]]:
        with os.scandir(self._directory) as files:
            return list(files)

    def _translated(self, error: Exception) -> TidingsError:
        """An error of RocksDB or the kernel as one of our errors."""
        from rocksdict import DbClosedError

        text = str(error)
        if isinstance(error, DbClosedError):
            return ClosedError(f"store {self.name} is closed")
        if any(sign in text for sign in _FULL):
            return StoreFullError(
                f"store {self.name}: {text}",
                hint="make room on that disk; publishers are refused until then, consumers go on",
            )
        if text.startswith("Corruption") or ("No such file" in text and not self._is_empty):
            return damaged(self.name, text)
        return StoreError(
            f"store {self.name}: {text}", hint="the store has stopped; look after the disk and open it again"
        )


def _is_same(path: str, file: os.stat_result) -> bool:
    """Has the file still this name?"""
    try:
        return os.path.samestat(os.stat(path), file)  # noqa: PTH116 - each commit asks
    except OSError:
        return False


def _locked(path: Path) -> int:
    """The lock of the store in this directory, which is made when it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"store {path} cannot be opened: {error.strerror}", hint="give a directory that can be written"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreLockedError(
            f"store {path} is open in another process or object",
            hint="close that one, or use another directory: a store has one owner",
        ) from error
    return lock


def _options(buffer_bytes: int) -> Any:
    from rocksdict import DBCompressionType, DBRecoveryMode, Options

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_paranoid_checks(True)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_recycle_log_file_num(0)  # a recycled log may end in old records that look whole
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(buffer_bytes)
    options.set_max_background_jobs(2)
    options.set_max_open_files(512)
    # A log is forgotten from its front; without this, scans would step over tombstones for long.
    options.add_compact_on_deletion_collector_factory(10_000, 5_000, 0.5)
    options.set_max_log_file_size(1 << 20)  # the engine's own diary for people, not the data
    options.set_keep_log_file_num(2)
    options.set_stats_dump_period_sec(0)
    return options


def _size(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # the engine has just removed it
        return 0

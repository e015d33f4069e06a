"""State of an archive: its files, the archived offset of each log, and the columns of attributes.

    ARCHIVE/_state/00000042.json                      the truth: a whole state; the highest number counts
    ARCHIVE/log=b1%2300ff/date=2026-01-02/FIRST-LAST-42-MARK.parquet
    ARCHIVE/_staged/                                  what is being written
    ARCHIVE/_gone/                                    what was replaced, for readers that still want it

Rules
- A change is written aside, then a new state names it, in one atomic rename; then files move into place, and
  replaced files move away, to be deleted an hour later. After a crash the newest state says which steps are
  left; the steps are idempotent. So every event of a log up to its archived offset is in exactly one file of
  a state.
- Readers follow the state. A file that the state names and that is missing or damaged is an error; so
  is a Parquet file beside them that the state does not name.
- One writer at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import CorruptionError, InputError, StoreLockedError
from tidings.model.decoding import UNREADABLE

VERSION = 1
STATES, STAGED, GONE, LOCK = "_state", "_staged", "_gone", "_lock"
GRACE = 3600.0  # seconds for which a replaced file stays readable for readers of an older state
KEPT = 3  # states that stay, for readers that began with an older one


class Stats(msgspec.Struct, array_like=True, frozen=True):
    """Statistics of one column of a file; no bounds when they are unknown."""

    low: Any = None
    high: Any = None
    has_values: bool = True
    has_nulls: bool = True


class ArchiveFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str  # below the archive
    log: str
    first: int  # offsets
    last: int
    rows: int
    bytes: int
    odd: int = 0  # rows with attributes that columns cannot hold
    stats: dict[str, Stats] = {}


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    number: int = 0
    policy: str | None = None  # the filter of what is archived beside what lives forever
    places: dict[str, int] = {}  # by log: everything up to here that belongs in the archive is in it
    columns: dict[str, str] = {}  # of attributes: bool, int, float, str, time
    files: tuple[ArchiveFile, ...] = ()
    added: tuple[str, ...] = ()  # by the last change: to be moved into place
    removed: tuple[str, ...] = ()  # by the last change: to be deleted


class Archive:
    """An archive in a folder. Readers need only the folder; `locked` is for the one writer."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return (self.path / STATES).is_dir()

    def state(self) -> ArchiveState:
        """The newest state; an empty one when there is none."""
        numbers = self._numbers()
        if not numbers:
            return ArchiveState()
        path = self._state_path(numbers[-1])
        try:
            state = msgspec.json.decode(path.read_bytes(), type=ArchiveState)
        except (OSError, *UNREADABLE) as error:
            raise CorruptionError(
                f"{path} is no state of an archive: {error}",
                hint="restore it from a copy; an older state beside it lacks what came after",
            ) from None
        if state.version > VERSION:
            raise InputError(
                f"{self.path} is an archive of version {state.version}; this release reads up to {VERSION}",
                hint="use a newer release",
            )
        return state

    def checked(self) -> ArchiveState:
        """The newest state; all its files are present and complete, and no other Parquet file lies beside
        them."""
        state = self.state()
        named = {file.path for file in state.files}
        for file in state.files:
            self.find(file, state)
        passing = {*state.added, *state.removed}
        for found in sorted(self.path.glob("log=*/**/*.parquet")):
            own = str(found.relative_to(self.path))
            if own not in named | passing:
                raise CorruptionError(
                    f"{found} is not a file of this archive: no state names it",
                    hint="if you put it there, move it away; what it holds is not in the archive",
                )
        return state

    def find(self, file: ArchiveFile, state: ArchiveState) -> Path:
        """Path of a file: at its final location, or still staged."""
        paths = [self.path / file.path]
        if file.path in state.added:
            paths.append(self.path / STAGED / Path(file.path).name)
        paths += [
            self.path / GONE / Path(file.path).name,
            self.path / file.path,
        ]  # it may have moved just now
        for path in paths:
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue
            if size != file.bytes:
                raise CorruptionError(
                    f"{path} has {size} bytes, and {file.bytes} were written: it is torn or was changed",
                    hint="restore it from a copy; nothing of it is served",
                )
            return path
        raise CorruptionError(
            f"{self.path / file.path} is gone, with {file.rows} events of the log {file.log}",
            hint="restore it from a copy; the archive is not complete without it",
        )

    # -- for the writer -------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Exclusive lock for a change. Steps that a crash interrupted are completed first."""
        (self.path / STATES).mkdir(parents=True, exist_ok=True)
        (self.path / STAGED).mkdir(exist_ok=True)
        with (self.path / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreLockedError(
                    f"another process writes to the archive {self.path}", hint="an archive has one writer"
                ) from None
            self._finish(self.state())
            for left in (self.path / STAGED).iterdir():
                left.unlink()  # of a change that no state names
            yield

    def publish(self, state: ArchiveState) -> None:
        """Make this the newest state, and put its files where they belong."""
        draft = self.path / STAGED / f"state-{state.number}.json"
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=1))
        _sync(draft)
        draft.rename(self._state_path(state.number))
        _sync(self.path / STATES)
        self._finish(state)
        for number in self._numbers()[:-KEPT]:
            self._state_path(number).unlink()

    def _finish(self, state: ArchiveState) -> None:
        for own in state.added:
            staged = self.path / STAGED / Path(own).name
            if staged.exists():
                (self.path / own).parent.mkdir(parents=True, exist_ok=True)
                staged.rename(self.path / own)
        for own in state.removed:
            if (self.path / own).exists():
                (self.path / GONE).mkdir(exist_ok=True)
                gone = self.path / GONE / Path(own).name
                (self.path / own).rename(gone)
                os.utime(gone)
        if (self.path / GONE).is_dir():
            for gone in (self.path / GONE).iterdir():
                if gone.stat().st_mtime < time.time() - GRACE:
                    gone.unlink()

    def _numbers(self) -> list[int]:
        if not self.exists:
            return []
        return sorted(int(file.stem) for file in (self.path / STATES).glob("*.json") if file.stem.isdigit())

    def _state_path(self, number: int) -> Path:
        return self.path / STATES / f"{number:08d}.json"


def opened(location: str | os.PathLike[str], read: Any) -> Any:
    """Read a file of an archive while a writer may move it.

    A file only moves forward, from the staging folder into its place and from there to the replaced ones, so
    one try in each of the folders that follow finds it.
    """
    try:
        return read(location)
    except FileNotFoundError:
        path = Path(location)
        archive = path.parents[1] if path.parent.name == STAGED else path.parents[2]
    if path.parent.name == STAGED:
        for moved in archive.glob(f"log=*/*/{path.name}"):
            with contextlib.suppress(FileNotFoundError):
                return read(moved)
    return read(archive / GONE / path.name)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Backups of a store on disk: a directory of numbered, consistent copies that share their files.

Layout: `files/` (each file once, under the SHA-256 of its content), `NUMBER.json` (one backup: the names,
sums and sizes of its files, and what its store holds), `latest`, `lock`, `restored.json` (`restored.py`).

Rules
- Tables of RocksDB never change, so a backup copies only those that no earlier backup holds. A file that it
  takes over from an earlier one is read and its sum checked; a damaged one is copied again.
- A directory holds the backups of one broker: `prune` counts, and `restore` takes the latest.
- A backup counts when its `NUMBER.json` is there, which is written last. An interrupted backup leaves files
  that the next one uses or `prune` removes.
- Each file is on stable storage before the backup counts; each backup is read as a whole by `audit` before
  it does.
- A record that is gone is named: numbers have no hole, but before the oldest, and `latest` has the last one.
- `NUMBER.json` carries a sum of itself. One that is damaged is named, never passed over: another backup has
  to be asked for by its number.
- Restoring checks every sum, audits the result and has it finished by its caller before the store gets its
  name: a restore that is killed leaves no store.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tidings.availability.records import Loaded
from tidings.errors import CorruptionError, InputError, StoreFullError, StoreLockedError
from tidings.store.account import StoreAccount
from tidings.store.audit import audit
from tidings.store.rocks import RocksEngine
from tidings.store.watermark import Watermark, sync_directory

FORMAT = 1
PIECE = 1 << 20  # bytes that are read at once
LATEST = "latest"  # the file with the number of the last backup
_OWN = ("lock", "watermark")  # of a store, made anew
_LEFT_OUT = ("LOCK", "LOG")  # of a database: its lock, and its diary for people


class BackupFile(msgspec.Struct, frozen=True):
    """One file of a backup."""

    name: str
    sha256: str
    size: int
    modified: int  # nanoseconds; with name and size it tells an unchanged table without reading it


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """One backup, as `NUMBER.json` holds it."""

    number: int
    time: str
    broker: str  # whose store it is; empty: of a broker that had not begun a log
    group: bool  # is it the disk of a group's member?
    commit: int
    next_offset: int
    entries: int
    rows: int
    files: tuple[BackupFile, ...]  # of the database
    beside: tuple[BackupFile, ...] = ()  # that a broker keeps beside it, such as its webhooks
    format: int = FORMAT
    sum: str = ""  # SHA-256 of the rest; empty: of a version that wrote none

    @property
    def signed(self) -> Backup:
        """The same with its sum."""
        rest = msgspec.json.encode(msgspec.structs.replace(self, sum=""))
        return msgspec.structs.replace(self, sum=hashlib.sha256(rest).hexdigest())

    @property
    def size(self) -> int:
        return sum(file.size for file in (*self.files, *self.beside))

    @property
    def taken(self) -> datetime:
        return datetime.fromisoformat(self.time)


class StoreSummary(msgspec.Struct, frozen=True):
    """What the audit of a store found."""

    account: StoreAccount
    loaded: Loaded


class BackupSet:
    """The backups in one directory. `owner` tells from what a store loads whose it is, and whether of a
    group."""

    def __init__(self, path: Path, owner: Callable[[Loaded], tuple[str, bool]]) -> None:
        self.path = path
        self._owner = owner

    @staticmethod
    def is_at(path: Path) -> bool:
        return (path / "files").is_dir()

    def backups(self) -> list[Backup]:
        """All that can be read, the oldest first."""
        return [each for each in map(self._read, self._records()) if isinstance(each, Backup)]

    def damaged(self) -> list[CorruptionError]:
        """Why records of backups cannot be read."""
        return [each for each in map(self._read, self._records()) if isinstance(each, CorruptionError)]

    def missing(self) -> list[int]:
        """Numbers between those of the records that no record has: `prune` removes the oldest alone."""
        numbers = {int(each.stem) for each in self._records()}
        highest = max(numbers, default=0)
        if (mark := self.path / LATEST).exists():
            with suppress(ValueError):
                highest = max(highest, int(mark.read_text()))
        return sorted(set(range(min(numbers, default=highest), highest + 1)) - numbers)

    def _records(self) -> list[Path]:
        if not self.path.is_dir():
            raise InputError(f"{self.path} holds no backups: there is no such directory")
        return sorted(each for each in self.path.glob("*.json") if each.stem.isdecimal())

    def _read(self, record: Path) -> Backup | CorruptionError:
        try:
            backup = msgspec.json.decode(record.read_bytes(), type=Backup)
        except msgspec.MsgspecError as error:
            return _unreadable(record, str(error))
        if backup.format != FORMAT:
            raise InputError(
                f"backup {backup.number} in {self.path} has format {backup.format}, "
                f"this version reads {FORMAT}",
                hint="use the version of Tidings that made it",
            )
        if backup.number != int(record.stem) or backup.sum not in ("", backup.signed.sum):
            return _unreadable(record, "its sum is another one")
        return backup

    def find(self, number: int | None = None) -> Backup:
        """The backup of this number; None: the latest."""
        records = {int(each.stem): each for each in self._records()}
        if not records:
            raise InputError(f"{self.path} holds no backup", hint="make one: tidings store backup STORE DIR")
        if number is not None and number not in records:
            known = ", ".join(map(str, records))
            raise InputError(f"{self.path} holds no backup {number}", hint=f"it holds {known}")
        found = self._read(records[max(records) if number is None else number])
        if isinstance(found, CorruptionError):
            raise found
        return found

    # -- taking ----------------------------------------------------------------------------------

    def take(
        self, folder: Path, now: datetime | None = None, *, store: Path | None = None
    ) -> tuple[Backup, int]:
        """Back the store in `folder` up, whose files do not change meanwhile; the backup, and the bytes
        copied."""
        with self._locked(), self._full_is_said():
            summary = inspect(folder)
            before = self.backups()
            broker, group = self._owner(summary.loaded)
            self._check_owner(before, broker)
            known = {(f.name, f.size, f.modified): f.sha256 for backup in before for f in backup.files}
            files, copied = [], 0
            for source in _files_of(folder / "db"):
                status = source.stat()
                sum_known = known.get((source.name, status.st_size, status.st_mtime_ns))
                if sum_known is None or not self._is_sound(sum_known):
                    sum_known, is_new = self._copy_in(source)
                    copied += status.st_size if is_new else 0
                files.append(BackupFile(source.name, sum_known, status.st_size, status.st_mtime_ns))
            beside = []
            for file in _files_of(store or folder):
                with suppress(FileNotFoundError):  # the broker has replaced it just now
                    if file.name not in _OWN:
                        beside.append(self._kept_beside(file))
            sync_directory(self.path / "files")
            account = summary.account
            backup = Backup(
                number=max((int(each.stem) for each in self._records()), default=0) + 1,
                time=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
                broker=broker,
                group=group,
                commit=account.commit,
                next_offset=account.next_offset,
                entries=account.entries,
                rows=account.rows,
                files=tuple(files),
                beside=tuple(beside),
            )
            self._write(backup)
            return backup, copied

    def _check_owner(self, before: list[Backup], broker: str) -> None:
        others = sorted({each.broker for each in before if each.broker} - {broker})
        if broker and others:
            raise InputError(
                f"{self.path} holds backups of {', '.join(others)}, and this is the store of {broker}",
                hint="give the backups of each broker a directory of their own",
            )

    def _is_sound(self, sum: str) -> bool:
        try:
            return _sum_of(self._file(sum)) == sum
        except OSError:  # gone, or its disk cannot read it
            return False

    def _kept_beside(self, source: Path) -> BackupFile:
        """Small files that are replaced as a whole: each is one version of itself."""
        sum, _ = self._copy_in(source)
        return BackupFile(source.name, sum, self._file(sum).stat().st_size, 0)

    def _copy_in(self, source: Path) -> tuple[str, bool]:
        """Copy a file in under its sum; the sum, and whether no backup held it yet."""
        digest = hashlib.sha256()
        descriptor, name = tempfile.mkstemp(dir=self.path / "files", prefix="new-")
        try:
            with os.fdopen(descriptor, "wb") as target, source.open("rb") as opened:
                while piece := opened.read(PIECE):
                    digest.update(piece)
                    target.write(piece)
                target.flush()
                os.fsync(target.fileno())
            path = self._file(digest.hexdigest())
            is_new = not path.exists()
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return digest.hexdigest(), is_new

    def _write(self, backup: Backup) -> None:
        path = self.path / f"{backup.number:06}.json"
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(backup.signed)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        latest = self.path / f"{LATEST}.new"
        latest.write_text(f"{backup.number}\n")
        latest.replace(self.path / LATEST)
        sync_directory(self.path)

    def prune(self, keep: int) -> int:
        """Remove all but the latest `keep` backups, and files that none holds; how many backups went."""
        with self._locked():
            for error in self.damaged():  # it may need any of the files
                raise error
            backups = self.backups()
            gone = backups[: max(0, len(backups) - keep)]
            for backup in gone:
                (self.path / f"{backup.number:06}.json").unlink()
            kept = backups[len(gone) :]
            stored = {sum for backup in kept for sum in _sums_of(backup)}
            for file in (self.path / "files").iterdir():
                if file.name not in stored:
                    file.unlink()
            return len(gone)

    # -- reading ---------------------------------------------------------------------------------

    def verify(self, number: int | None = None) -> Backup:
        """Check every sum of a backup and audit its store; without a number the sums of all backups, and
        the store of the latest. Raises `CorruptionError`."""
        for error in self.damaged() if number is None else ():
            raise error
        backup = self.find(number)
        self._check(self.backups() if number is None else [backup])
        with self._assembled(backup) as folder:
            self._compare(backup, inspect(folder).account)
        return backup

    @contextmanager
    def opened(self, number: int | None = None) -> Iterator[Path]:
        """The store of a backup in a directory of its own, to be read. Every sum is checked."""
        backup = self.find(number)
        self._check([backup])
        with self._assembled(backup) as folder:
            yield folder

    @contextmanager
    def _assembled(self, backup: Backup) -> Iterator[Path]:
        """The store of a backup, to be read: of links beside the files, or elsewhere when their disk takes
        none."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory(dir=self.path, prefix="verify-"))
                self._assemble(backup, Path(folder), _linked(os.link))
            except OSError:  # read-only, or without hard links
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="verify-"))
                self._assemble(
                    backup, Path(folder), _linked(lambda file, name: name.symlink_to(file.resolve()))
                )
            yield Path(folder)

    def restore(
        self, store: Path, number: int | None = None, *, finish: Callable[[Path, Backup], None] | None = None
    ) -> Backup:
        """Put a backup into a directory that is empty or not there; `finish` changes the new store before
        it gets its name. Raises."""
        backup = self.find(number)
        is_there = check_empty(store)
        self._check([backup])
        store.parent.mkdir(parents=True, exist_ok=True)
        place = store if is_there else store.parent  # a directory that is there may be a disk of its own
        with _draft(place, _drafts_of(store)) as new:
            try:
                self._assemble(backup, new, _copied)
                watermark = Watermark(new / "watermark", str(new))
                watermark.settle(backup.commit)
                watermark.close()
                self._compare(backup, inspect(new).account)
                if finish is not None:
                    finish(new, backup)
                if is_there:
                    for each in sorted(new.iterdir(), key=lambda each: each.name == "db"):
                        each.rename(store / each.name)  # a store is there with its `db`, the last of them
                    new.rmdir()
                else:
                    new.rename(store)
                sync_directory(place)
            except BaseException as error:
                shutil.rmtree(new, ignore_errors=True)
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise StoreFullError(
                        f"{place} has no room for backup {backup.number}, which needs more than "
                        f"{backup.size >> 20} MiB; nothing was restored",
                        hint="make room there, or restore to another disk",
                    ) from None
                raise
        return backup

    def _assemble(self, backup: Backup, folder: Path, put: Callable[[Path, Path], object]) -> None:
        (folder / "db").mkdir()
        for file in backup.files:
            put(self._file(file.sha256), folder / "db" / file.name)
        for file in backup.beside:
            put(self._file(file.sha256), folder / file.name)
        sync_directory(folder / "db")

    def _check(self, backups: list[Backup]) -> None:
        """Check the sums of all files of these backups, each file once."""
        wanted: dict[str, str] = {}
        for backup in backups:
            wanted |= {file.sha256: file.name for file in (*backup.files, *backup.beside)}
        for sum, name in wanted.items():
            if not self._is_sound(sum):
                numbers = ", ".join(str(each.number) for each in backups if sum in _sums_of(each))
                raise CorruptionError(
                    f"backup {numbers} in {self.path}: the file {name} is damaged or gone "
                    f"({self._file(sum)})",
                    hint="restore another backup (--number), and make a new one",
                )

    def _compare(self, backup: Backup, account: StoreAccount) -> None:
        found = (account.commit, account.next_offset, account.entries, account.rows)
        if found != (backup.commit, backup.next_offset, backup.entries, backup.rows):
            raise CorruptionError(f"backup {backup.number} in {self.path} holds another store than it says")

    def _file(self, sum: str) -> Path:
        return self.path / "files" / sum

    @contextmanager
    def _full_is_said(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StoreFullError(
                f"{self.path} has no room for this backup; none was made, the earlier ones stay",
                hint="make room there; --keep N removes earlier ones after the next backup",
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        (self.path / "files").mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise StoreLockedError(
                f"another backup into {self.path} is under way", hint="wait until it has ended"
            ) from None
        finally:
            os.close(lock)


def _unreadable(record: Path, why: str) -> CorruptionError:
    return CorruptionError(
        f"{record} is no backup: {why}",
        hint="move that file away; restore another backup (--number), and make a new one",
    )


def _sums_of(backup: Backup) -> set[str]:
    return {file.sha256 for file in (*backup.files, *backup.beside)}


def _drafts_of(store: Path) -> str:
    """How the names of directories begin in which a restore to this place is made."""
    return f"{store.name}.restoring-"


@contextmanager
def _draft(place: Path, prefix: str) -> Iterator[Path]:
    """A directory for one restore at a time. What a killed one left, as large as a store, is removed."""
    with ExitStack() as stack:
        with _flocked(place, fcntl.LOCK_EX):
            for left in [each for each in place.iterdir() if each.name.startswith(prefix)]:
                try:
                    with _flocked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                        shutil.rmtree(left)
                except BlockingIOError:
                    raise StoreLockedError(
                        f"another restore in {place} is under way ({left.name})",
                        hint="wait until it has ended",
                    ) from None
            new = Path(tempfile.mkdtemp(dir=place, prefix=prefix))
            stack.enter_context(_flocked(new, fcntl.LOCK_EX))
        yield new


@contextmanager
def _flocked(folder: Path, how: int) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


def check_empty(store: Path) -> bool:
    """Is the directory there? Raises `InputError` when it is not empty."""
    if not store.exists():
        return False
    drafts = _drafts_of(store)
    if not store.is_dir() or any(
        each.name != "lost+found" and not each.name.startswith(drafts) for each in store.iterdir()
    ):
        raise InputError(
            f"{store} is not empty", hint="move it away first; a backup is restored into an empty place"
        )
    return True


def inspect(folder: Path) -> StoreSummary:
    """Read and check a store without changing it. Raises `StoreLockedError`, `CorruptionError`."""
    with closing(RocksEngine(folder)) as engine:
        index, loaded = audit(engine)
        return StoreSummary(index.account, loaded)


def _files_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith(_LEFT_OUT))


def _linked(link: Callable[[Path, Path], object]) -> Callable[[Path, Path], object]:
    """Link the tables, which are large and never change, and copy the rest, which opening may touch."""
    return lambda source, target: (link if target.suffix == ".sst" else _copied)(source, target)


def _copied(source: Path, target: Path) -> None:
    with source.open("rb") as opened, target.open("wb") as file:
        shutil.copyfileobj(opened, file, PIECE)
        file.flush()
        os.fsync(file.fileno())


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

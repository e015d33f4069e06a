"""Backups of a store on disk: a directory of numbered, consistent copies that share their files.

Layout: `files/` (each file once, under the SHA-256 of its content), `NUMBER.json` (one backup: the names,
sums and sizes of its files, and what its store holds), `lock`.

Rules
- Tables of RocksDB never change, so a backup copies only those that no earlier backup holds.
- A backup counts when its `NUMBER.json` is there, which is written last. An interrupted backup leaves files
  that the next one uses or `prune` removes.
- Each file is on stable storage before the backup counts; each backup is read as a whole by `audit` before
  it does.
- Restoring checks every sum and audits the result before the store gets its name.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tidings.availability.records import Loaded
from tidings.errors import CorruptionError, InputError, StoreLockedError
from tidings.store.account import StoreAccount
from tidings.store.audit import audit
from tidings.store.rocks import RocksEngine
from tidings.store.watermark import Watermark, sync_directory

FORMAT = 1
PIECE = 1 << 20  # bytes that are read at once
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
        """All of them, the oldest first."""
        if not self.path.is_dir():
            raise InputError(f"{self.path} holds no backups: there is no such directory")
        found = []
        for file in sorted(self.path.glob("*.json")):
            try:
                found.append(msgspec.json.decode(file.read_bytes(), type=Backup))
            except msgspec.MsgspecError as error:
                raise CorruptionError(f"{file} is no backup: {error}") from None
        for backup in found:
            if backup.format != FORMAT:
                raise InputError(
                    f"backup {backup.number} in {self.path} has format {backup.format}, "
                    f"this version reads {FORMAT}",
                    hint="use the version of Tidings that made it",
                )
        return found

    def find(self, number: int | None = None) -> Backup:
        """The backup of this number; None: the latest."""
        backups = self.backups()
        if not backups:
            raise InputError(f"{self.path} holds no backup", hint="make one: tidings store backup STORE DIR")
        if number is None:
            return backups[-1]
        for backup in backups:
            if backup.number == number:
                return backup
        known = ", ".join(str(each.number) for each in backups)
        raise InputError(f"{self.path} holds no backup {number}", hint=f"it holds {known}")

    # -- taking ----------------------------------------------------------------------------------

    def take(
        self, folder: Path, now: datetime | None = None, *, store: Path | None = None
    ) -> tuple[Backup, int]:
        """Back the store in `folder` up, whose files do not change meanwhile; the backup, and the bytes
        copied."""
        with self._locked():
            summary = inspect(folder)
            before = self.backups()
            known = {(f.name, f.size, f.modified): f.sha256 for backup in before for f in backup.files}
            files, copied = [], 0
            for source in _files_of(folder / "db"):
                status = source.stat()
                sum_known = known.get((source.name, status.st_size, status.st_mtime_ns))
                if sum_known is None or not self._file(sum_known).exists():
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
            broker, group = self._owner(summary.loaded)
            backup = Backup(
                number=before[-1].number + 1 if before else 1,
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
            file.write(msgspec.json.format(msgspec.json.encode(backup)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync_directory(self.path)

    def prune(self, keep: int) -> int:
        """Remove all but the latest `keep` backups, and files that none holds; how many backups went."""
        with self._locked():
            backups = self.backups()
            gone = backups[: max(0, len(backups) - keep)]
            for backup in gone:
                (self.path / f"{backup.number:06}.json").unlink()
            kept = backups[len(gone) :]
            stored = {file.sha256 for backup in kept for file in (*backup.files, *backup.beside)}
            for file in (self.path / "files").iterdir():
                if file.name not in stored:
                    file.unlink()
            return len(gone)

    # -- reading ---------------------------------------------------------------------------------

    def verify(self, number: int | None = None) -> Backup:
        """Check every sum of a backup and audit its store. Raises `CorruptionError`."""
        backup = self.find(number)
        for file in (*backup.files, *backup.beside):
            self._check(file)
        with tempfile.TemporaryDirectory(dir=self.path, prefix="verify-") as folder:
            self._assemble(backup, Path(folder), os.link)
            self._compare(backup, inspect(Path(folder)).account)
        return backup

    def restore(self, store: Path, number: int | None = None) -> Backup:
        """Put a backup into a directory that is empty or not there. Raises."""
        backup = self.find(number)
        if store.exists() and (not store.is_dir() or any(store.iterdir())):
            raise InputError(
                f"{store} is not empty", hint="move it away first; a backup is restored into an empty place"
            )
        for file in (*backup.files, *backup.beside):
            self._check(file)
        store.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=store.parent, prefix=f"{store.name}.restoring-"))
        try:
            self._assemble(backup, new, _copied)
            watermark = Watermark(new / "watermark", str(new))
            watermark.settle(backup.commit)
            watermark.close()
            self._compare(backup, inspect(new).account)
            if store.exists():
                store.rmdir()
            new.rename(store)
            sync_directory(store.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return backup

    def _assemble(self, backup: Backup, folder: Path, put: Callable[[Path, Path], object]) -> None:
        (folder / "db").mkdir()
        for file in backup.files:
            put(self._file(file.sha256), folder / "db" / file.name)
        for file in backup.beside:
            put(self._file(file.sha256), folder / file.name)
        sync_directory(folder / "db")

    def _check(self, file: BackupFile) -> None:
        try:
            found = _sum_of(self._file(file.sha256))
        except FileNotFoundError:
            found = "nothing"
        if found != file.sha256:
            raise CorruptionError(
                f"backup {self.path}: its file {file.name} is damaged or gone ({self._file(file.sha256)})",
                hint="restore an earlier backup (--number), and make a new one into another directory",
            )

    def _compare(self, backup: Backup, account: StoreAccount) -> None:
        found = (account.commit, account.next_offset, account.entries, account.rows)
        if found != (backup.commit, backup.next_offset, backup.entries, backup.rows):
            raise CorruptionError(f"backup {backup.number} in {self.path} holds another store than it says")

    def _file(self, sum: str) -> Path:
        return self.path / "files" / sum

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


def inspect(folder: Path) -> StoreSummary:
    """Read and check a store without changing it. Raises `StoreLockedError`, `CorruptionError`."""
    with closing(RocksEngine(folder)) as engine:
        index, loaded = audit(engine)
        return StoreSummary(index.account, loaded)


def _files_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith(_LEFT_OUT))


def _copied(source: Path, target: Path) -> None:
    with source.open("rb") as opened, target.open("wb") as file:
        shutil.copyfileobj(opened, file, PIECE)
        file.flush()
        os.fsync(file.fileno())


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

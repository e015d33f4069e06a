"""Compiled subscriptions as versioned files, mapped into memory by matchers.

  FOLDER/v00000007/table        the matching table (see `matching.columnar.files`)
  FOLDER/v00000007/names.arrow  column `id`, and `subscriber` when known, by handle
  FOLDER/v00000007/rejects.json what was not taken, and why
  FOLDER/v00000007/about.json   what this version holds; written last

Rules
- A version is complete or not there: it is made beside its place and renamed into it.
- A version never changes. A newer one has a higher number; readers that work with an older one
  go on undisturbed, and the last few are kept for them. A stream pins the version of its batch: its own links
  to the files stay, however many versions are published meanwhile (`FOLDER/.pinned-HOST-PROCESS-…`).
- All processes of one machine share one copy in memory. If machines share no folder, Spark
  carries the files of a version to each of them, once.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import shutil
import time
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import CorruptionError, InputError
from tidings.model.decoding import UNREADABLE
from tidings.model.event import Event
from tidings.pipeline.compiling import WANTED, Compiled, Rejected, check_names, compile_rows

KEPT = 3  # versions that stay for batches under way
FILES = ("table", "names.arrow", "about.json")  # that workers need
REJECTS = "rejects.json"
PINNED = ".pinned-"
_HOST = blake2b(platform.node().encode(), digest_size=4).hexdigest()
_version_name = re.compile(r"v(\d{8})")


class About(msgspec.Struct):
    """Content of a version."""

    version: int
    subscriptions: int
    rejected: int
    bytes: int  # of the files that matching maps
    attributes: list[str]
    folded: list[str]
    kinds: dict[str, str]  # attribute -> kinds of value that filters compare it with (see `slots`)
    id_type: str
    subscribers: bool
    made: float  # seconds since 1970
    note: str = ""  # the maker's: what it was made from


class Version:
    """One version on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about = _about(folder)

    @property
    def number(self) -> int:
        return self.about.version

    def rejected(self) -> list[Rejected]:
        return msgspec.json.decode((self.folder / REJECTS).read_bytes(), type=list[Rejected])


class Table:
    """A folder of versions. `Table(folder).publish(rows)` adds one; streams pick it up.

    `shared` says that every machine of the cluster sees the folder: then the files are mapped from
    there, and Spark need not carry them.
    """

    def __init__(self, folder: str | os.PathLike[str], *, kept: int = KEPT, shared: bool = False) -> None:
        self.folder = Path(folder)
        self.shared = shared
        self._kept = kept

    def numbers(self) -> list[int]:
        """The versions that are there, ascending."""
        if not self.folder.is_dir():
            return []
        found = (_version_name.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(name[1]) for name in found if name)

    def version(self, number: int | None = None) -> Version:
        """That version, or the latest."""
        while True:
            numbers = self.numbers()
            if not numbers:
                raise InputError(
                    f"{self.folder} holds no version of a subscription table",
                    hint="publish one with Table(folder).publish(...)",
                )
            wanted = numbers[-1] if number is None else number
            if wanted not in numbers:
                raise InputError(
                    f"{self.folder} has no version {wanted}; it has {numbers[0]} to {numbers[-1]}"
                )
            try:
                return Version(self._path(wanted))
            except CorruptionError:
                if wanted in self.numbers():  # else newer ones were published, and this one removed
                    raise

    def pin(self) -> Version:
        """The latest version under a path of this process's own, at which it stays until `unpin`, or until
        the process ends. Where files cannot be linked it is the version itself."""
        while True:
            version = self.version()
            pinned = self.folder / f"{PINNED}{_HOST}-{os.getpid()}-{time.monotonic_ns()}"
            try:
                pinned.mkdir()
                for name in (*FILES, REJECTS):
                    (pinned / name).hardlink_to(version.folder / name)
                made = Version(pinned)
            except (FileNotFoundError, CorruptionError):  # a newer one was published, and this one removed
                shutil.rmtree(pinned, ignore_errors=True)
                if version.number in self.numbers():
                    raise
            except OSError:
                shutil.rmtree(pinned, ignore_errors=True)
                return version
            else:
                atexit.register(shutil.rmtree, pinned, ignore_errors=True)
                return made

    def unpin(self, version: Version) -> None:
        """No batch works with this version any more."""
        if version.folder.name.startswith(PINNED):
            shutil.rmtree(version.folder, ignore_errors=True)

    def publish(self, subscriptions: Any, *, sample: Iterable[Event] = (), note: str = "") -> Version:
        """Compile a table of subscriptions (a Spark DataFrame or an Arrow table) as the next version."""
        if hasattr(subscriptions, "num_rows"):
            rows = subscriptions
        else:
            rows = collected(spark_frame(subscriptions, "subscriptions"))
        return self.add(compile_rows(rows, sample=sample), note=note)

    def add(self, compiled: Compiled, *, note: str = "") -> Version:
        """Write what was compiled as the next version."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".draft-{os.getpid()}-{time.monotonic_ns()}"
        draft.mkdir()
        try:
            number = self._write(compiled, draft, note)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        self._prune()
        return Version(self._path(number))

    def _write(self, compiled: Compiled, draft: Path, note: str) -> int:
        """The first writer to rename has the number; another writer takes the next."""
        number = (self.numbers() or [0])[-1] + 1
        write_version(compiled, draft, number, note)
        while True:
            try:
                draft.rename(self._path(number))
            except OSError:
                if not self._path(number).exists():
                    raise
                number += 1
                _renumber(draft, number)
            else:
                return number

    def _path(self, number: int) -> Path:
        return self.folder / f"v{number:08d}"

    def _prune(self) -> None:
        for number in self.numbers()[: -self._kept]:
            shutil.rmtree(self._path(number), ignore_errors=True)
        for left in self.folder.glob(f"{PINNED}{_HOST}-*"):  # of processes that were killed
            process = left.name.removeprefix(f"{PINNED}{_HOST}-").partition("-")[0]
            if process.isdigit() and not _lives(int(process)):
                shutil.rmtree(left, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def spark_frame(frame: Any, what: str) -> Any:
    """The DataFrame itself when it is Spark's. Raises `InputError` with the way from any other."""
    if hasattr(frame, "sparkSession"):
        return frame
    kind = type(frame)
    library = kind.__module__.partition(".")[0]
    way = {
        "pandas": "spark.createDataFrame(frame) makes it Spark's",
        "polars": "spark.createDataFrame(frame.to_arrow()) makes it Spark's",
        "pyarrow": "spark.createDataFrame(table) makes it Spark's",
    }
    name = f"{library} {kind.__name__}" if library in way else kind.__name__
    raise InputError(
        f"{what} cannot be a {name}",
        hint=way.get(library, "give a DataFrame of Spark's: spark.createDataFrame(…)"),
    )


def collected(frame: Any) -> Any:
    """The columns of a table of subscriptions that matter, brought to the driver."""
    check_names(frame.columns)
    return frame.select(*(name for name in WANTED if name in frame.columns)).toArrow()


def write_version(compiled: Compiled, folder: Path, number: int, note: str = "") -> None:
    """All files of a version, `about.json` last."""
    import pyarrow as pa

    compiled.matcher.save(folder / "table", version=str(number))
    columns = {"id": compiled.ids}
    if compiled.subscribers is not None:
        columns["subscriber"] = compiled.subscribers
    names = pa.table(columns).combine_chunks()
    with pa.OSFile(str(folder / "names.arrow"), "wb") as file, pa.ipc.new_file(file, names.schema) as writer:
        writer.write_table(names, max_chunksize=max(1, len(names)))
    (folder / REJECTS).write_bytes(msgspec.json.encode(compiled.rejected))
    about = About(
        number, len(names), len(compiled.rejected),
        sum((folder / name).stat().st_size for name in ("table", "names.arrow")),
        sorted(compiled.attributes), sorted(compiled.folded), _kinds(compiled.matcher),
        str(compiled.ids.type), compiled.subscribers is not None, time.time(), note,
    )  # fmt: skip
    (folder / "about.json").write_bytes(msgspec.json.encode(about))


def _kinds(matcher: Any) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for attribute, kind in matcher.slots.all:
        kinds[attribute] = kinds.get(attribute, "") + kind[:1]
    return kinds


def _renumber(folder: Path, number: int) -> None:
    about = _about(folder)
    about.version = number
    (folder / "about.json").write_bytes(msgspec.json.encode(about))


def _about(folder: Path) -> About:
    try:
        return msgspec.json.decode((folder / "about.json").read_bytes(), type=About)
    except (OSError, *UNREADABLE) as error:
        raise CorruptionError(f"{folder} is no version of a subscription table: {error}") from None

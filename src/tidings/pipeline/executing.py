"""Code that runs in Spark's Python workers: Arrow batches in, Arrow batches out.

Rules
- A worker opens a version once and keeps the last few; tasks and jobs that follow find it open.
- Rows are matched in slices, so that an answer of many ids is sent in pieces of bounded size.
- A row that cannot be matched (text that is no UTF-8, a topic that is none) does not fail its
  neighbours: halving finds it, and it leaves with its problem, or fails the job when so asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tidings.errors import CorruptionError, EventError, InputError, TidingsError
from tidings.matching.matcher import Matches
from tidings.model.topic import check_topic

SLICE = 16_384  # rows matched at once
PAIRS_AT_ONCE = 250_000  # rows of an answer, when there is one for each pair
OPEN_MOST = 3  # versions that a worker keeps open


class VersionFiles(NamedTuple):
    """Location of the files of a version, for a worker."""

    folder: str  # empty: Spark carried them here, under names that begin with `prefix`
    prefix: str = ""

    def file(self, name: str) -> Path:
        if self.folder:
            return Path(self.folder) / name
        from pyspark import SparkFiles

        return Path(SparkFiles.get(f"{self.prefix}{name}"))


class Job(NamedTuple):
    """Order for a worker to match batches of one plan."""

    attributes: tuple[tuple[str, int], ...]  # attribute -> number of the column that holds it
    kept: int  # the first columns, which leave as they came
    version: int
    pairs: bool
    subscriber: bool
    reject: bool  # bad rows leave with their problem; else they fail the job
    check_topics: bool
    id_type: str  # Arrow's name


class OpenVersion:
    """A version, mapped, with its names."""

    def __init__(self, location: VersionFiles) -> None:
        import pyarrow as pa

        from tidings.matching.engine import columnar_matcher

        if location.folder and not Path(location.folder).is_dir():
            raise InputError(
                f"the version {location.folder} of a subscription table is gone: newer ones were published, "
                "and only the last few stay",
                hint="call match again; or keep more versions: Table(folder, kept=...)",
            )
        self.matcher = type(columnar_matcher()).open(location.file("table"))
        path = location.file("names.arrow")
        try:
            names = pa.ipc.open_file(pa.memory_map(str(path))).read_all().combine_chunks()
            names.validate(full=True)
        except (OSError, pa.ArrowInvalid) as error:
            raise CorruptionError(
                f"the names of a table cannot be read: {path}: {error}", hint="publish the table again"
            ) from None
        self.ids = _one(names.column("id"))
        self.subscribers = _one(names.column("subscriber")) if "subscriber" in names.column_names else None
        # plain memory is faster to take from than an Arrow array
        self.numbers = None if pa.types.is_string(self.ids.type) else self.ids.to_numpy()

    def ids_of(self, handles: Any) -> Any:
        import pyarrow as pa

        if self.numbers is not None:
            return pa.array(self.numbers[handles])
        return self.ids.take(pa.array(handles))


class Nothing(OpenVersion):
    """Matcher without subscriptions: rows are checked all the same, and none matches."""

    def __init__(self, job: Job) -> None:
        import pyarrow as pa

        self.matcher = self
        self.ids = self.subscribers = pa.nulls(0, getattr(pa, job.id_type)())
        self.numbers = None

    def match_batch(self, events: Any) -> Matches:
        events.validate(full=True)
        return Matches(np.zeros(events.num_rows + 1, np.int64), np.zeros(0, np.int32))  # type: ignore[arg-type]


def _one(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks else column.combine_chunks()


_open: dict[VersionFiles, OpenVersion] = {}


def opened(location: VersionFiles, *, most: int = OPEN_MOST) -> OpenVersion:
    """The version at that place; the worker keeps `most` open."""
    found = _open.pop(location, None)
    if found is None:
        while len(_open) >= most:
            del _open[next(iter(_open))]
        found = OpenVersion(location)
    _open[location] = found  # the last used comes last
    return found


def matching_with(location: VersionFiles, job: Job) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that `mapInArrow` runs."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        version = None
        for batch in batches:
            version = version or opened(location)
            yield from answers(batch, version, job)

    return run


def answers(batch: Any, version: OpenVersion, job: Job) -> Iterator[Any]:
    """The answers of one batch."""
    for start in range(0, batch.num_rows, SLICE):
        piece = batch.slice(start, SLICE)
        for part, offsets, handles, problem in _matched(piece, version, job):
            kept = part.columns[: job.kept]
            if job.pairs:
                yield from _pairs(kept, offsets, handles, problem, version, job)
            else:
                yield _lists(kept, offsets, handles, problem, version, job)


Piece = tuple[Any, Any, Any, str | None]


def _matched(piece: Any, version: OpenVersion, job: Job) -> Iterator[Piece]:
    """(rows, offsets, handles, None) of rows that can be matched; (row, -, -, problem) of others."""
    import pyarrow as pa

    try:
        events = events_of(piece, job)
        found = version.matcher.match_batch(events)
    except (CorruptionError, MemoryError):
        raise
    except (TidingsError, UnicodeError, pa.ArrowInvalid, ValueError, OverflowError) as error:
        if piece.num_rows > 1:
            half = piece.num_rows // 2
            yield from _matched(piece.slice(0, half), version, job)
            yield from _matched(piece.slice(half), version, job)
            return
        problem = f"{type(error).__name__}: {error}"
        if not job.reject:
            raise EventError(f"a row of the events cannot be matched: {problem}") from None
        yield piece, np.zeros(2, np.int64), np.zeros(0, np.int32), problem
        return
    yield piece, found.offsets, found.handles, None


def events_of(piece: Any, job: Job) -> Any:
    """The attributes of a batch, under their own names."""
    import pyarrow as pa

    columns, names = [], []
    for name, number in job.attributes:
        column = piece.column(number)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", "UTC"))
        elif name == "topic" and job.check_topics:
            for topic in column.unique().to_pylist():
                if topic is not None:
                    check_topic(topic)
        elif name in ("id", "source") and column.null_count:
            raise EventError(f"its {name} is NULL, every event has one, and filters ask for it")
        columns.append(column)
        names.append(name)
    if not columns:  # no filter asks for anything: the number of rows is all that counts
        columns, names = [pa.nulls(piece.num_rows)], [""]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _lists(
    kept: list[Any], offsets: Any, handles: Any, problem: str | None, version: OpenVersion, job: Job
) -> Any:
    import pyarrow as pa

    rows = len(offsets) - 1
    ids = pa.ListArray.from_arrays(pa.array(np.asarray(offsets).astype(np.int32)), version.ids_of(handles))
    return _batch([*kept, ids], rows, problem, job)


def _pairs(
    kept: list[Any], offsets: Any, handles: Any, problem: str | None, version: OpenVersion, job: Job
) -> Iterator[Any]:
    import pyarrow as pa

    if problem is not None:
        nothing = [pa.nulls(1, version.ids.type), *([pa.nulls(1, pa.string())] if job.subscriber else [])]
        yield _batch([*kept, *nothing], 1, problem, job)
        return
    counts = np.diff(offsets)
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    for start in range(0, len(handles), PAIRS_AT_ONCE):
        chosen = pa.array(owners[start : start + PAIRS_AT_ONCE])
        some = handles[start : start + PAIRS_AT_ONCE]
        columns = [*(column.take(chosen) for column in kept), version.ids_of(some)]
        if job.subscriber:
            columns.append(version.subscribers.take(pa.array(some)))  # type: ignore[union-attr]
        yield _batch(columns, len(some), None, job)


def _batch(columns: list[Any], rows: int, problem: str | None, job: Job) -> Any:
    import pyarrow as pa

    columns.append(pa.array(np.full(rows, job.version, np.int64)))
    if job.reject:
        columns.append(pa.nulls(rows, pa.string()) if problem is None else pa.array([problem]))
    return pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])

"""Running a flow: one streaming query for each match, a clean stop, a restart where it left off.

Rules
- A batch is matched with one version of the subscriptions and published to every sink of its match.
  After a crash the batch is replayed; a sink that has it already does not get it again.
- Rows that cannot be read or matched are problems: counted in the metrics, and written by every sink
  that asks for them. A file that cannot be read at all stops the flow with an error that names it.
- A stop lets the batch under way finish. The checkpoint says where to go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tidings.errors import InputError, TidingsError
from tidings.pipeline.flow_kinds import CORRUPT, KINDS, first_line
from tidings.pipeline.flow_metrics import BatchMetrics, BatchObserver
from tidings.pipeline.flows import Flow, MatchStep
from tidings.pipeline.matching import PROBLEM, Options
from tidings.pipeline.sink import ParquetSink
from tidings.pipeline.streaming import match_batch_of_stream

POLL_SECONDS = 0.1  # between two looks at whether to stop
COMMIT_SECONDS = 10.0  # for Spark to write down that a batch is done, before it is stopped


class RunningFlow:
    """A flow that runs. `wait` returns when all its queries have ended; `stop` ends them."""

    def __init__(self, flow: Flow, spark: Any, *, observers: Sequence[BatchObserver] = ()) -> None:
        self.flow, self.spark = flow, spark
        self.matches = {name: _MatchQuery(flow, name, spark, observers) for name in flow.matches}
        self._queries: list[Any] = []
        self._stopping = threading.Event()

    def start(self, *, once: bool) -> RunningFlow:
        for name, match in self.matches.items():
            self._queries.append(match.start(once=once, every=self.flow.every(name)))
        return self

    def stop(self) -> None:
        """Ask for the end; may be called from a signal handler."""
        self._stopping.set()

    def wait(self) -> None:
        """Wait until every query has ended or a stop was requested. Raises the error of a failed query."""
        while not self._stopping.wait(POLL_SECONDS):
            if any(query.exception() is not None for query in self._queries):
                break
            if not any(query.isActive for query in self._queries):
                break
        for query, match in zip(self._queries, self.matches.values(), strict=True):
            with match.between_batches():
                _let_commit(query, match.finished)
                query.stop()
        for query, match in zip(self._queries, self.matches.values(), strict=True):
            if match.failed is not None:
                raise match.failed
            if query.exception() is not None:
                raise _described(self.flow, match.name, query.exception())


class _MatchQuery:
    """One match of a flow as a streaming query."""

    def __init__(self, flow: Flow, name: str, spark: Any, observers: Sequence[BatchObserver]) -> None:
        match = flow.matches[name]
        self.name, self._flow, self._observers = name, flow.name, observers
        self.checkpoint = f"{flow.checkpoint.rstrip('/')}/{name}"
        source, table = flow.sources[match.events], flow.subscriptions[match.subscriptions]
        self.events = KINDS["sources"][source.kind].open(spark, source.settings)
        self.subscriptions = KINDS["subscriptions"][table.kind].open(spark, table.settings)
        self._sinks = [
            (sink.settings.rows, KINDS["sinks"][sink.kind].open(spark, sink.settings, self.checkpoint))
            for sink in flow.sinks_of(name).values()
        ]
        self._options = _options(match)
        self._turn = threading.Lock()  # held while a batch is under way
        self.failed: TidingsError | None = None
        self.finished: int | None = None  # the last batch that was published
        self.version = self.subscriptions.current()  # report their errors before the start

    def start(self, *, once: bool, every: str | None) -> Any:
        writer = self.events.writeStream.foreachBatch(self._batch).queryName(f"{self._flow}.{self.name}")
        writer = writer.option("checkpointLocation", self.checkpoint)
        if once:
            return writer.trigger(availableNow=True).start()
        return (writer if every is None else writer.trigger(processingTime=every)).start()

    def notes(self) -> tuple[str, ...]:
        """Plan a batch without running it: what is legal there and looks like a mistake."""
        frame = self.events.drop(CORRUPT)
        return match_batch_of_stream(
            frame, self.version, self._options, shared=self.subscriptions.shared
        ).notes

    def between_batches(self) -> threading.Lock:
        return self._turn

    def _batch(self, frame: Any, number: int) -> None:
        with self._turn:
            try:
                metrics = self._published(frame, number)
                self.finished = number
            except TidingsError as error:
                self.failed = error  # Spark keeps only its text
                raise
        for observe in self._observers:
            observe(metrics)

    def _published(self, frame: Any, number: int) -> BatchMetrics:
        from pyspark import StorageLevel

        began = time.monotonic()
        version = self.version = self.subscriptions.current()
        waiting = [(rows, sink) for rows, sink in self._sinks if not sink.is_published(number)]
        counts = {"events": 0, "matches": 0, "problems": 0}
        if waiting:
            whole, counted = self._matched(frame, version)
            if len(waiting) > 1:
                whole = whole.persist(StorageLevel.MEMORY_AND_DISK)
            for rows, sink in waiting:
                chosen = _rows(whole, rows)
                if isinstance(sink, ParquetSink):
                    sink.check_columns(chosen.schema)
                sink.publish(chosen, number)
            counts = counted()
            whole.unpersist()
        return BatchMetrics(
            flow=self._flow,
            match=self.name,
            batch=number,
            version=version.number,
            replayed=not waiting,
            seconds=time.monotonic() - began,
            **counts,
        )

    def _matched(self, frame: Any, version: Any) -> tuple[Any, Callable[[], dict[str, int]]]:
        """All rows of the answer, problems among them; and their counts, once they were written."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        came, answered = Observation(), Observation()
        frame = frame.observe(came, sql.count(sql.lit(1)).alias("events"))
        options = self._options
        readable = frame
        if CORRUPT in frame.columns:
            readable = frame.where(sql.col(CORRUPT).isNull()).drop(CORRUPT)
        whole = match_batch_of_stream(readable, version, options, shared=self.subscriptions.shared).whole
        if options.output == "lists" and not options.unmatched:
            whole = whole.where((sql.size("subscriptions") > 0) | sql.col(PROBLEM).isNotNull())
        if CORRUPT in frame.columns:
            whole = whole.unionByName(_unreadable(frame, whole.columns), allowMissingColumns=True)
        pairs = sql.col("subscription").isNotNull().cast("int")
        found = sql.size("subscriptions") if options.output == "lists" else pairs
        whole = whole.observe(
            answered,
            sql.coalesce(sql.sum(sql.when(sql.col(PROBLEM).isNull(), found)), sql.lit(0)).alias("matches"),
            sql.count(PROBLEM).alias("problems"),
        )
        return whole, lambda: {**came.get, **answered.get}


def _let_commit(query: Any, finished: int | None) -> None:
    """Until Spark has written down that the batch is done: else the next start would come to it again."""
    began = time.monotonic()
    while finished is not None and query.isActive and time.monotonic() - began < COMMIT_SECONDS:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] >= finished:
            return
        time.sleep(POLL_SECONDS / 2)


def _unreadable(frame: Any, columns: Sequence[str]) -> Any:
    """The rows with malformed text: their readable part and the text itself."""
    from pyspark.sql import functions as sql

    bad = frame.where(sql.col(CORRUPT).isNotNull())
    own = [sql.col(f"`{name}`") for name in frame.columns if name != CORRUPT and name in columns]
    return bad.select(*own, sql.concat(sql.lit("cannot be read: "), sql.col(CORRUPT)).alias(PROBLEM))


def _rows(whole: Any, rows: str) -> Any:
    from pyspark.sql import functions as sql

    if rows == "all":
        return whole
    problem = sql.col(PROBLEM).isNotNull()
    return whole.where(problem) if rows == "problems" else whole.where(~problem).drop(PROBLEM)


def _options(match: MatchStep) -> Options:
    keep = None if match.keep is None else tuple(match.keep)
    return Options(match.output, keep, match.casts, True, match.unmatched)


def _described(flow: Flow, match: str, error: Any) -> TidingsError:
    """Spark's error in a line, with the file if there is one."""
    text = str(error)
    line = first_line(error)
    for mark in ("FAILED_READ_FILE", "PATH_NOT_FOUND", "is not a Parquet file"):
        with suppress(StopIteration):
            line = next(each.strip() for each in text.splitlines() if mark in each)
            break
    return InputError(f"{flow.file}: the match {match!r} stopped: {line}")


def check_flow(flow: Flow, spark: Any) -> list[str]:
    """Open everything without running it; what is worth a look, a line each. Errors are raised."""
    notes: list[str] = []
    for name, match in RunningFlow(flow, spark).matches.items():
        about = match.version.about
        notes.append(f"{name}: {about.subscriptions:,} subscriptions, {about.rejected:,} rejected")
        notes.extend(f"{name}: {note}" for note in match.notes())
    return notes

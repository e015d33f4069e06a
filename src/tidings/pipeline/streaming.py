"""Matching a stream while its subscriptions change.

- At the start of each batch the driver pins one version of the table; all rows of the batch are
  matched with it, and each says so in its column `version`. A new version is picked up by the next
  batch, without a restart.
- Subscriptions come from a compiled `Table`, to which other processes may publish versions meanwhile, or from
  Parquet files, which are looked at before each batch and compiled anew when they changed.
- Rows that cannot be matched are in the output like the others, with no subscription and with their
  `problem`: no row is lost, and one pass is enough.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from tidings.errors import InputError, SettingsError
from tidings.pipeline.files import Files
from tidings.pipeline.matching import (
    PROBLEM,
    Matched,
    Options,
    Output,
    is_table,
    match_everywhere,
    scratch_folder,
    subscription_rows,
)
from tidings.pipeline.sink import Counts, ParquetSink
from tidings.pipeline.sizing import Decision
from tidings.pipeline.tables import Table, Version, spark_frame


class Batch(NamedTuple):
    """Result of a batch."""

    number: int
    version: int
    rows: int | None  # None: it was published before a crash, and was not written again
    matches: int | None
    problems: int | None
    seconds: float


class StreamSubscriptions:
    """The table that a stream is matched with, as it stands at each batch.

    Compiled tables are kept in the folder, or beside the checkpoint, so that versions go on
    counting after a restart: a row's `version` means one thing for ever.
    """

    def __init__(
        self,
        spark: Any,
        source: Any,
        folder: str | os.PathLike[str] | None = None,
        checkpoint: str | None = None,
    ) -> None:
        self._spark, self._files = spark, Files(spark)
        self._path: str | None = None
        self._pinned: Version | None = None
        self.shared = folder is not None
        if is_table(source):
            self.table = source if isinstance(source, Table) else Table(source)
            self.shared = self.table.shared
            return
        if folder is None:
            folder = scratch_folder() if checkpoint is None else _beside(checkpoint)
        self.table = Table(folder)
        self._stamp = self.table.version().about.note if self.table.numbers() else ""
        if isinstance(source, str | os.PathLike):
            self._path = os.fspath(source)
        else:
            self.table.publish(subscription_rows(spark, source))

    def current(self) -> Version:
        """The version to match the next batch with: it stays until the next call, whatever is published."""
        if self._path is not None:
            listed = repr(self._files.stamps(self._path))
            stamp = blake2b(listed.encode(), digest_size=16).hexdigest()
            if stamp != self._stamp:
                self.table.publish(subscription_rows(self._spark, self._path), note=stamp)
                self._stamp = stamp
        if self._pinned is None or self._pinned.about != self.table.version().about:
            if self._pinned is not None:
                self.table.unpin(self._pinned)
            self._pinned = self.table.pin()
        return self._pinned


def _beside(checkpoint: str) -> Path:
    """A folder of this machine next to the checkpoint."""
    path = checkpoint.removeprefix("file://")
    if "://" in path:
        raise SettingsError(
            f"the checkpoint {checkpoint} is not on this machine, so compiled tables cannot be "
            "kept beside it",
            hint="name a folder for them with folder=..., or publish the subscriptions to a Table",
        )
    return Path(f"{path.rstrip('/')}.subscriptions")


def match_batch_of_stream(frame: Any, version: Version, options: Options, *, shared: bool) -> Matched:
    """One batch with one version."""
    decision = Decision("everywhere", ("streams hold the table on every executor",), 0, 0.0)
    return match_everywhere(frame, version, decision, options, shared=shared)


def match_stream(
    events: Any,
    subscriptions: Any,
    *,
    to: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    output: Output = "lists",
    keep: Sequence[str] | None = None,
    casts: Mapping[str, str] | None = None,
    unmatched: bool = True,
    folder: str | os.PathLike[str] | None = None,
    every: str | None = None,
    once: bool = False,
    append: bool = False,
    name: str | None = None,
    on_batch: Callable[[Batch], None] | None = None,
) -> Any:
    """Match a streaming DataFrame into Parquet, exactly once; the running query.

    `subscriptions` is a compiled `Table` (or its folder), Parquet, or a DataFrame (which does not
    change). `to` is the output, `checkpoint` where Spark remembers how far it got: keep both. `every`
    is the time between batches ("10 seconds"), `once` takes what is there and stops. `append` allows
    an output that holds another query's batches. `on_batch` hears of each batch. `folder` is where
    compiled tables go when `subscriptions` is not a `Table` (beside the checkpoint by default).
    """
    if not events.isStreaming:
        raise InputError("the events are no stream", hint="use spark.readStream, or match() for a table")
    if once and every is not None:
        raise SettingsError("a query runs once or every so often, not both")
    spark = spark_frame(events, "events").sparkSession
    current = StreamSubscriptions(spark, subscriptions, folder, os.fspath(checkpoint))
    version = current.current()  # report errors of the subscriptions before the query starts
    sink = ParquetSink(spark, os.fspath(to), os.fspath(checkpoint), append=append)
    options = Options(output, None if keep is None else tuple(keep), dict(casts or {}), True, unmatched)
    sink.check_columns(match_batch_of_stream(events, version, options, shared=current.shared).whole.schema)
    tell = on_batch or (lambda batch: None)

    def run(frame: Any, number: int) -> None:
        tell(_publish(frame, number, current, sink, options))

    writer = events.writeStream.foreachBatch(run).option("checkpointLocation", os.fspath(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    if once:
        writer = writer.trigger(availableNow=True)
    elif every is not None:
        writer = writer.trigger(processingTime=every)
    return writer.start()


def _publish(
    frame: Any, number: int, subscriptions: StreamSubscriptions, sink: ParquetSink, options: Options
) -> Batch:
    began = time.monotonic()
    version = subscriptions.current()
    if sink.is_published(number):
        return Batch(number, version.number, None, None, None, time.monotonic() - began)
    matched = match_batch_of_stream(frame, version, options, shared=subscriptions.shared)
    sink.check_columns(matched.whole.schema)  # the ids of a new version may be of another type
    counts = sink.publish_parts(matched.written, number) or _written_by_spark(matched, number, sink, options)
    return Batch(number, version.number, *counts, time.monotonic() - began)


def _written_by_spark(matched: Matched, number: int, sink: ParquetSink, options: Options) -> Counts:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    whole, lists = matched.whole, options.output == "lists"
    if lists and not options.unmatched:
        whole = whole.where((F.size("subscriptions") > 0) | F.col(PROBLEM).isNotNull())
    seen = Observation()
    found = F.size("subscriptions") if lists else F.col("subscription").isNotNull().cast("int")
    counted = whole.observe(
        seen,
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(found), F.lit(0)).alias("matches"),
        F.count(PROBLEM).alias("problems"),
    )
    sink.publish(counted, number)
    return Counts(*(seen.get[name] for name in Counts._fields))

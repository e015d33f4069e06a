"""A quality factory: a table, or a stream of its changes, evaluated step by step; each change told once.

  STATE/_plan                       digest of the plan that the state was made with
  STATE/run=ID/batch=N/             objects that step N found otherwise, with their changes (see `sink.py`)
  STATE/base/upto=N/                everything up to step N in one place, so that steps stay cheap

Rules
- A step is published whole, with its changes, or not at all. Then its changes are told, then Spark's
  checkpoint goes on. After a crash in between, the step is not evaluated again: what stands there is
  told again, under the same version (`ID-N`). The receiver drops a change with a known version.
- A stream takes the files of a folder as they come. A table that is replaced in place is
  evaluated by `snapshot`, which finds by fingerprints what is otherwise; it keeps a state of its own,
  and marks the steps that it has told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tidings.errors import InputError, SettingsError
from tidings.pipeline.files import Files
from tidings.pipeline.sink import ParquetSink
from tidings_quality.spark.columns import OBJECT
from tidings_quality.spark.evaluating import CHANGES, GONE, QUALITY, TIME, VERSION, step
from tidings_quality.spark.settings import FactoryPlan, check_plan

PLAN = "_plan"
DELIVERED = "_told"
COMPACT_EVERY = 8  # steps; fewer make steps cheaper to read, and more often write all of the state
SNAPSHOTS = "snapshots"  # the run of a state that is made of whole tables


class FactoryStep(NamedTuple):
    """Result of a step. `changes` and `objects` are frames over what was published."""

    number: int
    version: str  # the same when the step is told again
    replayed: bool
    objects: Any  # rows of the state
    seconds: float

    def changes(self) -> Any:
        """One row for each changed value: object, property, dimension, value, before, row, quality, time."""
        from pyspark.sql import functions as sql

        own = [name for name in self.objects.columns if not name.startswith("_")]
        return self.objects.where(sql.size(CHANGES) > 0).select(
            sql.col(OBJECT).alias("object"),
            sql.explode(CHANGES).alias("_change"),
            sql.struct(*(sql.col(f"`{name}`") for name in own)).alias("row"),
            sql.col(QUALITY).alias("quality"),
            sql.col(TIME).alias("time"),
        ).selectExpr(
            "object", "_change.property", "_change.dimension", "_change.after AS value",
            "_change.before AS before", "row", "quality", "time",
        )  # fmt: skip


Tell = Callable[[FactoryStep], None]


class FactoryState:
    """State of a factory, as Parquet."""

    def __init__(self, spark: Any, plan: FactoryPlan) -> None:
        check_plan(plan)
        if not plan.state:
            raise SettingsError(f"the plan of {plan.organisation} names no state", hint="state = a folder")
        self._spark, self._files, self.folder = spark, Files(spark), plan.state.rstrip("/")
        self._check_plan(plan)

    def _check_plan(self, plan: FactoryPlan) -> None:
        path = f"{self.folder}/{PLAN}"
        if not self._files.exists(path):
            self._files.write(path, plan.digest().encode())
        elif self._files.read(path).decode() != plan.digest():
            raise InputError(
                f"the state {self.folder} was made with another plan",
                hint="name a new state: values that were found otherwise cannot be compared",
            )

    def runs(self) -> list[str]:
        return [name for name in self._files.names(self.folder) if name.startswith("run=")]

    def steps(self) -> list[int]:
        """Numbers of the steps that are there."""
        return sorted(
            int(name.removeprefix("batch="))
            for run in self.runs()
            for name in self._files.names(f"{self.folder}/{run}")
            if name.startswith("batch=")
        )

    def place(self, number: int) -> str:
        (run,) = self.runs()
        return f"{self.folder}/{run}/batch={number}"

    def read(self, number: int) -> Any:
        return self._spark.read.parquet(self.place(number))

    def _base(self) -> int:
        names = self._files.names(f"{self.folder}/base")
        return max((int(n.removeprefix("upto=")) for n in names if n.startswith("upto=")), default=-1)

    def before(self, number: int) -> Any | None:
        """Every object as it stood before a step; None when there was none."""
        from pyspark.sql import Window
        from pyspark.sql import functions as sql

        base = self._base()
        steps = [each for each in self.steps() if base < each < number]
        frames = [self.read(each).withColumn("_step", sql.lit(each)) for each in steps]
        if base >= 0:
            whole = self._spark.read.parquet(f"{self.folder}/base/upto={base}")
            if not frames:
                return whole
            newer = self._newest_of(frames, Window, sql)
            kept = whole.join(newer.select(OBJECT), OBJECT, "left_anti")
            return kept.unionByName(newer).where(~sql.col(GONE))
        return self._newest_of(frames, Window, sql).where(~sql.col(GONE)) if frames else None

    def _newest_of(self, frames: list[Any], window: Any, sql: Any) -> Any:
        if len(frames) == 1:
            return frames[0].drop("_step")
        joined = frames[0]
        for frame in frames[1:]:
            joined = joined.unionByName(frame)
        position = sql.row_number().over(window.partitionBy(OBJECT).orderBy(sql.col("_step").desc()))
        return joined.withColumn("_place", position).where("_place = 1").drop("_place", "_step")

    def compact(self, number: int) -> None:
        """Put everything up to a step in one place, and let go of what that replaces."""
        whole = self.before(number + 1)
        target = f"{self.folder}/base/upto={number}"
        if whole is None or self._files.exists(target):
            return
        staged = f"{self.folder}/_staged/base-{number}"
        whole.write.mode("overwrite").parquet(staged)
        self._files.rename(staged, target)
        for name in self._files.names(f"{self.folder}/base"):
            if name != f"upto={number}":
                self._files.delete(f"{self.folder}/base/{name}")
        for each in self.steps():
            if each < number:  # the last one may have to be told again
                self._files.delete(self.place(each))

    def current(self) -> Any:
        """Every object with its quality, as it stands."""
        steps = self.steps()
        found = self.before(steps[-1] + 1) if steps else None
        if found is None:
            raise InputError(f"nothing was evaluated yet in {self.folder}", hint="tidings quality evaluate")
        return found

    def is_delivered(self, number: int) -> bool:
        return self._files.exists(f"{self.place(number)}/{DELIVERED}")

    def mark_delivered(self, number: int) -> None:
        self._files.write(f"{self.place(number)}/{DELIVERED}", b"")

    def publish(self, frame: Any, number: int) -> None:
        """A step of a state that is made of whole tables."""
        staged = f"{self.folder}/_staged/{SNAPSHOTS}-{number}"
        frame.write.mode("overwrite").parquet(staged)
        self._files.rename(staged, f"{self.folder}/run={SNAPSHOTS}/batch={number}")


def _version(run: str, number: int) -> str:
    return f"{run}-{number}"


def quality_rows(current: Any, plan: FactoryPlan) -> Any:
    """The state as the table of qualities: one row for each object, property and dimension."""
    from pyspark.sql import functions as sql

    entries = sql.explode(sql.map_entries(sql.col(QUALITY)))
    apart = sql.regexp_extract
    return current.select(OBJECT, TIME, VERSION, entries.alias("_entry")).select(
        sql.lit(plan.data_class).alias("class"),
        sql.lit(plan.organisation).alias("source"),
        sql.col(OBJECT).alias("object"),
        apart("_entry.key", r"^(.*)\.[a-z]+$", 1).alias("property"),
        apart("_entry.key", r"\.([a-z]+)$", 1).alias("dimension"),
        sql.col("_entry.value").alias("value"),
        sql.col(VERSION).alias("version"),
        sql.col(TIME).alias("time"),
    )


def now_micros() -> int:
    return time.time_ns() // 1000


class Factory:
    """Evaluates the tables of one plan."""

    def __init__(self, spark: Any, plan: FactoryPlan, *, now: Callable[[], int] = now_micros) -> None:
        self.spark, self.plan, self._now = spark, plan, now
        self.state = FactoryState(spark, plan)

    def snapshot(self, table: Any, tell: Tell | None = None) -> FactoryStep:
        """Evaluate a whole table; what is not in it is gone. The step is told, also after a crash."""
        return self._batch(table, tell, whole=True)

    def take(self, rows: Any, tell: Tell | None = None) -> FactoryStep:
        """Evaluate new and changed rows of a table that is evaluated as a whole at other times."""
        return self._batch(rows, tell, whole=False)

    def _batch(self, rows: Any, tell: Tell | None, *, whole: bool) -> FactoryStep:
        if any(run != f"run={SNAPSHOTS}" for run in self.state.runs()):
            raise InputError(f"{self.plan.state} is the state of a stream", hint="name another for snapshots")
        began = time.monotonic()
        steps = self.state.steps()
        if steps and not self.state.is_delivered(steps[-1]):
            self._reported(steps[-1], SNAPSHOTS, True, began, tell)
            self.state.mark_delivered(steps[-1])
        number = (steps or [-1])[-1] + 1
        self._evaluate(
            rows,
            number,
            _version(SNAPSHOTS, number),
            lambda frame: self.state.publish(frame, number),
            whole=whole,
        )
        done = self._reported(number, SNAPSHOTS, False, began, tell)
        self.state.mark_delivered(number)
        self._compacted(number)
        return done

    def _compacted(self, number: int) -> None:
        if number and number % COMPACT_EVERY == 0:
            self.state.compact(number)

    def stream(
        self,
        changes: Any,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        tell: Tell | None = None,
        once: bool = False,
        every: str | None = None,
    ) -> Any:
        """Evaluate a streaming frame of new and changed rows, exactly once; the running query."""
        if not changes.isStreaming:
            raise InputError("the rows are no stream", hint="use spark.readStream, or snapshot() for a table")
        path = (
            os.fspath(checkpoint) if checkpoint is not None else f"{self.plan.state.rstrip('/')}.checkpoint"
        )
        sink = ParquetSink(self.spark, self.state.folder, path)

        def run(frame: Any, number: int) -> None:
            self._step(frame, number, sink, tell)

        writer = changes.writeStream.foreachBatch(run).option("checkpointLocation", path)
        if once:
            return writer.trigger(availableNow=True).start()
        return (writer if every is None else writer.trigger(processingTime=every)).start()

    def _step(self, frame: Any, number: int, sink: ParquetSink, tell: Tell | None) -> None:
        began = time.monotonic()
        replayed = sink.is_published(number)
        if not replayed:
            self._evaluate(
                frame, number, _version(sink.run, number), lambda found: sink.publish(found, number)
            )
        self._reported(number, sink.run, replayed, began, tell)
        self._compacted(number)

    def _evaluate(
        self, came: Any, number: int, version: str, publish: Callable[[Any], None], *, whole: bool = False
    ) -> None:
        stored: list[Any] = []
        try:
            known = self.state.before(number)
            publish(step(self.plan, came, known, self._now(), version=version, stored=stored, whole=whole))
        finally:
            for frame in stored:
                frame.unpersist()

    def _reported(
        self, number: int, run: str, replayed: bool, began: float, tell: Tell | None
    ) -> FactoryStep:
        objects = self.state.read(number)
        done = FactoryStep(number, _version(run, number), replayed, objects, time.monotonic() - began)
        if tell is not None:
            tell(done)
        return done


def files_of(spark: Any, plan: FactoryPlan, *, files_per_step: int | None = None) -> Any:
    """The folder of a plan's table as a stream: each file once, as it comes."""
    if not Files(spark).stamps(plan.table):
        raise InputError(f"{plan.table} holds no files", hint="the first files tell the columns")
    schema = spark.read.parquet(plan.table).schema
    reader = spark.readStream.schema(schema)
    if files_per_step is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_step)
    return reader.parquet(plan.table)

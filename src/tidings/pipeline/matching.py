"""`match`: which subscriptions does each row of a table, or of a stream, belong to?

Rules
- The answer is the embedded matcher's, row by row: the same table, the same kernels, on Arrow batches.
- No row is skipped silently. Subscriptions that cannot be compiled and rows that cannot be matched
  are in `rejects`, with the reason; `explain()` reports legal input that looks like a mistake.
- A table that fits is held by every executor, mapped into memory once a machine (`everywhere`). One
  that does not is cut into cells of the attribute space (`partitioned`): a subscription goes to all
  cells in which an event of it may lie, an event to the one cell it lies in; so no pair is found twice.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from tidings.errors import InputError, SettingsError
from tidings.model.event import RESERVED, Event
from tidings.pipeline import parts
from tidings.pipeline.attributes import KINDS, ColumnPlan, plan, simple_type
from tidings.pipeline.compiling import Rejected, check_names
from tidings.pipeline.executing import Job, VersionFiles, matching_with
from tidings.pipeline.sizing import BYTES_EACH, Decision, choose
from tidings.pipeline.tables import FILES, PINNED, About, Table, Version, spark_frame

Output = Literal["lists", "pairs"]
Strategy = Literal["auto", "everywhere", "partitioned"]
SAMPLED = 2_000  # events that a table's cells are cut by
ARROW_TYPES = {"string": "string", "large_string": "string", "int64": "bigint", "int32": "int",
               "int16": "smallint", "int8": "tinyint"}  # fmt: skip
PROBLEM = "problem"  # of a row that could not be matched
SHOWN = 5  # rejects that `explain` quotes
REJECT_COLUMNS = "what string, id string, reason string, text string"


class Options(NamedTuple):
    """Form of the answer that the caller asks for."""

    output: str = "lists"
    keep: tuple[str, ...] | None = None
    casts: Mapping[str, str] = {}
    reject: bool = True
    unmatched: bool = True


@dataclass(frozen=True)
class Matched:
    """What `match` gives.

    `result` has the kept columns of the events, then `subscriptions` (the ids in the table's order; or
    `subscription`, and `subscriber` when known, one row for each pair), then `version`. It is as lazy
    as any DataFrame, and a stream when the events are one. `rejects` has (`what`, `id`, `reason`,
    `text`): subscriptions that were not taken, and rows that could not be matched (of a stream only
    the former: its rows are in `whole`, where `problem` is not NULL).
    """

    result: Any
    version: Version | None
    strategy: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    whole: Any = field(repr=False)
    _rejects: Callable[[], Any] = field(repr=False)
    _written: Callable[[str], Any] | None = field(repr=False, default=None)

    @cached_property
    def rejects(self) -> Any:
        """Made when first asked for: a stream's batches never do."""
        return self._rejects()

    def written(self, folder: str) -> Any:
        """`whole` as Parquet files in a folder that all machines see, written by the workers when the
        DataFrame that this gives is collected: a row for each try of a task that counts, with the name
        of its file (see `parts.py`). None when Spark must write it."""
        return None if self._written is None else self._written(folder)

    def explain(self) -> str:
        """The chosen strategy and its reasons, the rejects, and input that looks like a mistake."""
        lines = [f"strategy: {self.strategy}", *(f"  {reason}" for reason in self.reasons)]
        if self.version is not None:
            about = self.version.about
            lines.append(
                f"  version {about.version}: {about.subscriptions:,} subscriptions, "
                f"{about.rejected:,} rejected"
            )
        if self.notes:
            lines += ["worth a look:", *(f"  {note}" for note in self.notes)]
        return "\n".join(lines)


def match(
    events: Any,
    subscriptions: Any,
    *,
    output: Output = "lists",
    strategy: Strategy = "auto",
    keep: Sequence[str] | None = None,
    casts: Mapping[str, str] | None = None,
    bad_rows: Literal["reject", "fail"] = "reject",
    folder: str | os.PathLike[str] | None = None,
    version: int | None = None,
    most_mb: int | None = None,
    unmatched: bool = True,
) -> Matched:
    """Match a batch or streaming DataFrame of events against a table of subscriptions.

    `subscriptions` is a DataFrame with the columns `id`, `filter` and optionally `subscriber` and
    `dialect`; a path to the same as Parquet; or a compiled `Table` (or its folder), at `version` or at
    its latest. Columns and nested columns of `events` are attributes; `casts` gives a type for a
    column of a type that no attribute has ({"price": "double"}).

    `output`: one row an event with the list of its subscriptions, or one row for each pair; `keep`: the
    columns of the events in the answer (all); `unmatched`: whether lists hold events without a match.
    `bad_rows`: rows that cannot be matched are rejects, or fail the job.

    `strategy` is chosen by size: every executor holds the table up to `most_mb` (a quarter of the
    machine's memory by default). `folder` is where compiled tables are written: a directory that all
    machines see, if there is one; without it Spark carries the files to each machine.
    """
    _check_settings(output, strategy, bad_rows)
    spark = spark_frame(events, "events").sparkSession
    options = Options(
        output, tuple(keep) if keep is not None else None, dict(casts or {}), bad_rows == "reject", unmatched
    )
    if is_table(subscriptions):
        table = subscriptions if isinstance(subscriptions, Table) else Table(subscriptions)
        chosen = table.version(version)
        decision = choose(spark, chosen.about.bytes, strategy, most_mb, cut=False)
        return match_everywhere(events, chosen, decision, options, shared=table.shared)
    rows = subscription_rows(spark, subscriptions)
    decision = choose(spark, rows.count() * BYTES_EACH, strategy, most_mb, cut=True)
    if decision.strategy == "partitioned":
        from tidings.pipeline.partitioning import match_partitioned

        return match_partitioned(events, rows, decision, options, folder=folder)
    table = Table(folder if folder is not None else scratch_folder())
    chosen = table.publish(rows, sample=sample_of(events))
    return match_everywhere(events, chosen, decision, options, shared=folder is not None)


def match_everywhere(
    events: Any, version: Version, decision: Decision, options: Options, *, shared: bool
) -> Matched:
    """Match with a version that every executor maps."""
    planned = plan(events, version.about, keep=options.keep, casts=options.casts)
    location, how = place_for(events.sparkSession, version, shared=shared)
    job = job_of(planned, version.about, options)
    schema = answer_schema(planned, version.about, job)
    run = matching_with(location, job)
    whole = planned.frame.mapInArrow(run, schema)
    decision = decision._replace(reasons=(*decision.reasons, how))
    made = finished(whole, planned, version.rejected(), decision, options, version)
    return replace(made, _written=written_by_workers(planned.frame, run, schema, options))


def written_by_workers(
    frame: Any, run: Callable[[Iterator[Any]], Iterator[Any]], schema: Any, options: Options
) -> Callable[[str], Any] | None:
    """Writer of answers to files without Spark's writer; None where it must not be used."""
    if not (options.reject and parts.fits(schema)):
        return None
    lists, compression = options.output == "lists", parts.codec(frame.sparkSession)

    def written(folder: str) -> Any:
        part = parts.OutputPart(folder, tuple(schema.names), lists, options.unmatched, compression)
        return frame.mapInArrow(parts.writing(run, part), parts.COUNTS)

    return written


def job_of(planned: ColumnPlan, about: About, options: Options) -> Job:
    """Orders for the workers."""
    pairs = options.output == "pairs"
    return Job(
        attributes=planned.attributes,
        kept=len(planned.kept),
        version=about.version,
        pairs=pairs,
        subscriber=about.subscribers and pairs,
        reject=options.reject,
        check_topics="topic" in about.attributes or "topic" in about.folded,
        id_type=about.id_type,
    )


def finished(
    whole: Any,
    planned: ColumnPlan,
    rejected: list[Rejected],
    decision: Decision,
    options: Options,
    version: Version | None,
) -> Matched:
    """Split the answers from the rows that could not be matched."""
    from pyspark.sql import functions as F  # noqa: N812

    result = whole
    if options.reject:
        result = result.where(F.col(PROBLEM).isNull()).drop(PROBLEM)
    if options.output == "lists" and not options.unmatched:
        result = result.where(F.size("subscriptions") > 0)
    notes = (*planned.notes, *(f"subscription {r.id}: {r.reason}" for r in rejected[:SHOWN]))
    if len(rejected) > SHOWN:
        notes = (*notes, f"and {len(rejected) - SHOWN} more subscriptions; `rejects` has all of them")
    return Matched(
        result, version, decision.strategy, decision.reasons, notes, whole,
        lambda: rejects_frame(whole, planned, rejected, options),
    )  # fmt: skip


def rejects_frame(whole: Any, planned: ColumnPlan, rejected: list[Rejected], options: Options) -> Any:
    """The rejects as a DataFrame: subscriptions, and the bad rows of a batch."""
    from pyspark.sql import functions as F  # noqa: N812

    spark = whole.sparkSession
    frame = spark.createDataFrame([("subscription", *row) for row in rejected], REJECT_COLUMNS)
    if whole.isStreaming or not options.reject:
        return frame
    return frame.unionByName(
        bad_rows_of(whole, planned).select(F.lit("event").alias("what"), "id", "reason", "text")
    )


def bad_rows_of(whole: Any, planned: ColumnPlan) -> Any:
    """The rows that could not be matched: id when there is one, reason, and the kept columns as JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    numbered = whole.toDF(*(f"c{n}" for n in range(len(whole.columns))))  # names may differ in case only
    names = [field.name for field in planned.kept]
    nothing = F.lit(None).cast("string")
    id = F.col(f"c{names.index('id')}").cast("string") if "id" in names else nothing
    stored = [F.col(f"c{n}").alias(name) for n, name in enumerate(names)]
    reason = F.col(f"c{whole.columns.index(PROBLEM)}")
    return numbered.where(reason.isNotNull()).select(
        id.alias("id"),
        reason.alias("reason"),
        (F.to_json(F.struct(*stored)) if stored else nothing).alias("text"),
    )


def answer_schema(planned: ColumnPlan, about: About, job: Job) -> Any:
    """The columns of the answer; the kept ones have their own names."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType, _parse_datatype_string

    id_type = ARROW_TYPES[about.id_type]
    own = [("subscription", id_type)] if job.pairs else [("subscriptions", f"array<{id_type}>")]
    if job.subscriber:
        own.append(("subscriber", "string"))
    fields = [StructField(name, _parse_datatype_string(kind)) for name, kind in own]
    fields.append(StructField("version", LongType()))
    if job.reject:
        fields.append(StructField(PROBLEM, StringType()))
    taken = {field.name.lower() for field in planned.kept} & {field.name.lower() for field in fields}
    if taken:
        raise InputError(
            f"the events have a column {min(taken)!r}, and so has the answer",
            hint="rename it, or leave it out with keep=[...]",
        )
    return StructType([*(StructField(f.name, f.dataType) for f in planned.kept), *fields])


def place_for(spark: Any, version: Version, *, shared: bool) -> tuple[VersionFiles, str]:
    """Location of the files for workers, and a line that says why there."""
    if spark.sparkContext.master.startswith("local"):
        return VersionFiles(
            str(version.folder.resolve())
        ), "mapped from the folder: all processes are on this machine"
    if shared:
        return VersionFiles(
            str(version.folder.resolve())
        ), "mapped from the folder, which all machines are said to see"
    # Spark knows carried files by their names alone: each place has its own
    pinned = version.folder.name.removeprefix(PINNED) if version.folder.name.startswith(PINNED) else ""
    prefix = f"tidings-{version.folder.parent.name}-{version.number}-{pinned}"
    for name in FILES:
        carried = version.folder / f"{prefix}{name}"
        if not carried.exists():
            os.link(version.folder / name, carried)
            spark.sparkContext.addFile(str(carried))
    return VersionFiles(
        "", prefix
    ), "carried to each machine by Spark, once, and mapped there: no shared folder was given"


def is_table(subscriptions: Any) -> bool:
    """A compiled table, or the folder of one?"""
    if isinstance(subscriptions, Table):
        return True
    return isinstance(subscriptions, str | os.PathLike) and bool(Table(subscriptions).numbers())


def subscription_rows(spark: Any, subscriptions: Any) -> Any:
    """The table of subscriptions as a DataFrame, its columns checked."""
    from pyspark.errors import AnalysisException

    if isinstance(subscriptions, str | os.PathLike):
        try:
            subscriptions = spark.read.parquet(os.fspath(subscriptions))
        except AnalysisException as error:
            raise InputError(
                f"{subscriptions} holds neither Parquet nor a compiled table: {_first_line(error)}"
            ) from None
    if spark_frame(subscriptions, "subscriptions").isStreaming:
        raise InputError(
            "the subscriptions are a stream", hint="publish versions of a Table, and match_stream"
        )
    check_names(subscriptions.columns)
    return subscriptions


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def scratch_folder() -> str:
    """A folder of this process, gone at its end."""
    folder = tempfile.mkdtemp(prefix="tidings-table-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def sample_of(events: Any) -> list[Event]:
    """Some events, for cutting cells; none of a stream. Answers do not depend on it."""
    if events.isStreaming:
        return []
    fields = [f for f in events.schema.fields if simple_type(f.dataType) in KINDS and f.name not in RESERVED]
    if not fields or len({f.name.lower() for f in events.schema.fields}) < len(events.columns):
        return []
    some = events.select(*(quoted(f.name) for f in fields)).limit(SAMPLED).toArrow()
    batches = some.combine_chunks().to_batches()
    return [event for number in range(len(some)) for event in _sampled(batches[0], number)]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _sampled(batch: Any, number: int) -> Iterator[Event]:
    from tidings.matching.columnar.batches import event_of

    with suppress(UnicodeError, OverflowError):  # skip a poison row in the sample; matching will report it
        yield event_of(batch, number)


def _check_settings(output: str, strategy: str, bad_rows: str) -> None:
    for name, value, known in (
        ("output", output, ("lists", "pairs")),
        ("strategy", strategy, ("auto", "everywhere", "partitioned")),
        ("bad_rows", bad_rows, ("reject", "fail")),
    ):
        if value not in known:
            raise SettingsError(f"{name} cannot be {value!r}", hint=f"it is {' or '.join(known)}")

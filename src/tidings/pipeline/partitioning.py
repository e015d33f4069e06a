"""Matching with a table that is too large for one executor: cut into cells, one table a cell.

- Subscriptions are parsed and assigned to cells by the executors, and each cell is compiled by itself:
  nowhere is the whole table in memory.
- An event is sent to the cell that it lies in, by a shuffle; it is looked up there and nowhere else,
  so the answers are complete (assign and resolve meet) and hold no pair twice.
- A worker has one cell's table open at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidings.algebra.cells import GridCells
from tidings.pipeline.attributes import ColumnPlan, plan, value_columns
from tidings.pipeline.compiling import Rejected, SubscriptionReader, compile_rows
from tidings.pipeline.cutting import cell_sql, choose_cells
from tidings.pipeline.executing import Job, Nothing, VersionFiles, answers, opened
from tidings.pipeline.sizing import Decision
from tidings.pipeline.tables import FILES, About, write_version

if TYPE_CHECKING:
    from tidings.pipeline.matching import Matched, Options

SAMPLED = 3_000  # subscriptions that the axes are chosen by
SHARE = 2  # a cell should take at most one over so much of the room for a table
FREE_CELLS = 4  # cells for each core at least, so that no core waits long for the fullest
CELL, ORDER, REASON = "cell", "order", "reason"
ROWS = "cell int, order bigint, id {id}, subscriber string, filter string, dialect string, reason string"


class PartitionedTable(NamedTuple):
    """A table in cells."""

    cells: GridCells
    places: dict[int, VersionFiles]
    about: About  # of all cells together
    rejected: list[Rejected]


def match_partitioned(
    events: Any, rows: Any, decision: Decision, options: Options, *, folder: str | os.PathLike[str] | None
) -> Matched:
    """Cut, compile, send every event to its cell, match."""
    from tidings.pipeline.matching import answer_schema, finished, job_of, sample_of, scratch_folder

    spark = events.sparkSession
    sample = sample_of(events)
    cores = spark.sparkContext.defaultParallelism
    wanted = max(ceil(SHARE * decision.table_mb / max(1, decision.most_mb)), FREE_CELLS * cores)
    filters = list(_some_filters(rows))
    cells, sentence = choose_cells(filters, sample, value_columns(events, options.casts), wanted)
    shared = folder is not None or spark.sparkContext.master.startswith("local")
    path = Path(folder if folder is not None else scratch_folder()) / "cells"
    cut = cut_table(rows, cells, path, shared=shared)
    planned = plan(events, cut.about, keep=options.keep, casts=options.casts)
    job = job_of(planned, cut.about, options)
    sent = sent_to_cells(planned, cells)
    whole = sent.mapInArrow(matching_cells(cut.places, job), answer_schema(planned, cut.about, job))
    stored = sum(1 for _ in cut.places)
    kept = (
        f"{cut.about.subscriptions:,} subscriptions and copies in {stored} tables, the largest "
        f"{cut.about.bytes / 2**20:,.1f} MB"
    )
    decision = decision._replace(reasons=(*decision.reasons, sentence, kept))
    return finished(whole, planned, cut.rejected, decision, options, None)


def _some_filters(rows: Any) -> Iterator[Any]:
    from tidings.pipeline.tables import collected

    some = collected(rows.limit(SAMPLED))
    dialects = some.column("dialect").to_pylist() if "dialect" in some.schema.names else [None] * len(some)
    yield from SubscriptionReader().filters(
        some.column("id").to_pylist(), some.column("filter").to_pylist(), dialects
    )


def sent_to_cells(planned: ColumnPlan, cells: GridCells) -> Any:
    """The events with their cell in a last column, each in the partition of its cell."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = planned.frame.schema.fields
    stored = {name: (f"p{n}", str(fields[n].dataType.simpleString())) for name, n in planned.attributes}
    numbered = planned.frame.withColumn(CELL, F.expr(cell_sql(cells, stored)).cast("int"))
    return numbered.repartitionById(cells.count, F.col(CELL))


def matching_cells(locations: dict[int, VersionFiles], job: Job) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that `mapInArrow` runs on events that know their cell."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow.compute as pc

        for batch in batches:
            numbers = batch.column(batch.num_columns - 1)
            for number in numbers.unique().to_pylist():
                some = batch.filter(pc.equal(numbers, number))
                version = opened(locations[number], most=1) if number in locations else Nothing(job)
                yield from answers(some, version, job)

    return run


# -- building


def cut_table(rows: Any, cells: GridCells, folder: Path, *, shared: bool) -> PartitionedTable:
    """Compile the table of each cell into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    assigned = _assigned(rows, cells).persist()
    try:
        rejected = [
            Rejected(None if row["id"] is None else str(row["id"]), row[REASON], row["filter"])
            for row in assigned.where(f"{REASON} IS NOT NULL").orderBy(ORDER).collect()
        ]
        good = assigned.where(f"{REASON} IS NULL").drop(REASON)
        build = _built_by_executors if shared else _built_by_driver
        abouts = build(good, cells.count, folder)
    finally:
        assigned.unpersist()
    locations = {}
    for number in abouts:
        locations[number] = _place(rows.sparkSession, folder / f"cell-{number:05d}", number, shared=shared)
    return PartitionedTable(cells, locations, _together(abouts, rows, len(rejected)), rejected)


def _assigned(rows: Any, cells: GridCells) -> Any:
    """One row for each subscription and cell; one with a reason for each reject."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    names = rows.columns
    text = F.lit(None).cast("string")
    whole = rows.select(
        F.monotonically_increasing_id().alias(ORDER), "id", *(
            F.col(name) if name in names else text.alias(name) for name in ("subscriber", "filter", "dialect")
        ),
    )  # fmt: skip
    same = Window.partitionBy("id").orderBy(ORDER)
    repeated = F.col("id").isNotNull() & (F.row_number().over(same) > 1)
    kind = rows.schema["id"].dataType.simpleString()
    return whole.withColumn("again", repeated).mapInArrow(_assigning(cells), ROWS.format(id=kind))


def _assigning(cells: GridCells) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in ("id", "filter", "dialect", "again")}
            owners, positions, reasons = [], [], []
            for number, row in enumerate(zip(*columns.values(), strict=True)):
                found = _cells_of(cells, *row)
                for cell in (-1,) if isinstance(found, str) else found:
                    owners.append(number)
                    positions.append(cell)
                    reasons.append(found if isinstance(found, str) else None)
            taken = batch.select([ORDER, "id", "subscriber", "filter", "dialect"]).take(
                pa.array(owners, pa.int64())
            )
            columns_out = [pa.array(positions, pa.int32()), *taken.columns, pa.array(reasons, pa.string())]
            yield pa.RecordBatch.from_arrays(columns_out, names=["c", *taken.schema.names, "r"])

    return run


def _cells_of(cells: GridCells, id: Any, text: Any, dialect: Any, again: bool) -> tuple[int, ...] | str:
    """The cells of a subscription, or why it cannot be one."""
    if again:
        return "its id was in the table before"
    reading = SubscriptionReader()
    found = list(reading.filters([id], [text], [dialect]))
    return cells.assign(found[0]) if found else reading.rejected[0].reason


def _built_by_executors(good: Any, count: int, folder: Path) -> dict[int, About]:
    from pyspark.sql import functions as F  # noqa: N812

    path = str(folder.resolve())
    sent = good.repartitionById(count, F.col(CELL)).sortWithinPartitions(CELL, ORDER)
    made = sent.mapInArrow(_building(path), "cell int, about binary").collect()
    return {row[CELL]: msgspec.json.decode(row["about"], type=About) for row in made}


def _building(folder: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        waiting = [batch for batch in batches if batch.num_rows]
        if waiting:  # a partition holds one cell
            rows = pa.Table.from_batches(waiting)
            number = rows.column(CELL)[0].as_py()
            about = build_cell(rows, Path(folder), number)
            yield pa.RecordBatch.from_pydict(
                {"cell": pa.array([number], pa.int32()), "about": pa.array([about], pa.binary())}
            )

    return run


def build_cell(rows: Any, folder: Path, number: int) -> bytes:
    """Compile one cell; a task that is tried again writes the same once more."""
    path = folder / f"cell-{number:05d}"
    path.mkdir(exist_ok=True)
    write_version(compile_rows(rows), path, 1, note=f"cell {number}")
    return (path / "about.json").read_bytes()


def _built_by_driver(good: Any, count: int, folder: Path) -> dict[int, About]:
    """One cell after the other: for machines that share no folder."""
    from pyspark.sql import functions as F  # noqa: N812

    abouts = {}
    for number in range(count):
        rows = good.where(F.col(CELL) == number).orderBy(ORDER).toArrow()
        if len(rows):
            abouts[number] = msgspec.json.decode(build_cell(rows, folder, number), type=About)
    return abouts


def _place(spark: Any, folder: Path, number: int, *, shared: bool) -> VersionFiles:
    if shared:
        return VersionFiles(str(folder.resolve()))
    prefix = f"tidings-{folder.parent.parent.name}-cell-{number}-"
    for name in FILES:
        os.link(folder / name, folder / f"{prefix}{name}")
        spark.sparkContext.addFile(str(folder / f"{prefix}{name}"))
    return VersionFiles("", prefix)


def _together(abouts: dict[int, About], rows: Any, rejected: int) -> About:
    """Total of all cells; `bytes` is the largest one's."""
    kinds: dict[str, str] = {}
    for about in abouts.values():
        for name, some in about.kinds.items():
            kinds[name] = "".join(sorted(set(kinds.get(name, "")) | set(some)))
    types = {"string": "string", "bigint": "int64", "int": "int32", "smallint": "int16", "tinyint": "int8"}
    return About(
        1,
        sum(about.subscriptions for about in abouts.values()),
        rejected,
        max((about.bytes for about in abouts.values()), default=0),
        sorted({name for about in abouts.values() for name in about.attributes}),
        sorted({name for about in abouts.values() for name in about.folded}),
        kinds,
        types[rows.schema["id"].dataType.simpleString()],
        "subscriber" in rows.columns,
        0.0,
    )

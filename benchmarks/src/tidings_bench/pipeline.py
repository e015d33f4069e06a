"""`tidings bench pipeline`: tables and streams on Spark, beside joins of Spark SQL, DuckDB and Polars.

Figures are wall seconds, the best of a few warm runs, all engines in one run on the same data; every
engine must find the same pairs, or the benchmark ends with an error. Tables are compiled before the clock
starts, as others build none; the time of compiling is a row of its own. A ratio compares with the best engine
that is not ours, on the same work. DuckDB and Polars run in one process without Spark: they are shown because
they win where everything fits into one machine's memory.

- boxes       points against rectangles: `x BETWEEN .. AND .. AND y BETWEEN .. AND ..`
- W2          a million conjunctions of 3-5 constraints over 20 attributes, in one job
- stream      files of events into Parquet, exactly once, against 100,000 boxes
- growth      events, subscriptions and cores, each doubled
- memory      worker processes with little memory: the whole table fails, the partitioned one works
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tidings.errors import InputError, TidingsError
from tidings.pipeline import Table, match, match_stream, session
from tidings_bench import joins
from tidings_bench.joins import Answer, JoinEngine

Row: TypeAlias = dict[str, Any]
SEED = 7
ROWS_A_PIECE = 250_000  # below this a task costs more to start than its rows
SIDE = 0.01  # mean side of a box, of an axis of length 1


class Sizes(NamedTuple):
    events: int = 100_000
    many_events: int = 2_000_000
    boxes: int = 100_000
    nested_events: int = 100_000  # events that the nested-loop join is measured with
    market: int = 1_000_000
    market_events: int = 100_000
    files: int = 6
    file_rows: int = 500_000
    growth: tuple[int, ...] = (250_000, 500_000, 1_000_000, 2_000_000)
    growth_boxes: tuple[int, ...] = (25_000, 50_000, 100_000, 200_000)
    memory_boxes: int = 1_200_000


QUICK = Sizes(20_000, 100_000, 10_000, 2_000, 10_000, 5_000, 2, 50_000, (25_000, 50_000), (5_000, 10_000), 0)


def run(*, quick: bool = False, only: str | None = None, plots: str | None = None) -> Iterator[Row]:
    """Rows of every part, or of some with commas between.

    `plots`: a folder for drawings of time against size.
    """
    sizes = QUICK if quick else Sizes()
    rows = []
    for found in _parts(sizes, _chosen(only)):
        rows.append(found)
        yield found
    if plots is not None:
        plot(rows, plots)


PARTS = ("boxes", "many", "market", "stream", "growth", "cores", "memory")


def _chosen(only: str | None) -> list[str]:
    names = [name.strip() for name in only.split(",")] if only else list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        raise InputError(f"no part is called {unknown[0]!r}", hint=f"there are {', '.join(PARTS)}")
    return names


def _parts(sizes: Sizes, chosen: list[str]) -> Iterator[Row]:
    in_one_session: dict[str, Callable[[Any, Sizes, Path], Iterator[Row]]] = {
        "boxes": boxes, "many": many, "market": market, "stream": stream, "growth": growth,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        if wanted := [measure for name, measure in in_one_session.items() if name in chosen]:
            spark = session()
            try:
                for measure in wanted:
                    yield from measure(spark, sizes, Path(folder))
            finally:
                spark.stop()
        if "cores" in chosen:
            yield from cores(sizes, Path(folder))
        if "memory" in chosen and sizes.memory_boxes:
            from tidings_bench.pipeline_memory import memory

            yield from memory(sizes.memory_boxes)


def row(work: str, size: int, engine: str, figure: float, unit: str = "s", best: float | None = None) -> Row:
    """`best`: seconds of the best peer; the ratio says how many times faster than that."""
    ratio = None if best is None else round(best / figure, 2)
    return {
        "work": work, "size": size, "engine": engine, "figure": round(figure, 3), "unit": unit,
        "ratio_to_best_peer": ratio,
    }  # fmt: skip


# -- data


def points(count: int, seed: int = SEED) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    return pa.table({"eid": np.arange(count, dtype=np.int64), "x": rng.random(count), "y": rng.random(count)})


def rectangles(count: int, side: float = SIDE) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(SEED + 1)
    low = rng.random((2, count)) * (1 - 1.5 * side)
    high = low + side * (0.5 + rng.random((2, count)))
    return pa.table(
        {"sid": np.arange(count, dtype=np.int32), "x0": low[0], "x1": high[0], "y0": low[1], "y1": high[1]}
    )


def as_subscriptions(boxes: Any) -> Any:
    """The same boxes as a table of subscriptions."""
    import pyarrow as pa

    columns = [boxes.column(name).to_pylist() for name in ("x0", "x1", "y0", "y1")]
    texts = [
        f"x BETWEEN {a!r} AND {b!r} AND y BETWEEN {c!r} AND {d!r}"
        for a, b, c, d in zip(*columns, strict=True)
    ]
    return pa.table({"id": boxes.column("sid"), "filter": texts})


def on_spark(spark: Any, table: Any, folder: Path, name: str) -> Any:
    """The table in Spark's memory: a piece for each core, and up to four when there is much to share."""
    import pyarrow.parquet as pq

    path = folder / f"{name}.parquet"
    pq.write_table(table, path)
    pieces = min(4, 1 + table.num_rows // ROWS_A_PIECE) * spark.sparkContext.defaultParallelism
    frame = spark.read.parquet(str(path)).repartition(pieces).cache()
    frame.count()
    return frame


def compiled(folder: Path, subscriptions: Any) -> tuple[Table, float]:
    """A table, and the seconds from text to files."""
    began = time.perf_counter()
    table = Table(folder)
    table.publish(subscriptions)
    return table, time.perf_counter() - began


# -- measuring


def best_of(work: Callable[[], Answer], rounds: int, enough: float = 20.0) -> tuple[float, Answer]:
    """The best wall time of a few runs; one run when it takes long."""
    times: list[float] = []
    answer: Answer = (0, 0, 0)
    while len(times) < rounds and sum(times) < enough:
        began = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - began)
    return min(times), answer


def compared(
    work: str, size: int, ours: list[JoinEngine], peers: list[JoinEngine], rounds: int = 4
) -> Iterator[Row]:
    """Every engine on the same data; they must agree."""
    measured = []
    answers: dict[str, Answer] = {}
    for engine in [*ours, *peers]:
        seconds, answer = best_of(engine.run, rounds)
        measured.append((engine, seconds * engine.scale))
        if engine.scale == 1:
            answers[engine.name] = engine.check() if engine.check else answer
    if len(set(answers.values())) != 1:
        raise TidingsError(f"the engines do not agree on {work}: {answers}")
    best = min((seconds for engine, seconds in measured if engine in peers), default=None)
    for engine, seconds in measured:
        yield row(work, size, engine.name, seconds, best=best)
    yield row(work, size, "all engines", next(iter(answers.values()))[0], "pairs, the same")


def our_engines(events: Any, table: Table) -> list[JoinEngine]:
    """Lists of ids for each event, and pairs. The clock of the lists runs until Spark has counted them."""
    from pyspark.sql import functions as F  # noqa: N812

    # starting a Python worker and opening the table takes a second or two, once: no part of a warm run
    warm = events.where("eid < 1000").repartition(2 * spark_cores(events))
    match(warm, table, keep=["eid"]).result.count()

    def lists() -> Answer:
        size = F.size("subscriptions")
        found = match(events, table, keep=["eid"]).result.agg(F.sum(size), F.sum(F.col("eid") * size))
        return joins.made((*found.first(), 0))

    def opened_lists() -> Answer:
        found = match(events, table, keep=["eid"]).result.select(
            "eid", F.explode("subscriptions").alias("sid")
        )
        return joins.made(found.selectExpr("count(*)", "sum(eid)", "sum(sid)").first())

    def pairs() -> Answer:
        found = match(events, table, keep=["eid"], output="pairs").result
        return joins.made(found.selectExpr("count(*)", "sum(eid)", "sum(subscription)").first())

    return [JoinEngine("tidings, lists", lists, opened_lists), JoinEngine("tidings, pairs", pairs)]


def spark_cores(frame: Any) -> int:
    return int(frame.sparkSession.sparkContext.defaultParallelism)


# -- parts


def boxes(spark: Any, sizes: Sizes, folder: Path) -> Iterator[Row]:
    """As many events as boxes: beside the nested loop too."""
    work, made, areas = "boxes", points(sizes.events), rectangles(sizes.boxes)
    events, frame = on_spark(spark, made, folder, "events"), on_spark(spark, areas, folder, "boxes")
    table, seconds = compiled(folder / "boxes", as_subscriptions(areas))
    yield row(work, sizes.boxes, "tidings", seconds, "s to compile, from text to files")
    few = events.where(f"eid < {sizes.nested_events}").cache()
    few.count()
    scale = sizes.events / sizes.nested_events
    name = "Spark, nested-loop join" + (
        "" if scale == 1 else f" (scaled from {sizes.nested_events:,} events)"
    )
    peers = [
        JoinEngine("Spark, grid join", lambda: joins.spark_grid_join(events, frame)),
        *joins.duckdb_engines(made, areas, range_join=True),
        *joins.polars_engines(made, areas, range_join=True),
    ]
    slow = JoinEngine(name, lambda: joins.spark_nested_loop(few, frame), None, scale)
    found = list(compared(work, sizes.events, our_engines(events, table), [*peers, slow]))
    yield from found
    yield from versus(found, work, sizes.events, "Spark, nested-loop join")
    yield from versus(found, work, sizes.events, "Spark, grid join")


def many(spark: Any, sizes: Sizes, folder: Path) -> Iterator[Row]:
    """Many events: the job's fixed cost no longer counts."""
    work, made, areas = "boxes", points(sizes.many_events), rectangles(sizes.boxes)
    events, frame = on_spark(spark, made, folder, "many"), on_spark(spark, areas, folder, "many boxes")
    table, _ = compiled(folder / "many", as_subscriptions(areas))
    peers = [
        JoinEngine("Spark, grid join", lambda: joins.spark_grid_join(events, frame)),
        *joins.duckdb_engines(made, areas, range_join=False),
        *joins.polars_engines(made, areas, range_join=False),
    ]
    found = list(compared(work, sizes.many_events, our_engines(events, table), peers, 3))
    yield from found
    yield from versus(found, work, sizes.many_events, "Spark, grid join")
    events.unpersist()


def versus(found: Sequence[Row], work: str, size: int, peer: str) -> Iterator[Row]:
    """Speed-up of the lists over one peer."""
    seconds = {r["engine"]: r["figure"] for r in found if r["unit"] == "s"}
    ours = seconds["tidings, lists"]
    other = next(figure for engine, figure in seconds.items() if engine.startswith(peer))
    yield row(work, size, "tidings, lists", other / ours, f"times as fast as {peer}")


def market(spark: Any, sizes: Sizes, folder: Path) -> Iterator[Row]:
    """W2 in one job; a sample is compared with the embedded matcher's answers."""
    import pyarrow as pa

    from tidings_bench.workloads import filters, record_batch, texts, workload

    made = workload("W2")
    rows = pa.table(
        {"id": pa.array(range(sizes.market), pa.int32()), "filter": list(texts(made, sizes.market))}
    )
    table, seconds = compiled(folder / "market", rows)
    yield row("W2", sizes.market, "tidings", seconds, "s to compile, from text to files")
    del rows
    batch = record_batch(made, sizes.market_events)
    given = pa.Table.from_batches([batch]).append_column("eid", pa.array(range(batch.num_rows), pa.int64()))
    events = on_spark(spark, given, folder, "market events")

    def job() -> Answer:
        found = match(events, table, keep=["eid"]).result
        return joins.made((*found.selectExpr("sum(size(subscriptions))", "sum(eid)").first(), 0))

    took, answer = best_of(job, 2, 120.0)
    yield row("W2", sizes.market, f"tidings, lists, {sizes.market_events:,} events", took)
    yield row("W2", sizes.market, "tidings, lists", sizes.market_events / took, "events/s")
    yield row("W2", sizes.market, "tidings", answer[0], "pairs")
    few = match(events.where("eid < 200"), table, keep=["eid"]).result.collect()
    check_sample(
        {r["eid"]: list(r["subscriptions"]) for r in few}, batch.slice(0, 200), filters(made, sizes.market)
    )
    yield row("W2", sizes.market, "embedded matcher", len(few), "events with the same answer")


def check_sample(found: dict[int, list[int]], batch: Any, population: Any) -> None:
    from tidings.matching.columnar.matcher import ColumnarMatcher

    matcher = ColumnarMatcher()
    matcher.load(population)
    expected = matcher.match_batch(batch)
    for number in range(batch.num_rows):
        start, stop = expected.offsets[number], expected.offsets[number + 1]
        if found[number] != list(expected.handles[start:stop]):
            raise TidingsError(f"event {number} has other matches on Spark than in the embedded matcher")


def stream(spark: Any, sizes: Sizes, folder: Path) -> Iterator[Row]:
    """Files of events into Parquet; the first file warms up and is not counted."""
    import pyarrow.parquet as pq

    path = folder / "stream"
    (path / "in").mkdir(parents=True)
    table, _ = compiled(path / "table", as_subscriptions(rectangles(sizes.boxes)))
    for number in range(sizes.files + 1):
        some = points(sizes.file_rows, seed=100 + number)
        pq.write_table(some, path / "in" / f"f{number:03}.parquet", row_group_size=sizes.file_rows // 8)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2m")
    spark.conf.set("spark.sql.files.openCostInBytes", "0")
    batches: list[Any] = []
    events = (
        spark.readStream.schema("eid bigint, x double, y double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(path / "in"))
    )
    times: list[float] = []

    def note(batch: Any) -> None:
        batches.append(batch)
        times.append(time.perf_counter())

    query = match_stream(
        events,
        table,
        to=path / "out",
        checkpoint=path / "checkpoint",
        keep=["eid"],
        once=True,
        on_batch=note,
    )
    query.awaitTermination()
    rows = sum(batch.rows for batch in batches[1:])
    whole = times[-1] - times[0]  # from the end of the first batch: Spark's own work between batches counts
    yield row("stream", sizes.boxes, "tidings, lists into Parquet", rows / whole, "events/s")
    yield row("stream", sizes.boxes, "tidings", sum(b.matches for b in batches[1:]) / rows, "matches/event")
    written = spark.read.parquet(str(path / "out"))
    if written.count() != sizes.file_rows * (sizes.files + 1):
        raise TidingsError("the stream's output does not hold every event once")


def growth(spark: Any, sizes: Sizes, folder: Path) -> Iterator[Row]:
    """Events doubled, subscriptions doubled."""
    table, _ = compiled(folder / "growing", as_subscriptions(rectangles(sizes.boxes)))
    for count in sizes.growth:
        events = on_spark(spark, points(count), folder, f"growth {count}")
        seconds, _ = best_of(our_engines(events, table)[0].run, 3)
        yield row("growth, events", count, f"tidings, lists, {sizes.boxes:,} boxes", seconds)
        events.unpersist()
    events = on_spark(spark, points(sizes.growth[-2]), folder, "growth boxes")
    for count in sizes.growth_boxes:
        # boxes shrink as they grow in number, so that an event has as many matches
        side = SIDE * (sizes.boxes / count) ** 0.5
        table, _ = compiled(folder / f"growing {count}", as_subscriptions(rectangles(count, side)))
        seconds, _ = best_of(our_engines(events, table)[0].run, 3)
        yield row("growth, subscriptions", count, f"tidings, lists, {sizes.growth[-2]:,} events", seconds)
    events.unpersist()


def cores(sizes: Sizes, folder: Path) -> Iterator[Row]:
    """One core, then two, each in a session of its own."""
    for count in (1, 2):
        spark = session(cores=count)
        try:
            table, _ = compiled(folder / f"cores {count}", as_subscriptions(rectangles(sizes.boxes)))
            events = on_spark(spark, points(sizes.growth[-2]), folder, f"cores {count} events")
            seconds, _ = best_of(our_engines(events, table)[0].run, 3)
            yield row("growth, cores", count, f"tidings, lists, {sizes.growth[-2]:,} events", seconds)
        finally:
            spark.stop()


def plot(rows: Sequence[Row], folder: str) -> list[Path]:
    """Time against size, for each thing that was doubled."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    Path(folder).mkdir(parents=True, exist_ok=True)
    made = []
    for work in dict.fromkeys(r["work"] for r in rows if r["work"].startswith("growth")):
        chosen = [r for r in rows if r["work"] == work]
        figure, axes = plt.subplots()
        axes.plot(
            [r["size"] for r in chosen], [r["figure"] for r in chosen], marker="o", label=chosen[0]["engine"]
        )
        axes.set_xlabel(work.removeprefix("growth, "))
        axes.set_ylabel("seconds")
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.legend()
        made.append(Path(folder) / f"pipeline-{work.removeprefix('growth, ')}.svg")
        figure.savefig(made[-1])
        plt.close(figure)
    return made

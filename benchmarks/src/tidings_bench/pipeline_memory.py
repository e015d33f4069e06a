"""Worker processes with too little memory for the whole table, on a small cluster of this machine.

Two executors, each a process of its own. First a job with few subscriptions shows how much address
space a Python worker takes before any table. Then the cluster is started again, and a worker may use
that and half of the whole table's size: so the whole one cannot be mapped, and a part of it can. The
limit is set with this result in view; what is shown is that the partitioned strategy then works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidings.errors import TidingsError
from tidings.pipeline import Table, match, session

CLUSTER = "local-cluster[2,1,1024]"
EVENTS = 100_000
FEW = 2_000  # subscriptions of the first job
SIDE = 0.003
# Arrow's own allocator reserves a gigabyte of address space at a time, which would hide the table.
PLAIN_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
MB = 2**20


def memory(count: int) -> Iterator[dict[str, Any]]:
    """Rows that say which strategy worked."""
    from tidings_bench.pipeline import as_subscriptions, rectangles, row

    with TemporaryDirectory(prefix="tidings-bench-") as folder:
        areas = rectangles(count, SIDE)
        version = Table(folder).publish(as_subscriptions(areas))
        whole = version.about.bytes / MB
        expected = inside(version)
    base = space_of_a_worker()
    limit = f"{int(base + whole / 2)}m"
    yield row("memory", count, "tidings", whole, "MB, the whole table")
    yield row("memory", count, f"Python worker, {FEW:,} subscriptions", base, "MB of address space")
    spark = cluster({"spark.executor.pyspark.memory": limit, "spark.task.maxFailures": "1"})
    try:
        for strategy in ("everywhere", "partitioned"):
            yield from attempt(spark, areas, strategy, limit, expected)
    finally:
        spark.stop()


def cluster(config: dict[str, str]) -> Any:
    environment = {f"spark.executorEnv.{name}": value for name, value in PLAIN_MEMORY.items()}
    return session(master=CLUSTER, config=config | environment)


def attempt(spark: Any, areas: Any, strategy: Any, limit: str, expected: int) -> Iterator[dict[str, Any]]:
    from pyspark.errors import PySparkException

    from tidings_bench.pipeline import as_subscriptions, best_of, points, row

    events, subscriptions = (
        spark.createDataFrame(points(EVENTS)),
        spark.createDataFrame(as_subscriptions(areas)),
    )
    name = f"tidings, {strategy}, workers of {limit}"

    def job() -> tuple[int, int, int]:
        found = match(events, subscriptions, keep=["eid"], strategy=strategy).result
        return int(found.selectExpr("sum(size(subscriptions))").first()[0]), 0, 0

    try:
        seconds, answer = best_of(job, 1)
    except PySparkException as error:
        if strategy == "partitioned" or not re.search("cannot allocate memory|MemoryError", str(error), re.I):
            raise
        yield row("memory", len(areas), name, 0, "jobs done: out of memory")
        return
    if answer[0] != expected:
        raise TidingsError(f"{strategy} found {answer[0]} pairs, and there are {expected}")
    yield row("memory", len(areas), name, seconds, "s, compiling included")


def space_of_a_worker() -> float:
    """The most address space of a worker that has compiled and matched a few subscriptions, in MB."""
    from tidings_bench.pipeline import as_subscriptions, points, rectangles

    spark = cluster({})
    try:
        events = spark.createDataFrame(points(EVENTS))
        few = spark.createDataFrame(as_subscriptions(rectangles(FEW, SIDE)))
        match(events, few, keep=["eid"], strategy="partitioned").result.count()
        requested = spark.range(8, numPartitions=8).mapInArrow(peak, "mb double")
        return float(requested.agg({"mb": "max"}).first()[0])
    finally:
        spark.stop()


def peak(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for _ in batches:
        found = re.search(r"VmPeak:\s+(\d+)", Path("/proc/self/status").read_text())
        yield pa.RecordBatch.from_pydict({"mb": [int(found[1]) / 1024 if found else 0.0]})


def inside(version: Any) -> int:
    """Number of pairs, by the embedded matcher."""
    from tidings.matching.columnar.matcher import ColumnarMatcher
    from tidings_bench.pipeline import points

    matcher = ColumnarMatcher.open(version.folder / "table")
    return sum(
        len(matcher.match_batch(batch).handles) for batch in points(EVENTS).select(["x", "y"]).to_batches()
    )

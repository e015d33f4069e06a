"""Worker processes with too little memory for the whole table, on a small cluster of this machine.

Two executors, each a process of its own; their Python workers may use `LIMIT` of address space, which
is more than Python, Arrow and Numba need to start and less than they need with the whole table. It was
chosen so that the table does not fit: what is shown is that the partitioned strategy then works.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidings.errors import TidingsError
from tidings.pipeline import match, session

CLUSTER = "local-cluster[2,1,1024]"
LIMIT = "1400m"
EVENTS = 100_000


def memory(count: int, *, limit: str = LIMIT) -> Iterator[dict[str, Any]]:
    """Rows that say which strategy worked."""
    from tidings.bench.pipeline import as_subscriptions, best_of, points, rectangles, row

    spark = session(
        master=CLUSTER, config={"spark.executor.pyspark.memory": limit, "spark.task.maxFailures": "1"}
    )
    try:
        events = spark.createDataFrame(points(EVENTS))
        areas = rectangles(count, 0.003)
        subscriptions = spark.createDataFrame(as_subscriptions(areas))
        expected = inside(points(EVENTS), areas)
        for strategy in ("everywhere", "partitioned"):

            def job(strategy: Any = strategy) -> tuple[int, int, int]:
                found = match(events, subscriptions, keep=["eid"], strategy=strategy).result
                return (int(found.selectExpr("sum(size(subscriptions))").first()[0]), 0, 0)

            try:
                seconds, answer = best_of(job, 1)
            except Exception as error:
                if strategy == "partitioned" or "Memory" not in str(error):
                    raise
                yield row(
                    "memory", count, f"tidings, {strategy}, {limit} a worker", 0, "jobs done: out of memory"
                )
                continue
            if answer[0] != expected:
                raise TidingsError(f"{strategy} found {answer[0]} pairs, and there are {expected}")
            yield row(
                "memory", count, f"tidings, {strategy}, {limit} a worker", seconds, "s, compiling included"
            )
    finally:
        spark.stop()


def inside(events: Any, areas: Any) -> int:
    """How many pairs there are, by the embedded matcher."""
    from tidings.bench.pipeline import as_subscriptions
    from tidings.language import read_filter
    from tidings.matching.columnar.matcher import ColumnarMatcher

    matcher = ColumnarMatcher()
    matcher.load(map(read_filter, as_subscriptions(areas).column("filter").to_pylist()))
    return sum(len(matcher.match_batch(batch).handles) for batch in events.select(["x", "y"]).to_batches())

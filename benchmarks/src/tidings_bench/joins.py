"""Matching points with boxes as others would: joins of Spark SQL, DuckDB and Polars.

Every engine gets the same events (eid, x, y) and the same boxes (sid, x0, x1, y0, y1), all in its own
memory, and gives the same three numbers: how many pairs, the sum of their eids, the sum of their sids.
The grid join is what an expert writes: both sides get the cells of a regular grid, an equi-join on the
cell, then the exact test. It needs the domain and a good grid to be known; the others do not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

GRID = 100  # cells along each axis, about a box wide
TEST = "x >= x0 AND x <= x1 AND y >= y0 AND y <= y1"
RANGE_JOIN = (
    "SELECT count(*), sum(eid), sum(sid) FROM events JOIN boxes"
    " ON x >= x0 AND x <= x1 AND y >= y0 AND y <= y1"
)
GRID_JOIN = """
    WITH columns AS (SELECT *, unnest(range(floor(x0*100)::int, floor(x1*100)::int + 1)) AS cx FROM boxes),
    covering AS (SELECT *, unnest(range(floor(y0*100)::int, floor(y1*100)::int + 1)) AS cy FROM columns),
    placed AS (SELECT *, floor(x*100)::int AS cx, floor(y*100)::int AS cy FROM events)
    SELECT count(*), sum(eid), sum(sid) FROM placed JOIN covering USING (cx, cy)
    WHERE x >= x0 AND x <= x1 AND y >= y0 AND y <= y1
"""

Answer = tuple[int, int, int]


class JoinEngine(NamedTuple):
    name: str
    run: Callable[[], Answer]
    check: Callable[[], Answer] | None = None  # the whole answer, when what is timed does not give it
    scale: float = 1.0  # times the measured seconds: it got fewer events, and is linear in them


def made(row: Any) -> Answer:
    return int(row[0]), int(row[1] or 0), int(row[2] or 0)


def spark_nested_loop(events: Any, boxes: Any) -> Answer:
    """The join that a user writes first."""
    from pyspark.sql import functions as F  # noqa: N812

    joined = events.join(F.broadcast(boxes), F.expr(TEST))
    return made(joined.selectExpr("count(*)", "sum(eid)", "sum(sid)").first())


def spark_grid_join(events: Any, boxes: Any) -> Answer:
    """An expert's trick."""
    from pyspark.sql import functions as F  # noqa: N812

    def cell(name: str) -> Any:
        return F.floor(F.col(name) * GRID)

    placed = events.withColumn("cx", cell("x")).withColumn("cy", cell("y"))
    covering = boxes.withColumn("cx", F.explode(F.sequence(cell("x0"), cell("x1")))).withColumn(
        "cy", F.explode(F.sequence(cell("y0"), cell("y1")))
    )
    joined = placed.join(covering, ["cx", "cy"]).where(TEST)
    return made(joined.selectExpr("count(*)", "sum(eid)", "sum(sid)").first())


def duckdb_engines(events: Any, boxes: Any, *, range_join: bool) -> list[JoinEngine]:
    """DuckDB on two threads: its own range join, and the grid."""
    if find_spec("duckdb") is None:
        return []
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.register("given_events", events)
    connection.register("given_boxes", boxes)
    connection.execute("CREATE TABLE events AS SELECT * FROM given_events")
    connection.execute("CREATE TABLE boxes AS SELECT * FROM given_boxes")

    def asked(text: str) -> Callable[[], Answer]:
        return lambda: made(connection.execute(text).fetchone())

    engines = [JoinEngine("DuckDB, grid join", asked(GRID_JOIN))]
    return [*engines, JoinEngine("DuckDB, range join", asked(RANGE_JOIN))] if range_join else engines


def polars_engines(events: Any, boxes: Any, *, range_join: bool) -> list[JoinEngine]:
    """Polars: its range join, and the grid."""
    if find_spec("polars") is None:
        return []
    import polars as pl

    points, areas = pl.from_arrow(events).lazy(), pl.from_arrow(boxes).lazy()  # type: ignore[union-attr]
    c = pl.col
    inside = [c("x") >= c("x0"), c("x") <= c("x1"), c("y") >= c("y0"), c("y") <= c("y1")]
    sums = [pl.len(), c("eid").cast(pl.Int64).sum(), c("sid").cast(pl.Int64).sum()]  # wide enough

    def cell(name: str) -> Any:
        return (c(name) * GRID).floor().cast(pl.Int64)

    def grid() -> Answer:
        covering = (
            areas.with_columns(pl.int_ranges(cell("x0"), cell("x1") + 1).alias("cx")).explode("cx")
            .with_columns(pl.int_ranges(cell("y0"), cell("y1") + 1).alias("cy")).explode("cy")
        )  # fmt: skip
        placed = points.with_columns(cell("x").alias("cx"), cell("y").alias("cy"))
        joined = placed.join(covering, on=["cx", "cy"]).filter(*inside)
        return made(joined.select(sums).collect(engine="streaming").row(0))

    def plain() -> Answer:
        return made(points.join_where(areas, *inside).select(sums).collect().row(0))

    engines = [JoinEngine("Polars, grid join", grid)]
    return [*engines, JoinEngine("Polars, join_where", plain)] if range_join else engines

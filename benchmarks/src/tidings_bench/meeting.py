"""Brokers and Spark together: how fast events go from a broker into Spark, round, and out of an archive.

Works
- `read`: a broker's log, whole, into a Spark job that looks at every row; beside it the same pages turned
  into Arrow in one process without Spark, and the way through the node, event by event.
- `round trip`: published at a broker, through a stream of Spark, to a second broker, to a subscriber there,
  durable or transient; publisher and subscriber are processes of their own. Seconds, at 1,000 and at 5,000
  events a second (1,000 when quick), with the rate that was really held and how many were not back within 20
  s of the last.
- `archive`: 1,000 new subscriptions against an archive, `pruned` as their filters allow (they ask for 5% of
  the files) and `whole`: rows of the archive a second. Starting Spark is not counted anywhere.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidings_bench.round_trip import BACK, DURABLE, GO, TRANSIENT, End

Row = dict[str, Any]
EVENTS = (100_000, 600_000)  # quick, whole
TRIPS = (
    ((1_000, DURABLE),),
    ((1_000, DURABLE), (5_000, DURABLE), (5_000, TRANSIENT)),
)  # events a second, and what the subscriber is
SECONDS = 20  # of each rate
WARMING = 2  # rounds at a low rate before one that counts
ROWS = (400_000, 10_000_000)
FILES = 20
SUBSCRIPTIONS = 1_000
COLUMNS = {"day": "int", "symbol": "str", "price": "float"}
WORKS = ("read", "round trip", "archive")


def run(
    *, quick: bool = False, seed: int = 1, only: str | None = None, rows: int | None = None
) -> Iterator[Row]:
    """Rows of figures; `quick` takes a minute or two, most of it for Spark's start. `rows` of the archive."""
    from tidings.errors import InputError
    from tidings.pipeline import session

    chosen = [work.strip() for work in only.split(",")] if only else list(WORKS)
    for work in chosen:
        if work not in WORKS:
            raise InputError(f"there is no work {work!r}", hint=f"there are {', '.join(WORKS)}")
    size = 0 if quick else 1
    spark = session(name="tidings-meeting")
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as directory:
        folder = Path(directory)
        with _TwoBrokers(folder) as cluster:
            if "read" in chosen:
                yield from _read(spark, cluster, EVENTS[size])
            if "round trip" in chosen:
                yield from _round_trip(spark, cluster, folder, TRIPS[size])
        if "archive" in chosen:
            yield from _archive(spark, folder, rows or ROWS[size], seed)


class _TwoBrokers:
    """Two brokers as processes, on a loop in a thread."""

    def __init__(self, folder: Path) -> None:
        from tidings.runtime.cluster import Cluster

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._cluster = Cluster(2, store=folder / "store")

    def __enter__(self) -> _TwoBrokers:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._cluster.__aenter__(), self._loop).result()
        self.addresses = [member.address for member in self._cluster.members]
        return self

    def __exit__(self, *_: object) -> None:
        from tidings.pipeline.broker.lines import close_lines

        close_lines()
        asyncio.run_coroutine_threadsafe(self._cluster.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _figure(work: str, size: int, engine: str, figure: float, unit: str, best: float | None = None) -> Row:
    ratio = None if not best else round(figure / best, 2)
    return {
        "work": work, "size": size, "engine": engine, "figure": round(figure, 3 if unit == "s" else 0),
        "unit": unit, "ratio_to_best_peer": ratio,
    }  # fmt: skip


# -- reading ---------------------------------------------------------------------------------------


def _fill(address: str, count: int) -> None:
    import tidings
    from tidings.model.event import FOREVER, make_event

    with tidings.open(address, name="filler") as bus:
        for batch, first in enumerate(range(0, count, 5_000)):
            events = [
                make_event(
                    {"symbol": f"S{n % 500}", "price": n % 1000 / 10, "volume": n},
                    source="filler", id=f"f{n}", topic="in", lifetime=FOREVER,
                )
                for n in range(first, min(first + 5_000, count))
            ]  # fmt: skip
            bus.stage("fill", batch, 0, events)
            bus.commit_staged("fill", batch, 1)


SCHEMA = "id string, symbol string, price double, volume bigint"


def _read(spark: Any, cluster: _TwoBrokers, count: int) -> Iterator[Row]:
    address = cluster.addresses[0]
    _fill(address, count)

    def through_spark() -> float:
        frame = spark.read.format("tidings").schema(SCHEMA).option("brokers", address).load()
        began = time.perf_counter()
        (seen,) = frame.selectExpr("count(id)", "sum(volume)").collect()
        assert seen[0] == count
        return count / (time.perf_counter() - began)

    through_spark()  # workers start, code is compiled
    best = max(through_spark() for _ in range(3))
    alone = max(_alone(address, count) for _ in range(3))
    node = _through_node(address, min(count, 50_000))
    yield _figure("read", count, "spark", best, "events/s", alone)
    yield _figure("read", count, "one process", alone, "events/s")
    yield _figure("read", min(count, 50_000), "through the node", node, "events/s", alone)


def _alone(address: str, count: int) -> float:
    from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

    from tidings.pipeline.broker.columns import Columns
    from tidings.pipeline.broker.options import reading
    from tidings.pipeline.broker.reading import LogSpan, state_of

    kinds = [("id", StringType()), ("symbol", StringType()), ("price", DoubleType()), ("volume", LongType())]
    columns = Columns(StructType([StructField(name, kind) for name, kind in kinds]))
    where = reading({"brokers": address}).brokers[0]
    state = state_of(where)
    began = time.perf_counter()
    span = LogSpan(where, state.log, 0, state.end, None, "tidings")
    read = sum(len(batch) for batch in columns.read(span))
    assert read == count
    return count / (time.perf_counter() - began)


def _through_node(address: str, count: int) -> float:
    import tidings

    with tidings.open(address, name="node") as bus:
        began, after = time.perf_counter(), 0
        while after < count:
            after = bus.read_log(after=after, limit=4_096).upto
        return count / (time.perf_counter() - began)


# -- round trip ------------------------------------------------------------------------------------


def _round_trip(
    spark: Any, cluster: _TwoBrokers, folder: Path, kinds: tuple[tuple[int, str], ...]
) -> Iterator[Row]:
    first, second = cluster.addresses
    events = (
        spark.readStream.format("tidings").schema("sent double")
        .options(brokers=first, filter=f"topic = '{GO}'", reader="round", startingOffsets="latest").load()
    )  # fmt: skip
    query = (
        events.writeStream.format("tidings")
        .options(broker=second, topic=BACK, checkpointLocation=str(folder / "checkpoint")).start()
    )  # fmt: skip
    try:
        for rate, kind in kinds:
            with End("ear", second, kind) as listener:
                listener.answer()
                for _ in range(WARMING):  # workers start, code is compiled
                    _there_and_back(listener, first, 200, 5)
                yield from _at_rate(rate, kind, *_there_and_back(listener, first, rate, SECONDS))
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception()


def _there_and_back(listener: End, address: str, rate: int, seconds: int) -> tuple[float, int, list[float]]:
    """The rate that was held, how many were published, and the delays of those that came back."""
    with End("mouth", address, rate, seconds) as mouth:
        stated = mouth.answer()
    return stated["sent"] / stated["seconds"], int(stated["sent"]), listener.answer(stated["sent"])


def _at_rate(rate: int, kind: str, stored: float, sent: int, took: list[float]) -> Iterator[Row]:
    yield _figure("round trip", rate, f"{kind}, rate held", stored, "events/s")
    yield _figure("round trip", rate, f"{kind}, not back in time", sent - len(took), "events")
    took.sort()
    for name, position in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        if took:
            yield _figure("round trip", rate, f"{kind}, {name}", took[int(position * (len(took) - 1))], "s")


# -- the archive -----------------------------------------------------------------------------------


def make_archive(folder: Path, rows: int, files: int, seed: int) -> None:
    """Rows of prices, each file of a narrow range of days: what a log that was archived day by day looks
    like."""
    import numpy as np

    from tidings.archive.state import Archive, ArchiveState
    from tidings.archive.writing import write_table

    archive, rng = Archive(folder), np.random.default_rng(seed)
    per, made = rows // files, []
    with archive.locked():
        for number in range(files):
            table = _day(number, per, rng)
            made.append(write_table(archive, table, "bench#1", f"2026-01-{number + 1:02d}", 1))
        archive.publish(
            ArchiveState(
                number=1, places={"bench#1": per * files}, columns=COLUMNS, files=tuple(made),
                added=tuple(file.path for file in made),
            )
        )  # fmt: skip


def _day(number: int, rows: int, rng: Any) -> Any:
    """The table of one file; no value of it is made one by one."""
    import msgspec
    import numpy as np
    import pyarrow as pa

    from tidings.archive.writing import schema_of
    from tidings.model.event import FOREVER, make_event

    raw = msgspec.msgpack.encode(make_event({"day": 1}, source="s", id="e", lifetime=FOREVER))
    schema = schema_of(COLUMNS)
    offsets = pa.array(np.arange(number * rows + 1, (number + 1) * rows + 1))
    symbols = pa.array([f"S{symbol}" for symbol in range(500)])
    own = {
        "id": offsets.cast(pa.string()), "source": pa.repeat("s", rows), "topic": pa.repeat("prices", rows),
        "type": pa.nulls(rows, schema.field("type").type), "time": pa.nulls(rows, schema.field("time").type),
        "_offset": offsets, "_accepted": offsets.cast(schema.field("_accepted").type),
        "_lifetime": pa.array(np.full(rows, np.inf)), "_odd": pa.array(np.zeros(rows, bool)),
        "_event": pa.repeat(pa.scalar(raw, pa.binary()), rows), "day": pa.array(np.full(rows, number)),
        "symbol": symbols.take(pa.array(rng.integers(0, 500, rows))),
        "price": pa.array(np.round(rng.uniform(0, 100, rows), 2)),
    }  # fmt: skip
    return pa.table([own[name] for name in schema.names], schema=schema)


def _archive(spark: Any, folder: Path, rows: int, seed: int) -> Iterator[Row]:
    import random

    from tidings.pipeline.broker.catching import catch_up

    make_archive(folder / "archive", rows, FILES, seed)
    rng = random.Random(seed)
    wanted = [
        (n, f"day = {FILES // 2} AND symbol = 'S{rng.randrange(500)}' AND price BETWEEN "
            f"{(low := rng.uniform(0, 98)):.2f} AND {low + 2:.2f}")
        for n in range(SUBSCRIPTIONS)
    ]  # fmt: skip
    table = spark.createDataFrame(wanted, "id int, filter string").cache()
    rates: dict[str, float] = {}
    counts: dict[str, int] = {}
    # the first is for workers to start and code to be compiled
    for name, prune in (("pruned", True), ("pruned", True), ("whole", False)):
        began = time.perf_counter()
        caught = catch_up(spark, folder / "archive", table, prune=prune, whole=False)
        counts[name] = caught.result.selectExpr("sum(size(subscriptions))").collect()[0][0]
        rates[name] = rows / (time.perf_counter() - began)
    assert counts["pruned"] == counts["whole"] > 0
    yield _figure("archive", rows, "whole", rates["whole"], "rows/s")
    yield _figure("archive", rows, "pruned", rates["pruned"], "rows/s", rates["whole"])

"""History checks on Spark: the same properties as in plain Python, on histories of any size.

`check_on_spark` is `tidings.history.check` for histories in Parquet that one process cannot hold.
The properties are the same functions; this engine only decides where their records meet. It
evaluates lazily, at the first request for an answer, so that all properties share their passes
(see `history_plan.py`). The memory of one worker must hold: all subscriptions'
intervals, all deliveries of one event, and the notifications of one publisher to one subscriber.

Large histories are sieved first (`history_sieve.py`): what cannot break a property is set aside by
arithmetic on arrays, and the properties judge the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from math import ceil
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from tidings.errors import HistoryError
from tidings.history.acceptance import AcceptanceMatcher
from tidings.history.check import check_tables
from tidings.history.contracts import Contract, contract_of
from tidings.history.facts import Notice, ReceiptFact
from tidings.history.intervals import Interval
from tidings.history.plain import first_of
from tidings.history.publications import KeyedPublication
from tidings.history.relations import Columns, PropertyViolations, Violation
from tidings.history.report import CheckReport
from tidings.history.tables import EVENT, PROCESS, CheckSettings
from tidings.pipeline import history_bucket as bucket
from tidings.pipeline.history_plan import (
    NOWHERE,
    PlanNode,
    PlanPlaces,
    PlanRequest,
    PlanStage,
    is_of_streams,
    is_small,
    stages_for,
)
from tidings.pipeline.history_rows import History, spark_errors
from tidings.pipeline.history_sieve import COVERED, Only, Sieved, sieve
from tidings.pipeline.history_sieving import SieveRequest

SIEVED_FROM = 200_000  # rows: below, judging all of them is as fast
BUCKET_ROWS = 150_000  # rows that a worker holds at once; some 1.5 KB each while it judges them


def check_on_spark(
    paths: Iterable[str | Path],
    *,
    spark: Any = None,
    t_sub: float | None = None,
    t_diff: float | None = None,
    contract: Contract | str = "Tidings",
    until: float | None = None,
    matcher: Callable[[], AcceptanceMatcher] | None = None,
    bucket_rows: int = BUCKET_ROWS,
    sieving: bool | None = None,
    say: Callable[[str], None] | None = None,
) -> CheckReport:
    """Judge one history in Parquet (files, directories, globs) as `tidings.history.check` does.

    `sieving` says whether to look for suspects first; by default large histories are sieved."""
    if spark is None:
        from tidings.pipeline.session import session

        spark = session()
    promised = contract_of(contract)
    history = History(spark, paths)
    if say is not None:
        say(f"{history.rows:,} rows in {len(history.files):,} files")
    settings = CheckSettings(t_sub, t_diff, promised.receiver, until)
    engine = SparkEngine(history, promised, settings, bucket_rows=bucket_rows, sieving=sieving, say=say)
    try:
        return check_tables(
            engine, t_sub=t_sub, t_diff=t_diff, contract=promised, until=until, matcher=matcher
        )
    finally:
        history.forget()


class SparkEngine:
    """The operations of `relations.py` over DataFrames. A table is a `PlanNode`: how to make it."""

    def __init__(
        self,
        history: History,
        contract: Contract,
        settings: CheckSettings,
        *,
        bucket_rows: int = BUCKET_ROWS,
        sieving: bool | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._history = history
        self._contract, self._settings = contract, settings
        wanted = history.rows >= SIEVED_FROM if sieving is None else sieving
        self._sieving = wanted and (contract.properties <= COVERED or not history.count([ReceiptFact]))
        self._sieved: Sieved | None = None
        self._spark = history.spark
        self._bucket_rows = bucket_rows
        self._say = say or (lambda words: None)
        self._places = PlanPlaces((EVENT, ("run", contract.receiver, "source"), PROCESS))
        self._nodes = 0
        self._facts: dict[type[Any], PlanNode] = {}
        self._probes: list[PlanNode] = []
        self._intervals: list[PlanNode] = []
        self._wanted = PlanRequest()
        self._answers: dict[int, PropertyViolations] = {}
        self._stored: dict[int, Any] = {}  # node id -> DataFrame of its records
        self._materialised: dict[int, list[bytes]] = {}
        self._check = uuid4().hex

    # Interface of `relations.RelationEngine`

    def facts(self, kind: type[Any]) -> PlanNode:
        if kind not in self._facts:
            self._facts[kind] = self._node(kind, "facts")
        return self._facts[kind]

    def is_empty(self, table: PlanNode) -> bool:
        """Known from the first scan: facts are counted, and without a key no event is superseded."""
        if table.how == "facts":
            return self._history.count([table.output]) == 0
        if table.output is KeyedPublication:
            return self._history.keys == 0
        raise AssertionError(f"it was not requested before whether {table.output.__name__} is empty")

    def lacks(self, table: PlanNode) -> bool:
        return table.how == "facts" and self.is_empty(table)

    def each(self, make: Callable[[Any], Iterable[Any]], table: PlanNode, *, output: type[Any]) -> PlanNode:
        return self._node(output, "each", make, ((table, ()),))

    def group(
        self,
        make: Callable[..., Iterable[Any]],
        left: tuple[PlanNode, Columns],
        *rights: tuple[PlanNode, Columns],
        output: type[Any],
        apart: bool = False,
    ) -> PlanNode:
        return self._node(output, "group", make, (left, *rights), apart=apart)

    def probe(
        self,
        make: Callable[[Any, Any], Iterable[Any]],
        stream: PlanNode,
        nodes: PlanNode,
        prepare: Callable[[Iterable[Any]], Any],
        *,
        output: type[Any],
    ) -> PlanNode:
        node = self._node(output, "probe", make, ((stream, ()), (nodes, ())), prepare=prepare)
        self._probes.append(node)
        return node

    def keep(self, table: PlanNode) -> None:
        self._wanted.kept.append(table)

    def largest(self, table: PlanNode, value: Callable[[Any], float | None]) -> dict[str, float]:
        self._wanted.largest.append((table, value))
        largest = self._run().get(table.id, {})
        for run, seen in self._sieved.seen.items() if self._sieved is not None else ():
            largest[run] = max(seen, largest.get(run, seen))
        return largest

    def found(self, *tables: PlanNode) -> PropertyViolations:
        if any(table.id not in self._answers for table in tables):
            self._run()
        found = [self._answers[table.id] for table in tables]
        firsts = [each.first for each in found if each.first is not None]
        return PropertyViolations(sum(each.count for each in found), first_of(firsts))

    def _node(self, output: type[Any], how: str, *parts: Any, **more: Any) -> PlanNode:
        node = PlanNode(self._nodes, output, how, *parts, **more)
        self._nodes += 1
        if output is Interval:
            self._intervals.append(node)
        if output is Violation:
            self._wanted.answers.append(node)
        return node

    # How it is found out

    def _run(self) -> dict[int, dict[str, float]]:
        """Answer all that was asked for so far, in as few passes as it takes."""
        wanted, self._wanted = self._wanted, PlanRequest()
        small = [node for node in wanted.answers if is_small(node)]
        stages = stages_for(wanted, self._places)
        missing = {n for stage in stages for n in stage.broadcast() if n.id not in self._materialised}
        if missing:
            self._hold(sorted(missing, key=lambda node: node.id), small)
            wanted.answers = [node for node in wanted.answers if node not in small]
            stages = stages_for(wanted, self._places)
        requested = [*wanted.answers, *small]
        if self._sieving and any(map(is_of_streams, wanted.roots())):
            wanted = self._suspected(wanted)
            stages = stages_for(wanted, self._places)
        if stages:
            self._say(f"judging in {len(stages)} passes: {', '.join(map(_name, stages))}")
        largest = self._results(self._frames(stages), keeping=wanted.kept)
        for node in requested:
            self._answers.setdefault(node.id, PropertyViolations(0, None))
        return largest

    def _suspected(self, wanted: PlanRequest) -> PlanRequest:
        """Sieve, once; the other passes read only the suspects' rows, and do not run without suspects."""
        if self._sieved is None:
            self._say("looking for suspects")
            self._sieved = sieve(self._history, self._asked())
            self._say(self._sieved.words)
            if self._sieved.suspects:
                self._history.restrict(self._sieved.suspects)
                for node in self._probes:
                    node.make = Only(node.make, self._sieved.suspects)
        return wanted if self._sieved.suspects != frozenset() else wanted.without(is_of_streams)

    def _asked(self) -> SieveRequest:
        promised, times = self._contract.properties, self._settings
        intervals = next(node for node in self._intervals if node.id in self._materialised)
        return SieveRequest(
            check=self._check,
            receiver=times.receiver,
            t_sub=times.t_sub,
            t_diff=times.t_diff,
            until=math.inf if times.until is None else times.until,
            late=bool(promised & {"liveness", "completeness"}),
            order="fifo" in promised,
            gaps="gap_freedom" in promised,
            intervals=self._spark.sparkContext.broadcast(self._materialised[intervals.id]),
        )

    def _hold(self, nodes: list[PlanNode], answers: list[PlanNode]) -> None:
        """Make small tables and keep them here, to be sent to every worker."""
        self._say("reading the subscriptions")
        for node in nodes:
            self._materialised[node.id] = []
        stages = stages_for(PlanRequest(answers=answers, kept=nodes), self._places)
        for row in self._collected(self._frames(stages)):
            if row["tag"] >= bucket.KEPT:
                self._materialised[row["tag"] - bucket.KEPT].append(bytes(row["data"]))

    def _frames(self, stages: list[PlanStage]) -> list[Any]:
        """A DataFrame for each stage that no other one reads: it carries the answers of those before."""
        frames: dict[PlanStage, Any] = {}
        carried: set[PlanStage] = set()
        for stage in stages:
            frames[stage] = self._frame(stage, frames, carried)
        return [frame for stage, frame in frames.items() if stage not in carried]

    def _frame(self, stage: PlanStage, frames: dict[PlanStage, Any], carried: set[PlanStage]) -> Any:
        from pyspark.sql import functions as sql

        parts = [
            self._arriving(stage, origin, frames[origin], origin in carried) for origin in stage.origins()
        ]
        carried.update(stage.origins())
        stored = [node for node in stage.made_here() if node.stored]
        parts.extend(self._stored[node.id].withColumn("place", sql.xxhash64("data")) for node in stored)
        kinds = stage.facts()
        if kinds:
            raw = self._history.narrow(kinds, stage.home)
            parts.append(raw.withColumn("tag", sql.lit(bucket.RAW)) if parts else raw)
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionByName(part, allowMissingColumns=True)
        if stage.home != NOWHERE:
            frame = frame.repartition(self._buckets(stage, kinds), "place")
        orders = bucket.Orders.of(stage, self._check, self._broadcast(stage))
        return frame.drop("place").mapInArrow(lambda batches: bucket.judged(orders, batches), bucket.OUTPUT)

    def _arriving(self, stage: PlanStage, origin: PlanStage, frame: Any, carried: bool) -> Any:
        """Input of this stage from an earlier one, and (once) the answers that travel through."""
        from pyspark.sql import functions as sql

        tags = [tag for tag, (_, came_from) in stage.arriving.items() if came_from is origin]
        record = sql.col("tag").isin(tags)
        position = sql.xxhash64(*[sql.col(f"k{number}") for number in range(len(stage.home))])
        if carried:
            return frame.where(record).withColumn("place", position)
        answer = (sql.col("tag") < 0) | (sql.col("tag") >= bucket.KEPT)
        return frame.where(record | answer).withColumn(
            "place", sql.when(record, position).otherwise(sql.xxhash64("data"))
        )

    def _buckets(self, stage: PlanStage, kinds: list[type[Any]]) -> int:
        rows = self._history.size(kinds) + len(stage.arriving) * self._history.size([Notice])
        cores: int = self._spark.sparkContext.defaultParallelism
        return max(cores, ceil(rows / self._bucket_rows))

    def _broadcast(self, stage: PlanStage) -> Any:
        stored = {node.id: self._materialised[node.id] for node in stage.broadcast()}
        return self._spark.sparkContext.broadcast(stored) if stored else None

    def _results(self, frames: list[Any], *, keeping: list[PlanNode]) -> dict[int, dict[str, float]]:
        """Run the passes: answers and largest values come here, what is kept stays on the disks."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as sql

        largest: dict[int, dict[str, float]] = {}
        if keeping:
            frames = [frame.persist(StorageLevel.DISK_ONLY) for frame in frames]
        for row in self._collected([frame.where("tag < 0") for frame in frames]):
            if row["tag"] == bucket.LARGEST:
                node, seen = msgspec.msgpack.decode(row["data"])
                known = largest.setdefault(node, {})
                known.update({run: max(value, known.get(run, value)) for run, value in seen.items()})
        for node in keeping:
            found = [frame.where(sql.col("tag") == bucket.KEPT + node.id) for frame in frames]
            self._stored[node.id] = reduce(lambda one, other: one.union(other), found)
            node.stored = True
        return largest

    def _collected(self, frames: list[Any]) -> list[Any]:
        """The rows; answers are taken from them, and a problem is raised."""
        rows = [row for frame in frames for row in spark_errors(frame.collect)]
        problems = sorted(row["data"] for row in rows if row["tag"] == bucket.PROBLEM)
        if problems:
            message, hint = msgspec.msgpack.decode(problems[0])
            raise HistoryError(message, hint=hint)
        self._answers.update(bucket.merged(row["data"] for row in rows if row["tag"] == bucket.ANSWER))
        return rows


def _name(stage: PlanStage) -> str:
    return "by " + ", ".join(stage.home) if stage.home else "of what was kept"

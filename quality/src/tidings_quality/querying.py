"""The Data Quality Broker on Spark: a request over what the factories of all organisations have found.

Rules
- An organisation's objects are read from its factory's state, under the names of the global schema.
- An object is asked for when one of its copies satisfies the condition on data; its other copies
  come along by linkage, in spite of their errors. - `broker.py` chooses and proposes values; `rating.py`
  judges sources by their copies.
- An organisation adopts what is proposed to it, unless its plan says that it does not (`adopts = false`).
- Adopting a proposal writes a new version of the row to the organisation's table. Its own factory then
  finds what that did to the quality, and its subscribers are notified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import InputError
from tidings.language import parse_filter
from tidings_quality.broker import (
    Deal,
    Haggle,
    ObjectCopy,
    Requirement,
    ValueProposal,
    give_up,
    negotiate,
    proposals,
)
from tidings_quality.rating import Observation, observe
from tidings_quality.spark.evaluating import QUALITY
from tidings_quality.spark.factory import FactoryState
from tidings_quality.spark.linkage import ENTITY, Linkage, link
from tidings_quality.spark.settings import FactoryPlan

# How copies of holders are found: by either half of the code, and where it is missing, by the sound of the
# last name with the number of the house. Measured on generated data, where the errors are known.
HOLDERS = Linkage(
    blocks=(
        "left(FiscalCode, 8)",
        "right(FiscalCode, 8)",
        "concat(soundex(element_at(split(Name, ' '), -1)), regexp_extract(Address, '[0-9]+$', 0))",
    ),
    weights={"FiscalCode": 3.0, "Name": 2.0, "Address": 1.0},
    least=0.75,
)


class QueryResult(msgspec.Struct, frozen=True):
    """Result of a request."""

    objects: tuple[tuple[ObjectCopy, ...], ...]
    deal: Deal
    proposals: tuple[ValueProposal, ...]
    observations: tuple[Observation, ...]


def copies_of(spark: Any, plan: FactoryPlan) -> Any:
    """Objects of an organisation: source, key, values, quality; values as texts under their global names."""
    from pyspark.sql import functions as sql

    pairs = [
        part
        for name, each in plan.properties.items()
        for part in (sql.lit(name), _present(plan.column(name), each.missing))
    ]
    return FactoryState(spark, plan).current().select(
        sql.lit(plan.organisation).alias("source"),
        sql.col("_object").alias("key"),
        sql.create_map(*pairs).alias("values"),
        sql.col(QUALITY).alias("quality"),
    )  # fmt: skip


def _present(name: str, missing: Sequence[str]) -> Any:
    from pyspark.sql import functions as sql

    text = sql.col(f"`{name}`").cast("string")
    return sql.when(~text.isin(list(missing)), text) if missing else text


def ask(
    spark: Any,
    plans: Sequence[FactoryPlan],
    *,
    where: str = "",
    require: tuple[Requirement, ...] = (),
    trust: Mapping[str, float] | None = None,
    haggle: Haggle = give_up,
    linkage: Linkage = HOLDERS,
    most: int | None = None,
) -> QueryResult:
    """The best values of the objects that are asked for, over all organisations.

    `where` is a filter over the properties; `most` bounds the number of objects.
    """
    _check(plans, linkage)
    trust = trust or {}
    whole = _union([copies_of(spark, plan) for plan in plans])
    linked = link(whole, linkage, _wanted(whole, plans, where) if where else None)
    objects = tuple(_objects(linked, most))
    deal = negotiate(objects, require, haggle, trust)
    offered = [
        each
        for copies, answer in zip(objects, deal.answers, strict=True)
        for each in proposals(copies, answer, trust)
    ]
    seen = [each for copies in objects for each in observe(copies, trust)]
    return QueryResult(objects, deal, tuple(offered), tuple(seen))


def _check(plans: Sequence[FactoryPlan], linkage: Linkage) -> None:
    classes = {plan.data_class for plan in plans}
    if len(classes) != 1:
        raise InputError(f"the plans are of {len(classes)} classes", hint="ask for one class at a time")
    names = [plan.organisation for plan in plans]
    if len(set(names)) != len(names):
        raise InputError("two plans are of the same organisation")
    for plan in plans:
        lacking = [name for name in linkage.weights if name not in plan.properties]
        if lacking:
            raise InputError(f"{plan.organisation} has no {lacking[0]}, by which copies are compared")


def _union(frames: Sequence[Any]) -> Any:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _wanted(whole: Any, plans: Sequence[FactoryPlan], where: str) -> Any:
    """The copies that satisfy a condition."""
    from pyspark.sql import functions as sql

    from tidings.language.spark import to_spark_sql

    names = list(dict.fromkeys(name for plan in plans for name in plan.properties))
    flat = whole.select("source", "key", *(sql.col("values").getItem(name).alias(name) for name in names))
    return flat.where(to_spark_sql(parse_filter(where), flat.schema)).select("source", "key")


def _objects(linked: Any, most: int | None) -> list[tuple[ObjectCopy, ...]]:
    from pyspark.sql import functions as sql

    each = sql.struct("source", "key", "values", "quality")
    grouped = linked.groupBy(ENTITY).agg(sql.sort_array(sql.collect_list(sql.to_json(each))).alias("copies"))
    ordered = grouped.orderBy(ENTITY)
    rows = (ordered if most is None else ordered.limit(most)).select("copies").toArrow().to_pylist()
    return [tuple(sorted(map(_copy, row["copies"]), key=lambda c: (c.source, c.key))) for row in rows]


def _copy(text: str) -> ObjectCopy:
    return msgspec.json.decode(text, type=ObjectCopy)


def adopt(
    spark: Any, plan: FactoryPlan, offered: Sequence[ValueProposal], *, file: Path | None = None
) -> int:
    """Take proposals over: new versions of the rows as one more file of the table. How many rows.

    A row is a microsecond newer than the one that it replaces: what was adopted is not fresh because of it.
    """
    from pyspark.sql import functions as sql

    mine = [each for each in offered if each.to == plan.organisation]
    if not mine or not plan.adopts:
        return 0
    changes: dict[str, dict[str, str]] = {}
    for each in mine:
        changes.setdefault(each.key, {})[each.property] = each.value
    new = spark.createDataFrame(list(changes.items()), "_object string, _new map<string,string>")
    rows = FactoryState(spark, plan).current().join(sql.broadcast(new), "_object")
    columns = {plan.column(name): name for name in plan.properties}
    stored = [name for name in rows.columns if not name.startswith("_")]
    chosen = [
        sql.coalesce(sql.col("_new").getItem(columns[name]), sql.col(f"`{name}`").cast("string")).alias(name)
        if name in columns
        else (sql.col(f"`{name}`") + sql.expr("INTERVAL 0.000001 SECOND")).alias(name)
        if name == plan.updated
        else sql.col(f"`{name}`")
        for name in stored
    ]
    table = rows.select(*chosen).toArrow()
    _append(table, file or next_file(Path(plan.table)))
    return len(changes)


def next_file(folder: Path) -> Path:
    taken = [int(each.stem) for each in folder.glob("*.parquet") if each.stem.isdigit()]
    return folder / f"{max(taken, default=-1) + 1:04}.parquet"


def _append(table: Any, file: Path) -> None:
    import pyarrow.parquet as pq

    draft = file.with_name(f"_{file.name}")  # readers pass over names that begin with _
    pq.write_table(table, draft)
    draft.rename(file)

"""One step of a factory: new rows and the known state give the changed objects.

The state has one row for each object: the columns of its table, and our own:

  _object, _print      its key, and a fingerprint of its values
  _gone                it was deleted
  _agree               dependency -> share of its group that agrees
  _quality             "property.dimension" -> value; what is not measured is not there
  _changes             what this step changed: property, dimension, before, after
  _time, _version      when it was evaluated, and by which step

Rules
- Only objects that came and differ are measured again, and, for functional dependencies, the
  members of the groups that they left or joined: those for their consistency alone. A whole table also
  tells that time has passed: then only the currency of every object is measured again.
- A row that is older than the one that is known is passed over. Of several rows of an object in one
  step the newest counts; of equally new ones, one that the values themselves decide.
- A change is a value that differs after rounding. Values of an object that is new are no changes,
  unless the plan says so; a value that is no longer measured is none either.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from tidings.errors import InputError
from tidings_quality.spark.columns import (
    AGREE,
    OBJECT,
    column,
    group_of,
    quality_of,
    said_in,
    with_domains,
    with_references,
)
from tidings_quality.spark.measures import CONSISTENCY, CURRENCY
from tidings_quality.spark.settings import FactoryPlan

PRINT, GONE, QUALITY, CHANGES, TIME, VERSION = "_print", "_gone", "_quality", "_changes", "_time", "_version"
OWN = (OBJECT, PRINT, GONE, AGREE, QUALITY, CHANGES, TIME, VERSION)
CHANGE_KIND = "array<struct<property:string,dimension:string,before:double,after:double>>"


def step(
    plan: FactoryPlan,
    came: Any,
    known: Any | None,
    now_micros: int,
    *,
    version: str,
    stored: list[Any],
    whole: bool = False,
) -> Any:
    """The rows of all objects that are otherwise than `known`; `whole`: what did not come is gone.

    Frames that were persisted on the way go to `stored`, to be let go of when the answer is written.
    """
    from pyspark.sql import functions as sql

    check_columns(plan, came)
    arrived = _newest(plan, _printed(plan, came))
    if known is None:
        affected = _with_groups(plan, _all_new(arrived))
    elif whole:
        affected = _with_groups(plan, _compared(arrived, known))
    else:
        affected = _with_peers(plan, _changed(plan, arrived, known), known, stored)
    affected = _with_agreements(plan, affected)
    measured = with_references(with_domains(affected, plan), plan)
    entries = [(f"_value_{i}", p, d) for i, (p, d) in enumerate(plan.measured())]
    names = [name for name in came.columns if name != plan.deleted]
    # few and wide operations: Spark looks at the whole plan again for each
    valued = measured.withColumns({name: _value(plan, p, d, now_micros, whole) for name, p, d in entries})
    delivered = valued.withColumn(CHANGES, _changes(plan, entries))
    kept = delivered.where(sql.col("_fresh") | _regrouped(plan) | (sql.size(CHANGES) > 0))
    return kept.select(
        *map(column, names),
        *(OBJECT, PRINT, GONE, AGREE),
        _map({f"{p}.{d}": sql.col(name) for name, p, d in entries}).alias(QUALITY),
        CHANGES,
        sql.timestamp_micros(sql.lit(now_micros)).alias(TIME),
        sql.lit(version).alias(VERSION),
    )


def check_columns(plan: FactoryPlan, frame: Any) -> None:
    """Every column that the plan names is there, and none looks like ours."""
    taken = [name for name in frame.columns if name.startswith("_")]
    if taken:
        raise InputError(f"a column is called {taken[0]!r}", hint="names that begin with _ are ours")
    wanted = {plan.key: "key", plan.updated: "updated", plan.deleted: "deleted"}
    for name, each in plan.properties.items():
        wanted |= dict.fromkeys(each.parts or (plan.column(name),), f"properties.{name}")
    for name, one in plan.dependencies.items():
        wanted |= dict.fromkeys((*one.determining, *one.determined), f"dependencies.{name}")
    for name, why in wanted.items():
        if name and name not in frame.columns:
            raise InputError(
                f"the table of {plan.organisation} has no column {name!r}, which {why} names",
                hint=f"it has {', '.join(frame.columns)}",
            )


def _printed(plan: FactoryPlan, came: Any) -> Any:
    from pyspark.sql import functions as sql

    gone = sql.coalesce(column(plan.deleted), sql.lit(False)) if plan.deleted else sql.lit(False)
    names = [name for name in came.columns if name != plan.deleted]
    # whether each is NULL goes in too: the hash passes over NULLs
    content = [*map(column, names), *(column(name).isNull() for name in names), gone]
    return came.select(
        *map(column, names),
        column(plan.key).cast("string").alias(OBJECT),
        sql.xxhash64(*content).alias(PRINT),
        gone.alias(GONE),
    ).where(sql.col(OBJECT).isNotNull())


def _newest(plan: FactoryPlan, frame: Any) -> Any:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    newest = [column(plan.updated).desc_nulls_last()] if plan.updated else []
    position = sql.row_number().over(Window.partitionBy(OBJECT).orderBy(*newest, PRINT))
    return frame.withColumn("_place", position).where("_place = 1").drop("_place")


def _all_new(arrived: Any) -> Any:
    from pyspark.sql import functions as sql

    nothing = {"_before": "map<string,double>", "_kept": "map<string,double>"}
    fresh = arrived.where(~sql.col(GONE))
    for name, kind in nothing.items():
        fresh = fresh.withColumn(name, sql.lit(None).cast(kind))
    return fresh.withColumn("_fresh", sql.lit(True)).withColumn("_new", sql.lit(True))


def _changed(plan: FactoryPlan, arrived: Any, known: Any) -> Any:
    """The arrived rows that differ from what is known and are not older, with what was known of them."""
    from pyspark.sql import functions as sql

    before = known.select(
        OBJECT,
        sql.col(PRINT).alias("_known"),
        sql.col(QUALITY).alias("_before"),
        sql.col(AGREE).alias("_kept"),
        *(group_of(each).alias(f"_was_{i}") for i, each in enumerate(plan.dependencies.values())),
        *([column(plan.updated).alias("_updated")] if plan.updated else []),
    )
    joined = arrived.join(before, OBJECT, "left")
    new = sql.col("_known").isNull() & ~sql.col(GONE)
    other = sql.col("_known").isNotNull() & (sql.col("_known") != sql.col(PRINT))
    if plan.updated:
        older = column(plan.updated).isNull() | (column(plan.updated) < sql.col("_updated"))
        other &= ~sql.coalesce(older, sql.lit(False))
    changed = joined.where(new | other).withColumn("_new", sql.col("_known").isNull())
    return changed.drop("_known", "_updated").withColumn("_fresh", sql.lit(True))


def _compared(arrived: Any, known: Any) -> Any:
    """Every object that came or is known, and whether it is otherwise; one that did not come is gone."""
    from pyspark.sql import functions as sql

    names = [name for name in arrived.columns if name not in OWN]
    here = sql.struct(*map(column, names), PRINT, GONE).alias("_here")
    there = sql.struct(*map(column, names), PRINT).alias("_there")
    before = known.select(OBJECT, there, sql.col(QUALITY).alias("_before"), sql.col(AGREE).alias("_kept"))
    both = arrived.select(OBJECT, here).join(before, OBJECT, "full")
    came, new = sql.col("_here").isNotNull(), sql.col("_there").isNull()
    gone = ~came | sql.col(f"_here.{GONE}")
    other = sql.coalesce(sql.col(f"_here.{PRINT}") != sql.col(f"_there.{PRINT}"), sql.lit(True))
    rows = [
        sql.when(came, sql.col(f"_here.`{name}`")).otherwise(sql.col(f"_there.`{name}`")).alias(name)
        for name in (*names, PRINT)
    ]
    return both.where(~(new & gone)).select(
        OBJECT, *rows, gone.alias(GONE), "_before", "_kept", (other | gone).alias("_fresh"), new.alias("_new")
    )


def _with_groups(plan: FactoryPlan, members: Any) -> Any:
    """With the group of each object; what is whole has all members of every group."""
    from pyspark.sql import functions as sql

    added: dict[str, Any] = {}
    for i, each in enumerate(plan.dependencies.values()):
        group = sql.when(~sql.col(GONE), group_of(each))
        added |= {f"_group_{i}": group, f"_hit_{i}": group.isNotNull()}
    return members.withColumns(added) if added else members


def _with_peers(plan: FactoryPlan, changed: Any, known: Any, stored: list[Any]) -> Any:
    """With the members of the groups that the changed objects left or joined."""
    if not plan.dependencies:
        return changed
    members = _with_groups(plan, changed.persist())  # it is read for its own sake and for each dependency
    stored.append(changed)
    return members.unionByName(_peers(plan, members, known))


def _with_agreements(plan: FactoryPlan, members: Any) -> Any:
    """With the share of its group that agrees with each object."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    if not plan.dependencies:
        return members.withColumn(AGREE, sql.lit(None).cast("map<string,double>"))
    fields, shares, agreed = {}, {}, {}
    for i, (name, each) in enumerate(plan.dependencies.items()):
        hit, group = f"_hit_{i}", f"_group_{i}"
        fields[f"_said_{i}"] = sql.when(sql.col(hit), said_in(each))
        all_ = sql.count(sql.lit(1)).over(Window.partitionBy(hit, group))
        same = sql.count(sql.lit(1)).over(Window.partitionBy(hit, group, f"_said_{i}"))
        shares[f"_share_{i}"] = same.cast("double") / all_
        kept = sql.when(sql.col("_fresh"), sql.lit(None)).otherwise(sql.col("_kept").getItem(name))
        agreed[name] = sql.when(sql.col(hit), sql.col(f"_share_{i}")).otherwise(kept)
    return members.withColumns(fields).withColumns(shares).withColumn(AGREE, _map(agreed))


def _peers(plan: FactoryPlan, changed: Any, known: Any) -> Any:
    """Known objects that did not change, in groups that an object left or joined."""
    from pyspark.sql import functions as sql

    count = range(len(plan.dependencies))
    peers = known.join(changed.select(OBJECT), OBJECT, "left_anti")
    peers = peers.withColumnsRenamed({QUALITY: "_before", AGREE: "_kept"}).drop(CHANGES, TIME, VERSION)
    groups = {f"_group_{i}": group_of(each) for i, each in enumerate(plan.dependencies.values())}
    peers = peers.withColumns(groups)
    for i in count:
        touched = changed.select(f"_group_{i}").union(changed.select(f"_was_{i}"))
        touched = touched.where(f"_group_{i} IS NOT NULL").distinct()
        peers = peers.join(touched.withColumn(f"_touched_{i}", sql.lit(True)), f"_group_{i}", "left")
    hits = [sql.coalesce(sql.col(f"_touched_{i}"), sql.lit(False)) for i in count]
    added = {"_fresh": sql.lit(False), "_new": sql.lit(False)}
    added |= {f"_hit_{i}": hits[i] for i in count} | {f"_was_{i}": sql.col(f"_group_{i}") for i in count}
    touched_at_all = peers.where(reduce(lambda one, other: one | other, hits))
    return touched_at_all.withColumns(added).drop(*(f"_touched_{i}" for i in count))


def _value(plan: FactoryPlan, property: str, dimension: str, now_micros: int, whole: bool) -> Any:
    """Measures of a changed object; of a mere peer only its consistency, and what time changes."""
    from pyspark.sql import functions as sql

    measured = quality_of(plan, property, dimension, now_micros)
    stored = sql.col("_before").getItem(f"{property}.{dimension}")
    always = dimension == CONSISTENCY or (whole and dimension == CURRENCY)
    value = measured if always else sql.when(sql.col("_fresh"), measured).otherwise(stored)
    return sql.when(~sql.col(GONE), value)


def _changes(plan: FactoryPlan, entries: list[tuple[str, str, str]]) -> Any:
    from pyspark.sql import functions as sql

    delivered = []
    for name, property, dimension in entries:
        before, after = sql.col("_before").getItem(f"{property}.{dimension}"), sql.col(name)
        differs = after.isNotNull() & ~before.eqNullSafe(after)
        if not plan.announce_new:
            differs &= ~sql.col("_new")
        change = sql.struct(
            sql.lit(property).alias("property"),
            sql.lit(dimension).alias("dimension"),
            before.alias("before"),
            after.alias("after"),
        )
        delivered.append(sql.when(differs, change))
    return sql.filter(sql.array(*delivered), lambda each: each.isNotNull()).cast(CHANGE_KIND)


def _regrouped(plan: FactoryPlan) -> Any:
    """A peer that agrees with another share of its group, though no rounded value shows it."""
    from pyspark.sql import functions as sql

    differ = [
        ~sql.col(AGREE).getItem(name).eqNullSafe(sql.col("_kept").getItem(name)) for name in plan.dependencies
    ]
    return reduce(lambda one, other: one | other, differ, sql.lit(False))


def _map(entries: dict[str, Any]) -> Any:
    from pyspark.sql import functions as sql

    pairs = [part for name, value in entries.items() for part in (sql.lit(name), value)]
    return sql.map_filter(sql.create_map(*pairs), lambda _, value: value.isNotNull())

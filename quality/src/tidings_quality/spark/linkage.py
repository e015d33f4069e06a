"""Linkage of copies of the same thing, when every source has keys of its own and values are dirty.

  copies: source, key, values (map of texts), quality (map), and any other column

Rules
- Only copies that share a block are compared. A block is a Spark SQL expression over the values, by
  their names; a block with more than a bound of copies is too coarse and is passed over.
- The likeness of two copies is the weighted mean of the likenesses of what both hold. At least so much
  links them.
- A source has one copy of a thing: the likest pairs are linked first, and never two copies of one
  source. Equal likenesses go by source and key, so that the answer does not hang on any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from tidings_quality.spark.columns import similarity

ENTITY = "entity"
MOST_IN_A_BLOCK = 200  # copies; a block of n costs n * n comparisons


class Linkage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the comparison of copies."""

    blocks: tuple[str, ...]
    weights: dict[str, float]  # property -> how much its likeness counts
    least: float = 0.8
    most_in_a_block: int = MOST_IN_A_BLOCK


class LinkedPair(NamedTuple):
    likeness: float
    one: tuple[str, str]  # (source, key)
    other: tuple[str, str]


def pairs(copies: Any, linkage: Linkage, wanted: Any | None = None) -> Any:
    """Pairs that are like enough: source, key, other_source, other_key, likeness.

    With `wanted` (source, key), only pairs with one of those.
    """
    from pyspark.sql import functions as sql

    blocked = _blocked(copies, linkage)
    one = blocked if wanted is None else blocked.join(sql.broadcast(wanted), ["source", "key"], "left_semi")
    other = blocked.select(
        "_block", sql.col("source").alias("other_source"), sql.col("key").alias("other_key"),
        sql.col("values").alias("other_values"),
    )  # fmt: skip
    met = one.join(other, "_block").where(
        (sql.col("source") < sql.col("other_source")) if wanted is None
        else (sql.col("source") != sql.col("other_source"))
    )  # fmt: skip
    once = met.drop("_block").dropDuplicates(["source", "key", "other_source", "other_key"])
    likeness = _likeness(linkage)
    found = once.withColumn("likeness", sql.round(likeness, 6)).where(sql.col("likeness") >= linkage.least)
    return found.select("source", "key", "other_source", "other_key", "likeness")


def _blocked(copies: Any, linkage: Linkage) -> Any:
    """A row for each block of each copy."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    stored = copies.select(
        "source", "key", "values", *(sql.col("values").getItem(name).alias(name) for name in linkage.weights)
    )
    blocks = [
        sql.concat(sql.lit(f"{number}:"), sql.expr(text).cast("string"))
        for number, text in enumerate(linkage.blocks)
    ]
    rows = stored.select("source", "key", "values", sql.explode(sql.array(*blocks)).alias("_block"))
    size = sql.count(sql.lit(1)).over(Window.partitionBy("_block"))
    sized = rows.where("_block IS NOT NULL").withColumn("_size", size)
    return sized.where(f"_size BETWEEN 2 AND {linkage.most_in_a_block}").drop("_size")


def _likeness(linkage: Linkage) -> Any:
    from pyspark.sql import functions as sql

    both, like = [], []
    for name, weight in linkage.weights.items():
        one, other = sql.col("values").getItem(name), sql.col("other_values").getItem(name)
        there = one.isNotNull() & other.isNotNull()
        both.append(sql.when(there, sql.lit(float(weight))).otherwise(0.0))
        like.append(sql.when(there, similarity(one, other) * float(weight)).otherwise(0.0))
    return reduce(lambda a, b: a + b, like) / sql.nullif(reduce(lambda a, b: a + b, both), sql.lit(0.0))


def entities(found: Iterable[LinkedPair]) -> dict[tuple[str, str], tuple[str, str]]:
    """Copy -> the first copy of its entity, for all copies that are linked with one."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for _, one, other in sorted(set(found), key=lambda pair: (-pair.likeness, pair.one, pair.other)):
        mine, theirs = groups.setdefault(one, [one]), groups.setdefault(other, [other])
        if mine is theirs or {source for source, _ in mine} & {source for source, _ in theirs}:
            continue
        mine.extend(theirs)
        for copy in theirs:
            groups[copy] = mine
    return {copy: min(group) for copy, group in groups.items()}


def link(copies: Any, linkage: Linkage, wanted: Any | None = None) -> Any:
    """The copies with a column `entity`; with `wanted`, only the entities of those."""
    from pyspark.sql import functions as sql

    rows = pairs(copies, linkage, wanted).toArrow().to_pylist()
    found = [
        LinkedPair(
            row["likeness"], *sorted([(row["source"], row["key"]), (row["other_source"], row["other_key"])])
        )
        for row in rows
    ]
    named = [(*copy, "/".join(entity)) for copy, entity in entities(found).items()]
    spark = copies.sparkSession
    known = spark.createDataFrame(named, f"source string, key string, {ENTITY} string")
    alone = sql.concat_ws("/", "source", "key")
    linked = copies.join(known, ["source", "key"], "left").withColumn(
        ENTITY, sql.coalesce(sql.col(ENTITY), alone)
    )
    if wanted is None:
        return linked
    requested = linked.join(wanted, ["source", "key"], "left_semi").select(ENTITY).distinct()
    return linked.join(requested, ENTITY, "left_semi")

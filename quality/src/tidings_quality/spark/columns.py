"""The measures as columns of Spark, with the meaning that `measures.py` gives them.

A frame that is measured has the columns of its table and our own, which begin with `_`:

  _object      the key, as text
  _agree       dependency -> share of its group that agrees; NULL where it does not apply
  _reference   property -> the right value, from the reference

Values are compared as text, as Spark casts them.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from tidings.errors import InputError
from tidings_quality.spark.measures import ACCURACY, COMPLETENESS, CONSISTENCY, CURRENCY
from tidings_quality.spark.settings import Dependency, FactoryPlan, MeasuredProperty

OBJECT, AGREE, REFERENCE = "_object", "_agree", "_reference"


def column(name: str) -> Any:
    from pyspark.sql import functions as sql

    return sql.col(f"`{name}`")


def present(name: str, each: MeasuredProperty) -> Any:
    """The column as text; NULL where it is missing."""
    from pyspark.sql import functions as sql

    text = column(name).cast("string")
    return sql.when(text.isin(list(each.missing)), sql.lit(None)).otherwise(text) if each.missing else text


def similarity(one: Any, other: Any) -> Any:
    """Similarity of two texts that are there: `greatest` passes over NULL, and so would this."""
    from pyspark.sql import functions as sql

    longer = sql.greatest(sql.char_length(one), sql.char_length(other))
    return sql.when(longer == 0, sql.lit(1.0)).otherwise(
        sql.lit(1.0) - sql.levenshtein(one, other).cast("double") / longer
    )


def quality_of(plan: FactoryPlan, property: str, dimension: str, now_micros: int) -> Any:
    """The value of one dimension, rounded."""
    from pyspark.sql import functions as sql

    measure = {ACCURACY: _accuracy, COMPLETENESS: _completeness, CONSISTENCY: _consistency}
    if dimension == CURRENCY:
        value = _currency(plan, property, now_micros)
    else:
        value = measure[dimension](plan, property)
    return sql.round(value.cast("double"), plan.digits)


def _applies(each: MeasuredProperty) -> Any:
    from pyspark.sql import functions as sql

    return ~sql.coalesce(sql.expr(each.inapplicable), sql.lit(False)) if each.inapplicable else sql.lit(True)


def _accuracy(plan: FactoryPlan, property: str) -> Any:
    from pyspark.sql import functions as sql

    each = plan.properties[property]
    value = present(plan.column(property), each)
    if each.domain is not None:
        return sql.when(_applies(each), sql.coalesce(column(closest(property)), sql.lit(0.0)))
    right = sql.col(REFERENCE).getItem(property)
    near = sql.when(value.isNull(), sql.lit(0.0)).otherwise(similarity(value, right))
    return sql.when(_applies(each) & right.isNotNull(), near)


def _completeness(plan: FactoryPlan, property: str) -> Any:
    from pyspark.sql import functions as sql

    each = plan.properties[property]
    parts = each.parts or (plan.column(property),)
    there = reduce(
        lambda sum, part: sum + part, [present(part, each).isNotNull().cast("int") for part in parts]
    )
    return sql.when(_applies(each), there.cast("double") / len(parts)).otherwise(sql.lit(1.0))


def _currency(plan: FactoryPlan, property: str, now_micros: int) -> Any:
    from pyspark.sql import functions as sql

    age = sql.lit(now_micros) - sql.unix_micros(column(plan.updated))
    share = sql.lit(1.0) - age.cast("double") / plan.properties[property].volatility_micros
    bounded = sql.least(sql.lit(1.0), sql.greatest(sql.lit(0.0), share))
    return sql.when(column(plan.updated).isNotNull(), bounded)  # greatest passes over NULL


def _consistency(plan: FactoryPlan, property: str) -> Any:
    from pyspark.sql import functions as sql

    verdicts = [
        sql.expr(rule.check).cast("double") for rule in plan.rules.values() if property in rule.of
    ] + [
        sql.col(AGREE).getItem(name)
        for name, dependency in plan.dependencies.items()
        if property in dependency.of
    ]
    given = sql.filter(sql.array(*verdicts), lambda each: each.isNotNull())
    total = sql.aggregate(given, sql.lit(0.0), lambda sum, each: sum + each)
    return sql.when(sql.size(given) > 0, total / sql.size(given)).otherwise(sql.lit(1.0))


def closest(property: str) -> str:
    """The column with how near a value is to its domain."""
    return f"_closest_{property}"


def with_domains(frame: Any, plan: FactoryPlan) -> Any:
    """With how near each value is to its domain; of a domain in a table each distinct value is
    compared once."""
    from pyspark.sql import functions as sql

    for property, each in plan.properties.items():
        if each.domain is None:
            continue
        value = present(plan.column(property), each)
        if each.domain.values:
            frame = frame.withColumn(closest(property), _nearest(value, each.domain.values))
            continue
        distinct = frame.select(value.alias("_value")).where("_value IS NOT NULL").distinct()
        possible = _possible(frame.sparkSession, each)
        near = similarity(sql.col("_value"), sql.col("_possible"))
        found = distinct.crossJoin(sql.broadcast(possible)).groupBy("_value")
        scored = found.agg(sql.max(near).alias(closest(property)))
        frame = frame.withColumn("_value", value).join(scored, "_value", "left").drop("_value")
    return frame


def _nearest(value: Any, values: tuple[str, ...]) -> Any:
    """Similarity of a value to the nearest listed one; most are listed, and cost no comparison."""
    from pyspark.sql import functions as sql

    each = sql.array_max(sql.array(*(similarity(value, sql.lit(other)) for other in values)))
    return sql.when(value.isin(list(values)), sql.lit(1.0)).when(value.isNotNull(), each)


def _possible(spark: Any, each: MeasuredProperty) -> Any:
    assert each.domain is not None
    found = spark.read.parquet(each.domain.table).select(
        column(each.domain.column).cast("string").alias("_possible")
    )
    found = found.where("_possible IS NOT NULL").distinct()
    if found.isEmpty():
        raise InputError(f"the domain {each.domain.table} has no values", hint="nothing can be near to it")
    return found


def with_references(frame: Any, plan: FactoryPlan) -> Any:
    """With the right values, from tables that know the objects' keys."""
    from pyspark.sql import functions as sql

    wanted: dict[tuple[str, str], dict[str, str]] = {}
    for property, each in plan.properties.items():
        if each.reference is not None:
            location = (each.reference.table, each.reference.key)
            wanted.setdefault(location, {})[property] = each.reference.column
    pairs: list[Any] = []
    for number, ((table, key), names) in enumerate(wanted.items()):
        right = frame.sparkSession.read.parquet(table)
        stored = right.groupBy(
            column(key).cast("string").alias(OBJECT)
        ).agg(  # a key that is there twice: one row
            *(
                sql.min(column(name).cast("string")).alias(f"_right_{number}_{i}")
                for i, name in enumerate(names.values())
            )
        )
        frame = frame.join(stored, OBJECT, "left")
        for i, property in enumerate(names):
            pairs += [sql.lit(property), sql.col(f"_right_{number}_{i}")]
    if not pairs:
        return frame.withColumn(REFERENCE, sql.lit(None).cast("map<string,string>"))
    whole = frame.withColumn(REFERENCE, sql.create_map(*pairs))
    return whole.drop(*(name for name in whole.columns if name.startswith("_right_")))


def group_of(dependency: Dependency) -> Any:
    """The determining columns, as one text; NULL where the dependency does not apply."""
    return _joined(dependency, dependency.determining)


def said_in(dependency: Dependency) -> Any:
    return _joined(dependency, dependency.determined)


def _joined(dependency: Dependency, names: tuple[str, ...]) -> Any:
    from pyspark.sql import functions as sql

    whole = [column(name).isNotNull() for name in (*dependency.determining, *dependency.determined)]
    text = sql.to_json(sql.array(*(column(name).cast("string") for name in names)))
    return sql.when(reduce(lambda one, other: one & other, whole), text)

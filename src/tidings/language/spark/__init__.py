"""Filters as Spark SQL: TRUE exactly for the rows that the filter accepts.

Rules
- A schema says what each attribute is: boolean, bigint, double, decimal, string, timestamp, date,
  timestamp_ntz, binary, an array of these or of structs, or a nested mapping of these (a dotted name goes
  down too); or it is a StructType. An attribute that it does not name is always absent.
- Kinds are strict here too: what can only be unknown is written as NULL, before Spark could cast.
- ANY and ALL are `forall` over the array, level by level; an absent array is an array of one NULL.
- A decimal compares exactly: with a constant in its own type, with a column in a type that holds both. A
  decimal column beside a double column has no exact form, and is refused.
- NaN is NULL. Integers and doubles compare exactly. Overflow, division by zero and infinite results
  are NULL, in ANSI mode and without. The order of strings is by code point, as Spark's own.
- Names are quoted level by level. Text is quoted so that neither escapes nor `${...}` are read in it.
- `lineage` names the column (array of strings) for IS A; NULL or an empty array is no type. Without
  a column `type`, its first element is the type.
- An operand that is needed twice is bound by a lambda, so that the SQL grows with the filter and no
  faster.
- Over the work budget parts with a weight are unknown, as everywhere (`language/work.py`).
- A filter that Spark cannot express exactly is refused with an error that names the reason.
"""

from __future__ import annotations

from typing import Any

from tidings.language.spark.columns import columns_of
from tidings.language.spark.write import SqlWriter
from tidings.language.work import without_work, work_of_expression
from tidings.model.event import LINEAGE
from tidings.model.expression import Expression
from tidings.model.filter import Filter

__all__ = ["to_spark_sql"]


def to_spark_sql(source: Filter | Expression, schema: Any, *, lineage: str = LINEAGE) -> str:
    """A boolean expression of Spark SQL that is TRUE exactly when the filter accepts the row."""
    writer = SqlWriter(columns_of(schema, lineage))
    if isinstance(source, Filter):
        return writer.filter(source)
    light = without_work(source)
    return writer.within_budget(work_of_expression(source), writer.truth(source), writer.truth(light))

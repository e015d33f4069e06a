"""The quality of objects as a table: one row for each object, property and dimension.

Rows have the columns of `QUALITY_COLUMNS`, which are those that the quality factory writes; `to_frame` and
`from_frame` carry them to Spark and back. The data itself stays in the organisation's own tables, so that
reading gives the quality to objects that are there (`with_quality`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidings.errors import InputError
from tidings_quality.model import QUALITY_COLUMNS, QUALITY_TABLE, DataObject, dimension_of, quality_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class QualityRow(NamedTuple):
    """A row of the table, in the order of its columns."""

    data_class: str
    source: str
    object: str
    property: str
    dimension: str
    value: float
    version: str
    time: datetime | None = None


def rows_of(
    objects: Sequence[DataObject], *, source: str, version: str, time: datetime | None = None
) -> Iterator[QualityRow]:
    """The qualities of objects and of all objects below them."""
    for top in objects:
        for one in top.walk():
            for property, dimension, value in one.qualities():
                yield QualityRow(
                    one.data_class, source, one.key, property, str(dimension), value, version, time
                )


def with_quality(objects: Sequence[DataObject], rows: Iterable[QualityRow]) -> tuple[DataObject, ...]:
    """The objects, and those below them, with the qualities of a table in the place of their own."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        measured = found.setdefault((row.data_class, row.object), {}).setdefault(row.property, {})
        if dimension_of(row.dimension) in measured:
            raise InputError(
                f"two values for {row.property}.{row.dimension} of {row.data_class} {row.object}",
                hint="choose one source, and the last version of each",
            )
        measured[str(dimension_of(row.dimension))] = quality_value(row.value)
    return tuple(_measured(one, found) for one in objects)


def _measured(one: DataObject, found: dict[tuple[str, str], dict[str, dict[str, float]]]) -> DataObject:
    children = tuple(_measured(child, found) for child in one.children)
    return msgspec.structs.replace(one, quality=found.get((one.data_class, one.key), {}), children=children)


def to_frame(spark: SparkSession, rows: Iterable[QualityRow]) -> DataFrame:
    """The rows as a table of Spark."""
    return spark.createDataFrame([tuple(row) for row in rows], QUALITY_TABLE)


def from_frame(frame: DataFrame) -> Iterator[QualityRow]:
    """The rows of a table of Spark; further columns are left out.

    They come through the driver, one by one.
    """
    names = [name for name, _ in QUALITY_COLUMNS]
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InputError(f"the table has no column {missing[0]!r}", hint=f"it needs {', '.join(names)}")
    chosen: Any = frame.select(*names)
    for row in chosen.toLocalIterator():
        yield QualityRow(*row)

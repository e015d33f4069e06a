"""Columns of a schema: the column of each attribute, and its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tidings.errors import FilterError
from tidings.language.spark.shapes import ArrayShape, Shape, shape_of
from tidings.language.spark.text import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    LINEAGE_TYPE,
    OPAQUE,
    STRING,
    TIMESTAMP,
    decimal_of,
    quoted_name,
)
from tidings.model.body import HAS_LIST
from tidings.model.event import LINEAGE

# Types of Spark that are read as one of ours; smaller numbers are widened without loss.
_TYPES = {
    "boolean": BOOLEAN, "bigint": BIGINT, "long": BIGINT, "int": BIGINT, "integer": BIGINT,
    "smallint": BIGINT, "tinyint": BIGINT, "double": DOUBLE, "float": DOUBLE, "string": STRING,
    "timestamp": TIMESTAMP, "date": TIMESTAMP, "timestamp_ntz": TIMESTAMP, "binary": OPAQUE,
}  # fmt: skip
_DAY = 86_400_000_000  # microseconds
_FORMS = {
    **dict.fromkeys(("int", "integer", "smallint", "tinyint"), "CAST({} AS BIGINT)"),
    "float": "CAST({} AS DOUBLE)",
    "date": f"timestamp_micros(unix_date({{}}) * {_DAY}L)",  # midnight UTC, in every time zone of a session
    "timestamp_ntz": "CAST(concat(CAST({} AS STRING), 'Z') AS TIMESTAMP)",
}


class Column(msgspec.Struct, frozen=True):
    """A column as SQL text. Of a type that no attribute has it may stand in the schema, unused."""

    text: str
    type: str
    items: Shape = None  # of an array: the shape of its elements

    def checked(self, name: str) -> Column:
        if (
            self.type not in _TYPES.values()
            and self.type not in (ARRAY, LINEAGE_TYPE)
            and not decimal_of(self.type)
        ):
            raise FilterError(
                f"column {name!r} is of Spark's type {self.type}, which is no attribute's",
                hint="cast it to boolean, bigint, double, decimal, string, timestamp, date or an array first",
            )
        return self


def columns_of(schema: Any, lineage: str) -> dict[str, Column]:
    """Columns by attribute name. `lineage` names the column that holds types."""
    columns: dict[str, Column] = {}
    arrays = []
    for path, shape in _leaves(schema, ()):
        name = ".".join(path)
        text = quoted_name(path)
        if name == lineage:
            columns[LINEAGE] = Column(text, LINEAGE_TYPE)
            continue
        columns[name] = leaf(text, shape)
        if columns[name].type == ARRAY:
            arrays.append(f"{text} IS NOT NULL")
    if arrays:
        columns[HAS_LIST] = Column(f"IF({' OR '.join(arrays)}, TRUE, NULL)", BOOLEAN)
    return columns


def leaf(text: str, shape: Shape) -> Column:
    """The column of a value that is no struct, as filters see it."""
    if isinstance(shape, ArrayShape):
        return Column(text, ARRAY, shape.element)
    digits = decimal_of(shape)
    type: str = _TYPES.get(shape) or shape if digits is None else "decimal({},{})".format(*digits)
    return Column(_FORMS.get(shape, "{}").replace("{}", text), type)


def members(text: str, shape: Shape, name: str) -> Iterator[tuple[str, Column]]:
    """The attributes that a value is: itself, or the fields of a struct, at every depth."""
    if not isinstance(shape, dict):
        yield name, leaf(text, shape)
        return
    for field, inside in shape.items():
        yield from members(f"{text}.{quoted_name((field,))}", inside, f"{name}.{field}")


def _leaves(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Shape]]:
    """Paths and shapes. In a mapping a dot goes one level down, but for the lineage's name."""
    if isinstance(schema, Mapping):
        for name, declared in schema.items():
            parts = (name,) if name == LINEAGE else tuple(name.split("."))
            yield from _below((*path, *parts), declared)
        return
    fields = getattr(schema, "fields", None)
    if fields is None:
        raise FilterError(
            f"a schema cannot be a {type(schema).__name__}",
            hint="give a mapping of names to types, or a StructType",
        )
    for field in fields:
        yield from _below((*path, field.name), field.dataType)


def _below(path: tuple[str, ...], declared: Any) -> Iterator[tuple[tuple[str, ...], Shape]]:
    if isinstance(declared, Mapping) or hasattr(declared, "fields"):
        yield from _leaves(declared, path)
        return
    shape = shape_of(declared)
    if isinstance(shape, dict):  # a struct that is written as text
        for name, inside in shape.items():
            yield from (
                _below((*path, name), inside)
                if not isinstance(inside, ArrayShape)
                else [((*path, name), inside)]
            )
        return
    yield path, shape

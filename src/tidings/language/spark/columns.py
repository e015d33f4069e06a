"""Columns of a schema: the column of each attribute, and its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tidings.errors import FilterError
from tidings.language.spark.text import BIGINT, BOOLEAN, DOUBLE, LINEAGE_TYPE, STRING, TIMESTAMP, quoted_name
from tidings.model.event import LINEAGE

# Types of Spark that are read as one of ours; smaller numbers are widened without loss.
_TYPES = {
    "boolean": BOOLEAN, "bigint": BIGINT, "long": BIGINT, "int": BIGINT, "integer": BIGINT,
    "smallint": BIGINT,
    "tinyint": BIGINT, "double": DOUBLE, "float": DOUBLE, "string": STRING, "timestamp": TIMESTAMP,
    "array<string>": LINEAGE_TYPE,
}  # fmt: skip
_NARROW = {"int": "BIGINT", "integer": "BIGINT", "smallint": "BIGINT", "tinyint": "BIGINT", "float": "DOUBLE"}


class Column(msgspec.Struct, frozen=True):
    """A column as SQL text. Of a type that no attribute has it may stand in the schema, unused."""

    text: str
    type: str

    def checked(self, name: str) -> Column:
        if self.type not in _TYPES.values():
            raise FilterError(
                f"column {name!r} is of Spark's type {self.type}, which is no attribute's",
                hint="cast it to boolean, bigint, double, string or timestamp first",
            )
        return self


def columns_of(schema: Any, lineage: str) -> dict[str, Column]:
    """Columns by attribute name. `lineage` names the column that holds types."""
    columns: dict[str, Column] = {}
    for path, declared in _leaves(schema, ()):
        name = ".".join(path)
        if name == lineage:
            columns[LINEAGE] = Column(quoted_name(path), LINEAGE_TYPE)
        else:
            text = quoted_name(path)
            narrow = _NARROW.get(declared)
            columns[name] = Column(
                f"CAST({text} AS {narrow})" if narrow else text, _TYPES.get(declared, declared)
            )
    return columns


def _leaves(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths and declared types. In a mapping a dot goes one level down, but for the lineage's name."""
    if isinstance(schema, Mapping):
        for name, declared in schema.items():
            parts = (name,) if name == LINEAGE else tuple(name.split("."))
            if isinstance(declared, str):
                yield (*path, *parts), declared.strip().lower()
            else:
                yield from _leaves(declared, (*path, *parts))
        return
    fields = getattr(schema, "fields", None)
    if fields is None:
        raise FilterError(
            f"a schema cannot be a {type(schema).__name__}",
            hint="give a mapping of names to types, or a StructType",
        )
    for field in fields:
        if hasattr(field.dataType, "fields"):
            yield from _leaves(field.dataType, (*path, field.name))
        else:
            yield (*path, field.name), field.dataType.simpleString()

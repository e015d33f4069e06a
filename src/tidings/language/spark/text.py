"""Pieces of SQL text with their types, and the quoting that keeps them what they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from tidings.errors import FilterError
from tidings.model.value import Kind

BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP = "boolean", "bigint", "double", "string", "timestamp"
NULL = "null"  # the type of what is always absent
LINEAGE_TYPE = "array<string>"
ARRAY = "array"  # the type of a list, which compares with nothing
OPAQUE = "binary"  # the type of a value that exists and compares with nothing
DECIMAL = "decimal"  # the type of a constant that is a decimal; a column's is decimal(p,s)
_DECIMAL = re.compile(r"decimal(?:\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")

KINDS = {
    BOOLEAN: Kind.BOOL,
    BIGINT: Kind.NUMBER,
    DOUBLE: Kind.NUMBER,
    STRING: Kind.STRING,
    TIMESTAMP: Kind.TIME,
}


def kind_of_type(type: str) -> Kind | None:
    """The kind of the values of a type; None for what compares with nothing."""
    return Kind.NUMBER if decimal_of(type) else KINDS.get(type)


def decimal_of(type: str) -> tuple[int, int] | None:
    """Digits and digits after the point of a type of decimals; None for another type."""
    found = _DECIMAL.fullmatch(type)
    return (int(found[1] or 10), int(found[2] or 0)) if found else None


UNKNOWN = "CAST(NULL AS BOOLEAN)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ESCAPES = {"\\": "\\\\", "'": "\\'", "$": "\\u0024"}  # ${...} would be replaced even inside a string


class Sql(msgspec.Struct, frozen=True):
    """An expression of Spark SQL. `literal` marks a constant; `value` is its value."""

    text: str
    type: str
    literal: bool = False
    value: Any = None


ABSENT = Sql("NULL", NULL)


def condition(text: str) -> Sql:
    return Sql(text, BOOLEAN)


def quoted(text: str) -> str:
    """A string literal that means just that text."""
    return "'" + "".join(_ESCAPES.get(ch, ch if ch >= " " else f"\\u{ord(ch):04x}") for ch in text) + "'"


def quoted_name(parts: Collection[str]) -> str:
    """A column by its path, level by level."""
    for part in parts:
        if "${" in part:
            raise FilterError(f"the name {part!r} cannot be quoted for Spark", hint="rename the column")
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(value: Any) -> Sql:
    """A constant; None and NaN are NULL."""
    if value is None or value != value:
        return ABSENT
    if isinstance(value, bool):
        return Sql("TRUE" if value else "FALSE", BOOLEAN, True, value)
    if isinstance(value, int):
        return Sql(f"({value}L)" if value < 0 else f"{value}L", BIGINT, True, value)
    if isinstance(value, float):
        return Sql(_double(value), DOUBLE, True, value)
    if isinstance(value, Decimal):
        return Sql("NULL", DECIMAL, True, value)  # written by comparisons alone, in the type of the other
    if isinstance(value, datetime):
        return Sql(f"timestamp_micros({(value - _EPOCH) // _MICROSECOND}L)", TIMESTAMP, True, value)
    return Sql(quoted(value), STRING, True, value)


def _double(value: float) -> str:
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    return f"({value!r}D)" if value < 0 else f"{abs(value)!r}D"


def joined(word: str, conditions: list[str], empty: str) -> str:
    """Conditions with AND or OR between them."""
    if len(conditions) < 2:
        return conditions[0] if conditions else empty
    return "(" + f" {word} ".join(conditions) + ")"


def known_false(text: str) -> str:
    """FALSE, but NULL where the operand is."""
    return f"({text} IS NULL AND NULL)"


def known_true(text: str) -> str:
    """TRUE, but NULL where the operand is."""
    return f"({text} IS NOT NULL OR NULL)"


def finite(text: str) -> str:
    """A double, or NULL when it is infinite or undefined."""
    return without(text, "CAST('NaN' AS DOUBLE)", _double(math.inf), _double(-math.inf))


def without(text: str, *values: str) -> str:
    """The operand, or NULL when it is one of the values. (`nullif` would be planned as a step of its own.)"""
    return f"get(array_except(array({text}), array({', '.join(values)})), 0)"


class Binder:
    """Binds operands that are needed more than once: SQL has no `let`, a lambda over one element does.

    Names are never those of columns, which a lambda's variable would hide.
    """

    def __init__(self, columns: Collection[str]) -> None:
        self._taken = {name.partition(".")[0].lower() for name in columns}
        self._count = 0

    def bind(self, operands: list[Sql], body: Callable[[list[Sql]], str]) -> str:
        """`body` of the operands, each written once."""
        name = self.name()
        if len(operands) == 1:
            value, bound = operands[0].text, [Sql(name, operands[0].type)]
        else:
            fields = ", ".join(f"'f{position}', {operand.text}" for position, operand in enumerate(operands))
            value = f"named_struct({fields})"
            bound = [Sql(f"{name}.f{position}", operand.type) for position, operand in enumerate(operands)]
        return f"element_at(transform(array({value}), {name} -> {body(bound)}), 1)"

    def name(self) -> str:
        """A new name for a lambda's variable."""
        while True:
            self._count += 1
            name = f"v{self._count}"
            if name not in self._taken:
                return name

"""Kinds of columns: the type of Spark that a sample of values has, and values as a column holds them.

| value | column |
|---|---|
| bool, int, float, str, bytes | boolean, bigint, double, string, binary |
| Decimal, integer beyond 64 bits | decimal(38, s), s as many digits after the point as the sample has |
| date; datetime with a zone, without one | date; timestamp, timestamp_ntz |
| UUID, time of day | string |
| list, mapping | array of its elements' type, struct of its fields |

Rules
- Numbers of two kinds give the wider: integers beside doubles are doubles, beside decimals decimals. Of any
  other mixture the first kind stays, and a value of another does not fit.
- A value fits its column whole or not at all: a number with a fraction does not fit integers, a list with one
  element of another kind, a mapping with a field that the struct has not, and a decimal with more digits do
  not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from tidings.model.value import INT_MAX, INT_MIN

MOST_DIGITS = 38  # of a decimal of Spark
MOST_SINGLE = 3.4028234663852886e38  # of a column `float`
_WIDE = Context(prec=3 * MOST_DIGITS)
Kind: TypeAlias = Any  # str | DecimalKind | ListKind | dict[str, Kind] | None, for a kind that is not known


class DecimalKind(NamedTuple):
    scale: int


class ListKind(NamedTuple):
    element: Kind


def widened(kind: Kind, value: Any) -> Kind:
    """The kind of a column that held `kind` and is to hold a value too."""
    if value is None:
        return kind
    if isinstance(value, Mapping):
        if kind is None:
            kind = {}
        if isinstance(kind, dict):
            for name, item in value.items():
                if not name:
                    continue  # Spark has no column without a name: the value is left to `_rest`
                kind[name] = widened(kind.get(name), item)
        return kind
    if isinstance(value, list):
        if kind is not None and not isinstance(kind, ListKind):
            return kind
        element = kind.element if isinstance(kind, ListKind) else None
        for item in value:
            element = widened(element, item)
        return ListKind(element)
    return _wider(kind, _kind(value))


def _wider(kind: Kind, other: Kind) -> Kind:
    if kind is None or other is None:
        return other if kind is None else kind
    if not isinstance(kind, str | DecimalKind):
        return kind
    if {kind, other} == {"bigint", "double"}:
        return "double"
    if isinstance(other, DecimalKind) and isinstance(kind, DecimalKind):
        return max(kind, other)
    if "bigint" in (kind, other) and isinstance(other if kind == "bigint" else kind, DecimalKind):
        return other if kind == "bigint" else kind
    return kind


def _kind(value: Any) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if INT_MIN <= value <= INT_MAX else DecimalKind(0)
    if isinstance(value, Decimal):
        return DecimalKind(_scale(value)) if value.is_finite() and _scale(value) <= MOST_DIGITS else None
    if isinstance(value, datetime):
        return "timestamp_ntz" if value.tzinfo is None else "timestamp"
    return _WORDS.get(type(value))


_WORDS = {float: "double", str: "string", bytes: "binary", date: "date", UUID: "string", time: "string"}


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def spark_type(kind: Kind) -> str:
    """The kind as Spark writes it; of a list that had no elements, an array of strings."""
    if isinstance(kind, dict):
        inside = ", ".join(
            f"`{name.replace('`', '``')}`: {spark_type(each)}"
            for name, each in kind.items()
            if _is_known(each)
        )
        return f"struct<{inside}>"
    if isinstance(kind, ListKind):
        return f"array<{spark_type(kind.element) if _is_known(kind.element) else 'string'}>"
    return f"decimal({MOST_DIGITS},{kind.scale})" if isinstance(kind, DecimalKind) else str(kind)


def _is_known(kind: Kind) -> bool:
    return any(map(_is_known, kind.values())) if isinstance(kind, dict) else kind is not None


def columns_of_kinds(seen: Mapping[str, Kind]) -> str:
    """The columns of these attributes, each with a comma before it."""
    return "".join(
        f", `{name.replace('`', '``')}` {spark_type(kind)}"
        for name, kind in seen.items()
        if name and _is_known(kind)
    )


def is_plain(kind: Any) -> bool:
    """Does Arrow itself say whether a value fits this type of its own?"""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_float64(kind))


def fitted(value: Any, kind: Any) -> Any:
    """The value as a column of this Arrow type holds it. Raises TypeError when it does not fit."""
    import pyarrow as pa

    types = pa.types
    if value is None:
        return None
    if types.is_struct(kind):
        return _fields(value, kind)
    if types.is_list(kind) or types.is_large_list(kind):
        if type(value) is not list:
            raise TypeError
        return [fitted(item, kind.value_type) for item in value]
    if types.is_decimal(kind):
        return _digits(value, kind)
    if types.is_timestamp(kind):
        fits = type(value) is datetime and (value.tzinfo is None) is (kind.tz is None)
    elif types.is_date(kind):
        fits = type(value) is date
    elif types.is_string(kind) or types.is_large_string(kind):
        if type(value) in (UUID, time):
            return str(value) if type(value) is UUID else value.isoformat()
        fits = type(value) is str
    elif types.is_boolean(kind):
        fits = type(value) is bool
    elif types.is_integer(kind):
        fits = type(value) is int or (type(value) is float and value.is_integer())
    elif types.is_floating(kind):
        fits = type(value) in (int, float) and (types.is_float64(kind) or _is_narrow(value))
    elif types.is_binary(kind) or types.is_large_binary(kind):
        fits = type(value) is bytes
    else:
        fits = type(value) is not bool
    if not fits:
        raise TypeError
    return value


def mapped(value: Any, kind: Any) -> Any:
    """A value of an Arrow column with its maps as mappings; Arrow gives lists of pairs."""
    import pyarrow as pa

    types = pa.types
    if value is None or not types.is_nested(kind):
        return value
    if types.is_map(kind):
        return {key: mapped(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {each.name: mapped(value[each.name], each.type) for each in kind}
    return [mapped(item, kind.value_type) for item in value]


def _is_narrow(value: float) -> bool:
    """Is a number within the range of single precision? Of its digits such a column keeps seven."""
    return not math.isfinite(value) or abs(value) <= MOST_SINGLE


def _fields(value: Any, kind: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    members = {kind[number].name: kind[number].type for number in range(kind.num_fields)}
    if any(item is not None and name not in members for name, item in value.items()):
        raise TypeError
    return {name: fitted(item, members[name]) for name, item in value.items() if item is not None}


def _digits(value: Any, kind: Any) -> Decimal:
    if type(value) not in (int, Decimal):
        raise TypeError
    exact = Decimal(value)
    if not exact.is_finite() or (exact and exact.adjusted() >= kind.precision - kind.scale):
        raise TypeError
    written = exact.quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
    if written != exact:
        raise TypeError
    return written


__all__ = ["columns_of_kinds", "fitted", "is_plain", "mapped", "spark_type", "widened"]

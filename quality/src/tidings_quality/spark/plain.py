"""A whole table evaluated in plain Python: what Spark's answer is compared with, and enough for small tables.

Rules of a plan are Spark SQL; here each is given as a function of the row that says True, False or None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tidings_quality.spark import measures
from tidings_quality.spark.settings import Dependency, FactoryPlan

Row = Mapping[str, Any]
Check = Callable[[Row], bool | None]
Quality = dict[str, float]  # "property.dimension" -> value
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def evaluate_plain(
    plan: FactoryPlan,
    rows: Sequence[Row],
    now_micros: int,
    *,
    checks: Mapping[str, Check] | None = None,
    references: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Quality]:
    """The quality of each object, by its key.

    `checks` has the functions of the plan's rules and of `inapplicable` (under the property's
    name), `references` the right values of properties by the objects' keys.
    """
    checks, references = checks or {}, references or {}
    shares = {
        name: measures.agreements([_pair(row, each) for row in rows])
        for name, each in plan.dependencies.items()
    }
    found: dict[str, Quality] = {}
    for position, row in enumerate(rows):
        agree = {name: each[position] for name, each in shares.items()}
        key = str(row[plan.key])
        values = {
            f"{property}.{dimension}": measures.rounded(
                _measure(plan, property, dimension, row, now_micros, checks, references, agree), plan.digits
            )
            for property, dimension in plan.measured()
        }
        found[key] = {name: value for name, value in values.items() if value is not None}
    return found


def _measure(
    plan: FactoryPlan, property: str, dimension: str, row: Row, now_micros: int,
    checks: Mapping[str, Check], references: Mapping[str, Mapping[str, str]],
    agree: Mapping[str, float | None],
) -> float | None:  # fmt: skip
    each = plan.properties[property]
    applies = not (each.inapplicable and checks[property](row))

    def present(name: str) -> str | None:
        value = row.get(name)
        return None if value is None or str(value) in each.missing else str(value)

    if dimension == measures.ACCURACY:
        if each.domain is not None:
            candidates: Sequence[str] = each.domain.values
        else:
            right = references.get(property, {}).get(str(row[plan.key]))
            candidates = [] if right is None else [right]
        return measures.accuracy(present(plan.column(property)), candidates, applies=applies)
    if dimension == measures.COMPLETENESS:
        parts = each.parts or (plan.column(property),)
        return measures.completeness([present(part) for part in parts], applies=applies)
    if dimension == measures.CURRENCY:
        return measures.currency(_age(row[plan.updated], now_micros), each.volatility_micros)
    verdicts = [checks[name](row) for name, rule in plan.rules.items() if property in rule.of]
    shares = [agree[name] for name, one in plan.dependencies.items() if property in one.of]
    return measures.consistency([*(None if v is None else float(v) for v in verdicts), *shares])


def _age(updated: datetime | None, now_micros: int) -> int | None:
    if updated is None:
        return None
    moment = updated if updated.tzinfo is not None else updated.replace(tzinfo=UTC)
    return now_micros - (moment - EPOCH) // timedelta(microseconds=1)


def _pair(row: Row, each: Dependency) -> tuple[str, str] | None:
    if any(row.get(name) is None for name in (*each.determining, *each.determined)):
        return None
    return (
        json.dumps([str(row[name]) for name in each.determining]),
        json.dumps([str(row[name]) for name in each.determined]),
    )

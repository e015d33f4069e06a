"""Comparison and arithmetic of integers and doubles, as exact in Spark as they are here."""

from __future__ import annotations

import math

from tidings.language.spark.text import (
    ABSENT,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    KINDS,
    UNKNOWN,
    Binder,
    Sql,
    finite,
    known_false,
    known_true,
    literal,
)
from tidings.model.value import INT_MAX, INT_MIN

NUMBERS = (BIGINT, DOUBLE)
INTEGER_END = "9.223372036854775808E18D"  # 2**63: the first double past the integers
_SIGNS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CHECKED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def compare(op: str, left: Sql, right: Sql, binder: Binder) -> str:
    """`left op right`; across kinds unknown, and booleans have no order."""
    kind = KINDS.get(left.type)
    if kind is None or kind is not KINDS.get(right.type) or (left.type == BOOLEAN and op not in ("=", "!=")):
        return UNKNOWN
    if left.type == right.type:
        return f"({left.text} {_SIGNS[op]} {right.text})"
    if left.type == DOUBLE:
        return compare(_TURNED[op], right, left, binder)
    if right.literal:
        return _integer_with(op, left.text, right.value)
    if left.literal:
        return _double_with(_TURNED[op], right.text, left.value)
    return f"({binder.bind([left, right], _sign)} {_SIGNS[op]} 0)"


def _integer_with(op: str, text: str, value: float) -> str:
    """An integer compared with a constant double: with the whole numbers around it."""
    if math.isinf(value) or not INT_MIN <= value <= INT_MAX:
        holds = op == "!=" or ((op in ("<", "<=")) is (value > 0) and op != "=")
        return known_true(text) if holds else known_false(text)
    if value.is_integer():
        return f"({text} {_SIGNS[op]} {literal(int(value)).text})"
    return _around(op, text, literal(math.floor(value)), literal(math.ceil(value)))


def _double_with(op: str, text: str, value: int) -> str:
    """A double compared with a constant integer: with the doubles around it."""
    nearest = float(value)
    if nearest == value:
        return f"({text} {_SIGNS[op]} {literal(nearest).text})"
    if nearest < value:
        return _around(op, text, literal(nearest), literal(math.nextafter(nearest, math.inf)))
    return _around(op, text, literal(math.nextafter(nearest, -math.inf)), literal(nearest))


def _around(op: str, text: str, below: Sql, above: Sql) -> str:
    """Compared with a number strictly between two neighbours of the operand's own type."""
    if op in ("=", "!="):
        return known_true(text) if op == "!=" else known_false(text)
    return f"({text} <= {below.text})" if op in ("<", "<=") else f"({text} >= {above.text})"


def _sign(operands: list[Sql]) -> str:
    """Minus one, zero or one, for an integer and a double that are columns both."""
    whole, number = operands[0].text, operands[1].text
    return (
        f"CASE WHEN {whole} IS NULL OR {number} IS NULL THEN NULL WHEN {number} >= {INTEGER_END} THEN -1 "
        f"WHEN {number} < -{INTEGER_END} THEN 1 WHEN {whole} < floor({number}) THEN -1 "
        f"WHEN {whole} > floor({number}) THEN 1 WHEN {number} > floor({number}) THEN -1 ELSE 0 END"
    )


def double(number: Sql) -> str:
    return number.text if number.type == DOUBLE else f"CAST({number.text} AS DOUBLE)"


def arithmetic(op: str, left: Sql, right: Sql, binder: Binder) -> Sql:
    """NULL on overflow, division by zero, and an infinite or undefined result."""
    if left.type not in NUMBERS or right.type not in NUMBERS:
        return ABSENT
    if left.type == BIGINT and right.type == BIGINT:
        return Sql(_integer_arithmetic(op, left, right, binder), BIGINT)
    one, other = double(left), double(right)
    if op == "/":
        return Sql(finite(f"try_divide({one}, {other})"), DOUBLE)
    if op == "%":
        return Sql(finite(f"try_mod({one}, {other})"), DOUBLE)
    return Sql(finite(f"({one} {op} {other})"), DOUBLE)


def _integer_arithmetic(op: str, left: Sql, right: Sql, binder: Binder) -> str:
    if op in _CHECKED:
        return f"{_CHECKED[op]}({left.text}, {right.text})"
    if op == "%":
        return f"try_mod({left.text}, {right.text})"
    if right.literal and right.value not in (0, -1):
        return f"({left.text} div {right.text})"
    return binder.bind([left, right], _quotient)


def _quotient(operands: list[Sql]) -> str:
    one, other = operands[0].text, operands[1].text
    return (
        f"CASE WHEN {other} = 0L THEN NULL WHEN {other} = -1L THEN try_subtract(0L, {one}) "
        f"ELSE {one} div {other} END"
    )


def negated(operand: Sql) -> Sql:
    if operand.type == BIGINT:
        return Sql(f"try_subtract(0L, {operand.text})", BIGINT)
    return Sql(finite(f"(- {operand.text})"), DOUBLE) if operand.type == DOUBLE else ABSENT

"""Comparison and arithmetic of integers, doubles and decimals, as exact in Spark as they are here."""

from __future__ import annotations

import math
import operator
from decimal import Context, Decimal
from typing import Any

from tidings.errors import FilterError
from tidings.language.functions import as_double
from tidings.language.spark.text import (
    ABSENT,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    UNKNOWN,
    Binder,
    Sql,
    decimal_of,
    finite,
    kind_of_type,
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
    kind = kind_of_type(left.type)
    if (
        kind is None
        or kind is not kind_of_type(right.type)
        or (left.type == BOOLEAN and op not in ("=", "!="))
    ):
        return UNKNOWN
    if decimal_of(left.type) or decimal_of(right.type):
        return _compare_decimals(op, left, right)
    if left.type == right.type:
        return f"({left.text} {_SIGNS[op]} {right.text})"
    if left.type == DOUBLE:
        return compare(_TURNED[op], right, left, binder)
    if right.literal:
        return _integer_with(op, left.text, right.value)
    if left.literal:
        return _double_with(_TURNED[op], right.text, left.value)
    return f"({binder.bind([left, right], _sign)} {_SIGNS[op]} 0)"


def _integer_with(op: str, text: str, value: float | Decimal) -> str:
    """An integer compared with a constant: with the whole numbers around it."""
    if math.isinf(value) or not INT_MIN <= value <= INT_MAX:
        return _beyond(op, text, value)
    if value == int(value):
        return f"({text} {_SIGNS[op]} {literal(int(value)).text})"
    return _around(op, text, literal(math.floor(value)), literal(math.ceil(value)))


def _beyond(op: str, text: str, value: float | Decimal) -> str:
    """Compared with a constant on one side of all values of the operand's type."""
    holds = op == "!=" or ((op in ("<", "<=")) is (value > 0) and op != "=")
    return known_true(text) if holds else known_false(text)


def _double_with(op: str, text: str, value: int | Decimal) -> str:
    """A double compared with a constant: with the doubles around it."""
    nearest = as_double(value)
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


_OPERATORS: dict[str, Any] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def _compare_decimals(op: str, left: Sql, right: Sql) -> str:
    """A decimal with another number: with a constant in the operand's own type, else in a type of both."""
    if left.literal and right.literal:
        return "TRUE" if _OPERATORS[op](left.value, right.value) else "FALSE"
    if left.literal:
        return _compare_decimals(_TURNED[op], right, left)
    if right.literal:
        if left.type == BIGINT:
            return _integer_with(op, left.text, right.value)
        if left.type == DOUBLE:
            return _double_with(op, left.text, right.value)
        return _decimal_with(op, left, right.value)
    digits = [_INTEGER_DIGITS if one.type == BIGINT else decimal_of(one.type) for one in (left, right)]
    wide = _common(digits)
    if wide is None:
        raise FilterError(
            f"comparing a {left.type} with a {right.type} has no exact form on Spark",
            hint="compare with a constant, or match on executors (tidings.pipeline), which compares exactly",
        )
    return f"(CAST({left.text} AS {wide}) {_SIGNS[op]} CAST({right.text} AS {wide}))"


_INTEGER_DIGITS = (19, 0)
_MOST_DIGITS = 38  # of a decimal of Spark


def _common(digits: list[tuple[int, int] | None]) -> str | None:
    """The type that holds all values of these types of decimals; None when Spark has none."""
    known = [each for each in digits if each is not None]
    whole, scale = max(p - s for p, s in known), max(s for _, s in known)
    return f"DECIMAL({whole + scale},{scale})" if known == digits and whole + scale <= _MOST_DIGITS else None


def _decimal_with(op: str, operand: Sql, value: int | float | Decimal) -> str:
    """A decimal compared with a constant: with the decimals of its own type around it."""
    found = decimal_of(operand.type)
    assert found is not None
    digits, scale = found
    if math.isinf(value):
        return _beyond(op, operand.text, value)
    exact = Decimal(value).scaleb(scale, _EXACT)
    below, above = math.floor(exact), math.ceil(exact)
    end = 10**digits
    if not -end < exact < end:
        return _beyond(op, operand.text, Decimal(value))

    def written(number: int) -> Sql:
        text = Decimal(number).scaleb(-scale, _EXACT)
        return Sql(f"CAST('{text:f}' AS {operand.type.upper()})", operand.type)

    if below == above:
        return f"({operand.text} {_SIGNS[op]} {written(below).text})"
    if abs(below) == end or abs(above) == end:
        return _beyond(op, operand.text, Decimal(value))
    return _around(op, operand.text, written(below), written(above))


_EXACT = Context(prec=20_000, Emax=999_999, Emin=-999_999)


def _sign(operands: list[Sql]) -> str:
    """Minus one, zero or one, for an integer and a double that are columns both."""
    whole, number = operands[0].text, operands[1].text
    return (
        f"CASE WHEN {whole} IS NULL OR {number} IS NULL THEN NULL WHEN {number} >= {INTEGER_END} THEN -1 "
        f"WHEN {number} < -{INTEGER_END} THEN 1 WHEN {whole} < floor({number}) THEN -1 "
        f"WHEN {whole} > floor({number}) THEN 1 WHEN {number} > floor({number}) THEN -1 ELSE 0 END"
    )


def is_number(operand: Sql) -> bool:
    return operand.type in NUMBERS or decimal_of(operand.type) is not None


def double(number: Sql) -> str:
    """The double nearest to a number, as arithmetic takes it."""
    if number.literal and decimal_of(number.type):
        return literal(as_double(number.value)).text
    return number.text if number.type == DOUBLE else f"CAST({number.text} AS DOUBLE)"


def arithmetic(op: str, left: Sql, right: Sql, binder: Binder) -> Sql:
    """NULL on overflow, division by zero, and an infinite or undefined result."""
    if not is_number(left) or not is_number(right):
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
    return Sql(finite(f"(- {double(operand)})"), DOUBLE) if is_number(operand) else ABSENT

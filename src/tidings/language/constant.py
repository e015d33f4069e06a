"""The value of an expression that reads no attribute, known before any event comes."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Final

from tidings.language.measure import walk
from tidings.model.expression import Attribute, ExistsTest, Expression, Literal, TypeTest
from tidings.model.value import INT_MAX, INT_MIN


class _Unknown:
    """Marks what depends on the event; None is a value here: the constant NULL."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def constant(expression: Expression) -> Any:
    """The value (None: NULL, as of 1 / 0), or UNKNOWN when it depends on the event."""
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Attribute) or type(getattr(expression, "operand", None)) is Attribute:
        return UNKNOWN
    if any(isinstance(node, Attribute | ExistsTest | TypeTest) for node in walk(expression)):
        return UNKNOWN
    from tidings.language.evaluate import evaluate  # imported late: most filters have no computation

    return _plain(evaluate(expression, {}))


def _plain(value: Any) -> Any:
    """A decimal as the integer or the double that it equals; one that equals none is left to the
    evaluator."""
    if type(value) is not Decimal:
        return value
    if value == value.to_integral_value() and INT_MIN <= value <= INT_MAX:
        return int(value)
    nearest = float(value)
    return nearest if nearest == value and math.isfinite(nearest) else UNKNOWN

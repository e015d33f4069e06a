"""The value of an expression that reads no attribute, known before any event comes."""

from __future__ import annotations

from typing import Any, Final

from tidings.language.measure import walk
from tidings.model.expression import Attribute, ExistsTest, Expression, Literal, TypeTest


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

    return evaluate(expression, {})

"""Derived attributes: what residuals compare, computed once an event.

A residual `price * qty > 5000` is a range on the value of `price * qty`; any other residual is
an equality with TRUE on its own value. When enough rows name the same expression, it gets
slots like an attribute, so that its rows are found through the grid and Python is asked once
an event instead of once a candidate. Rare expressions stay checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidings.language.evaluate import compiled as compiled_expression
from tidings.model.constraint import Constraint, Equals, NotOneOf, Range
from tidings.model.event import RESERVED
from tidings.model.expression import Arithmetic, Attribute, Call, Compare, Expression, Literal, Negate
from tidings.model.filter import TIDINGS
from tidings.model.value import Value, kind_of

MOST_DERIVED = 64
ROWS_TO_DERIVE = 16  # rows that name an expression before it is worth computing for every event
MOST_COUNTED = 4096
MARK = "="  # begins the name of a derived attribute: no attribute can be called so

_STRICT_CALLS = frozenset({"ABS", "LENGTH", "UPPER", "LOWER", "CEIL", "FLOOR", "ROUND", "MOD"})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


class Program(NamedTuple):
    """A derived attribute: its name, what it needs, and how to compute it."""

    name: str
    inputs: tuple[str, ...]
    direct: bool  # unknown when an input is, and all inputs are plain attributes
    run: Callable[[Any], Value | None]


def nodes(expression: Expression) -> Iterator[Any]:
    """The expression and everything below it."""
    yield expression
    for field in expression.__struct_fields__:
        held = getattr(expression, field)
        for some in held if isinstance(held, tuple) else (held,):
            if hasattr(some, "__struct_fields__"):
                yield from nodes(some)


def split(residual: Expression) -> tuple[Expression, Callable[[str], Constraint]]:
    """The expression that the residual tests, and the constraint on its value."""
    if isinstance(residual, Compare):
        op, left, right = residual.op, residual.left, residual.right
        if isinstance(left, Literal):
            op, left, right = _TURNED[op], right, left
        if isinstance(right, Literal) and not isinstance(left, Literal) and kind_of(right.value) is not None:
            value = right.value
            if op == "=":
                return left, lambda name: Equals(name, value)
            if op == "!=":
                return left, lambda name: NotOneOf(name, (value,))
            if type(value) is not bool:
                if op in ("<", "<="):
                    return left, lambda name: Range(name, None, value, False, op == "<")
                return left, lambda name: Range(name, value, None, op == ">", False)
    return residual, lambda name: Equals(name, True)


class Derived:
    """The derived attributes of one matcher."""

    def __init__(self) -> None:
        self.names: dict[Expression, str] = {}
        self.programs: list[Program] = []
        self._counts: dict[Expression, int] = {}

    def constraint(self, residual: Expression, dialect: str) -> Constraint | None:
        """The residual as a constraint on a derived attribute; None while it is rare."""
        if dialect != TIDINGS:
            return None
        expression, make = split(residual)
        name = self.names.get(expression)
        if name is None:
            name = self._counted(expression)
        return None if name is None else make(name)

    def _counted(self, expression: Expression) -> str | None:
        if len(self.programs) >= MOST_DERIVED or len(self._counts) >= MOST_COUNTED:
            return None
        count = self._counts[expression] = self._counts.get(expression, 0) + 1
        return self.take(expression) if count >= ROWS_TO_DERIVE else None

    def take(self, expression: Expression) -> str:
        """Give the expression a name from now on."""
        name = self.names[expression] = f"{MARK}{len(self.programs)}"
        self._counts.pop(expression, None)
        self.programs.append(_program(name, expression))
        return name


def _program(name: str, expression: Expression) -> Program:
    every = list(nodes(expression))
    inputs = tuple(dict.fromkeys(node.name for node in every if isinstance(node, Attribute)))
    strict = all(
        isinstance(node, Literal | Attribute | Arithmetic | Negate | Compare)
        or (isinstance(node, Call) and node.function in _STRICT_CALLS)
        for node in every
    )
    direct = strict and bool(inputs) and not any("." in i or i in RESERVED for i in inputs)
    return Program(name, inputs, direct, compiled_expression(expression))


__all__ = ["MARK", "Derived", "Program", "split"]

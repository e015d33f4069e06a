"""Derived attributes: what residuals compare, computed once an event.

A residual `price * qty > 5000` is a range on the value of `price * qty`; any other residual is
an equality with TRUE on its own value. When enough rows name the same expression, it gets
slots like an attribute, so that its rows are found through the grid. What the machine of
`programs` can compute costs next to nothing and gets slots at once; the rest is computed by
Python once an event, when enough rows ask for it. Rare expressions stay checks.

Expressions are told apart by their encoding, not by equality: `a / 2` equals `a / 2.0` in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from tidings.language.evaluate import compiled as compiled_expression
from tidings.language.work import BUDGET, cost, work_of_expression
from tidings.matching.columnar.programs import PLAIN, PUSH, Step, kind_of_result, machine_steps
from tidings.matching.columnar.slots import NUMBER, PRESENT, Slots
from tidings.model.constraint import Constraint, Equals, NotOneOf, Range
from tidings.model.event import RESERVED
from tidings.model.expression import Arithmetic, Attribute, Call, Compare, Expression, Literal, Negate
from tidings.model.filter import TIDINGS
from tidings.model.value import Value, kind_of

MOST_DERIVED = 64
ROWS_TO_DERIVE = 16  # rows that name an expression before it is worth computing for every event
MACHINE_MOST = 32  # expressions for the machine that are taken at first sight
MOST_COUNTED = 4096
MOST_REMEMBERED = 4096  # results of a function of one text ...
LONGEST_REMEMBERED = 256  # ... of so many characters at most
MARK = "="  # begins the name of a derived attribute: no attribute can be called so

_STRICT_CALLS = frozenset({"ABS", "LENGTH", "UPPER", "LOWER", "CEIL", "FLOOR", "ROUND", "MOD", "TIMESTAMP"})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


_encode = msgspec.msgpack.Encoder().encode


class Program(NamedTuple):
    """A derived attribute: its name, what it needs, and how to compute it."""

    name: str
    inputs: tuple[str, ...]
    direct: bool  # unknown when an input is, and all inputs are plain attributes
    run: Callable[[Any], Value | None]
    steps: tuple[Step, ...] | None  # for the machine
    target: int  # the slot that the machine writes
    remembered: dict[str, Value | None] | None  # results, when it is a function of one attribute


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

    def __init__(self, slots: Slots) -> None:
        self.programs: list[Program] = []
        self.expressions: list[Expression] = []
        self._slots = slots
        self._names: dict[bytes, str] = {}
        self._counts: dict[bytes, int] = {}

    def constraint(self, residual: Expression, dialect: str) -> Constraint | None:
        """The residual as a constraint on a derived attribute; None while it is rare."""
        if dialect != TIDINGS:
            return None
        expression, make = split(residual)
        key = _encode(expression)
        name = self._names.get(key) or self._counted(key, expression)
        return None if name is None else make(name)

    def _counted(self, key: bytes, expression: Expression) -> str | None:
        if len(self.programs) >= MOST_DERIVED or len(self._counts) >= MOST_COUNTED:
            return None
        count = self._counts[key] = self._counts.get(key, 0) + 1
        cheap = len(self.programs) < MACHINE_MOST and machine_steps(expression) is not None
        return self.take(expression) if cheap or count >= ROWS_TO_DERIVE else None

    def take(self, expression: Expression) -> str:
        """Give the expression a name from now on."""
        key = _encode(expression)
        name = self._names[key] = f"{MARK}{len(self.programs)}"
        self._counts.pop(key, None)
        self.expressions.append(expression)
        self.programs.append(self._program(name, expression))
        return name

    def _program(self, name: str, expression: Expression) -> Program:
        every = list(nodes(expression))
        inputs = tuple(dict.fromkeys(node.name for node in every if isinstance(node, Attribute)))
        strict = all(
            isinstance(node, Literal | Attribute | Arithmetic | Negate | Compare)
            or (isinstance(node, Call) and node.function in _STRICT_CALLS)
            for node in every
        )
        direct = strict and bool(inputs) and not any("." in i or i in RESERVED for i in inputs)
        steps, target = self._for_machine(name, expression)
        remembered: dict[str, Value | None] | None = {} if direct and len(inputs) == 1 else None
        return Program(name, inputs, direct, _within_budget(expression), steps, target, remembered)

    def _for_machine(self, name: str, expression: Expression) -> tuple[tuple[Step, ...] | None, int]:
        """The machine's steps, with slots for all that they read and write."""
        steps = machine_steps(expression)
        if steps is None:
            return None, -1
        wanted = [(str(operand), PRESENT) for step, operand in steps if step == PLAIN]
        wanted += [(str(operand), NUMBER) for step, operand in steps if step == PUSH]
        target = self._slots.number(name, kind_of_result(steps))
        if min((target, *(self._slots.number(*slot) for slot in wanted))) < 0:
            return None, -1
        return steps, target


def _within_budget(expression: Expression) -> Callable[[Any], Value | None]:
    """The expression as a function of a view; over budget it is unknown, as is every filter that has it."""
    run, work = compiled_expression(expression), work_of_expression(expression)
    if not work:
        return run
    return lambda view: run(view) if cost(work, view) <= BUDGET else None


def result_of(program: Program, view: Any) -> Value | None:
    """The program's value, remembered when it is a function of one text."""
    if program.remembered is None:
        return program.run(view)
    value = view.get(program.inputs[0])
    if type(value) is not str or len(value) > LONGEST_REMEMBERED:
        return program.run(view)
    known = program.remembered
    found = known.get(value, known)  # other threads may clear it: look once
    if found is known:
        found = program.run(view)
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[value] = found
    return found  # type: ignore[return-value]


__all__ = ["MARK", "Derived", "Program", "result_of", "split"]

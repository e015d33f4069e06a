"""Derived attributes as programs of a small machine that runs inside the compiled walk.

Arithmetic is done in doubles, which is exact enough only below 2**53: there an integer is a
double, and so is every sum, difference, product and remainder of two of them. Wherever a value
or a result is larger (infinities too) the machine stops and Python computes this event instead, so
64-bit overflow and exact comparison hold. NaN is unknown, and stays unknown through every step.

Not for the machine: functions of text, logic, and `/` unless its divisor is a float literal
(integers divide toward zero, and a row does not say which of its numbers are integers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.layout import EXACT_DOUBLES
from tidings.matching.columnar.slots import BOOL, NUMBER
from tidings.model.event import RESERVED
from tidings.model.expression import Arithmetic, Attribute, Call, Compare, Expression, Literal, Negate

Step: TypeAlias = tuple[int, str | float]

PUSH, CONSTANT, ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, NEGATE, ABSOLUTE = range(9)
FLOOR, CEILING = 9, 10
LESS, AT_MOST, GREATER, AT_LEAST, EQUAL, DIFFERENT = range(11, 17)
PLAIN = 17  # stop when an attribute holds a value that is no number: only Python knows its kind's order
MOST_STEPS = 32
STACK = MOST_STEPS + 2

_OPERATORS = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "%": REMAINDER}
_FUNCTIONS = {("ABS", 1): ABSOLUTE, ("MOD", 2): REMAINDER, ("FLOOR", 1): FLOOR, ("CEIL", 1): CEILING}
_COMPARISONS = {"<": LESS, "<=": AT_MOST, ">": GREATER, ">=": AT_LEAST, "=": EQUAL, "!=": DIFFERENT}


def machine_steps(expression: Expression) -> tuple[Step, ...] | None:
    """The steps that compute an expression; None when it is not for the machine."""
    steps: list[Step] = []
    fits = _compare(expression, steps) if isinstance(expression, Compare) else _number(expression, steps)
    return tuple(steps) if fits and len(steps) <= MOST_STEPS else None


def _compare(node: Compare, steps: list[Step]) -> bool:
    sides = (node.left, node.right)
    if any(isinstance(side, Literal) for side in sides):
        return False
    if all(isinstance(side, Attribute) for side in sides):
        # two texts or two times compare too
        steps += [(PLAIN, side.name) for side in sides if isinstance(side, Attribute)]
    if not all(_number(side, steps) for side in sides):
        return False
    steps.append((_COMPARISONS[node.op], 0.0))
    return True


def _number(node: Expression, steps: list[Step]) -> bool:
    if isinstance(node, Attribute):
        steps.append((PUSH, node.name))
        return node.name not in RESERVED and node.name.partition(".")[0] not in RESERVED
    if isinstance(node, Literal):
        if type(node.value) not in (int, float) or not -EXACT_DOUBLES < node.value < EXACT_DOUBLES:
            return False
        steps.append((CONSTANT, float(node.value)))
        return True
    if isinstance(node, Negate):
        fits = _number(node.operand, steps)
        steps.append((NEGATE, 0.0))
        return fits
    if isinstance(node, Call):
        return _call(node, steps)
    return isinstance(node, Arithmetic) and _arithmetic(node, steps)


def _call(node: Call, steps: list[Step]) -> bool:
    operator = _FUNCTIONS.get((node.function, len(node.arguments)))
    if operator is None or not all(_number(argument, steps) for argument in node.arguments):
        return False
    steps.append((operator, 0.0))
    return True


def _arithmetic(node: Arithmetic, steps: list[Step]) -> bool:
    operator = _OPERATORS.get(node.op)
    if operator is None:
        if not (isinstance(node.right, Literal) and type(node.right.value) is float):
            return False
        operator = DIVIDE
    if not (_number(node.left, steps) and _number(node.right, steps)):
        return False
    steps.append((operator, 0.0))
    return True


def kind_of_result(steps: tuple[Step, ...]) -> str:
    return BOOL if LESS <= steps[-1][0] <= DIFFERENT else NUMBER


def assembled(
    programs: list[tuple[int, tuple[Step, ...]]], slot_of: Callable[[str], int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Programs as numbers: how many, then each one's target, length, and (step, operand) pairs.

    `slot_of` says where an attribute's numbers are; constants lie in the second array.
    """
    code, constants = [len(programs)], [0.0]
    for target, steps in programs:
        code += [target, len(steps)]
        for step, operand in steps:
            if isinstance(operand, str):
                code += [step, slot_of(operand)]
            else:
                code += [step, len(constants)]
                constants.append(operand)
    return np.array(code, np.int64), np.array(constants)

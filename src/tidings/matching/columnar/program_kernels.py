# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""The machine of derived attributes. Imported only with Numba."""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar import layout as at
from tidings.matching.columnar import programs as p
from tidings.matching.columnar.grid_kernels import compiled
from tidings.matching.columnar.kernels_base import doubles, ints, longs


@compiled
def link(t, row):
    """A value of any kind makes its attribute present."""
    present, absent = ints(t[at.PRESENT]), ints(t[at.ABSENT])
    for s in range(t[at.SLOTS]):
        if row[s] == row[s]:
            if present[s] >= 0:
                row[present[s]] = 0.0
            if absent[s] >= 0:
                row[absent[s]] = np.nan


@compiled
def compared(step, one, other):
    if one != one or other != other:
        return np.nan
    if step == p.LESS:
        return 1.0 if one < other else 0.0
    if step == p.AT_MOST:
        return 1.0 if one <= other else 0.0
    if step == p.GREATER:
        return 1.0 if one > other else 0.0
    if step == p.AT_LEAST:
        return 1.0 if one >= other else 0.0
    if step == p.EQUAL:
        return 1.0 if one == other else 0.0
    return 1.0 if one != other else 0.0


@compiled
def computed(step, one, other):
    """One step of arithmetic."""
    if step == p.ADD:
        return one + other
    if step == p.SUBTRACT:
        return one - other
    if step == p.MULTIPLY:
        return one * other
    if step == p.DIVIDE:
        return one / other if other != 0.0 else np.nan
    if step == p.REMAINDER:
        return np.fmod(one, other) if other != 0.0 else np.nan
    return compared(step, one, other)


@compiled
def derive(t, row):
    """Compute the derived attributes of a row; False when Python must."""
    code, constants, stack = longs(t[at.PROGRAMS]), doubles(t[at.CONSTANTS]), doubles(t[at.STACK])
    present = ints(t[at.PRESENT])
    place = 1
    for _ in range(code[0]):
        target, steps = code[place], code[place + 1]
        place += 2
        top = -1
        for _ in range(steps):
            step, operand = code[place], code[place + 1]
            place += 2
            if step == p.PLAIN:
                if row[operand] != row[operand] and row[present[operand]] == row[present[operand]]:
                    return False
                continue
            if step == p.PUSH:
                top += 1
                stack[top] = row[operand]
            elif step == p.CONSTANT:
                top += 1
                stack[top] = constants[operand]
            elif step == p.NEGATE:
                stack[top] = -stack[top]
            elif step == p.ABSOLUTE:
                stack[top] = abs(stack[top])
            elif step == p.FLOOR:
                stack[top] = np.floor(stack[top])
            elif step == p.CEILING:
                stack[top] = np.ceil(stack[top])
            else:
                top -= 1
                stack[top] = computed(step, stack[top], stack[top + 1])
            if abs(stack[top]) >= at.EXACT_DOUBLES:
                return False
        row[target] = stack[0]
    return True


@compiled
def derive_rows(t, rows, failed):
    """The same for many rows; `failed` lists those that Python must compute, and how many."""
    n = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        link(t, row)
        if not derive(t, row):
            failed[n] = i
            n += 1
    return n

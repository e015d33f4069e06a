"""The cost of computing: what evaluating a filter takes whatever the length of texts.

`work.py` counts characters of texts and elements of lists. An expression takes time without any: each of its
nodes is a call. Rules
- A unit is that of the budget of an owner (`protocol/limits.py`): about 1.5 ns. The costs below are measured,
  in the plain index and in columns, of which the dearer counts; a test counts the calls of each kind.
- An expression costs `RESIDUAL` and `NODE` for each node; a function `CALL`, and `NODE` more for each
  argument. Constants of IN are looked up and cost nothing.
- A test of a pattern by Python costs `PATTERN` or `REGEXP` beside its text.
- Long numbers are slow to compute with: an event that has one multiplies all costs.
- The cost of a filter counts what is evaluated if nothing ends earlier; engines charge what they evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tidings.language.measure import children
from tidings.language.work import constraint_weight
from tidings.model import expression as e
from tidings.model.constraint import Regexp
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter

RESIDUAL = 1024
NODE = 160
CALL = 480
PATTERN = 256
REGEXP = 768
DIGITS_OF_INTEGER = 32  # digits that double the cost: text of a wide integer takes long
DIGITS_OF_DECIMAL = 512
WIDE = 1 << 7  # bits up to which an integer is an ordinary one
LARGEST_FACTOR = 256  # of the numbers of an event: they have 4,096 digits at most


_COSTS: dict[type, int] = {
    e.Call: CALL,
    e.LikeTest: NODE + PATTERN,
    e.TopicTest: NODE + PATTERN,
    e.RegexpTest: NODE + REGEXP,
}


def expression_cost(expression: e.Expression) -> int:
    """Cost of an expression that a conjunction tests."""
    count, waiting = RESIDUAL, [expression]
    while waiting:
        node = waiting.pop()
        count += _COSTS.get(type(node), NODE)
        if isinstance(node, e.In):
            waiting.append(node.operand)
            waiting += [item for item in node.items if not isinstance(item, e.Literal)]
            continue
        inside = children(node)
        waiting += inside
        if isinstance(node, e.Call):
            count += NODE * len(inside)
    return count


def pattern_cost(conjunction: Conjunction) -> int:
    """Cost of the patterns of a conjunction, beside their texts."""
    return sum(
        REGEXP if isinstance(constraint, Regexp) else PATTERN
        for constraint in conjunction.constraints
        if constraint_weight(constraint)
    )


def computing_cost(filter: Filter) -> int:
    """Cost of all of the filter; 0 for one of plain constraints. Computed once."""
    known: int | None = filter.__dict__.get("_computing")
    if known is None:
        costs: dict[int, int] = {}  # by id: conjunctions of a normal form share their residuals
        total = 0
        for conjunction in filter.conjunctions:
            total += pattern_cost(conjunction)
            for residual in conjunction.residuals:
                if id(residual) not in costs:
                    costs[id(residual)] = expression_cost(residual)
                total += costs[id(residual)]
        known = filter.__dict__["_computing"] = total
    return known


def number_factor(event: Event) -> int:
    """By how much long numbers of an event multiply the cost of computing; 1 for nearly all."""
    return _factor(event.view.values()) if event.rich else 1


def _factor(values: Any) -> int:
    most = 1
    for value in values:
        kind = type(value)
        if kind is int:
            bits = value.bit_length()
            if bits > WIDE:
                most = max(most, 1 + bits // (3 * DIGITS_OF_INTEGER))
        elif kind is Decimal:
            most = max(most, 1 + len(value.as_tuple().digits) // DIGITS_OF_DECIMAL)
        elif kind is tuple:
            most = max(most, _factor(value))
        elif isinstance(value, Mapping):
            most = max(most, _factor(value.values()))
    return most

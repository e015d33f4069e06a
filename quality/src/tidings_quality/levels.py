"""Names of qualities and levels inside conditions.

Rules
- `Name.Accuracy` and `name.accuracy` are the same quality: names that end in a dimension are written in
  small letters. `state.name.accuracy` is one too; names under `change.` are not.
- A level stands on the other side of a comparison with a quality, in its IN or in its BETWEEN, as a bare
  word or as a string. Comparing with a level compares levels: `<= medium` is `< 0.8`, since medium ends
  there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidings.errors import FilterError
from tidings.language.parser import balanced
from tidings.model.expression import (
    And,
    Attribute,
    Between,
    Compare,
    ExistsTest,
    Expression,
    In,
    Literal,
    Not,
    Or,
)
from tidings_quality.model import CHANGE, Dimension, Level

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def is_quality(name: str) -> bool:
    """Does this name say the quality of a property?"""
    first, _, last = name.rpartition(".")
    return bool(first) and last.lower() in list(Dimension) and first.partition(".")[0] != CHANGE


def canonical(expression: Expression) -> Expression:
    """The expression with names of qualities in small letters."""
    found: Expression = _rebuilt(expression, _canonical_leaf)
    return found


def without_levels(expression: Expression | None) -> Expression | None:
    """The expression with bands of numbers for levels."""
    return None if expression is None else _rebuilt(expression, _levelled)


def attributes_of(expression: Any) -> Iterator[str]:
    """The names of all attributes in an expression."""
    if isinstance(expression, Attribute | ExistsTest):
        yield expression.name
    elif isinstance(expression, msgspec.Struct):
        for field in expression.__struct_fields__:
            yield from attributes_of(getattr(expression, field))
    elif isinstance(expression, tuple):
        for one in expression:
            yield from attributes_of(one)


def _rebuilt(expression: Any, leaf: Callable[[Any], Expression]) -> Any:
    """The expression with `leaf` applied to every node, from the leaves up."""
    if isinstance(expression, tuple):
        return tuple(_rebuilt(one, leaf) for one in expression)
    if not isinstance(expression, msgspec.Struct):
        return expression
    fields = {name: _rebuilt(getattr(expression, name), leaf) for name in expression.__struct_fields__}
    return leaf(type(expression)(**fields))


def _canonical_leaf(node: Expression) -> Expression:
    if isinstance(node, Attribute | ExistsTest) and is_quality(node.name):
        return type(node)(node.name.lower())
    return node


def _level(node: Expression) -> Level | None:
    """The level that an operand names, if any."""
    word = node.name if isinstance(node, Attribute) else node.value if isinstance(node, Literal) else None
    return Level(word.lower()) if isinstance(word, str) and word.lower() in list(Level) else None


def _quality_of(node: Expression) -> Attribute | None:
    return node if isinstance(node, Attribute) and is_quality(node.name) else None


def _levelled(node: Expression) -> Expression:
    if isinstance(node, Compare):
        return _compared(node)
    if isinstance(node, In):
        return _listed(node)
    return _between(node) if isinstance(node, Between) else node


def _compared(node: Compare) -> Expression:
    for quality, other, op in (
        (_quality_of(node.left), node.right, node.op),
        (_quality_of(node.right), node.left, _TURNED[node.op]),
    ):
        if quality is None:
            continue
        level = _level(other)
        if level is not None:
            return _band(quality, op, level)
        if isinstance(other, Literal) and not isinstance(other.value, int | float):
            raise FilterError(
                f"{quality.name} is compared with {other.value!r}", hint="low, medium, high, or 0 to 1"
            )
    return node


def _band(quality: Attribute, op: str, level: Level) -> Expression:
    """The comparison of a quality's level with a level, as one of numbers."""
    ceiling = level.ceiling
    at_least = Compare(">=", quality, Literal(level.floor))
    below = Compare("<", quality, Literal(level.floor))
    at_most = (
        Compare("<=", quality, Literal(1.0)) if ceiling is None else Compare("<", quality, Literal(ceiling))
    )
    above = (
        Compare(">", quality, Literal(1.0)) if ceiling is None else Compare(">=", quality, Literal(ceiling))
    )
    match op:
        case ">=":
            return at_least
        case "<":
            return below
        case "<=":
            return at_most
        case ">":
            return above
        case "=":
            return And(at_least, at_most)
    return Or(below, above)


def _listed(node: In) -> Expression:
    quality = _quality_of(node.operand)
    if quality is None or not any(_level(item) for item in node.items):
        return node
    parts = [_compared(Compare("=", quality, item)) for item in node.items]
    found = balanced(Or, parts)
    return Not(found) if node.negated else found


def _between(node: Between) -> Expression:
    quality = _quality_of(node.operand)
    if quality is None or not (_level(node.low) or _level(node.high)):
        return node
    found = And(_compared(Compare(">=", quality, node.low)), _compared(Compare("<=", quality, node.high)))
    return Not(found) if node.negated else found

"""The size of an expression, without recursion: any tree may be handed in, however deep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tidings.language.limits import Limits, check_constraints, check_patterns, too_deep
from tidings.model.expression import (
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Expression,
    In,
    LikeTest,
    Literal,
    Negate,
    Not,
    NullTest,
    Or,
    RegexpTest,
    TopicTest,
    Xor,
)
from tidings.model.pattern import compiled_weight

_CHAINS = (And, Or, Xor)
_LOGIC = (And, Or, Xor, Not)


def _sides(node: And | Or | Xor | Compare | Arithmetic) -> tuple[Expression, ...]:
    return (node.left, node.right)


def _operand(node: Not | Negate | LikeTest | RegexpTest | TopicTest | NullTest) -> tuple[Expression, ...]:
    return (node.operand,)


_INSIDE: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    **dict.fromkeys((And, Or, Xor, Compare, Arithmetic), _sides),
    **dict.fromkeys((Not, Negate, LikeTest, RegexpTest, TopicTest, NullTest), _operand),
    In: lambda node: (node.operand, *node.items),
    Between: lambda node: (node.operand, node.low, node.high),
    Call: lambda node: node.arguments,
    **dict.fromkeys((AnyOf, AllOf), lambda node: (node.condition,)),
}


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside an expression, in order."""
    inside = _INSIDE.get(type(node))
    return inside(node) if inside else ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node of a tree, parents first."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        inside = _INSIDE.get(type(node))
        if inside:
            stack.extend(inside(node))


def check_size(expression: Expression, limits: Limits) -> None:
    """Refuse an expression past the budgets of depth, of constraints and of patterns."""
    constraints = 0
    patterns: set[str] = set()
    stack = [(expression, 1, True)]
    while stack:
        node, depth, is_condition = stack.pop()
        kind = type(node)
        if kind is Literal:
            continue
        constraints += is_condition and kind not in _LOGIC
        if kind is Attribute:
            continue
        if depth > limits.depth:
            raise too_deep(limits)
        if isinstance(node, RegexpTest):
            patterns.add(node.pattern)
        inside = children(node)
        if kind in _CHAINS:
            stack.extend(
                (child, depth if type(child) is kind else depth + 1, is_condition) for child in inside
            )
            continue
        if is_condition and isinstance(node, In):
            constraints += sum(type(item) is not Literal for item in node.items)
        stack.extend((child, depth + 1, is_condition and kind is Not) for child in inside)
    check_constraints(constraints, limits)
    if patterns:
        check_patterns(sum(map(compiled_weight, patterns)), limits)

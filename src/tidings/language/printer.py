"""Expressions and filters back to text that means the same.

Brackets are written wherever the two dialects, or a reader, could group differently: around each
AND inside an OR, around the operand of NOT, around the left operand of LIKE and IN. So the text means
the same in both dialects, and to other CESQL engines as far as they know the words.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tidings.errors import FilterError
from tidings.language.lexer import quote_name, quote_string
from tidings.language.limits import DEFAULT_LIMITS
from tidings.model.constraint import (
    Constraint,
    Equals,
    Exists,
    IsA,
    Like,
    Missing,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.expression import (
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    ExistsTest,
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
    TypeTest,
    Xor,
)
from tidings.model.filter import Conjunction, Filter
from tidings.model.pattern import escape_like
from tidings.model.value import kind_of, utc

_LOGIC = {And: "AND", Or: "OR", Xor: "XOR"}
_ATOMS = (Literal, Attribute, Call, ExistsTest, AllOf)
_SUMS = ("+", "-")
_SHORT = DEFAULT_LIMITS.text // 4  # characters: within the limit for every character


def print_value(value: Any) -> str:
    """A value as it stands in a filter."""
    if kind_of(value) is None or value in (float("inf"), float("-inf")):
        raise FilterError(f"{value!r} cannot stand in a filter", hint="NULL is tested with IS NULL")
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{utc(value).isoformat().replace('+00:00', 'Z')}'"
    return repr(value)


def print_expression(expression: Expression) -> str:
    """Text that parses to an expression of the same meaning."""
    return _PRINTERS[type(expression)](expression)


def print_filter(filter: Filter) -> str:
    """Text that parses to a filter with the same digest: its normal form, where that is within the limits.

    A product of ORs can be past the limits in normal form and within them as it was written: then it
    is printed as it was written.
    """
    if not filter.conjunctions:
        return "FALSE"
    many = len(filter.conjunctions) > 1
    text = " OR ".join(_conjunction(part, bracketed=many) for part in filter.conjunctions)
    if _is_small(filter, text) or _says(text, filter) or not _says(filter.text, filter):
        return text
    return filter.text


def _is_small(filter: Filter, text: str) -> bool:
    """Is it within the limits for certain? Each constraint is at most two conditions."""
    constraints = sum(len(part.constraints) for part in filter.conjunctions)
    residuals = any(part.residuals for part in filter.conjunctions)
    return not residuals and 2 * constraints <= DEFAULT_LIMITS.constraints and len(text) <= _SHORT


def _says(text: str, filter: Filter) -> bool:
    from tidings.language.text import read_filter  # here: it imports what parses, and most need it not

    try:
        return read_filter(text, filter.dialect).digest == filter.digest
    except FilterError:
        return False


def print_constraint(constraint: Constraint) -> str:
    """One constraint as a condition."""
    return _CONSTRAINTS[type(constraint)](constraint)


def _conjunction(part: Conjunction, *, bracketed: bool) -> str:
    conditions = [print_constraint(constraint) for constraint in part.constraints]
    alone = not conditions and len(part.residuals) == 1 and not bracketed
    conditions += [print_expression(r) if alone else _inside_logic(r, And) for r in part.residuals]
    if not conditions:
        return "TRUE"
    text = " AND ".join(conditions)
    return f"({text})" if bracketed and len(conditions) > 1 else text


# expressions


def _bracketed(expression: Expression) -> str:
    return f"({print_expression(expression)})"


def _atom(expression: Expression) -> str:
    """Text as an operand that binds tightest."""
    return print_expression(expression) if isinstance(expression, _ATOMS) else _bracketed(expression)


def _inside_logic(expression: Expression, kind: type) -> str:
    if type(expression) in _LOGIC and type(expression) is not kind:
        return _bracketed(expression)
    return print_expression(expression)


def _logic(node: And | Or | Xor) -> str:
    kind = type(node)
    operands: list[str] = []
    stack: list[Expression] = [node]
    while stack:
        part = stack.pop()
        if type(part) is kind:
            stack.extend((part.right, part.left))
        else:
            operands.append(_inside_logic(part, kind))
    return f" {_LOGIC[kind]} ".join(operands)


def _operand(expression: Expression) -> str:
    """Text as one side of a comparison: arithmetic needs no brackets there."""
    return print_expression(expression) if isinstance(expression, Arithmetic) else _atom(expression)


def _compare(node: Compare) -> str:
    return f"{_operand(node.left)} {node.op} {_operand(node.right)}"


def _arithmetic(node: Arithmetic) -> str:
    left = isinstance(node.left, Arithmetic) and (node.op in _SUMS or node.left.op not in _SUMS)
    right = isinstance(node.right, Arithmetic) and node.op in _SUMS and node.right.op not in _SUMS
    shown = [
        print_expression(side) if free else _atom(side)
        for side, free in ((node.left, left), (node.right, right))
    ]
    return f"{shown[0]} {node.op} {shown[1]}"


def _negate(node: Negate) -> str:
    """A bracketed number stays a number under a minus, not a negative number."""
    operand = node.operand
    return f"-{_bracketed(operand) if isinstance(operand, Literal) else _atom(operand)}"


def _word(node: Any, word: str) -> str:
    return f"{_atom(node.operand)} {'NOT ' if node.negated else ''}{word}"


def _items(items: tuple[Expression, ...]) -> str:
    return f"({', '.join(map(print_expression, items))})"


def _between(node: Between) -> str:
    return f"{_word(node, 'BETWEEN')} {_operand(node.low)} AND {_operand(node.high)}"


def _null(operand: str, negated: bool) -> str:
    return f"{operand} IS {'NOT ' if negated else ''}NULL"


def _type(name: str, negated: bool) -> str:
    return f"type IS {'NOT ' if negated else ''}A {quote_string(name)}"


def _any(node: AnyOf) -> str:
    """`x IN name` where that says it, else ANY(condition)."""
    condition = node.condition
    if isinstance(condition, Compare) and condition.op == "=" and isinstance(condition.left, Attribute):
        return f"{_atom(condition.right)} IN {quote_name(condition.left.name)}"
    return f"ANY({print_expression(condition)})"


_PRINTERS: dict[type, Callable[[Any], str]] = {
    Literal: lambda node: print_value(node.value),
    Attribute: lambda node: quote_name(node.name),
    Not: lambda node: f"NOT {_atom(node.operand)}",
    Negate: _negate,
    And: _logic,
    Or: _logic,
    Xor: _logic,
    Compare: _compare,
    Arithmetic: _arithmetic,
    In: lambda node: f"{_word(node, 'IN')} {_items(node.items)}",
    Between: _between,
    LikeTest: lambda node: f"{_word(node, 'LIKE')} {quote_string(node.pattern)}",
    RegexpTest: lambda node: f"{_word(node, 'REGEXP')} {quote_string(node.pattern)}",
    TopicTest: lambda node: f"{_word(node, 'MATCHES')} {quote_string(node.pattern)}",
    ExistsTest: lambda node: f"EXISTS {quote_name(node.name)}",
    NullTest: lambda node: _null(_atom(node.operand), node.negated),
    TypeTest: lambda node: _type(node.name, node.negated),
    Call: lambda node: f"{node.function}{_items(node.arguments)}",
    AnyOf: _any,
    AllOf: lambda node: f"ALL({print_expression(node.condition)})",
}

# constraints


def _values(values: tuple[Any, ...]) -> str:
    return f"({', '.join(map(print_value, values))})"


def _different(constraint: NotOneOf) -> str:
    name, values = quote_name(constraint.attribute), constraint.values
    return f"{name} != {print_value(values[0])}" if len(values) == 1 else f"{name} NOT IN {_values(values)}"


def _range(constraint: Range) -> str:
    name, low, high = quote_name(constraint.attribute), constraint.low, constraint.high
    if low is not None and high is not None and not constraint.low_open and not constraint.high_open:
        return f"{name} BETWEEN {print_value(low)} AND {print_value(high)}"
    parts = []
    if low is not None:
        parts.append(f"{name} {'>' if constraint.low_open else '>='} {print_value(low)}")
    if high is not None:
        parts.append(f"{name} {'<' if constraint.high_open else '<='} {print_value(high)}")
    return " AND ".join(parts)


def _prefix(constraint: Prefix) -> str:
    """LIKE cannot say "begins with a backslash": that backslash would take the `%` literally."""
    name, prefix = quote_name(constraint.attribute), constraint.prefix
    if prefix.endswith("\\"):
        return f"{name} >= {quote_string(prefix)} AND {name} < {quote_string(prefix[:-1] + ']')}"
    return f"{name} LIKE {quote_string(escape_like(prefix) + '%')}"


def _pattern(constraint: Like | Regexp | TopicIs, word: str) -> str:
    test = f"NOT {word}" if constraint.negated else word
    return f"{quote_name(constraint.attribute)} {test} {quote_string(constraint.pattern)}"


_CONSTRAINTS: dict[type, Callable[[Any], str]] = {
    Equals: lambda c: f"{quote_name(c.attribute)} = {print_value(c.value)}",
    OneOf: lambda c: f"{quote_name(c.attribute)} IN {_values(c.values)}",
    NotOneOf: _different,
    Range: _range,
    Prefix: _prefix,
    Like: lambda c: _pattern(c, "LIKE"),
    Regexp: lambda c: _pattern(c, "REGEXP"),
    TopicIs: lambda c: _pattern(c, "MATCHES"),
    Exists: lambda c: f"EXISTS {quote_name(c.attribute)}",
    Missing: lambda c: _null(quote_name(c.attribute), False),
    IsA: lambda c: _type(c.name, c.negated),
}

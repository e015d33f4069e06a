"""One condition on one attribute, as constraints: the single place that gives leaves their meaning.

Each function answers for "is the condition *true*"; the negated forms answer for "is it *false*".
An unknown condition is neither. The answer is a constraint, or None when no value makes it so.

Canonical forms: a whole number is an int, so that 5 and 5.0 are one constraint; `!=` on a bool is
equality with the other one; a LIKE without wildcards is equality, with one final `%` a prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from tidings.model.constraint import (
    Constraint,
    Equals,
    Like,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.pattern import (
    check_regexp,
    escape_like,
    like_is_prefix,
    like_literal,
    like_parts,
    like_prefix,
)
from tidings.model.topic import check_pattern, is_pattern
from tidings.model.value import INT_MAX, INT_MIN, Kind, kind_of, sort_key

Leaf: TypeAlias = Constraint | None

TOPIC = "topic"
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def canonical(value: Any) -> Any:
    """The one representative of equal values: whole floats that fit 64 bits become ints."""
    if type(value) is float and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    return value


def compare(name: str, op: str, value: Any) -> Leaf:
    """`name op value`; the value is a literal's, or None when a constant is unknown."""
    if type(value) is float:
        value = canonical(value)
    if op == "=":
        return equals(name, value)
    if op == "!=":
        return differs(name, value)
    if value is None or type(value) is bool:
        return None  # booleans have no order
    if op == "<" or op == "<=":
        return Range(name, None, value, False, op == "<")
    return Range(name, value, None, op == ">", False)


def equals(name: str, value: Any) -> Leaf:
    if value is None:
        return None
    if is_wild(name, value):
        return topic_is(name, value)
    return Equals(name, value)


def differs(name: str, value: Any) -> Leaf:
    return topic_is(name, value, negated=True) if is_wild(name, value) else none_of(name, (value,))


def is_wild(name: str, value: Any) -> bool:
    """True when a value of the event's topic is meant as a pattern: no topic can hold + or #."""
    return name == TOPIC and type(value) is str and is_pattern(value)


def between(name: str, low: Any, high: Any) -> Leaf:
    """Closed on both ends; None when the bounds are the wrong way round or of two kinds."""
    low, high = canonical(low), canonical(high)
    kind = kind_of(low)
    if kind is None or kind is Kind.BOOL or kind is not kind_of(high) or low > high:
        return None
    return Equals(name, low) if low == high else Range(name, low, high)


def one_of(name: str, values: Iterable[Any]) -> Leaf:
    """`name IN (values)`, for values that hold no topic pattern. Unknown items are ignored."""
    kept = distinct(values)
    if len(kept) < 2:
        return Equals(name, kept[0]) if kept else None
    return OneOf(name, kept)


def none_of(name: str, values: Iterable[Any]) -> Leaf:
    """`name NOT IN (values)`: false for each item, so all must be known and of one kind."""
    values = list(values)
    kinds = {kind_of(value) for value in values}
    if None in kinds or len(kinds) != 1:
        return None
    kept = distinct(values)
    if kinds == {Kind.BOOL}:
        return Equals(name, not kept[0]) if len(kept) == 1 else None
    return NotOneOf(name, kept)


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Known values in canonical form, each once, in order."""
    values = list(values)
    if all(type(value) is str for value in values):
        return tuple(sorted(set(values)))
    seen = {(kind_of(value), canonical(value)) for value in values}
    return tuple(sorted((value for kind, value in seen if kind is not None), key=sort_key))


def like(name: str, pattern: str, *, negated: bool = False) -> Leaf:
    pattern = _canonical_pattern(pattern)
    literal = like_literal(pattern)
    if literal is not None:
        return none_of(name, (literal,)) if negated else Equals(name, literal)
    if like_is_prefix(pattern):
        prefix = like_prefix(pattern)
        if not negated:
            return Prefix(name, prefix)
        if not prefix:
            return None  # every string is LIKE '%'
    return Like(name, pattern, negated)


def _canonical_pattern(pattern: str) -> str:
    """The pattern with each run of `%` as one."""
    parts = like_parts(pattern)
    if len(parts) < 3:
        return pattern
    kept = [parts[0], *(part for part in parts[1:-1] if part), parts[-1]]
    return "%".join("".join("_" if ch is None else escape_like(ch) for ch in part) for part in kept)


def regexp(name: str, pattern: str, *, negated: bool = False) -> Leaf:
    return Regexp(name, check_regexp(pattern), negated)


def topic_is(name: str, pattern: str, *, negated: bool = False) -> Leaf:
    check_pattern(pattern)
    if not is_pattern(pattern):
        return none_of(name, (pattern,)) if negated else Equals(name, pattern)
    if negated and pattern == "#":
        return None  # every string falls under #
    return TopicIs(name, pattern, negated)

"""Constraints on one attribute that must all hold, as few as possible: the canonical form.

The answer does not depend on the order in which the constraints come, since it is hashed. A value
set (Equals, OneOf) absorbs all others; ranges intersect; a contradiction is None. Patterns
(Like, Regexp, TopicIs, IsA) are compared for equality alone: two of them may contradict each other
unnoticed, which costs a little matching and does not change results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from tidings.language.leaves import distinct, none_of, one_of
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
from tidings.model.value import Kind, kind_of

Constraints: TypeAlias = tuple[Constraint, ...]
_Kind = TypeVar("_Kind", bound=Constraint)
_PATTERNS = (Like, Regexp, TopicIs, IsA)


def combined(constraints: Sequence[Constraint]) -> Constraints | None:
    """All of `constraints` (on one attribute) at once, in canonical form; None if none can hold."""
    if len(constraints) == 1:
        return tuple(constraints)
    if any(type(c) is Missing for c in constraints):
        return (constraints[0],) if all(type(c) is Missing for c in constraints) else None
    rest = [c for c in constraints if type(c) is not Exists]
    if not rest:
        return (constraints[0],)
    values = _values(rest)
    if values is not None:
        only = one_of(rest[0].attribute, values)
        return None if only is None else (only,)
    return _without_values(rest)


def _values(constraints: Sequence[Constraint]) -> list[Any] | None:
    """The values that remain when some constraint lists its values; else None."""
    for constraint in constraints:
        if isinstance(constraint, Equals | OneOf):
            listed = (constraint.value,) if isinstance(constraint, Equals) else constraint.values
            return [value for value in listed if all(c.accepts(value) for c in constraints)]
    return None


def _without_values(constraints: Sequence[Constraint]) -> Constraints | None:
    """Ranges, prefixes, exclusions and patterns."""
    if len({kind for kind in map(_kind, constraints) if kind is not None}) > 1:
        return None
    prefix = _longest_prefix(_only(constraints, Prefix))
    span = _intersection(_only(constraints, Range))
    if prefix is False or span is False:
        return None
    if isinstance(span, Range) and span.low is not None and span.low == span.high:
        only = Equals(span.attribute, span.low)
        return (only,) if all(c.accepts(only.value) for c in constraints) else None
    patterns = _patterns(constraints)
    if patterns is None:
        return None
    if isinstance(span, Range) and isinstance(prefix, Prefix):
        if _is_prefix_outside(prefix.prefix, span):
            return None
        if _is_prefix_within(prefix.prefix, span):
            span = None
    if isinstance(prefix, Prefix) and not prefix.prefix and (span or patterns):
        prefix = None  # any string at all: the others say more
    kept = [c for c in (prefix, span) if isinstance(c, Prefix | Range)] + patterns
    return _with_exclusions(kept, _only(constraints, NotOneOf))


def _with_exclusions(kept: list[Constraint], exclusions: Sequence[NotOneOf]) -> Constraints | None:
    """Exclusions that the others already make are dropped; one at a closed end opens that end."""
    if not exclusions:
        return _settled(kept)
    excluded = distinct(value for c in exclusions for value in c.values)
    left = [value for value in excluded if all(c.accepts(value) for c in kept)]
    for position, span in enumerate(kept):
        if isinstance(span, Range):
            low_open = span.low_open or span.low in left
            high_open = span.high_open or span.high in left
            kept[position] = Range(span.attribute, span.low, span.high, low_open, high_open)
            left = [value for value in left if value != span.low and value != span.high]
    if left:
        kept = [c for c in kept if c != Prefix(c.attribute, "")]  # the exclusion demands a string too
    if left or not kept:
        outside = none_of(exclusions[0].attribute, left)
        if outside is None:
            return None
        kept = [*kept, outside]
    return _settled(kept)


def _settled(kept: list[Constraint]) -> Constraints | None:
    if len(kept) > 1:
        kept.sort(key=msgspec.msgpack.encode)
    return tuple(kept)


def _only(constraints: Iterable[Constraint], kind: type[_Kind]) -> list[_Kind]:
    return [c for c in constraints if isinstance(c, kind)]


def _kind(constraint: Constraint) -> Kind | None:
    """The kind of value that a constraint demands; None when it demands a lineage."""
    if isinstance(constraint, Range):
        return constraint.kind
    if isinstance(constraint, NotOneOf):
        return kind_of(constraint.values[0])
    return None if isinstance(constraint, IsA) else Kind.STRING


def _longest_prefix(prefixes: list[Prefix]) -> Prefix | bool | None:
    """The prefix that implies all others; None without any; False when two contradict."""
    if not prefixes:
        return None
    longest = max(prefixes, key=lambda c: len(c.prefix))
    return longest if all(longest.prefix.startswith(c.prefix) for c in prefixes) else False


def _intersection(ranges: list[Range]) -> Range | bool | None:
    """The range inside all ranges; None without any; False when their intersection is empty."""
    if not ranges:
        return None
    low, low_open = _bound([(c.low, c.low_open) for c in ranges if c.low is not None], highest=True)
    high, high_open = _bound([(c.high, c.high_open) for c in ranges if c.high is not None], highest=False)
    if low is not None and high is not None and (low > high or (low == high and (low_open or high_open))):
        return False
    return Range(ranges[0].attribute, low, high, low_open, high_open)


def _bound(bounds: list[tuple[Any, bool]], *, highest: bool) -> tuple[Any, bool]:
    """The tightest of the bounds; of equal ones an open one."""
    if not bounds:
        return None, False
    value = max(b[0] for b in bounds) if highest else min(b[0] for b in bounds)
    return value, any(is_open for bound, is_open in bounds if bound == value)


def _is_prefix_within(prefix: str, span: Range) -> bool:
    """Does every string with that prefix lie in the range?"""
    below = span.high is None or (prefix < span.high and not span.high.startswith(prefix))
    above = span.low is None or (prefix >= span.low and not (span.low_open and prefix == span.low))
    return below and above


def _is_prefix_outside(prefix: str, span: Range) -> bool:
    """Does no string with that prefix lie in the range?"""
    if span.high is not None and (span.high < prefix or (span.high_open and span.high == prefix)):
        return True
    return span.low is not None and span.low > prefix and not span.low.startswith(prefix)


def _patterns(constraints: Sequence[Constraint]) -> list[Constraint] | None:
    """The patterns, each once; None when one stands beside its own negation."""
    found: dict[Constraint, None] = {}
    for constraint in constraints:
        if isinstance(constraint, _PATTERNS):
            if msgspec.structs.replace(constraint, negated=not constraint.negated) in found:
                return None
            found[constraint] = None
    return list(found)

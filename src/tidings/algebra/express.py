"""From domains back to constraints, and the conjunction of two conjunctions.

Rules
- `express` gives constraints whose conjunction accepts just the domain, or None when no conjunction
  does (absent or a number; two ranges with a gap that is more than a point).
- Every number is a set that no conjunction says: the language writes no infinity.
- An attribute that only one side constrains keeps its constraints as they were written.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from tidings.algebra import domain as dm
from tidings.algebra import intervals as iv
from tidings.algebra.domain import Domain
from tidings.algebra.intervals import BOTTOM, TOP, Cut, Interval, Intervals
from tidings.algebra.region import region_of
from tidings.algebra.strings import LIKE, TOPIC, Pattern
from tidings.model.constraint import (
    Constraint,
    Equals,
    Exists,
    Like,
    Missing,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.event import LINEAGE
from tidings.model.filter import Conjunction
from tidings.model.pattern import escape_like
from tidings.model.value import Kind, sort_key

T = TypeVar("T")


def express(attribute: str, domain: Domain) -> tuple[Constraint, ...] | None:
    """Constraints whose conjunction accepts exactly this domain, or None if no conjunction does."""
    if domain.patterns:
        return _express_patterns(attribute, domain)
    for constraint in (Missing(attribute), Exists(attribute)):
        if domain == dm.domain_of(constraint):
            return (constraint,)
    if domain.absent:
        return () if domain == dm.ANYTHING else None
    finite = dm.values_of(domain)
    if finite is not None:
        return (one_of(attribute, finite),) if finite else None
    kinds = [kind for kind in Kind if domain.kinds[kind]]
    return _express_kind(attribute, kinds[0], domain.kinds[kinds[0]]) if len(kinds) == 1 else None


def one_of(attribute: str, values: Iterable[Any]) -> Equals | OneOf:
    found = sorted(values, key=sort_key)
    return Equals(attribute, found[0]) if len(found) == 1 else OneOf(attribute, tuple(found))


def _express_patterns(attribute: str, domain: Domain) -> tuple[Constraint, ...] | None:
    tests = tuple(_pattern_constraint(attribute, pattern) for pattern in domain.patterns)
    implied = dm.STRINGS
    for test in tests:
        implied = dm.intersection(implied, dm.domain_of(test))
    if implied.strings == domain.strings:
        return tests
    rest = express(attribute, dm.of_strings(domain.strings))
    return None if rest is None else rest + tests


def _pattern_constraint(attribute: str, pattern: Pattern) -> Constraint:
    if pattern.kind == LIKE:
        return Like(attribute, pattern.text, pattern.negated)
    if pattern.kind == TOPIC:
        return TopicIs(attribute, pattern.text, pattern.negated)
    return Regexp(attribute, pattern.text, pattern.negated)


def _express_kind(attribute: str, kind: Kind, intervals: Intervals) -> tuple[Constraint, ...] | None:
    """A range or prefix with holes: points, and on strings prefixes."""
    holes: list[Any] = []
    result: list[Constraint] = []
    for (_, low), (high, _) in pairwise(intervals):
        if not iv.holds_value(low, high):
            continue
        value = iv.only_value(kind, (low, high))
        if value is not None:
            holes.append(value)
            continue
        excluded = _prefix_hole(attribute, (low, high)) if kind is Kind.STRING else None
        if excluded is None:
            return None
        result.append(excluded)
    if holes:
        result.insert(0, NotOneOf(attribute, tuple(holes)))
    hull = (intervals[0][0], intervals[-1][1])
    if hull != (BOTTOM, TOP) or not result:
        around = range_of(attribute, kind, hull)
        if around is None:
            return None
        result.insert(0, around)
    return tuple(result)


def _prefix_hole(attribute: str, gap: Interval) -> Like | None:
    if gap[0] == BOTTOM or gap != iv.prefixed(gap[0][1])[0]:
        return None
    excluded = Like(attribute, escape_like(gap[0][1]) + "%", negated=True)
    expected = dm.of_strings(iv.complement((gap,)))  # a prefix that ends in a backslash has no LIKE
    return excluded if dm.domain_of(excluded) == expected else None


def range_of(attribute: str, kind: Kind, interval: Interval) -> Range | Prefix | None:
    """One interval as a constraint; None for every number."""
    start, end = interval
    if kind is Kind.STRING and start != BOTTOM and end == iv.after_prefix(start[1]):
        return Prefix(attribute, start[1])
    if interval == (BOTTOM, TOP):
        if kind is Kind.STRING:
            return Prefix(attribute, "")
        return Range(attribute, iv.FIRST_TIME, None) if kind is Kind.TIME else None
    low, low_open = (None, False) if start == BOTTOM else _bound(kind, start, is_low=True)
    high, high_open = (None, False) if end == TOP else _bound(kind, end, is_low=False)
    return Range(attribute, low, high, low_open, high_open)


def _bound(kind: Kind, cut: Cut, *, is_low: bool) -> tuple[Any, bool]:
    """The bound of a range at a cut, and whether the bound itself is left out."""
    value, side = cut[1], cut[2]
    if kind is Kind.STRING and value.endswith("\0"):
        value, side = value[:-1], 1
    return value, (side == 1) is is_low


def conjunction_of(one: Conjunction, other: Conjunction, *, dialect: str) -> Conjunction | None:
    """Both conjunctions as one, simplified; None when they contradict each other."""
    both = Conjunction(one.constraints + other.constraints, distinct(one.residuals + other.residuals))
    region = region_of(both, dialect)
    if region.is_empty:
        return None
    constraints: list[Constraint] = []
    for name in sorted({constraint.attribute for constraint in both.constraints}):
        mine, theirs = _on(name, one), _on(name, other)
        if not mine or not theirs:
            constraints += mine or theirs
        elif name == LINEAGE:
            constraints += distinct(mine + theirs)
        else:
            found = express(name, region.domains[name])
            constraints += distinct(mine + theirs) if found is None else found
    return Conjunction(tuple(constraints), both.residuals)


def _on(name: str, conjunction: Conjunction) -> tuple[Constraint, ...]:
    return tuple(constraint for constraint in conjunction.constraints if constraint.attribute == name)


def distinct(items: tuple[T, ...]) -> tuple[T, ...]:
    """Without doubles, told apart as bytes: in Python 1 equals True."""
    return tuple({msgspec.msgpack.encode(item): item for item in reversed(items)}.values())[::-1]

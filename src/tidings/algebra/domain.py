"""The domain of an attribute: the set of values that a conjunction of constraints leaves it.

Rules
- A domain is exact: whether absent is in it, intervals for each kind (of lists and opaque values all or
  none), and, on strings, the patterns that intervals cannot hold. A domain with a pattern contains strings
  only.
- Prefixes, `LIKE 'a%'`, `MATCHES 'a/#'`, `REGEXP '^a'` are intervals; so are their negations.
- Questions that patterns may leave open answer True, False or None (not known).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from tidings.algebra import intervals as iv
from tidings.algebra import strings
from tidings.algebra.intervals import EMPTY, FULL, Intervals
from tidings.algebra.strings import LIKE, REGEXP, TOPIC, Pattern
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
from tidings.model.pattern import like_parts, like_prefix
from tidings.model.topic import ROOT, is_pattern
from tidings.model.value import Kind, Value, is_null, kind_of

Kinds: TypeAlias = tuple[Intervals, Intervals, Intervals, Intervals, Intervals]  # by Kind

_NO_KIND: Kinds = (EMPTY, EMPTY, EMPTY, EMPTY, EMPTY)
_EVERY_KIND: Kinds = (FULL, FULL, FULL, FULL, FULL)


class Domain(NamedTuple):
    """A set of values of one attribute, absent included."""

    absent: bool
    kinds: Kinds
    patterns: tuple[Pattern, ...] = ()

    @property
    def strings(self) -> Intervals:
        return self.kinds[Kind.STRING]

    def accepts(self, value: Any) -> bool:
        """Is the value (None: absent) in the set?"""
        kind = kind_of(value)
        if kind is None:
            return self.absent if is_null(value) else bool(self.kinds[Kind.OTHER])
        cut = iv.before(value)
        inside = any(start <= cut < end for start, end in self.kinds[kind])
        return inside and all(type(value) is str and p.accepts(value) for p in self.patterns)


SOME_LIST = ()  # of the kind OTHER, as filters see it
ANYTHING = Domain(True, _EVERY_KIND)
PRESENT = Domain(False, _EVERY_KIND)
ABSENT = Domain(True, _NO_KIND)
NOTHING = Domain(False, _NO_KIND)
STRINGS = Domain(False, (EMPTY, EMPTY, FULL, EMPTY, EMPTY))


def domain_of(constraint: Constraint) -> Domain:
    """The values that a constraint accepts."""
    match constraint:
        case Equals(value=value):
            return of_values([value])
        case OneOf(values=values):
            return of_values(values)
        case NotOneOf(values=values):
            return _none_of(values)
        case Range():
            return _range(constraint)
        case Prefix(prefix=prefix):
            return of_strings(iv.prefixed(prefix))
        case Exists():
            return PRESENT
        case Missing():
            return ABSENT
        case Like() | Regexp() | TopicIs():
            return _pattern_domain(constraint)
    return NOTHING  # IsA accepts lineages, which are no values


def of_strings(intervals: Intervals, patterns: tuple[Pattern, ...] = ()) -> Domain:
    return Domain(False, (EMPTY, EMPTY, intervals, EMPTY, EMPTY), patterns)


def of_kind(kind: Kind, intervals: Intervals) -> Domain:
    kinds = tuple(intervals if kind is k else EMPTY for k in Kind)
    return Domain(False, kinds)  # type: ignore[arg-type]


def of_values(values: Iterable[Any]) -> Domain:
    """The set of just these values; NULLs among them are never accepted."""
    by_kind: list[list[Any]] = [[] for _ in Kind]
    for value in values:
        kind = kind_of(value)
        if kind is not None:
            by_kind[kind].append(value)
    return Domain(False, tuple(iv.points(found) for found in by_kind))  # type: ignore[arg-type]


def _none_of(values: tuple[Any, ...]) -> Domain:
    kinds = {kind_of(value) for value in values}
    if not values:
        return PRESENT
    kind = kinds.pop()
    if kinds or kind is None:
        return NOTHING
    return of_kind(kind, iv.complement(iv.points(list(values))))


def _range(constraint: Range) -> Domain:
    low, high = constraint.low, constraint.high
    if (low is not None and kind_of(low) is None) or (high is not None and kind_of(high) is None):
        return NOTHING
    return of_kind(constraint.kind, iv.between(low, high, constraint.low_open, constraint.high_open))


def _pattern_domain(constraint: Like | Regexp | TopicIs) -> Domain:
    text, negated = constraint.pattern, constraint.negated
    if isinstance(constraint, Like):
        exact, kind, prefix = _like_intervals(text), LIKE, like_prefix(text)
    elif isinstance(constraint, TopicIs):
        exact, kind, prefix = _topic_intervals(text), TOPIC, text.partition("+")[0]
    else:
        like = strings.literal_regexp(text)
        if like is not None:
            return _pattern_domain(Like(constraint.attribute, like, negated))
        exact, kind, prefix = None, REGEXP, strings.regexp_prefix(text)
    if exact is not None:
        return of_strings(iv.complement(exact) if negated else exact)
    return of_strings(FULL if negated else iv.prefixed(prefix), (Pattern(kind, text, negated),))


def _like_intervals(pattern: str) -> Intervals | None:
    """The strings of a LIKE that is a literal or a prefix."""
    first, *rest = like_parts(pattern)
    if None in first or any(rest):
        return None
    text = "".join(ch or "" for ch in first)
    return iv.prefixed(text) if rest else (iv.point(text),)


def _topic_intervals(pattern: str) -> Intervals | None:
    """The strings of a topic pattern without `+` before its end."""
    if not is_pattern(pattern):
        return (iv.point(pattern),)
    if pattern == "#":
        return FULL
    if pattern == "+/#":
        return iv.complement((iv.point(ROOT),))
    if "+" in pattern:
        return None
    topic = pattern.removesuffix("/#")
    return iv.union((iv.point(topic),), iv.prefixed(topic + "/"))


def intersection(one: Domain, other: Domain) -> Domain:
    kinds = tuple(iv.intersection(a, b) for a, b in zip(one.kinds, other.kinds, strict=True))
    patterns = one.patterns
    if other.patterns and other.patterns != patterns:
        patterns = tuple(sorted({*patterns, *other.patterns}))
    return Domain(one.absent and other.absent, kinds, patterns)  # type: ignore[arg-type]


def difference(one: Domain, other: Domain) -> list[Domain]:
    """The values of `one` outside `other`, as disjoint domains; empty ones may be among them."""
    kinds = tuple(iv.difference(a, b) for a, b in zip(one.kinds, other.kinds, strict=True))
    pieces = [Domain(one.absent and not other.absent, kinds, one.patterns)]  # type: ignore[arg-type]
    common = iv.intersection(one.strings, other.strings)
    kept = one.patterns
    for pattern in other.patterns:
        if pattern not in kept:
            pieces.append(of_strings(common, tuple(sorted({*kept, pattern.negation()}))))
            kept = (*kept, pattern)
    return pieces


def decide_empty(domain: Domain) -> bool | None:
    """Is the set empty?"""
    if domain.patterns:
        return strings.decide_empty(domain.strings, domain.patterns)
    return not domain.absent and domain.kinds == _NO_KIND


def decide_within(small: Domain, large: Domain) -> bool | None:
    """Is every value of `small` in `large`?"""
    if not small.patterns and not large.patterns:
        return (large.absent or not small.absent) and all(
            iv.within(a, b) for a, b in zip(small.kinds, large.kinds, strict=True)
        )
    unknown = False
    for piece in difference(small, large):
        empty = decide_empty(piece)
        if empty is False:
            return False
        unknown = unknown or empty is None
    return None if unknown else True


def decide_disjoint(one: Domain, other: Domain) -> bool | None:
    """Is there no value in both?"""
    return decide_empty(intersection(one, other))


def values_of(domain: Domain) -> list[Value] | None:
    """All values of a finite domain without absent, else None."""
    if domain.absent or domain.kinds[Kind.OTHER]:
        return None
    result: list[Value] = []
    for kind in Kind:
        found = iv.values_of(kind, domain.kinds[kind])
        if found is None:
            return None
        result.extend(found)
    return [value for value in result if domain.accepts(value)]


def some_value(domain: Domain) -> Any:
    """A value of a domain that is not empty; None when only absent is in it, or no text was found."""
    if domain.patterns:
        return strings.some_string(domain.strings, domain.patterns)
    for kind in (Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.TIME):
        if domain.kinds[kind]:
            return iv.some_value(kind, domain.kinds[kind][0])
    return SOME_LIST if domain.kinds[Kind.OTHER] else None

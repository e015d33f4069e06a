"""Can a filter ever match? One answer for checks, doubts, tables of subscriptions and overlaps.

Rules
- False is said only of a filter that no event matches: no event that a publisher can make, and no row of a
  table, in which a name of the event itself may be absent but has its own kind.
- True is said only where an event that a publisher can make matches.
- Computed conditions never make a True: they are read for contradictions only (see `terms`). Reading them
  has a budget for each question; past it they hide the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from tidings.algebra import domain as dm
from tidings.algebra.domain import ANYTHING, Domain
from tidings.algebra.region import Region, intersection, regions_of
from tidings.algebra.terms import contradicts
from tidings.model.constraint import Constraint, Equals, Exists, Missing, OneOf, Prefix, Range, TopicIs
from tidings.model.event import RESERVED
from tidings.model.expression import Expression
from tidings.model.filter import TIDINGS, Conjunction, Filter
from tidings.model.topic import is_topic
from tidings.model.value import kind_of

READ_BUDGET = 1 << 18  # bytes of computed conditions, encoded, of one question: about 0.1 s


def can_match(filter: Filter) -> bool | None:
    """Can the filter match an event? True: an event matches it. False: none ever does. None: not known."""
    if any(_is_plain(conjunction) for conjunction in filter.conjunctions):
        return True
    question = _Question()
    return question.any_holds(
        (region, residuals_of(filter.dialect, conjunction))
        for conjunction, region in zip(filter.conjunctions, regions_of(filter), strict=True)
    )


def decide_common(one: Filter, other: Filter) -> bool | None:
    """Can an event match both filters?"""
    question = _Question()
    return question.any_holds(
        (
            intersection(first_region, second_region),
            (*residuals_of(one.dialect, first), *residuals_of(other.dialect, second)),
        )
        for first, first_region in zip(one.conjunctions, regions_of(one), strict=True)
        for second, second_region in zip(other.conjunctions, regions_of(other), strict=True)
    )


def residuals_of(dialect: str, conjunction: Conjunction) -> tuple[Expression, ...]:
    """The computed conditions that the algebra reads."""
    return conjunction.residuals if dialect == TIDINGS else ()


class _Question:
    """One question, with what is left of its budget."""

    def __init__(self) -> None:
        self._left = READ_BUDGET

    def any_holds(self, parts: Iterable[tuple[Region, tuple[Expression, ...]]]) -> bool | None:
        """Can one of the parts hold: its region, and its computed conditions?"""
        unknown = False
        for region, residuals in parts:
            verdict = self._holds(region, residuals)
            if verdict:
                return True
            unknown = unknown or verdict is None
        return None if unknown else False

    def _holds(self, region: Region, residuals: tuple[Expression, ...]) -> bool | None:
        seen = region.of_rows
        if seen.is_empty:
            return False
        if seen is region and not region.unpublishable:  # no residual, and no name of the event itself
            return True if seen.is_empty is False else None
        if not region.residuals:
            events = region.of_events.without(region.unpublishable)
            return True if events.is_empty is False and _has_topic(events.domain("topic")) else None
        self._left -= sum(map(len, region.residuals))
        return False if residuals and self._left >= 0 and contradicts(seen.domains, residuals) else None


def _is_plain(conjunction: Conjunction) -> bool:
    """Is it surely met by an event: one constraint for each attribute, each with a value? No when in doubt.
    The short way for tables of many filters."""
    names = {constraint.attribute for constraint in conjunction.constraints}
    return (
        not conjunction.residuals
        and len(names) == len(conjunction.constraints)
        and all(map(_has_value, conjunction.constraints))
    )


def _has_value(constraint: Constraint) -> bool:
    """Has an event such a value?"""
    name = constraint.attribute
    if name == "topic":
        return _has_named_topic(constraint)
    if name in RESERVED or ("." in name and name.partition(".")[0] in RESERVED):
        return False
    if isinstance(constraint, Equals):
        return kind_of(constraint.value) is not None
    if isinstance(constraint, OneOf):
        return any(kind_of(value) is not None for value in constraint.values)
    if isinstance(constraint, Range):
        low, high = constraint.low, constraint.high
        if not all(
            bound is None or (type(bound) in (int, float) and isfinite(bound)) for bound in (low, high)
        ):
            return False
        return low is None or high is None or low < high  # between two numbers lies a decimal
    return isinstance(constraint, Prefix | Exists | Missing)


def _has_named_topic(constraint: Constraint) -> bool:
    """Can an event have a topic that the constraint names, as a text or a pattern?"""
    if isinstance(constraint, TopicIs) and not constraint.negated:
        return is_topic(constraint.pattern.removesuffix("/#").replace("+", "x").replace("#", "x"))
    if isinstance(constraint, Equals):
        return type(constraint.value) is str and is_topic(constraint.value)
    return isinstance(constraint, Exists | Missing)


def _has_topic(domain: Domain) -> bool:
    """Is no topic, or a topic that an event can have, surely in the domain?"""
    if domain is ANYTHING or domain.absent:
        return True
    text = dm.some_value(domain)
    if type(text) is not str:
        return False
    tried = (text, text.replace("\0", "x"), text + "x", "x" + text, text.strip("/"))
    return any(is_topic(topic) and domain.accepts(topic) for topic in tried)

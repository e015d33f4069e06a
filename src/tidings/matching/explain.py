"""Why a filter accepts an event, or why not: the walk of matching, written down.

Every constraint is asked with the same `accepts` as in matching and every residual is evaluated by
the same programs; the only difference is that the walk does not stop at the first failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from tidings.language import cesql, print_constraint, print_expression, print_value
from tidings.language.evaluate import evaluate, is_unknown, residual_test
from tidings.language.work import BUDGET, constraint_weight, is_over, work_of_expression
from tidings.model.constraint import Constraint, Equals, Exists, IsA, Missing, NotOneOf, OneOf, Range
from tidings.model.event import Event
from tidings.model.expression import Expression
from tidings.model.filter import CESQL, Conjunction, Filter
from tidings.model.value import Kind, kind_of

_KIND_NAMES = {Kind.BOOL: "a boolean", Kind.NUMBER: "a number", Kind.STRING: "a string", Kind.TIME: "a time"}
_OVER = "over the work budget"
_WIDEST = 80  # characters of a value in the rendering


class ConstraintTrace(msgspec.Struct, frozen=True):
    """One constraint: what it wants, what the event has, and why it does not hold."""

    attribute: str
    wanted: str
    value: Any  # None: the event has no such attribute
    held: bool
    reason: str | None = None  # None when it holds


class ResidualTrace(msgspec.Struct, frozen=True):
    """One residual: its text and its value; None is unknown."""

    wanted: str
    value: Any
    held: bool
    reason: str | None = None


class ConjunctionTrace(msgspec.Struct, frozen=True):
    """One way to be accepted: it holds when all its parts do."""

    held: bool
    constraints: tuple[ConstraintTrace, ...]
    residuals: tuple[ResidualTrace, ...]


class Explanation(msgspec.Struct, frozen=True):
    """Accepted when one conjunction holds; a filter without any is never true."""

    filter: str
    source: str
    id: str
    accepted: bool
    conjunctions: tuple[ConjunctionTrace, ...]
    over_budget: bool = False  # unknown: its patterns times the event's texts cost more than the work budget

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain(event: Event, filter: Filter) -> Explanation:
    """Why the filter accepts the event or not, constraint by constraint; over budget no part with a weight is
    evaluated."""
    over = is_over(filter, event)
    traces = tuple(_conjunction(event, part, filter.dialect, over=over) for part in filter.conjunctions)
    accepted = any(trace.held for trace in traces)
    return Explanation(
        filter.text, event.source, event.id, accepted, traces, over_budget=is_unknown(filter, event)
    )


def _conjunction(event: Event, part: Conjunction, dialect: str, *, over: bool) -> ConjunctionTrace:
    constraints = tuple(
        ConstraintTrace(each.attribute, print_constraint(each), event.view.get(each.attribute), False, _OVER)
        if over and constraint_weight(each)
        else _constraint(event, each)
        for each in part.constraints
    )
    residuals = tuple(
        ResidualTrace(print_expression(each), None, False, _OVER)
        if over and (dialect == CESQL or work_of_expression(each))
        else _residual(event, each, dialect)
        for each in part.residuals
    )
    held = all(trace.held for trace in constraints) and all(trace.held for trace in residuals)
    return ConjunctionTrace(held, constraints, residuals)


def _constraint(event: Event, constraint: Constraint) -> ConstraintTrace:
    value = event.view.get(constraint.attribute)
    held = constraint.accepts(value)
    reason = None if held else _why_not(constraint, value)
    return ConstraintTrace(constraint.attribute, print_constraint(constraint), value, held, reason)


def _why_not(constraint: Constraint, value: Any) -> str:
    if isinstance(constraint, Missing):
        return "present"
    if value is None:
        return "absent"
    kind = kind_of(value)
    wanted = _kinds(constraint)
    if wanted and kind not in wanted:
        names = " or ".join(_KIND_NAMES[one] for one in sorted(wanted))
        return f"other kind: {_KIND_NAMES[kind]}, not {names}" if kind is not None else "other kind"
    return _mismatch(constraint)


def _kinds(constraint: Constraint) -> set[Kind]:
    """The kinds of values that the constraint could accept; none stands for any."""
    if isinstance(constraint, (Exists, Missing, IsA)):
        return set()
    if isinstance(constraint, Equals):
        values: tuple[Any, ...] = (constraint.value,)
    elif isinstance(constraint, (OneOf, NotOneOf)):
        values = constraint.values
    elif isinstance(constraint, Range):
        return {constraint.kind}
    else:
        return {Kind.STRING}
    return {kind for kind in map(kind_of, values) if kind is not None}


def _mismatch(constraint: Constraint) -> str:
    if isinstance(constraint, Range):
        return "out of range"
    if isinstance(constraint, Equals):
        return "not equal"
    if isinstance(constraint, OneOf):
        return "none of the values"
    if isinstance(constraint, NotOneOf):
        return "one of the values"
    if isinstance(constraint, IsA):
        return "not in the lineage" if not constraint.negated else "in the lineage"
    return "no match" if not getattr(constraint, "negated", False) else "a match"


def _residual(event: Event, residual: Expression, dialect: str) -> ResidualTrace:
    held = residual_test(residual, dialect)(event)
    if dialect == CESQL:
        value, errors = cesql.evaluate(residual, cesql.event_attributes(event))
        reason = ", ".join(errors) or ("false" if value is False else "not a boolean")
    else:
        value = evaluate(residual, event.view)
        reason = "unknown" if value is None else "false" if value is False else "not a boolean"
    return ResidualTrace(print_expression(residual), value, held, None if held else reason)


def _lines(explanation: Explanation) -> Iterator[str]:
    verdict = "accepts" if explanation.accepted else "does not accept"
    yield f"{explanation.filter or 'the filter'} {verdict} event {explanation.id} of {explanation.source}"
    if explanation.over_budget:
        yield f"  unknown: its patterns times the event's texts are over the work budget ({BUDGET})"
    if not explanation.conjunctions:
        yield "  this filter is never true"
    for trace in explanation.conjunctions:
        many = len(explanation.conjunctions) > 1
        if many:
            yield f"  {_mark(trace.held)} one of {len(explanation.conjunctions)} ways"
        indent = "    " if many else "  "
        if not trace.constraints and not trace.residuals:
            yield f"{indent}{_mark(True)} always true"
        for part in trace.constraints:
            yield f"{indent}{_mark(part.held)} {part.wanted}: {_shown(part.value)}{_because(part.reason)}"
        for rest in trace.residuals:
            value = _shown(rest.value) + _because(rest.reason) if rest.reason != "unknown" else "unknown"
            yield f"{indent}{_mark(rest.held)} {rest.wanted}: {value}"


def _mark(held: bool) -> str:
    return "yes" if held else "no "


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return " < ".join(value)
    text = str(value) if isinstance(value, float) and math.isinf(value) else print_value(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."

"""Why a filter accepts an event, or why not: the walk of matching, written down.

Every constraint is asked with the same `accepts` as in matching and every residual is evaluated by
the same programs; the only difference is that the walk does not stop at the first failure.

`explain` gives a program its own values back. `explain_briefly` makes answers for others: it cuts texts at
`WIDEST` characters, and leaves out parts once those that it has told hold `MOST_CHARACTERS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import NoneType
from typing import Any

import msgspec

from tidings.language import cesql, print_constraint, print_expression, print_value
from tidings.language.evaluate import accepts, evaluate, is_unknown, residual_test
from tidings.language.limits import DEFAULT_LIMITS
from tidings.language.work import BUDGET, constraint_weight, is_over, work_of_expression
from tidings.model.constraint import Constraint, Equals, Exists, IsA, Missing, NotOneOf, OneOf, Range
from tidings.model.event import Event
from tidings.model.expression import Expression
from tidings.model.filter import CESQL, Conjunction, Filter
from tidings.model.value import Kind, kind_of

_KIND_NAMES = {Kind.BOOL: "a boolean", Kind.NUMBER: "a number", Kind.STRING: "a string", Kind.TIME: "a time"}
_OVER = "over the work budget"
_WIDEST = 80  # characters of a value in the rendering
WIDEST = 256  # characters of a text in a brief explanation
MOST_CHARACTERS = 1 << 17  # that a brief explanation prints; more delays others, and makes long answers
MOST_NAMES = 64  # in the type of an event
_PART = 64  # characters that a part costs beside its texts


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
    left_out: int = 0  # conditions of a brief explanation that it does not tell

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


def explain_briefly(event: Event, filter: Filter) -> Explanation:
    """The same within bounds of work and size, for an answer to a client: `accepted` is what `explain` says.
    A conjunction that is cut short is told as held when those of its conditions hold that are told."""
    over, room = is_over(filter, event), _Room(MOST_CHARACTERS)
    traces: list[ConjunctionTrace] = []
    left_out = 0
    for part in filter.conjunctions:
        size = len(part.constraints) + len(part.residuals)
        if room.left > 0:
            trace = _brief_conjunction(event, part, filter.dialect, room, over=over)
            traces.append(trace)
            size -= len(trace.constraints) + len(trace.residuals)
        left_out += size
    return Explanation(
        _cut(filter.text, DEFAULT_LIMITS.text), _cut(event.source), _cut(event.id), accepts(filter, event),
        tuple(traces), over_budget=is_unknown(filter, event), left_out=left_out,
    )  # fmt: skip


class _Room:
    """Characters that may still be printed, and the texts of constraints that were printed before: the
    conjunctions of a normal form have many in common."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._printed: dict[int, str] = {}  # by id of the constraint or residual, which the filter keeps

    def text(self, part: Constraint | Expression) -> str:
        text = self._printed.get(id(part))
        if text is None:
            text = print_constraint(part) if isinstance(part, Constraint) else print_expression(part)
            self.left -= len(text)
            text = self._printed[id(part)] = _cut(text)
        self.left -= len(text) + _PART
        return text


def _brief_conjunction(
    event: Event, part: Conjunction, dialect: str, room: _Room, *, over: bool
) -> ConjunctionTrace:
    constraints: list[ConstraintTrace] = []
    residuals: list[ResidualTrace] = []
    for constraint in part.constraints:
        if room.left <= 0:
            break
        found = _constraint_trace(event, constraint, room.text(constraint), over=over)
        shown = _cut_value(found.value)
        room.left -= _size(shown) + min(len(found.attribute), WIDEST)
        constraints.append(msgspec.structs.replace(found, attribute=_cut(found.attribute), value=shown))
    for residual in part.residuals:
        if room.left <= 0:
            break
        rest = _residual_trace(event, residual, dialect, room.text(residual), over=over)
        value, reason = _cut_value(rest.value), None if rest.reason is None else _cut(rest.reason)
        room.left -= _size(value) + _size(reason)
        residuals.append(msgspec.structs.replace(rest, value=value, reason=reason))
    return _conjunction_trace(tuple(constraints), tuple(residuals))


def _cut(text: str, most: int = WIDEST) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else 8


def _cut_value(value: Any) -> Any:
    """The value, or a short text about it."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, bool | float | NoneType):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= WIDEST else f"an integer of {value.bit_length()} bits"
    if isinstance(value, tuple | list | dict):
        text = _lineage(value) or f"{len(value)} elements"
        return value if _is_small(value) else _cut(text)
    return value if len(text := str(value)) <= WIDEST else _cut(text)


def _is_small(value: Any) -> bool:
    """Does a list or a mapping hold few, short values and no lists?"""
    if len(value) > WIDEST // 16:
        return False
    parts = [*value, *value.values()] if isinstance(value, dict) else list(value)
    return all(isinstance(part, int | float | str | NoneType) and len(str(part)) <= 16 for part in parts)


def _conjunction(event: Event, part: Conjunction, dialect: str, *, over: bool) -> ConjunctionTrace:
    constraints = tuple(
        _constraint_trace(event, each, print_constraint(each), over=over) for each in part.constraints
    )
    residuals = tuple(
        _residual_trace(event, each, dialect, print_expression(each), over=over) for each in part.residuals
    )
    return _conjunction_trace(constraints, residuals)


def _conjunction_trace(
    constraints: tuple[ConstraintTrace, ...], residuals: tuple[ResidualTrace, ...]
) -> ConjunctionTrace:
    is_true = all(each.held for each in constraints) and all(each.held for each in residuals)
    return ConjunctionTrace(is_true, constraints, residuals)


def _constraint_trace(event: Event, constraint: Constraint, wanted: str, *, over: bool) -> ConstraintTrace:
    value = event.view.get(constraint.attribute)
    if over and constraint_weight(constraint):
        return ConstraintTrace(constraint.attribute, wanted, value, False, _OVER)
    is_true = constraint.accepts(value)
    reason = None if is_true else _why_not(constraint, value)
    return ConstraintTrace(constraint.attribute, wanted, value, is_true, reason)


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


def _residual_trace(
    event: Event, residual: Expression, dialect: str, wanted: str, *, over: bool
) -> ResidualTrace:
    if over and (dialect == CESQL or work_of_expression(residual)):
        return ResidualTrace(wanted, None, False, _OVER)
    is_true = residual_test(residual, dialect)(event)
    if dialect == CESQL:
        value, errors = cesql.evaluate(residual, cesql.event_attributes(event))
        reason = ", ".join(errors) or ("false" if value is False else "not a boolean")
    else:
        value = evaluate(residual, event.view)
        reason = "unknown" if value is None else "false" if value is False else "not a boolean"
    return ResidualTrace(wanted, value, is_true, None if is_true else reason)


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
    if explanation.left_out:
        yield f"  and {explanation.left_out} conditions that are not told here"


def _mark(held: bool) -> str:
    return "yes" if held else "no "


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        value = value[: _WIDEST + 1]  # it is cut below
    is_plain = kind_of(value) is not None and not (isinstance(value, float) and math.isinf(value))
    text = print_value(value) if is_plain else _lineage(value) or str(_cut_value(value))
    return _cut(text, _WIDEST)


def _lineage(value: Any) -> str:
    """The names of a type, from itself to its root; empty for another value."""
    if not isinstance(value, tuple) or not 0 < len(value) <= MOST_NAMES:
        return ""
    names = [each[:WIDEST] for each in value if isinstance(each, str)]
    return " < ".join(names) if len(names) == len(value) else ""

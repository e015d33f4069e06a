"""The work budget of filter evaluation: how much looking at one event may cost, by filter and event alone.

RE2 is linear in the text *times* the pattern, and so is every other way to search. A filter therefore has a
*weight* for each attribute with a text that it searches or computes with, and matching an event costs the sum
of weight times length (in characters) over those attributes. Rules
- A filter that costs more than `BUDGET` for an event is unknown for it: the event is not delivered by it,
  which is counted and reported. It is unknown as a whole, before anything is evaluated, so that no engine's
  order matters.
- If filters only route (a covering filter, a request for a replay), over budget counts as a match of all
  filters with a weight: the subscriptions behind the filter may have a smaller one (`WorkIndex.may_accept`).
- The weight belongs to the normal form, with every repetition: that is what engines evaluate. It does not
  depend on the library or the engine, so that a broker, a compiled table and Spark agree.
- A filter with regular expressions that together are above `MOST_COMPILED` (of a store or a broker of an
  earlier version: a new one is refused, limit `patterns`) is over budget for every text that they would
  search.
- Equality, order, prefixes and membership have no weight: they look at no more text than the filter has.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from tidings.language.lists import names_in, prefixes
from tidings.language.measure import walk
from tidings.model import expression as e
from tidings.model.constraint import Constraint, Like, Regexp, TopicIs
from tidings.model.event import Event
from tidings.model.filter import CESQL, Filter
from tidings.model.pattern import compiled_weight, like_weight, regexp_weight

BUDGET = 1 << 20  # characters of text times weight: about 1 ms for a plain pattern, 20 ms for a hostile one
MOST_COMPILED = 1 << 17  # steps of all regular expressions of a filter; compiling more takes long
TOPIC_WEIGHT = 1
ELEMENT_WEIGHT = 4  # of a condition on an element of a list, for each of its parts
TOPIC = "topic"

Work: TypeAlias = tuple[tuple[str, int], ...]  # attributes, and how often their text is gone through

_PATTERNS: dict[type, Any] = {
    e.LikeTest: lambda node: like_weight(node.pattern),
    e.RegexpTest: lambda node: regexp_weight(node.pattern),
    e.TopicTest: lambda node: TOPIC_WEIGHT,
}


def work_of(filter: Filter) -> Work:
    """The filter's weights by attribute; empty for most filters. Computed once."""
    work: Work | None = filter.__dict__.get("_work")
    if work is None:
        weights: dict[str, int] = {}
        for conjunction in filter.conjunctions:
            for constraint in conjunction.constraints:
                if weight := constraint_weight(constraint):
                    _add(weights, constraint.attribute, weight)
            for residual in conjunction.residuals:
                for name, weight in _weights(residual):
                    _add(weights, name, weight)
        patterns = _patterns(filter)
        if sum(map(compiled_weight, set(patterns.values()))) > MOST_COMPILED:
            weights.update((name, BUDGET + 1) for name, _ in patterns)
        work = filter.__dict__["_work"] = tuple(sorted(weights.items()))
    return work


def _patterns(filter: Filter) -> dict[tuple[str, str], str]:
    """The regular expressions of a filter's constraints, by attribute and pattern."""
    return {
        (constraint.attribute, constraint.pattern): constraint.pattern
        for conjunction in filter.conjunctions
        for constraint in conjunction.constraints
        if isinstance(constraint, Regexp)
    }


def work_of_expression(expression: e.Expression) -> Work:
    """The same of an expression as it is written."""
    weights: dict[str, int] = {}
    for name, weight in _weights(expression):
        _add(weights, name, weight)
    return tuple(sorted(weights.items()))


def constraint_weight(constraint: Constraint) -> int:
    """Number of passes of the constraint over its attribute's text."""
    if isinstance(constraint, Like):
        return like_weight(constraint.pattern)
    if isinstance(constraint, Regexp):
        return regexp_weight(constraint.pattern)
    return TOPIC_WEIGHT if isinstance(constraint, TopicIs) and constraint.attribute != TOPIC else 0


def within_budget(constraint: Constraint) -> Callable[[Any], bool]:
    """The constraint's `accepts` for engines that test constraints before they know the filter: a text that
    is too long for this one constraint is not looked at, since every filter that has it is over budget."""
    weight, accepts = constraint_weight(constraint), constraint.accepts
    if not weight:
        return accepts
    return lambda value: not (type(value) is str and weight * len(value) > BUDGET) and accepts(value)


def _add(weights: dict[str, int], name: str, weight: int) -> None:
    weights[name] = weights.get(name, 0) + weight


def _weights(node: e.Expression, weight: int = 0) -> Iterator[tuple[str, int]]:
    """The attributes below a node, each with its weight: that of the pattern above it, or 1 inside a
    function."""
    if isinstance(node, e.Attribute):
        if weight:
            yield node.name, weight
        return
    if isinstance(node, e.TopicTest) and isinstance(node.operand, e.Attribute) and node.operand.name == TOPIC:
        return  # topics are short
    if type(node) in _PATTERNS:
        weight = max(weight, _PATTERNS[type(node)](node))
    elif isinstance(node, e.Call):
        weight = max(weight, 1)
    elif isinstance(node, e.AnyOf | e.AllOf):
        yield next(names_in(node.condition)), ELEMENT_WEIGHT * sum(1 for _ in walk(node.condition))
    for field in node.__struct_fields__:
        stored = getattr(node, field)
        for part in stored if isinstance(stored, tuple) else (stored,):
            if isinstance(part, e.ExpressionNode):
                yield from _weights(cast(e.Expression, part), weight)


def cost(work: Work, view: Mapping[str, Any]) -> int:
    """Cost of evaluation for the attributes of an event."""
    total = 0
    for name, weight in work:
        value = view.get(name)
        if type(value) is str:
            total += weight * len(value)
        elif value is None or type(value) is tuple:
            total += weight * _list_size(view, name)
    return total


_sizes: tuple[Any, dict[str, int]] = (None, {})  # of the lists of the view that was asked about last


def _list_size(view: Mapping[str, Any], name: str) -> int:
    """Elements and characters of the list that a name leads to; none for most events. Many filters ask about
    the lists of one event, one after the other."""
    global _sizes
    for position in prefixes(name):
        found = view.get(position)
        if type(found) is tuple:
            known = _sizes
            if known[0] is not view:
                known = _sizes = (view, {})
            if position not in known[1]:
                known[1][position] = _extent(found)
            return known[1][position]
    return 0


def _extent(value: Any) -> int:
    """Elements of a list, and characters of its texts, at every depth."""
    kind = type(value)
    if kind is tuple:
        return len(value) + sum(map(_extent, value))
    if kind is dict:
        return len(value) + sum(map(_extent, value.values()))
    return len(value) if kind is str else 0


def is_over(filter: Filter, event: Event) -> bool:
    """Is the filter over budget for the event, and so unknown?"""
    work = work_of(filter)
    if not work:
        return False
    if filter.dialect == CESQL:
        return cesql_cost(work, event.view) > BUDGET
    return cost(work, event.view) > BUDGET


def plain_parts_hold(filter: Filter, event: Event) -> bool:
    """Does one conjunction hold as far as its constraints without a weight say?"""
    value_of = event.view.get
    return any(
        all(c.accepts(value_of(c.attribute)) for c in conjunction.constraints if not constraint_weight(c))
        for conjunction in filter.conjunctions
    )


def cesql_cost(work: Work, view: Mapping[str, Any]) -> int:
    """The same where names are read without regard to case: each text that a name could mean counts."""
    lengths: dict[str, int] = {}
    for name, value in view.items():
        if type(value) is str:
            folded = name.lower()
            lengths[folded] = max(lengths.get(folded, 0), len(value))
    if "topic" in view:
        lengths["subject"] = max(lengths.get("subject", 0), len(view["topic"]))
    return sum(weight * lengths.get(name.lower(), 0) for name, weight in work)


class WorkIndex:
    """The weighted ones among many filters: which of them are over budget for an event, without
    asking each."""

    def __init__(self) -> None:
        self._work: dict[int, Filter] = {}  # by handle
        self._by_weight: list[tuple[int, int]] = []  # (total weight, handle), ascending

    def add(self, handle: int, filter: Filter) -> None:
        if total := sum(weight for _, weight in work_of(filter)):
            self._work[handle] = filter
            insort(self._by_weight, (total, handle))

    def remove(self, handle: int) -> None:
        filter = self._work.pop(handle, None)
        if filter is not None:
            self._by_weight.remove((sum(weight for _, weight in work_of(filter)), handle))

    def __bool__(self) -> bool:
        return bool(self._work)

    def over(self, event: Event) -> list[int]:
        """The handles of filters that are over budget for the event, ascending; almost always none."""
        if not self._by_weight:
            return []
        longest = longest_text(event)
        if self._by_weight[-1][0] * longest <= BUDGET:
            return []
        found = []
        for total, handle in reversed(self._by_weight):
            if total * longest <= BUDGET:
                break
            if is_over(self._work[handle], event):
                found.append(handle)
        return sorted(found)

    def may_accept(self, event: Event) -> list[int]:
        """Of these, the filters with weightless parts that hold: when filters route, they count
        as matches."""
        return [handle for handle in self.over(event) if plain_parts_hold(self._work[handle], event)]


def longest_text(event: Event) -> int:
    """The length of the longest text that filters see of the event."""
    texts = max((len(value) for value in event.view.values() if type(value) is str), default=0)
    if not event.rich:
        return texts
    return max(texts, max((_extent(v) for v in event.view.values() if type(v) is tuple), default=0))

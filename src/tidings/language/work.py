"""The work budget of filter evaluation: how much looking at one event may cost, by filter and event alone.

RE2 is linear in the text *times* the pattern, and so is every other way to search. A filter therefore has a
*weight* for each attribute with a text that it searches or computes with, and matching an event costs the sum
of weight times length (in characters) over those attributes. Rules
- When a filter costs more than `BUDGET` for an event, its conjunctions with a weight are unknown for it, all
  of them, before anything is evaluated, so that no engine's order matters. TRUE OR unknown is TRUE: a
  conjunction without a weight still accepts. A filter that stays unknown does not deliver the event, which is
  counted and reported.
- A condition on the elements of a list costs `ELEMENT_WEIGHT` for each of its parts and elements, and what it
  searches inside the list counts once; a text outside the list is searched for each element. `x IN name` is
  looked up among the elements (`lists.py`), which are gone through once.
- If filters only route (a covering filter, a request for a replay), over budget counts as a match of all
  filters with a weight: the subscriptions behind the filter may have a smaller one (`WorkIndex.may_accept`).
- The weight belongs to the normal form, with every repetition: that is what engines evaluate. It does not
  depend on the library or the engine, so that a broker, a compiled table and Spark agree.
- A filter with regular expressions that together are above `MOST_COMPILED` (of a store or a broker of an
  earlier version: a new one is refused, limit `patterns`) is over budget for every text that they would
  search.
- Equality, order, prefixes, membership and LENGTH of a name have no weight: they look at no more text than
  the filter has.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from tidings.language.lists import membership, names_in, prefixes
from tidings.language.measure import children, walk
from tidings.model import expression as e
from tidings.model.constraint import Constraint, Like, Regexp, TopicIs
from tidings.model.event import Event
from tidings.model.filter import CESQL, Conjunction, Filter
from tidings.model.pattern import compiled_weight, like_weight, regexp_weight

BUDGET = 1 << 20  # characters of text times weight: about 1 ms for a plain pattern, 20 ms for a hostile one
MOST_COMPILED = 1 << 17  # steps of all regular expressions of a filter; compiling more takes long
TOPIC_WEIGHT = 1
ELEMENT_WEIGHT = 4  # of a condition on an element of a list, for each of its parts
MEMBER_WEIGHT = 1  # of `x IN name`: a list of 65,536 elements is a sixteenth of the budget
TOPIC = "topic"

# Attributes, and how often their text is gone through: (name, weight), and inside ANY and ALL with the first
# name of each of these, whose elements are gone through. The name "" stands for the elements themselves.
Work: TypeAlias = tuple[tuple[Any, ...], ...]

_PATTERNS: dict[type, Any] = {
    e.LikeTest: lambda node: like_weight(node.pattern),
    e.RegexpTest: lambda node: regexp_weight(node.pattern),
    e.TopicTest: lambda node: TOPIC_WEIGHT,
}


def work_of(filter: Filter) -> Work:
    """The filter's weights by attribute; empty for most filters. Computed once."""
    work: Work | None = filter.__dict__.get("_work")
    if work is None:
        weights: Weights = {}
        for conjunction in filter.conjunctions:
            _add(weights, _conjunction_weights(conjunction))
        patterns = _patterns(filter)
        if sum(map(compiled_weight, set(patterns.values()))) > MOST_COMPILED:
            weights.update(((name,), BUDGET + 1) for name, _ in patterns)
        work = filter.__dict__["_work"] = _as_work(weights)
    return work


def _conjunction_weights(conjunction: Conjunction) -> Iterator[tuple[Path, int]]:
    for constraint in conjunction.constraints:
        if weight := constraint_weight(constraint):
            yield (constraint.attribute,), weight
    for residual in conjunction.residuals:
        yield from _weights(residual)


def has_work(conjunction: Conjunction) -> bool:
    """Has the conjunction a weight? Then it is unknown where its filter is over budget."""
    return any(True for _ in _conjunction_weights(conjunction))


def _as_work(weights: Weights) -> Work:
    return tuple((path[0], weight, *path[1:]) for path, weight in sorted(weights.items()))


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
    weights: Weights = {}
    _add(weights, _weights(expression))
    return _as_work(weights)


def without_work(expression: e.Expression) -> e.Expression:
    """The expression with NULL, which is unknown, in the place of each condition that has a weight."""
    if isinstance(expression, e.And | e.Or | e.Xor):
        return type(expression)(without_work(expression.left), without_work(expression.right))
    if isinstance(expression, e.Not):
        return e.Not(without_work(expression.operand))
    return e.Literal(None) if work_of_expression(expression) else expression


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


Path: TypeAlias = tuple[str, ...]  # a name, and the first names of the ANY and ALL around it
Weights: TypeAlias = dict[Path, int]


def _add(weights: Weights, more: Iterable[tuple[Path, int]]) -> None:
    for path, weight in more:
        weights[path] = weights.get(path, 0) + weight


def _weights(node: e.Expression, weight: int = 0, lists: Path = ()) -> Iterator[tuple[Path, int]]:
    """The attributes below a node, each with its weight: that of the pattern above it, or 1 inside a
    function."""
    if isinstance(node, e.Attribute):
        if weight:
            yield (node.name, *lists), weight
        return
    if isinstance(node, e.TopicTest) and isinstance(node.operand, e.Attribute) and node.operand.name == TOPIC:
        return  # topics are short
    if type(node) in _PATTERNS:
        weight = max(weight, _PATTERNS[type(node)](node))
    elif isinstance(node, e.Call):
        if node.function == "LENGTH" and all(isinstance(each, e.Attribute) for each in node.arguments):
            return
        weight = max(weight, 1)
    elif isinstance(node, e.AnyOf | e.AllOf):
        first = next(names_in(node.condition))
        yield ("", *lists, first), _element_weight(node)
        lists = (*lists, first)
    for child in children(node):
        yield from _weights(child, weight, lists)


def _element_weight(node: e.AnyOf | e.AllOf) -> int:
    if membership(node) is not None:
        return MEMBER_WEIGHT
    return ELEMENT_WEIGHT * sum(1 for _ in walk(node.condition))


def cost(work: Work, view: Mapping[str, Any]) -> int:
    """Cost of evaluation for the attributes of an event."""
    total = 0
    for name, weight, *lists in work:
        if lists:
            total += weight * _ranging_size(view, name, lists)
        else:
            value = view.get(name)
            if type(value) is str:
                total += weight * len(value)
    return total


def _ranging_size(view: Mapping[str, Any], name: str, lists: list[str]) -> int:
    """Characters that conditions on elements of lists look at under one name, or elements for none."""
    size, is_inside = 1, not name
    for position, elements, extent in {_list_at(view, first) for first in lists}:
        if position and name.startswith(position) and name[len(position) : len(position) + 1] in ("", "."):
            is_inside = True
            size *= extent
        else:
            size *= elements
    if is_inside:
        return size
    value = view.get(name)
    return size * len(value) if type(value) is str else 0


_sizes: tuple[Any, dict[str, tuple[str, int, int]]] = (None, {})  # of the view that was asked about last


def _list_at(view: Mapping[str, Any], first: str) -> tuple[str, int, int]:
    """The name of the list that a name leads to, its elements, and these with their characters; 1 of each
    without a list. Many filters ask about the lists of one event, one after the other."""
    global _sizes
    known = _sizes
    if known[0] is not view:
        known = _sizes = (view, {})
    found = known[1].get(first)
    if found is None:
        found = ("", 1, 1)
        for position in prefixes(first):
            stored = view.get(position)
            if type(stored) is tuple:
                found = (position, *_extent(stored))
                break
        known[1][first] = found
    return found


def _extent(value: Any) -> tuple[int, int]:
    """Elements of a list at every depth; and with the characters of its texts."""
    elements = extent = len(value)
    for part in value if type(value) is tuple else value.values():
        kind = type(part)
        if kind is str:
            extent += len(part)
        elif kind is tuple or kind is dict:
            more = _extent(part)
            elements += more[0]
            extent += more[1]
    return elements, extent


def is_over(filter: Filter, event: Event) -> bool:
    """Is the filter over budget for the event, and so every conjunction with a weight unknown?"""
    work = work_of(filter)
    if not work:
        return False
    if filter.dialect == CESQL:
        return cesql_cost(work, event.view) > BUDGET
    return cost(work, event.view) > BUDGET


def plain_parts_hold(filter: Filter, event: Event) -> bool:
    """Does a conjunction with a weight hold as far as its constraints without one say?"""
    value_of = event.view.get
    return any(
        has_work(conjunction)
        and all(c.accepts(value_of(c.attribute)) for c in conjunction.constraints if not constraint_weight(c))
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
    return sum(weight * lengths.get(name.lower(), 0) for name, weight, *_ in work)


def power_of(work: Work) -> int:
    """How many sizes of texts and lists a part of the cost multiplies at most."""
    return max((len(entry) - 1 - (entry[0] in ("", *entry[2:])) for entry in work), default=1)


def names_of(work: Work) -> list[str]:
    """The attributes whose texts and lists count."""
    return sorted({name for name, _, *lists in work for name in (name, *lists)} - {""})


def total_weight(work: Work) -> int:
    return sum(entry[1] for entry in work)


class WorkIndex:
    """The weighted ones among many filters: which of them are over budget for an event, without
    asking each."""

    def __init__(self) -> None:
        self._work: dict[int, Filter] = {}  # by handle
        self._by_weight: dict[int, list[tuple[int, int]]] = {}  # by power: (weight, handle), ascending

    def add(self, handle: int, filter: Filter) -> None:
        if work := work_of(filter):
            self._work[handle] = filter
            insort(self._by_weight.setdefault(power_of(work), []), (total_weight(work), handle))

    def remove(self, handle: int) -> None:
        filter = self._work.pop(handle, None)
        if filter is not None:
            work = work_of(filter)
            self._by_weight[power_of(work)].remove((total_weight(work), handle))

    def __bool__(self) -> bool:
        return bool(self._work)

    def filter(self, handle: int) -> Filter:
        return self._work[handle]

    def over(self, event: Event) -> list[int]:
        """The handles of filters that are over budget for the event, ascending; almost always none."""
        if not self._work:
            return []
        found = []
        longest = longest_text(event)
        for power, weights in self._by_weight.items():
            size = longest**power
            for total, handle in reversed(weights):
                if total * size <= BUDGET:
                    break
                if is_over(self._work[handle], event):
                    found.append(handle)
        return sorted(found)

    def may_accept(self, event: Event) -> list[int]:
        """Of these, the filters with weightless parts that hold: when filters route, they count
        as matches."""
        return [handle for handle in self.over(event) if plain_parts_hold(self._work[handle], event)]


def longest_text(event: Event) -> int:
    """The length of the longest text that filters see of the event, or of a list with its texts."""
    texts = max((len(value) for value in event.view.values() if type(value) is str), default=1)
    if not event.rich:
        return texts
    return max(texts, max((_extent(v)[1] for v in event.view.values() if type(v) is tuple), default=1))

"""A plain-Python index for some hundreds of subscriptions: no NumPy, no compilation.

Rules
- Each conjunction is filed once, under the *entry point* that the fewest others share; an event
  visits the entry points that its own attributes open, and tests what is left of each conjunction
  that it finds there.
- Entry points, best first: a value (`=`, `IN`), an element of a list (`x IN name`), a type name (`IS A`), the
  beginning of a text
  (`LIKE 'x%'`), the first level of a topic pattern, the presence of an attribute (ranges and all
  else that an absent value cannot satisfy).
- Conjunctions that need no attribute (IS NULL alone, a residual alone, TRUE) are tested for every event.
- A boolean is no number, though Python says True == 1: the two have different keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tidings.language.computing import expression_cost, pattern_cost
from tidings.language.evaluate import residual_test
from tidings.language.meter import WorkMeter
from tidings.language.unexpected import FAILURES
from tidings.language.work import has_work, is_over
from tidings.matching.acceptors import acceptor
from tidings.matching.matcher import Matches
from tidings.matching.naive import Handles, one_by_one
from tidings.model.constraint import Constraint, Equals, IsA, Missing, OneOf, Prefix, TopicIs
from tidings.model.event import ENVELOPE, NEVER_NULL, Event
from tidings.model.expression import AnyOf, Attribute, Compare, Expression, Literal
from tidings.model.filter import TIDINGS, Conjunction, Filter

Place: TypeAlias = tuple[str, Any]  # the kind of entry point, and its key
Bucket: TypeAlias = dict[tuple[int, int], "_CandidateTest"]  # (handle, number of the conjunction)

VALUE, NAME, START, LEVEL, PRESENT, ELEMENT = "value", "name", "start", "level", "present", "element"
_RANK = {VALUE: 0, NAME: 1, START: 2, LEVEL: 3, PRESENT: 4, ELEMENT: 1}
_SURE = {VALUE, NAME, START}  # being found there proves the constraint


class _CandidateTest:
    """Remaining tests of one conjunction, once an event has reached its entry point."""

    __slots__ = ("constraints", "costs", "handle", "pattern_cost", "residuals", "weighted")

    def __init__(self, handle: int, rest: Iterable[Constraint], part: Conjunction, filter: Filter) -> None:
        self.handle = handle
        self.weighted = filter if has_work(part) else None  # the filter, when this part of it has a weight
        self.constraints = [(constraint.attribute, acceptor(constraint)) for constraint in rest]
        self.residuals = [residual_test(residual, filter.dialect) for residual in part.residuals]
        self.costs = [expression_cost(residual) for residual in part.residuals]  # for the meter
        self.pattern_cost = pattern_cost(part)


class _AttributeIndex:
    """The entry points of one attribute, by kind."""

    __slots__ = ("elements", "has_texts", "lengths", "levels", "names", "present", "starts", "values")

    def __init__(self) -> None:
        self.present: dict[Any, Bucket] = {}  # under None
        self.values: dict[Any, Bucket] = {}
        self.elements: dict[Any, Bucket] = {}
        self.names: dict[Any, Bucket] = {}
        self.starts: dict[Any, Bucket] = {}
        self.levels: dict[Any, Bucket] = {}
        self.lengths: dict[int, int] = {}  # of the prefixes in `starts` -> how many buckets
        self.has_texts = False  # is anything filed by name, start or level?

    def keys(self, kind: str) -> dict[Any, Bucket]:
        if kind == ELEMENT:
            return self.elements
        by_kind = (self.values, self.names, self.starts, self.levels, self.present)
        return by_kind[_RANK[kind]]

    def bucket(self, location: Place) -> Bucket:
        kind, key = location
        keys = self.keys(kind)
        found = keys.get(key)
        if found is None:
            found = keys[key] = {}
            if kind == START:
                self.lengths[len(key)] = self.lengths.get(len(key), 0) + 1
            self.has_texts = bool(self.names or self.starts or self.levels)
        return found

    def size(self, location: Place) -> int:
        return len(self.keys(location[0]).get(location[1], ()))

    def drop(self, location: Place, entry: tuple[int, int]) -> None:
        kind, key = location
        keys = self.keys(kind)
        del keys[key][entry]
        if keys[key]:
            return
        del keys[key]
        if kind == START:
            self.lengths[len(key)] -= 1
            if not self.lengths[len(key)]:
                del self.lengths[len(key)]
        self.has_texts = bool(self.names or self.starts or self.levels)

    @property
    def is_empty(self) -> bool:
        return not (self.present or self.values or self.elements or self.has_texts)

    def opened_by_elements(self, value: Any) -> list[Bucket | None]:
        """Entries filed under the elements of a list, at any depth; a scalar is a list of one."""
        found: list[Bucket | None] = []
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if type(item) is tuple:
                waiting.extend(item)
            elif type(item) is not dict:
                found.append(self.elements.get(_key(item)))
        return found

    def opened_by_text(self, value: Any) -> list[Bucket | None]:
        """Entries filed under the names, prefixes and levels of a value."""
        if type(value) is tuple:
            return [self.names.get(name) for name in value if type(name) is str]
        if type(value) is not str:
            return []
        found = [self.starts.get(value[:length]) for length in self.lengths]
        if self.levels:
            found.append(self.levels.get(value.partition("/")[0]))
        return found


class SmallMatcher:
    """Entry points by attribute, and a list of what has none."""

    def __init__(self) -> None:
        self.meter: WorkMeter | None = None  # for the match that is made now
        self._handles = Handles()
        self._attributes: dict[str, _AttributeIndex] = {}
        self._everywhere: Bucket = {}
        self._beyond_body: set[int] = set()  # handles of filters with constraints on the envelope
        self._filed: dict[int, list[tuple[str | None, Place, tuple[int, int]]]] = {}

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        if any(
            constraint.attribute in ENVELOPE
            for each in filter.conjunctions
            for constraint in each.constraints
        ):
            self._beyond_body.add(handle)
        filed = self._filed[handle] = []
        for number, conjunction in enumerate(filter.conjunctions):
            self._file(filed, (handle, number), conjunction, filter)
        return handle

    def _file(
        self,
        filed: list[tuple[str | None, Place, tuple[int, int]]],
        key: tuple[int, int],
        conjunction: Conjunction,
        filter: Filter,
    ) -> None:
        choices = [
            (constraint, positions)
            for constraint in conjunction.constraints
            if (positions := _places(constraint))
        ]
        choices += [member for residual in conjunction.residuals for member in _members(residual, filter)]
        if not choices:
            self._everywhere[key] = _CandidateTest(key[0], conjunction.constraints, conjunction, filter)
            filed.append((None, (PRESENT, None), key))
            return
        chosen, positions = min(choices, key=self._cost)
        sure = positions[0][0] in _SURE
        rest = [c for c in conjunction.constraints if not (sure and c is chosen)]
        entry = _CandidateTest(key[0], rest, conjunction, filter)
        index = self._attributes.setdefault(chosen.attribute, _AttributeIndex())
        for location in positions:
            index.bucket(location)[key] = entry
            filed.append((chosen.attribute, location, key))

    def _cost(self, choice: tuple[Any, Sequence[Place]]) -> tuple[int, int, str]:
        """Fewer neighbours are better; the name decides between equals, so that runs are alike."""
        constraint, positions = choice
        index = self._attributes.get(constraint.attribute)
        candidates = sum(index.size(location) for location in positions) if index else 0
        return _RANK[positions[0][0]], candidates, constraint.attribute

    def remove(self, handle: int) -> None:
        for attribute, location, key in self._filed.pop(handle):
            if attribute is None:
                del self._everywhere[key]
                continue
            index = self._attributes[attribute]
            index.drop(location, key)
            if index.is_empty:
                del self._attributes[attribute]
        self._beyond_body.discard(handle)
        self._handles.give_back(handle)

    def match(self, event: Event, without: Collection[int] = ()) -> list[int]:
        """Handles of the filters that accept the event; of these only by parts without a weight."""
        attributes = self._attributes
        view: Mapping[str, Any] = event.body
        if self._beyond_body or event.rich or not NEVER_NULL.issuperset(map(type, view.values())):
            view = event.view
        found: list[int] = []
        meter = self.meter
        buckets: list[Bucket | None] = [self._everywhere] if self._everywhere else []
        for attribute in attributes:
            if attribute not in view:
                continue
            value, index = view[attribute], attributes[attribute]
            if index.present:
                buckets.append(index.present[None])
            if index.values and type(value) is not tuple:
                buckets.append(index.values.get(value if type(value) is not bool else ("bool", value)))
            if index.elements:
                buckets += index.opened_by_elements(value)
            if index.has_texts:
                buckets += index.opened_by_text(value)
        for bucket in buckets:
            if bucket is None:
                continue
            for entry in bucket.values():  # the inner loop: no calls but those of the tests
                if entry.weighted is not None and (entry.handle in without or is_over(entry.weighted, event)):
                    continue
                if meter is not None and not meter.pays(entry.handle, entry.pattern_cost):
                    continue
                try:
                    for attribute, holds in entry.constraints:
                        if not holds(view.get(attribute)):
                            break
                    else:
                        if not entry.residuals or (
                            all(residual(event) for residual in entry.residuals)
                            if meter is None
                            else meter.all_hold(entry.handle, entry.residuals, entry.costs, event)
                        ):
                            found.append(entry.handle)
                except Exception as error:
                    FAILURES.note(entry, view, error)
        return sorted(set(found)) if found[1:] else found

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:  # noqa: ARG002
        return 0

    def stats(self) -> dict[str, Any]:
        sizes = dict.fromkeys(_RANK, 0)
        for index in self._attributes.values():
            for kind in _RANK:
                sizes[kind] += sum(map(len, index.keys(kind).values()))
        entries = {f"by {kind}": size for kind, size in sizes.items()}
        return {
            "engine": "small",
            "filters": len(self._filed),
            **entries,
            "everywhere": len(self._everywhere),
        }


class _ListEntry(NamedTuple):
    """The list of a residual `x IN name`, in the place of a constraint."""

    attribute: str


def _members(residual: Expression, filter: Filter) -> Iterator[tuple[Any, list[Place]]]:
    """The entry point of `x IN name` for a constant and a name without a dot, which leads to no other
    list."""
    if filter.dialect != TIDINGS or not isinstance(residual, AnyOf):
        return
    condition = residual.condition
    if not isinstance(condition, Compare) or condition.op != "=":
        return
    name, value = condition.left, condition.right
    if (
        isinstance(name, Attribute)
        and isinstance(value, Literal)
        and "." not in name.name
        and name.name != "topic"
    ):
        yield _ListEntry(name.name), [(ELEMENT, _key(value.value))]


def is_filed_by_element(filter: Filter) -> bool:
    """Is every conjunction found by an element of a list? Columns would test each one for every list."""
    return bool(filter.conjunctions) and all(
        any(True for residual in conjunction.residuals for _ in _members(residual, filter))
        for conjunction in filter.conjunctions
    )


def _key(value: Any) -> Any:
    return ("bool", value) if type(value) is bool else value


def _places(constraint: Constraint) -> list[Place]:
    """Places to file a conjunction with this constraint; none if absence satisfies it."""
    if isinstance(constraint, Missing):
        return []
    if isinstance(constraint, Equals):
        return [(VALUE, _key(constraint.value))]
    if isinstance(constraint, OneOf):
        return [(VALUE, key) for key in dict.fromkeys(map(_key, constraint.values))]
    if isinstance(constraint, IsA) and not constraint.negated:
        return [(NAME, constraint.name)]
    if isinstance(constraint, Prefix):
        return [(START, constraint.prefix)]
    if isinstance(constraint, TopicIs) and not constraint.negated:
        level = constraint.pattern.partition("/")[0]
        return [(LEVEL, level)] if level not in ("+", "#") else [(PRESENT, None)]
    return [(PRESENT, None)]

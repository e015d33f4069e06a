"""Filters that are found by an element of a list, beside the tables of a columnar matcher.

A table has a row of an event, and a condition on elements none: it was asked of Python for each candidate.
Here the elements of a list are looked up instead. Rules
- `ANY(c)` is filed by the normal form of `c` under the list that its first name leads to: equalities with
  that name by value, all other conditions in a columnar matcher of their own, where each element is an event.
- Every alternative of `c` demands the first name, so that an event without the list is not looked at.
- `ALL(c)` is filed in the same way, and found by every element; by an empty list, all of them are. Of an OR
  of two on one list each is filed apart: every element satisfies the first, or every one the second.
- A filter that is no more than such conditions is accepted by its elements. Others, and all filters for an
  event that may be over a work budget, are candidates that the evaluator tests.
- A filter with a condition that a table files well, beside ranges on elements alone, stays in the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from tidings.errors import FilterError, FilterLimitError
from tidings.language.evaluate import accepts
from tidings.language.lists import elements_of, has_lists, names_in, prefixes
from tidings.language.normalise import normalise
from tidings.language.work import BUDGET, longest_text, power_of, total_weight, work_of
from tidings.model.constraint import Equals, Exists, IsA, Missing, OneOf
from tidings.model.event import RESERVED, Event
from tidings.model.expression import AllOf, AnyOf, Expression
from tidings.model.filter import TIDINGS, Conjunction, Filter

_FLAT = frozenset({str, int, float, bool})
_BY_VALUE = (Equals, OneOf)


class ElementEntry(NamedTuple):
    """A condition on the elements of one list: its alternatives, whether every element must satisfy it, and
    whether it is all that its conjunction asks for."""

    first: str
    names: frozenset[str]
    alternatives: tuple[Conjunction, ...]
    is_for_every: bool
    is_all: bool


def entries_of(filter: Filter) -> list[ElementEntry] | None:
    """An entry for each conjunction; None for a filter that belongs in a table."""
    if filter.dialect != TIDINGS or not filter.conjunctions:
        return None
    found = [_entry(conjunction) for conjunction in filter.conjunctions]
    return None if None in found else [entry for entry in found if entry is not None]


def _entry(conjunction: Conjunction) -> ElementEntry | None:
    for kind in (AnyOf, AllOf):
        for residual in conjunction.residuals:
            if isinstance(residual, kind):
                entry = _alternatives(residual.condition, conjunction, is_for_every=kind is AllOf)
                if entry is not None:
                    return entry
    return None


def _alternatives(
    condition: Expression, conjunction: Conjunction, *, is_for_every: bool
) -> ElementEntry | None:
    names = frozenset(names_in(condition))
    if has_lists(condition) or any(name.partition(".")[0] in RESERVED for name in names):
        return None
    try:
        inner = normalise(condition, text="")
    except (FilterError, FilterLimitError):
        return None
    first = next(names_in(condition))
    others = [each for each in conjunction.constraints if not isinstance(each, Exists)]
    for part in inner.conjunctions:
        own = [each for each in part.constraints if each.attribute == first and not isinstance(each, Missing)]
        if part.residuals or not own or any(isinstance(each, IsA) for each in part.constraints):
            return None
        if others and not any(isinstance(each, _BY_VALUE) for each in part.constraints):
            return None
    is_all = len(conjunction.residuals) == 1 and all(
        isinstance(each, Exists) and each.attribute == first and "." not in first
        for each in conjunction.constraints
    )
    return ElementEntry(first, names, inner.conjunctions, is_for_every, is_all)


_Place: TypeAlias = tuple[str, bool, int]  # name of a list, whether for every element, which of a filter's


def _places(entries: Iterable[ElementEntry]) -> Iterator[tuple[_Place, ElementEntry]]:
    """Where the entries of one filter are filed."""
    filed: Counter[str] = Counter()
    for entry in entries:
        number = filed[entry.first] if entry.is_for_every else 0
        filed[entry.first] += entry.is_for_every
        yield (entry.first, entry.is_for_every, number), entry


class _List:
    """The conditions on some element, or on every one, of the list that one name leads to."""

    def __init__(self, first: str, *, is_for_every: bool) -> None:
        self.first = first
        self.filed: set[int] | None = set() if is_for_every else None  # owners that an empty list satisfies
        self.positions = tuple(prefixes(first))
        self.needed: frozenset[str] = frozenset(self.positions)
        self.by_value: dict[Any, list[int]] = {}  # owners, by the value of an element
        self.matcher: Any = None  # of other conditions, where each element is an event
        self.owners: dict[int, int] = {}  # by handle of that matcher

    def add(self, owner: int, entry: ElementEntry) -> None:
        self.needed |= {prefix for name in entry.names for prefix in prefixes(name)}
        if self.filed is not None:
            self.filed.add(owner)
        for part in entry.alternatives:
            values = _values(part)
            for value in values or ():
                self.by_value.setdefault(_key(value), []).append(owner)
            if values is None:
                if self.matcher is None:
                    from tidings.matching.engine import columnar_matcher

                    self.matcher = columnar_matcher()
                self.owners[self.matcher.add(Filter("", (part,)))] = owner

    def remove(self, owner: int) -> None:
        if self.filed is not None:
            self.filed.discard(owner)
        self.by_value = {
            value: kept
            for value, owners in self.by_value.items()
            if (kept := [each for each in owners if each != owner])
        }
        for handle in [handle for handle, each in self.owners.items() if each == owner]:
            self.matcher.remove(handle)
            del self.owners[handle]

    def found(self, view: Mapping[str, Any]) -> Iterable[int]:
        """Owners of the conditions that hold for an element, or for every one."""
        if not any(position in view for position in self.positions):
            return ()
        found = map(self._holding, elements_of(view, self.positions, self.needed))
        if self.filed is None:
            return chain.from_iterable(found)
        common: set[int] | None = None
        for owners in found:
            common = set(owners) if common is None else common.intersection(owners)
            if not common:
                break
        return self.filed if common is None else common

    def _holding(self, element: Mapping[str, Any]) -> Iterator[int]:
        """Owners of the conditions that hold for this element."""
        value = element.get(self.first)
        if value is not None and type(value) is not tuple:
            yield from self.by_value.get(_key(value), ())
        if self.matcher is not None:
            owners = self.owners
            for handle in self.matcher.match(_event_of(element)).tolist():
                yield owners[handle]


def _values(part: Conjunction) -> tuple[Any, ...] | None:
    """The values of a lone equality with the first name; None for anything else."""
    if len(part.constraints) != 1:
        return None
    (only,) = part.constraints
    if isinstance(only, Equals):
        return (only.value,)
    return tuple(only.values) if isinstance(only, OneOf) else None


def _key(value: Any) -> Any:
    return ("bool", value) if type(value) is bool else value


def _event_of(element: Mapping[str, Any]) -> Event:
    """An element as an event of a matcher."""
    is_flat = all(type(value) in _FLAT for value in element.values())
    event = Event("", "", dict(element) if is_flat else {}, rich=not is_flat)
    event.__dict__["view"] = element
    return event


class ElementIndex:
    """The filters of a matcher that are found by elements of lists, by their handles."""

    def __init__(self) -> None:
        self.filters: dict[int, Filter] = {}
        self._is_all: dict[int, bool] = {}
        self._lists: dict[_Place, _List] = {}
        self._heaviest: dict[int, int] = {}  # by power: greatest weight of a filter here

    def __len__(self) -> int:
        return len(self.filters)

    def add(self, handle: int, filter: Filter, entries: list[ElementEntry]) -> None:
        self.filters[handle] = filter
        self._is_all[handle] = all(entry.is_all for entry in entries)
        work = work_of(filter)
        power = power_of(work)
        self._heaviest[power] = max(self._heaviest.get(power, 0), total_weight(work))
        for place, entry in _places(entries):
            if place not in self._lists:
                self._lists[place] = _List(entry.first, is_for_every=entry.is_for_every)
            self._lists[place].add(handle, entry)

    def remove(self, handle: int) -> None:
        for place, _ in _places(entries_of(self.filters.pop(handle)) or ()):
            self._lists[place].remove(handle)
        del self._is_all[handle]

    def match(self, event: Event, without: frozenset[int] = frozenset()) -> list[int]:
        """Handles of the filters that accept the event, each once, without some. When there are some, the
        others are evaluated one by one: their owners have a budget, and a look-up of each element none."""
        view = event.view
        if without:
            return [
                handle
                for handle, filter in self.filters.items()
                if handle not in without and accepts(filter, event)
            ]
        candidates = {handle for some in self._lists.values() for handle in some.found(view)}
        if not candidates:
            return []
        longest = longest_text(event)
        is_light = all(weight * longest**power <= BUDGET for power, weight in self._heaviest.items())
        is_all, filters = self._is_all, self.filters
        return [
            handle
            for handle in candidates
            if (is_light and is_all[handle]) or accepts(filters[handle], event)
        ]

    def matchers(self) -> Iterator[Any]:
        """The matchers of elements, which have upkeep of their own."""
        return (some.matcher for some in self._lists.values() if some.matcher is not None)


__all__ = ["ElementIndex", "entries_of"]

"""Predicate counting, the first of the two classical families (Virgillito 2003, section 2.4.2).

Phase one finds which of the distinct constraints hold for the event; phase two counts, for
each conjunction, how many of its constraints do, and takes the complete ones. Equal
constraints of many filters are tested once. The price is a count for every conjunction that
shares anything with the event: linear in the number of filters, where the grid is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.language.evaluate import budget_test, residual_test
from tidings.language.work import within_budget
from tidings.matching.matcher import Matches
from tidings.matching.naive import Handles, one_by_one
from tidings.model.constraint import Constraint, Equals, Kinds, OneOf, Range, exact_key
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.value import Kind, kind_of


class _AttributeConstraints:
    """The distinct constraints of one attribute, arranged for phase one."""

    def __init__(self) -> None:
        self.values: dict[tuple[Kind, Any], list[int]] = {}
        self.tests: list[tuple[Callable[[Any], bool], int]] = []
        self.ranges: list[tuple[float, float, int]] = []
        self.exactly: list[Callable[[Any], bool]] = []  # for each range, asked on its bounds
        self.arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None = None

    def add(self, constraint: Constraint, number: int) -> None:
        if isinstance(constraint, Equals | OneOf):
            values = (constraint.value,) if isinstance(constraint, Equals) else constraint.values
            for kind, value in dict.fromkeys((kind_of(value), value) for value in values):
                if kind is not None:
                    self.values.setdefault((kind, value), []).append(number)
        elif isinstance(constraint, Range) and _is_plain(constraint):
            low = -np.inf if constraint.low is None else float(constraint.low)
            high = np.inf if constraint.high is None else float(constraint.high)
            self.ranges.append((low, high, number))
            self.exactly.append(constraint.accepts)
        else:
            self.tests.append((within_budget(constraint), number))

    def holding(self, value: Any) -> Iterable[int]:
        """The numbers of the constraints that accept the value (None: absent)."""
        for accepts, number in self.tests:
            if accepts(value):
                yield number
        kind = kind_of(value)
        if kind is None:
            return
        yield from self.values.get((kind, value), ())
        if kind is Kind.NUMBER and self.ranges:
            yield from self._ranges_holding(value)

    def _ranges_holding(self, value: float) -> Iterable[int]:
        if self.arrays is None:
            low, high, numbers = zip(*self.ranges, strict=True)
            self.arrays = np.array(low), np.array(high), np.array(numbers)
        lows, highs, owners = self.arrays
        # rounding keeps the order: a value has its double within those of the bounds, and only a value
        # whose double is that of a bound may be on either side of it
        near = float(value)
        inside = (lows < near) & (near < highs)
        on_bound = np.nonzero((lows <= near) & (near <= highs) & ~inside)[0].tolist()
        requested = [int(owners[position]) for position in on_bound if self.exactly[position](value)]
        return [*owners[inside].tolist(), *requested]


def _is_plain(constraint: Range) -> bool:
    """Are both bounds numbers?"""
    return all(kind_of(b) is Kind.NUMBER for b in (constraint.low, constraint.high) if b is not None)


class CountingMatcher:
    """Two phases; arrays for the second are rebuilt after changes."""

    def __init__(self) -> None:
        self._handles = Handles()
        self._filters: dict[int, Filter] = {}
        self._stale = True

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        self._filters[handle] = filter
        self._stale = True
        return handle

    def remove(self, handle: int) -> None:
        del self._filters[handle]
        self._handles.give_back(handle)
        self._stale = True

    def match(self, event: Event) -> list[int]:
        if self._stale:
            self._rebuild()
        counts = np.zeros(len(self._needed), np.int32)
        value_of = event.view.get
        holding = [n for name, stored in self._attributes.items() for n in stored.holding(value_of(name))]
        if holding:
            users = [self._users[number] for number in holding]
            counts += np.bincount(np.concatenate(users), minlength=len(counts)).astype(np.int32)
        found: set[int] = set()
        for conjunction in np.nonzero(counts == self._needed)[0].tolist():
            if all(test(event) for test in self._residuals[conjunction]):
                found.add(self._owners[conjunction])
        return sorted(found)

    def _rebuild(self) -> None:
        numbers: dict[tuple[Constraint, Kinds], int] = {}
        users: list[list[int]] = []
        self._attributes: dict[str, _AttributeConstraints] = {}
        self._owners: list[int] = []
        self._residuals: list[list[Callable[[Event], bool]]] = []
        needed: list[int] = []
        for handle, filter in self._filters.items():
            for conjunction in filter.conjunctions:
                distinct = dict.fromkeys(map(exact_key, conjunction.constraints))
                for constraint, kinds in distinct:
                    number = numbers.setdefault((constraint, kinds), len(numbers))
                    if number == len(users):
                        users.append([])
                        self._attributes.setdefault(constraint.attribute, _AttributeConstraints()).add(
                            constraint, number
                        )
                    users[number].append(len(needed))
                needed.append(len(distinct))
                self._owners.append(handle)
                tests = (residual_test(r, filter.dialect) for r in conjunction.residuals)
                self._residuals.append([*budget_test(filter, conjunction), *tests])
        self._needed = np.array(needed, np.int32)
        self._users = [np.array(some) for some in users]
        self._stale = False

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:
        if self._stale and budget:
            self._rebuild()
        return 0

    def stats(self) -> dict[str, Any]:
        distinct = 0 if self._stale else len(self._users)
        return {
            "engine": "counting",
            "filters": len(self._filters),
            "constraints": distinct,
            "stale": self._stale,
        }

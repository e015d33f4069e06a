"""The work budget of an owner: how much all filters of one principal may cost for one event.

The budget of a filter (`work.py`) bounds each filter alone, and a quota allows thousands of them. Rules
- The filters of an owner are gone through in the order of their handles. Each whose parts without a weight
  hold adds its cost; beyond the budget this filter and the rest are unknown for the event, which is counted
  and reported as for a filter over its own budget.
- A condition on the elements of a list counts `RANGING` times: Python evaluates it for each element. A
  membership (`x IN name`), which is looked up, counts once.
- Parts of a filter without a weight are not affected: they still accept.
- Filters of other owners are not affected, and filters without an owner have no such budget.
- Owners are ordered by their total weight, so that an event with short texts asks none of them.
"""

from __future__ import annotations

from bisect import insort

from tidings.language.lists import has_lists, membership
from tidings.language.work import (
    BUDGET,
    cesql_cost,
    cost,
    longest_text,
    plain_parts_hold,
    power_of,
    total_weight,
    work_of,
)
from tidings.model.event import Event
from tidings.model.filter import CESQL, Filter

RANGING = 8  # measured: a unit of cost of a condition on elements takes 8 to 10 times that of a pattern


class OwnerWork:
    """The weighted filters of each owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._filters: dict[str, dict[int, Filter]] = {}  # by owner and handle
        self._owners: dict[int, str] = {}  # by handle
        self._totals: dict[str, int] = {}  # by owner: weight of all its filters
        self._by_total: list[tuple[int, str]] = []  # ascending
        self._products: dict[str, int] = {}  # by owner: filters that multiply a text with a list

    def add(self, handle: int, filter: Filter, owner: str) -> None:
        weight = _weight(filter)
        if owner and weight:
            self._owners[handle] = owner
            self._filters.setdefault(owner, {})[handle] = filter
            self._weigh(owner, weight)
            if power_of(work_of(filter)) > 1:
                self._products[owner] = self._products.get(owner, 0) + 1

    def remove(self, handle: int) -> None:
        owner = self._owners.pop(handle, None)
        if owner is not None:
            filter = self._filters[owner].pop(handle)
            if not self._filters[owner]:
                del self._filters[owner]
            self._weigh(owner, -_weight(filter))
            if power_of(work_of(filter)) > 1:
                self._products[owner] -= 1
                if not self._products[owner]:
                    del self._products[owner]

    def _weigh(self, owner: str, weight: int) -> None:
        before = self._totals.pop(owner, 0)
        if before:
            self._by_total.remove((before, owner))
        if before + weight:
            self._totals[owner] = before + weight
            insort(self._by_total, (before + weight, owner))

    def over(self, event: Event) -> frozenset[int]:
        """The handles of filters that are beyond the budget of their owners; almost always none."""
        found: set[int] = set()
        if self._by_total:
            longest = longest_text(event)
            asked = set(self._products) if longest * longest > self._most else set()
            for total, owner in reversed(self._by_total):
                if total * longest <= self._most:
                    break
                asked.add(owner)
            for owner in asked:
                found.update(self._over_of(self._filters[owner], event))
        return frozenset(found)

    def filter(self, handle: int) -> Filter:
        return self._filters[self._owners[handle]][handle]

    def _over_of(self, filters: dict[int, Filter], event: Event) -> list[int]:
        left, found = self._most, []
        for handle in sorted(filters):
            filter = filters[handle]
            price = _price(filter, event)
            if price and plain_parts_hold(filter, event):
                left -= price
                if left < 0:
                    found.append(handle)
        return found


def _factor(filter: Filter) -> int:
    is_ranging = any(
        has_lists(residual) and membership(residual) is None
        for part in filter.conjunctions
        for residual in part.residuals
    )
    return RANGING if is_ranging else 1


def _weight(filter: Filter) -> int:
    return total_weight(work_of(filter)) * _factor(filter)


def _price(filter: Filter, event: Event) -> int:
    """Cost of the filter for the event; 0 when it is over its own budget, and so not evaluated."""
    found = (cesql_cost if filter.dialect == CESQL else cost)(work_of(filter), event.view)
    return 0 if found > BUDGET else found * _factor(filter)

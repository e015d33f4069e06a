"""The meter of computing: what the filters of one owner compute for one event, counted while they do.

Rules
- Each expression and each pattern that Python evaluates is charged to the owner of its filter
  (`computing.py`). Beyond the budget, further ones of that owner count as unknown for this event; parts of a
  filter that compute nothing still accept.
- An engine asks the meter only for an event for which an owner could use up its budget (`needs`), and only
  while there is an owner for which that is possible (`is_used`): nearly never.
- The order in which an engine evaluates decides which filters are left out: a budget that is used up promises
  no order, as that of `owner_work.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidings.language.computing import LARGEST_FACTOR, computing_cost, number_factor
from tidings.model.event import Event
from tidings.model.filter import Filter


class WorkMeter:
    """The budgets of all owners for the event that is matched now."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: dict[int, str] = {}  # by handle: of filters that compute something
        self._totals: dict[str, int] = {}  # by owner
        self._largest = 0  # of the totals
        self._left: dict[str, int] = {}
        self._factor = 1
        self.is_needed = False  # could an owner use up its budget for the event that is matched now?
        self.beyond: set[int] = set()  # handles of filters that were left out

    @property
    def is_used(self) -> bool:
        return self._largest * LARGEST_FACTOR > self._most

    def needs(self, event: Event) -> bool:
        """Could an owner use up its budget for this event?"""
        return self._largest * number_factor(event) > self._most

    def add(self, handle: int, filter: Filter, owner: str) -> None:
        cost = computing_cost(filter)
        if owner and cost:
            self._owners[handle] = owner
            self._count(owner, cost)

    def remove(self, handle: int, filter: Filter) -> None:
        owner = self._owners.pop(handle, None)
        if owner is not None:
            self._count(owner, -computing_cost(filter))

    def _count(self, owner: str, cost: int) -> None:
        total = self._totals[owner] = self._totals.get(owner, 0) + cost
        if not total:
            del self._totals[owner]
        if cost > 0:
            self._largest = max(self._largest, total)
        elif total - cost == self._largest:
            self._largest = max(self._totals.values(), default=0)

    def begin(self, event: Event) -> None:
        """Begin with another event: every owner has its budget."""
        self._left.clear()
        self.beyond.clear()
        self._factor = number_factor(event)
        self.is_needed = self._largest * self._factor > self._most

    def pays(self, handle: int, cost: int) -> bool:
        """Charge the owner of this filter; False: the budget is used up."""
        owner = self._owners.get(handle) if cost else None
        if owner is None:
            return True
        left = self._left[owner] = self._left.get(owner, self._most) - cost * self._factor
        if left < 0:
            self.beyond.add(handle)
        return left >= 0

    def all_hold(
        self,
        handle: int,
        tests: Sequence[Callable[[Event], bool]],
        costs: Sequence[int],
        event: Event,
    ) -> bool:
        """Do all of these hold for the event? Each is charged before it is evaluated."""
        for test, cost in zip(tests, costs, strict=True):
            if not self.pays(handle, cost) or not test(event):
                return False
        return True

"""The three policies of assignment (Virgillito 2003, 2.4.3 and Table 2.1).

For every subscription and every event that it accepts, `assign` and `resolve` must meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidings.errors import SettingsError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.slots import Assignment


class AttributeCells(Protocol):
    """A partition of the attribute space (`tidings.algebra.cells`)."""

    @property
    def count(self) -> int: ...

    def assign(self, filter: Filter) -> Sequence[int]: ...

    def resolve(self, event: Event) -> Sequence[int]: ...


class AccessDriven(Assignment):
    """A subscription stays at the broker that its subscriber came to."""

    name = "access-driven"


class AllBrokers(Assignment):
    """Every broker holds every subscription; the publisher's broker matches."""

    name = "all brokers"

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = tuple(brokers)

    def assign(self, subscription: Subscription) -> tuple[str, ...]:
        return self.brokers

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        return (self.ports.name,)


class FilterDriven(Assignment):
    """The attribute space is cut into cells; cell k belongs to broker k (Figure 2.4)."""

    name = "filter-driven"

    def __init__(self, cells: AttributeCells, brokers: Sequence[str]) -> None:
        if not brokers:
            raise SettingsError("filter-driven assignment without brokers", hint="name at least one")
        self.cells = cells
        self.brokers = tuple(brokers)

    def _owners(self, cells: Sequence[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.brokers[cell % len(self.brokers)] for cell in cells))

    def assign(self, subscription: Subscription) -> tuple[str, ...]:
        return self._owners(self.cells.assign(subscription.filter))

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        return self._owners(self.cells.resolve(event))

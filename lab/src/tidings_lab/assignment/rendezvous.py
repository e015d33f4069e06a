"""Assignment to a rendezvous: a subscription and the events that it accepts have a key in common.

Rules
- A key is text; the overlay leads to the broker that is responsible for it. `assign` gives the keys of a
  subscription, `resolve` those of an event; they meet whenever the event is accepted (VIR2-5).
- `ByTopic` (Scribe): the topics that a filter names. `ByType` (Hermes): a type that it names; an event has
  the keys of its type and of all its supertypes, so a subscriber of a type receives its subtypes. `ByCell`
  (subscription partitioning, Virgillito 2003, 2.4.3): the cells that a filter touches, independent of their
  brokers.
- Filters that name no topic, or no type, have the key `ANY`, and so has every event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidings.algebra import domain as dm
from tidings.algebra.region import Region, regions_of
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.slots import Assignment

ANY = "any"
MOST_NAMES = 64  # a filter that names more of them has the key ANY


class KeyCells(Protocol):
    """A partition of the attribute space (`tidings.algebra.cells`)."""

    def assign(self, filter: Filter) -> Sequence[int]: ...

    def resolve(self, event: Event) -> Sequence[int]: ...


class _ByName(Assignment):
    """By a name that the event carries."""

    def assign(self, subscription: Subscription) -> tuple[str, ...]:
        keys: dict[str, None] = {}
        for region in regions_of(subscription.filter):
            if not region.is_empty:
                keys.update(dict.fromkeys(self._keys(region.tight)))
        return (ANY,) if ANY in keys else tuple(sorted(keys))

    def _keys(self, region: Region) -> Iterable[str]:
        return (ANY,)


class ByTopic(_ByName):
    name = "hash of the topic"

    def _keys(self, region: Region) -> Iterable[str]:
        topics = dm.values_of(region.domain("topic"))
        if topics is None or len(topics) > MOST_NAMES:
            return (ANY,)
        return [topic_key(topic) for topic in topics if isinstance(topic, str)]

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        return (ANY,) if event.topic is None else (topic_key(event.topic), ANY)


class ByType(_ByName):
    name = "hash of the type"

    def _keys(self, region: Region) -> Iterable[str]:
        if region.lineage.required:
            return (type_key(min(region.lineage.required)),)
        names = dm.values_of(region.domain("type"))
        if names is None or len(names) > MOST_NAMES:
            return (ANY,)
        return [type_key(name) for name in names if isinstance(name, str)]

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        return (*map(type_key, event.type), ANY)


class ByCell(Assignment):
    name = "zones by hash"

    def __init__(self, cells: KeyCells) -> None:
        self.cells = cells

    def assign(self, subscription: Subscription) -> tuple[str, ...]:
        return tuple(map(cell_key, self.cells.assign(subscription.filter)))

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        return tuple(map(cell_key, self.cells.resolve(event)))


def topic_key(topic: str) -> str:
    return f"topic:{topic}"


def type_key(name: str) -> str:
    return f"type:{name}"


def cell_key(cell: int) -> str:
    return f"cell:{cell}"

"""Enrolment: the broker that is responsible for a key holds one copy of each subscription of it.

Rules
- A broker says all its filters of a key at once (`Enrol`), hop by hop to the key's broker, which answers; it
  says them again until answered, and every `refresh_seconds`. Filters that are not repeated are forgotten. -
  When another broker becomes responsible, the earlier one passes the copies on and forgets them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.matching.engine import MatchingEngine
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.messages import Message
from tidings_lab.routing.keyed import MOST_HOPS, KeyRouting
from tidings_lab.routing.rendezvous_messages import Enrol, Enrolled, Version


class _AnnouncedKey(msgspec.Struct):
    """Our enrolment at a key."""

    filters: tuple[Filter, ...]
    version: Version
    due: float
    is_acknowledged: bool = False


class _KeyHolder(msgspec.Struct):
    """Enrolment of another broker, or our own, at a key that is ours."""

    version: Version
    until: float
    filters: tuple[Filter, ...]
    handles: tuple[int, ...]
    address: str


class Enrolment:
    def __init__(self, owner: KeyRouting) -> None:
        self._owner = owner
        self._timing = owner.settings
        self._told: dict[str, _AnnouncedKey] = {}
        self._held: dict[str, dict[str, _KeyHolder]] = {}  # by key and access broker
        self._matchers: dict[str, MatchingEngine] = {}
        self._access: dict[tuple[str, int], str] = {}  # by key and handle
        self._due: float | None = None  # no later than the first moment

    # -- at the subscriber's broker ------------------------------------------------------------------

    def tell(self, key: str, filters: tuple[Filter, ...], now: float) -> None:
        self._told[key] = told = _AnnouncedKey(filters, self._owner.new_version(), 0.0)
        self._say(key, told, now)

    def _say(self, key: str, told: _AnnouncedKey, now: float) -> None:
        told.due = now + self._timing.retry_seconds
        self._wake_by(told.due)
        told.is_acknowledged = False
        ports = self._owner.ports
        self._pass(Enrol(key, ports.name, told.version, told.filters, 1, ports.address), now)

    def _enrolled(self, message: Enrolled, now: float) -> None:
        told = self._told.get(message.key)
        if told is None or tuple(message.version) != told.version:
            return
        if not told.filters:
            del self._told[message.key]
            return
        told.is_acknowledged = True
        told.due = now + self._timing.refresh_seconds

    # -- on the way, and at the key's broker -----------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Enrol):
            self._pass(message, now)
        elif isinstance(message, Enrolled):
            self._enrolled(message, now)

    def _pass(self, enrol: Enrol, now: float) -> None:
        hop = self._owner.next_hop(enrol.key)
        if hop is None:
            self._hold(enrol, now)
        elif enrol.hops <= MOST_HOPS:
            self._owner.send(hop, msgspec.structs.replace(enrol, hops=enrol.hops + 1))

    def _hold(self, enrol: Enrol, now: float) -> None:
        ours = self._held.setdefault(enrol.key, {})
        before = ours.get(enrol.access)
        is_old = (
            before is not None
            and before.version[0] == enrol.version[0]
            and before.version[1] > enrol.version[1]
        )
        if not is_old:
            self._forget(enrol.key, enrol.access)
            if enrol.filters:
                self._index(enrol, now + self._timing.children_seconds)
        if enrol.access == self._owner.ports.name:
            self._enrolled(Enrolled(enrol.key, enrol.version), now)
        else:
            self._owner.send(enrol.access, Enrolled(enrol.key, enrol.version), enrol.address)

    def _index(self, enrol: Enrol, until: float) -> None:
        matcher = self._matchers.setdefault(enrol.key, MatchingEngine(routes=True))
        handles = tuple(matcher.add(filter) for filter in enrol.filters)
        self._access.update({(enrol.key, handle): enrol.access for handle in handles})
        self._wake_by(until)
        held = _KeyHolder(enrol.version, until, enrol.filters, handles, enrol.address)
        self._held.setdefault(enrol.key, {})[enrol.access] = held

    def _forget(self, key: str, access: str) -> None:
        held = self._held.get(key, {}).pop(access, None)
        for handle in held.handles if held is not None else ():
            self._matchers[key].remove(handle)
            del self._access[(key, handle)]
        if not self._held.get(key):
            self._held.pop(key, None)
            self._matchers.pop(key, None)

    def takers(self, key: str, event: Event) -> list[str]:
        """The brokers with a subscription of this key that accepts the event, each once, in a fixed order."""
        matcher = self._matchers.get(key)
        if matcher is None:
            return []
        return sorted({self._access[(key, handle)] for handle in matcher.match(event)})

    def address_of(self, key: str, access: str) -> str:
        """Address of a taker."""
        return self._held[key][access].address

    def ways_changed(self, now: float) -> None:
        for key in [key for key in self._held if self._owner.next_hop(key) is not None]:
            for access, held in list(self._held[key].items()):
                self._forget(key, access)
                self._pass(Enrol(key, access, held.version, held.filters, 1, held.address), now)

    # -- time --------------------------------------------------------------------------------------------

    def _moments(self) -> Iterable[float]:
        yield from (told.due for told in self._told.values())
        yield from (held.until for ours in self._held.values() for held in ours.values())

    def _wake_by(self, at: float) -> None:
        self._due = at if self._due is None else min(self._due, at)

    def next_deadline(self) -> float | None:
        return self._due

    def on_timer(self, now: float) -> None:
        if self._due is None or self._due > now:
            return
        soon = now + self._timing.slack
        for key, told in list(self._told.items()):
            if told.due <= soon:
                self._say(key, told, now)
        for key, ours in list(self._held.items()):
            for access in [access for access, held in ours.items() if held.until <= soon]:
                self._forget(key, access)
        self._due = min(self._moments(), default=None)

    @property
    def is_acknowledged(self) -> bool:
        """Is all that we said held where it should be?"""
        return all(told.is_acknowledged for told in self._told.values())

    def table_size(self) -> int:
        """Subscriptions held here, other brokers' and our own."""
        return sum(len(held.filters) for ours in self._held.values() for held in ours.values())

    def copies(self) -> dict[str, dict[str, tuple[Filter, ...]]]:
        """By key and access broker: what is held here."""
        return {
            key: {access: held.filters for access, held in ours.items()} for key, ours in self._held.items()
        }

    def check(self) -> None:
        count = sum(len(held.handles) for ours in self._held.values() for held in ours.values())
        assert count == len(self._access), "a handle without its broker"

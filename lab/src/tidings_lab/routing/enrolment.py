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
        self._announced: dict[str, _AnnouncedKey] = {}
        self._holders: dict[str, dict[str, _KeyHolder]] = {}  # by key and access broker
        self._matchers: dict[str, MatchingEngine] = {}
        self._access: dict[tuple[str, int], str] = {}  # by key and handle
        self._due: float | None = None  # no later than the first moment

    # -- at the subscriber's broker ------------------------------------------------------------------

    def tell(self, key: str, filters: tuple[Filter, ...], now: float) -> None:
        self._announced[key] = announced = _AnnouncedKey(filters, self._owner.new_version(), 0.0)
        self._send(key, announced, now)

    def _send(self, key: str, announced: _AnnouncedKey, now: float) -> None:
        announced.due = now + self._timing.retry_seconds
        self._wake_by(announced.due)
        announced.is_acknowledged = False
        ports = self._owner.ports
        self._pass(Enrol(key, ports.name, announced.version, announced.filters, 1, ports.address), now)

    def _enrolled(self, message: Enrolled, now: float) -> None:
        announced = self._announced.get(message.key)
        if announced is None or tuple(message.version) != announced.version:
            return
        if not announced.filters:
            del self._announced[message.key]
            return
        announced.is_acknowledged = True
        announced.due = now + self._timing.refresh_seconds

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
        ours = self._holders.setdefault(enrol.key, {})
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
        holder = _KeyHolder(enrol.version, until, enrol.filters, handles, enrol.address)
        self._holders.setdefault(enrol.key, {})[enrol.access] = holder

    def _forget(self, key: str, access: str) -> None:
        holder = self._holders.get(key, {}).pop(access, None)
        for handle in holder.handles if holder is not None else ():
            self._matchers[key].remove(handle)
            del self._access[(key, handle)]
        if not self._holders.get(key):
            self._holders.pop(key, None)
            self._matchers.pop(key, None)

    def takers(self, key: str, event: Event) -> list[str]:
        """The brokers with a subscription of this key that accepts the event, each once, in a fixed order."""
        matcher = self._matchers.get(key)
        if matcher is None:
            return []
        return sorted({self._access[(key, handle)] for handle in matcher.match(event)})

    def address_of(self, key: str, access: str) -> str:
        """Address of a taker."""
        return self._holders[key][access].address

    def ways_changed(self, now: float) -> None:
        for key in [key for key in self._holders if self._owner.next_hop(key) is not None]:
            for access, holder in list(self._holders[key].items()):
                self._forget(key, access)
                self._pass(Enrol(key, access, holder.version, holder.filters, 1, holder.address), now)

    # -- time --------------------------------------------------------------------------------------------

    def _moments(self) -> Iterable[float]:
        yield from (announced.due for announced in self._announced.values())
        yield from (holder.until for ours in self._holders.values() for holder in ours.values())

    def _wake_by(self, at: float) -> None:
        self._due = at if self._due is None else min(self._due, at)

    def next_deadline(self) -> float | None:
        return self._due

    def on_timer(self, now: float) -> None:
        if self._due is None or self._due > now:
            return
        soon = now + self._timing.slack
        for key, announced in list(self._announced.items()):
            if announced.due <= soon:
                self._send(key, announced, now)
        for key, ours in list(self._holders.items()):
            for access in [access for access, holder in ours.items() if holder.until <= soon]:
                self._forget(key, access)
        self._due = min(self._moments(), default=None)

    @property
    def is_acknowledged(self) -> bool:
        """Is all that we said held where it should be?"""
        return all(delivered.is_acknowledged for delivered in self._announced.values())

    def table_size(self) -> int:
        """Subscriptions held here, other brokers' and our own."""
        return sum(len(holder.filters) for ours in self._holders.values() for holder in ours.values())

    def copies(self) -> dict[str, dict[str, tuple[Filter, ...]]]:
        """By key and access broker: what is held here."""
        return {
            key: {access: holder.filters for access, holder in ours.items()}
            for key, ours in self._holders.items()
        }

    def check(self) -> None:
        count = sum(len(holder.handles) for ours in self._holders.values() for holder in ours.values())
        assert count == len(self._access), "a handle without its broker"

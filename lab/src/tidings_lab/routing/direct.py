"""Direct routing: brokers that hold other brokers' subscriptions, and send straight to them.

`MatchFirst` goes with the all-brokers policy: each subscription is broadcast over the tree, the
publisher's broker matches and sends one copy to each broker with a taker. `MatchAtTarget` goes with
filter-driven assignment: subscription and event both go to the broker of their cell, which matches
and sends one copy to each broker with a taker (Virgillito 2003, 2.4.4 and Table 2.1).
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from tidings.matching.engine import THRESHOLD, MatchingEngine
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.slots import Ports

MAINTAIN_BUDGET = 4  # steps of the matcher's upkeep at once, some milliseconds
MAINTAIN_SECONDS = 0.05


class Hold(Message, frozen=True, tag="Hold"):
    """Hold this filter for a broker, or let it go; `spread`: pass it on along the tree."""

    filter: Filter
    access: str
    count: int  # +1 or -1
    spread: bool = False


class ToTarget(Message, frozen=True, tag="ToTarget"):
    """An event for the broker of its cell."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope


class ToAccess(Message, frozen=True, tag="ToAccess"):
    """A matched event for a broker with a taker."""

    is_hop: ClassVar[bool] = True

    envelope: Envelope


class _HeldFilters:
    """Filters held for brokers; one matcher entry per (filter, broker)."""

    def __init__(self) -> None:
        self.matcher = MatchingEngine(routes=True)
        self._handles: dict[tuple[str, str], int] = {}
        self._access: dict[int, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._wanting: Counter[str] = Counter()  # by digest: brokers

    def change(self, filter: Filter, access: str, count: int) -> None:
        key = (filter.digest, access)
        total = self._counts.get(key, 0) + count
        if total > 0:
            self._counts[key] = total
            if key not in self._handles:
                self._wanting[filter.digest] += 1
                self._handles[key] = handle = self.matcher.add(filter)
                self._access[handle] = access
        elif key in self._handles:
            del self._counts[key]
            self._wanting[filter.digest] -= 1
            if not self._wanting[filter.digest]:
                del self._wanting[filter.digest]
            handle = self._handles.pop(key)
            del self._access[handle]
            self.matcher.remove(handle)

    def takers(self, event: Event) -> list[str]:
        """The brokers with a subscription that accepts the event, each once, in a fixed order."""
        return sorted({self._access[handle] for handle in self.matcher.match(event)})

    def holds(self, digest: str) -> bool:
        """Does some broker want this filter?"""
        return digest in self._wanting

    def __len__(self) -> int:
        return len(self._handles)

    def check(self) -> None:
        assert len(self._handles) == len(self._access) == len(self._counts)


class _Direct(OneByOne):
    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._filters_of = _HeldFilters()
        self._maintain_at: float | None = None

    def table_size(self) -> int:
        """Filters held, for this broker and for others."""
        return len(self._filters_of)

    def matchers(self) -> tuple[Matcher, ...]:
        return (self._filters_of.matcher,)

    def _change(self, hold: Hold, now: float) -> None:
        self._filters_of.change(hold.filter, hold.access, hold.count)
        if len(self._filters_of) > THRESHOLD:
            self._maintain_at = now

    def next_deadline(self) -> float | None:
        return self._maintain_at

    def on_timer(self, now: float) -> None:
        if self._maintain_at is not None and self._maintain_at <= now:
            left = self._filters_of.matcher.maintain(MAINTAIN_BUDGET)
            self._maintain_at = now + MAINTAIN_SECONDS if left else None

    def wanted_elsewhere(self, event: Event) -> bool:
        return any(taker != self.ports.name for taker in self._filters_of.takers(event))

    def check(self) -> None:
        self._filters_of.check()

    def _hand_out(self, envelope: Envelope) -> None:
        for taker in self._filters_of.takers(envelope.event):
            if taker not in (envelope.origin, self.ports.name):
                self.ports.send(taker, ToAccess(envelope), Channel.DATAGRAM)


class MatchFirst(_Direct):
    name = "match first"
    messages = (Hold, ToAccess)

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._spread(Hold(subscription.filter, self.ports.name, +1, spread=True), None, now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._spread(Hold(subscription.filter, self.ports.name, -1, spread=True), None, now)

    def _spread(self, hold: Hold, came_from: str | None, now: float) -> None:
        self._change(hold, now)
        for link in self.ports.neighbours.links():
            if link != came_from:
                self.ports.send(link, hold)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Hold):
            self._spread(message, sender, now)
        else:
            assert isinstance(message, ToAccess)
            self.ports.events.arrived((message.envelope,), sender, now)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is None:
            self._hand_out(envelope)


class MatchAtTarget(_Direct):
    name = "match at target"
    messages: ClassVar[tuple[type[Message], ...]] = (Hold, ToTarget, ToAccess)

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._hold_at(at, Hold(subscription.filter, self.ports.name, +1), now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._hold_at(at, Hold(subscription.filter, self.ports.name, -1), now)

    def _hold_at(self, at: tuple[str, ...], hold: Hold, now: float) -> None:
        for broker in at:
            if broker == self.ports.name:
                self._change(hold, now)
            else:
                self.ports.send(broker, hold, Channel.DATAGRAM)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Hold):
            self._change(message, now)
        elif isinstance(message, ToTarget):
            self._hand_out(message.envelope)
            if self.ports.name in self._filters_of.takers(message.envelope.event):
                self.ports.events.arrived((message.envelope,), sender, now)
        else:
            assert isinstance(message, ToAccess)
            self.ports.events.arrived((message.envelope,), sender, now)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is not None:
            return
        for target in at or ():
            if target == self.ports.name:
                self._at_target(envelope, now)
            else:
                self.ports.send(target, ToTarget(envelope), Channel.DATAGRAM)

    def _at_target(self, envelope: Envelope, now: float) -> None:
        """An event of our own clients whose target we are."""
        del now
        self._hand_out(envelope)

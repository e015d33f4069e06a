"""Match at the rendezvous: subscriptions and events meet at the broker of their key, which sends to each
taker.

Filter-driven assignment with brokers that come and go (Virgillito 2003, 2.4.3 and Table 2.1). Rules
- The keys are those that `assignment` gives (cells of the attribute space); the overlay leads to the broker
  that is responsible for a key now, and no broker needs to know how many there are.
- Subscriptions are enrolled there (`enrolment.py`); an event climbs there, is matched once, and goes straight
  to each broker with a taker.
"""

from __future__ import annotations

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.messages import Envelope, Message
from tidings_lab.routing.direct import ToAccess
from tidings_lab.routing.enrolment import Enrolment
from tidings_lab.routing.keyed import MOST_HOPS, KeyRouting, TreeSettings
from tidings_lab.routing.rendezvous_messages import Climb, Enrol, Enrolled


class MatchAtRendezvous(KeyRouting):
    name = "match at rendezvous"
    messages = (Enrol, Enrolled, Climb, ToAccess)

    def __init__(self, settings: TreeSettings | None = None) -> None:
        super().__init__(settings)
        self.enrolment = Enrolment(self)
        self._wanted: dict[str, dict[str, tuple[Filter, int]]] = {}  # by key and digest
        self._taken: dict[tuple[str, str], None] = {}

    # -- subscriptions -----------------------------------------------------------------------------

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._change(subscription.filter, +1, at, now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._change(subscription.filter, -1, at, now)

    def _change(self, filter: Filter, by: int, keys: tuple[str, ...], now: float) -> None:
        for key in keys:
            wanted = self._wanted.setdefault(key, {})
            count = by + (wanted[filter.digest][1] if filter.digest in wanted else 0)
            was = tuple(wanted)
            if count > 0:
                wanted[filter.digest] = (filter, count)
            else:
                wanted.pop(filter.digest, None)
            if tuple(wanted) != was:
                self.enrolment.tell(key, tuple(each for each, _ in wanted.values()), now)
            if not wanted:
                del self._wanted[key]

    def ways_changed(self, now: float) -> None:
        self.enrolment.ways_changed(now)

    # -- events ------------------------------------------------------------------------------------

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is None:
            for key in at or ():
                self._climb(key, envelope, 1, self.ports.name, now)

    def _climb(self, key: str, envelope: Envelope, hops: int, came_from: str, now: float) -> None:
        hop = self.next_hop(key)
        if hop is None:
            self._hand_out(key, envelope, came_from, now)
        elif hops > MOST_HOPS:
            self.dropped += 1
        else:
            self.send(hop, Climb((key,), envelope, hops))

    def _hand_out(self, key: str, envelope: Envelope, came_from: str, now: float) -> None:
        for taker in self.enrolment.takers(key, envelope.event):
            if taker == self.ports.name:
                self._take(envelope, came_from, now)
            elif taker != envelope.origin:
                self.send(taker, ToAccess(envelope), self.enrolment.address_of(key, taker))

    def _take(self, envelope: Envelope, came_from: str, now: float) -> None:
        """Once, though the key's broker changed meanwhile."""
        identity = envelope.event.identity
        if envelope.origin == self.ports.name or identity in self._taken:
            return
        self._taken[identity] = None
        if len(self._taken) > self.settings.remembered:
            del self._taken[next(iter(self._taken))]
        self.ports.events.arrived((envelope,), came_from, now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Climb):
            for key in message.keys:
                self._climb(key, message.envelope, message.hops + 1, sender, now)
        elif isinstance(message, ToAccess):
            self._take(message.envelope, sender, now)
        else:
            self.enrolment.on_message(sender, message, now)

    def next_deadline(self) -> float | None:
        return self.enrolment.next_deadline()

    def on_timer(self, now: float) -> None:
        self.enrolment.on_timer(now)

    def table_size(self) -> int:
        """Subscriptions held here."""
        return self.enrolment.table_size()

    def wants(self, link: str, event: Event) -> bool:
        keys = self.keys_of(event)
        return any(link in self.enrolment.takers(key, event) for key in keys)

    def agreed(self, link: str) -> bool:
        return self.enrolment.is_acknowledged

    def wanted_elsewhere(self, event: Event) -> bool:
        return True  # as far as a broker can know that is not responsible for it

    def check(self) -> None:
        self.enrolment.check()

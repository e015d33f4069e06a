"""Subscription replication: while a broker is away, its neighbours take its subscribers' events for it.

Gryphon replicates subscriptions partially, to manage faults of access points (Virgillito 2003, 2.5.3). Rules
- A broker tells its neighbours the subscriptions of its clients (`Replica`), again until they have seen it.
- When the link to a broker breaks, each neighbour wants in its stead what those subscriptions want, so that
  routes stay, and keeps the events that come.
- A subscription that returns, at its broker or at the neighbour itself, is handed what was kept for it, once.
  Events that its broker delivered since it is back are not delivered again.
- A subscription that does not return within `patience_seconds` after its broker has is forgotten. Kept events
  are bounded, the oldest goes first. An event on its way to the broker when it went is lost: its delivery is
  unknown.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

import msgspec

from tidings.matching.small import SmallMatcher
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription, SubscriptionId
from tidings.protocol.batches import cut
from tidings.protocol.inputs import Input, LinkDown, LinkUp, Started
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.recovery.timers import Timers
from tidings.protocol.slots import Recovery

MOST_SEEN = 20_000  # events whose passing a broker remembers


class ReplicatedHeader(msgspec.Struct, frozen=True, array_like=True):
    """One subscription of the sender's clients."""

    subscriber: str
    name: str
    filter: Filter

    @property
    def id(self) -> SubscriptionId:
        return SubscriptionId(self.subscriber, self.name)


class Replica(Message, frozen=True, tag="Replica"):
    """All subscriptions at the sender."""

    life: str  # of the sender
    number: int
    subscriptions: tuple[ReplicatedHeader, ...]


class ReplicaAck(Message, frozen=True, tag="ReplicaSeen"):
    life: str
    number: int


class HandedEvents(Message, frozen=True, tag="Handed"):
    """Events that were kept for a subscription of the receiver's."""

    subscriber: str
    name: str
    envelopes: tuple[Envelope, ...]
    number: int  # said again until it is seen


class HandedAck(Message, frozen=True, tag="HandedSeen"):
    number: int


class ReplicationSettings(msgspec.Struct, frozen=True, kw_only=True):
    patience_seconds: float = 5.0  # until a subscription that did not return is forgotten
    repeat_seconds: float = 0.5  # until what was not seen is said again
    most: int = 10_000  # events that are kept for one broker


class _Away:
    """State that a neighbour holds for a broker: its subscriptions, and while it is away their events."""

    def __init__(self) -> None:
        self.filters: dict[SubscriptionId, Filter] = {}
        self.last_replica: tuple[str, int] = ("", 0)  # life and number of the last replica
        self.matcher: SmallMatcher | None = None  # not None: it is away
        self.owners: dict[int, SubscriptionId] = {}  # by handle
        self.kept: deque[tuple[frozenset[SubscriptionId], Envelope]] = deque()


class SubscriptionReplication(Recovery):
    name = "subscription replication"
    messages = (Replica, ReplicaAck, HandedEvents, HandedAck)

    def __init__(self, settings: ReplicationSettings | None = None) -> None:
        self.settings = settings or ReplicationSettings()
        self.timers = Timers()
        self._own: dict[SubscriptionId, Filter] = {}
        self._life, self._number = "", 0
        self._others: dict[str, _Away] = {}
        self._handing: dict[int, tuple[str, HandedEvents]] = {}  # until it is seen
        self._last_handed = 0
        self._taken: OrderedDict[tuple[str, int], None] = OrderedDict()  # what was handed to us
        self._passed: OrderedDict[tuple[str, str], float] = OrderedDict()  # events, and when
        self.handed = 0
        self.dropped = 0  # at the bound

    # -- our own subscriptions ---------------------------------------------------------------

    def interested(self, subscription: Subscription, now: float) -> None:
        self._own[subscription.id] = subscription.filter
        self._announce(now)
        for broker, away in self._others.items():
            if subscription.id in away.filters and away.matcher is not None:
                self._return_here(broker, away, subscription.id, now)

    def uninterested(self, subscription: Subscription, now: float) -> None:
        self._own.pop(subscription.id, None)
        self._announce(now)

    def _announce(self, now: float, only: str | None = None) -> None:
        if only is None:
            self._number += 1
        subscriptions = tuple(ReplicatedHeader(id.subscriber, id.name, f) for id, f in self._own.items())
        for link in self._links() if only is None else (only,):
            self.ports.send(link, Replica(self._life, self._number, subscriptions))
            self.timers.set(("tell", link), now + self.settings.repeat_seconds)

    # -- inputs ------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self._life = f"{self.ports.name}.{self.ports.rng.getrandbits(32):08x}"
        elif isinstance(input, LinkDown):
            self.timers.clear(("tell", input.peer))
            if input.peer in self._others:
                self._begin_keeping(input.peer, now)
        elif isinstance(input, LinkUp) and input.peer in self._links():
            self._announce(now, input.peer)
            if input.peer in self._others:
                self.timers.set(("forget", input.peer), now + self.settings.patience_seconds)

    def _begin_keeping(self, broker: str, now: float) -> None:
        away = self._others[broker]
        self.timers.clear(("forget", broker))
        if away.matcher is not None:
            return
        away.matcher = SmallMatcher()
        for id, filter in away.filters.items():
            away.owners[away.matcher.add(filter)] = id
            self.ports.router.interest_added(self._stand_in(broker, id, filter), (self.ports.name,), now)

    def _stand_in(self, broker: str, id: SubscriptionId, filter: Filter) -> Subscription:
        return Subscription(SubscriptionId(f"for {broker}", str(id)), filter)

    # -- events ------------------------------------------------------------------------------

    def observe(self, envelopes: Sequence[Envelope], came_from: str | None, now: float) -> Sequence[Envelope]:
        observed = [self._observe(envelope, came_from, now) for envelope in envelopes]
        return [envelope for envelope in observed if envelope is not None]

    def _observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope | None:
        event = envelope.event
        self._passed[event.identity] = now
        if len(self._passed) > MOST_SEEN:
            self._passed.popitem(last=False)
        for broker, away in self._others.items():
            if away.matcher is not None and broker != came_from:
                owners = frozenset(away.owners[handle] for handle in away.matcher.match(event))
                if owners:
                    away.kept.append((owners, envelope))
                if len(away.kept) > self.settings.most:
                    away.kept.popleft()
                    self.dropped += 1
        return envelope

    # -- messages ----------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Replica):
            self._on_replica(sender, message, now)
        elif isinstance(message, ReplicaAck):
            if message.life == self._life and message.number == self._number:
                self.timers.clear(("tell", sender))
        elif isinstance(message, HandedEvents):
            self._on_handed(sender, message, now)
        elif isinstance(message, HandedAck):
            self._handing.pop(message.number, None)
            self.timers.clear(("hand", str(message.number)))

    def _on_replica(self, sender: str, message: Replica, now: float) -> None:
        self.ports.send(sender, ReplicaAck(message.life, message.number))
        away = self._others.setdefault(sender, _Away())
        life, number = away.last_replica
        if message.life == life and message.number <= number:
            return
        away.last_replica = (message.life, message.number)
        filters = {each.id: each.filter for each in message.subscriptions}
        if away.matcher is None:
            away.filters = filters
            return
        for id in [id for id in filters if id in away.filters]:
            self._return(sender, away, id, now)
        away.filters |= filters  # those that it has not named may still come
        if all(id in filters for id in away.filters):
            self._stop_keeping(sender, now)

    def _return(self, broker: str, away: _Away, id: SubscriptionId, now: float) -> None:
        """A subscription is back at its broker: it is to have what was kept for it."""
        kept = self._take_out(broker, away, id, now)
        for part, _ in cut(kept, self.ports.limits):
            self._last_handed += 1
            handed = HandedEvents(id.subscriber, id.name, part, self._last_handed)
            self._handing[self._last_handed] = (broker, handed)
            self._hand(self._last_handed, now)

    def _return_here(self, broker: str, away: _Away, id: SubscriptionId, now: float) -> None:
        """The subscriber of a replica came to us instead."""
        for envelope in self._take_out(broker, away, id, now):
            self._deliver(id, envelope, now)
        del away.filters[id]

    def _deliver(self, id: SubscriptionId, envelope: Envelope, now: float) -> None:
        self.handed += 1
        self.ports.dispatcher.deliver_to(id, envelope, now)

    def _links(self) -> tuple[str, ...]:
        return self.ports.neighbours.links()

    def _take_out(self, broker: str, away: _Away, id: SubscriptionId, now: float) -> tuple[Envelope, ...]:
        handles = [handle for handle, owner in away.owners.items() if owner == id]
        for handle in handles:
            assert away.matcher is not None
            away.matcher.remove(handle)
            del away.owners[handle]
            stand_in = self._stand_in(broker, id, away.filters[id])
            self.ports.router.interest_removed(stand_in, (self.ports.name,), now)
        kept = tuple(envelope for owners, envelope in away.kept if id in owners)
        away.kept = deque((rest, e) for owners, e in away.kept if (rest := owners - {id}))
        return kept

    def _stop_keeping(self, broker: str, now: float) -> None:
        away = self._others[broker]
        for id in list(away.owners.values()):
            self._take_out(broker, away, id, now)
            away.filters.pop(id, None)
        away.matcher = None
        self.timers.clear(("forget", broker))

    def _hand(self, number: int, now: float) -> None:
        broker, handed = self._handing[number]
        self.ports.send(broker, handed)
        self.timers.set(("hand", str(number)), now + self.settings.repeat_seconds)

    def _on_handed(self, sender: str, message: HandedEvents, now: float) -> None:
        self.ports.send(sender, HandedAck(message.number))
        key = (
            f"{sender} {self._others[sender].last_replica[0]}" if sender in self._others else sender,
            message.number,
        )
        if key in self._taken:
            return
        self._taken[key] = None
        if len(self._taken) > MOST_SEEN:
            self._taken.popitem(last=False)
        id = SubscriptionId(message.subscriber, message.name)
        found = self.ports.subscribers.subscription(id)
        for envelope in message.envelopes if found is not None else ():
            assert found is not None
            passed = self._passed.get(envelope.event.identity)
            if passed is None or passed < found[1]:
                self._deliver(id, envelope, now)

    # -- the timer ---------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return self.timers.next()

    def on_timer(self, now: float) -> None:
        for what, recipient in self.timers.due(now):
            if what == "tell" and recipient in self._links():
                self._announce(now, recipient)
            elif what == "hand" and int(recipient) in self._handing:
                if self._handing[int(recipient)][0] in self._links():
                    self._hand(int(recipient), now)
                else:
                    del self._handing[int(recipient)]  # it is gone again, and with it the receiver
            elif what == "forget" and self._others[recipient].matcher is not None:
                self._stop_keeping(recipient, now)

    def figures(self) -> dict[str, int]:
        return {
            "subscriptions held for others": sum(len(away.filters) for away in self._others.values()),
            "events held for others": sum(len(away.kept) for away in self._others.values()),
            "events handed over": self.handed,
            "events dropped while away": self.dropped,
        }

    def check(self) -> None:
        for away in self._others.values():
            assert len(away.kept) <= self.settings.most, "more is kept than the bound"
            assert away.matcher is not None or not away.owners, "who is there needs nobody in its stead"

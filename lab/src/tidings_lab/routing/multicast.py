"""Multicast among distributors and down a hierarchy of them (Mathur et al. 1995, 2 and 4.2).

Rules
- An event that a client published here goes to every member of the view. One from another member goes to our
  own subscribers, which is delivery's part, and down to the distributors below us.
- A distributor below is no member: it knows a list of distributors, keeps to the first that it has a link
  with, sends up what is published there, and goes to the next when that link is gone.
- A service is what a publisher creates (its advertisement). It is publicised to all distributors, each of
  which opens an empty list of subscribers for it; who subscribes is known to its own distributor only.
"""

from __future__ import annotations

from typing import ClassVar

from tidings.algebra.covers import overlaps
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement, Subscription, SubscriptionId
from tidings.protocol.inputs import Input, LinkDown, LinkUp, ViewChanged
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne


class Multicast(Message, frozen=True, tag="Multicast"):
    is_hop: ClassVar[bool] = True

    envelope: Envelope


class Publicise(Message, frozen=True, tag="Publicise"):
    """There is this service."""

    service: str
    filter: Filter


class Attach(Message, frozen=True, tag="Attach"):
    """A distributor below asks to be sent everything."""


class MulticastService:
    """One service here."""

    def __init__(self, filter: Filter, creator: str | None) -> None:
        self.filter = filter
        self.creator = creator  # the publisher, at the distributor where it created the service
        self.subscribers: set[SubscriptionId] = set()


class DistributorMulticast(OneByOne):
    name = "distributor multicast"
    messages = (Multicast, Publicise, Attach)

    def __init__(self, above: tuple[str, ...] = ()) -> None:
        self._above = above  # in the order of preference; none: we are of the group
        self._parent: str | None = None
        self._up: set[str] = set()
        self._below: dict[str, None] = {}
        self.services: dict[str, MulticastService] = {}
        self._subscriptions: dict[SubscriptionId, Subscription] = {}

    def _others(self) -> tuple[str, ...]:
        if self._above:
            return (self._parent,) if self._parent is not None else ()
        return tuple(m for m in self.ports.members.view() if m != self.ports.name)

    # -- events ------------------------------------------------------------------------------------

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        to = list(self._below)
        if came_from is None or came_from in self._below:
            to += self._others()
        for peer in to:
            if peer != came_from:
                self.ports.send(peer, Multicast(envelope))

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Multicast):
            self.ports.events.received((message.envelope,), sender, now)
        elif isinstance(message, Publicise):
            self._publicised(message, None)
            for peer in (*self._below, *(self._others() if sender in self._below else ())):
                if peer != sender:
                    self.ports.send(peer, message)
        elif isinstance(message, Attach):
            self._below[sender] = None
            for name, service in self.services.items():
                self.ports.send(sender, Publicise(name, service.filter))

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, LinkUp) and input.peer in self._above:
            self._up.add(input.peer)
            self._choose()
        elif isinstance(input, LinkDown):
            self._up.discard(input.peer)
            self._below.pop(input.peer, None)
            if input.peer == self._parent:
                self._parent = None
                self._choose()
        elif isinstance(input, ViewChanged):
            for member in input.joined:
                if member != self.ports.name:
                    for name, service in self.services.items():
                        self.ports.send(member, Publicise(name, service.filter))

    def _choose(self) -> None:
        if self._parent is None:
            self._parent = next((peer for peer in self._above if peer in self._up), None)
            if self._parent is not None:
                self.ports.send(self._parent, Attach())

    # -- services ----------------------------------------------------------------------------------

    def advertisement_added(self, advertisement: Advertisement, now: float) -> None:
        message = Publicise(advertisement.filter.text, advertisement.filter)
        self._publicised(message, advertisement.publisher)
        for peer in (*self._others(), *self._below):
            self.ports.send(peer, message)

    def advertisement_removed(self, advertisement: Advertisement, now: float) -> None:
        service = self.services.get(advertisement.filter.text)
        if service is not None:
            service.creator = None  # it lives on: others may publish to it, and its creator come back

    def _publicised(self, message: Publicise, creator: str | None) -> None:
        known = self.services.get(message.service)
        service = self.services[message.service] = MulticastService(message.filter, creator)
        if known is not None and creator is None:
            service.creator = known.creator
        for id, subscription in self._subscriptions.items():
            if overlaps(service.filter, subscription.filter):
                service.subscribers.add(id)

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._subscriptions[subscription.id] = subscription
        for service in self.services.values():
            if overlaps(service.filter, subscription.filter):
                service.subscribers.add(subscription.id)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._subscriptions.pop(subscription.id, None)
        for service in self.services.values():
            service.subscribers.discard(subscription.id)

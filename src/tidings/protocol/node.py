"""The node: one strategy in each slot, behind one narrow door.

The only file that knows every kind. It hands inputs to the strategies, lets each message reach
the strategy that declared it, and leads events and subscriptions from slot to slot (see
`slots.py` for the ways). It decides nothing itself; a new strategy needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from tidings.errors import SettingsError
from tidings.matching.engine import MatchingEngine
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement, Subscription, SubscriptionId
from tidings.protocol.batches import Divider
from tidings.protocol.disk import NodeDisk
from tidings.protocol.effects import Channel, Effect, Send
from tidings.protocol.inputs import (
    AdminInput,
    DiskFull,
    Fetched,
    FetchFailed,
    Input,
    Joined,
    LinkDown,
    LinkUp,
    MessageTooLarge,
    Parted,
    Persisted,
    PersistFailed,
    PrincipalRevoked,
    Probed,
    PublishesReceived,
    Received,
    ReceivedAll,
    Started,
    TimerFired,
    ViewChanged,
)
from tidings.protocol.interest import InterestTable, Match
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Envelope, Message, Publish, tag_of
from tidings.protocol.naming import UNKNOWN
from tidings.protocol.retained_bytes import RetainedBytes
from tidings.protocol.roles import EventPassage, GroupCommit, Placement, TopologyHints
from tidings.protocol.slots import (
    KINDS,
    Assignment,
    Backlog,
    Delivery,
    Membership,
    Overlay,
    Ports,
    Recovery,
    Routing,
    Strategy,
    lacking,
)


class Node:
    """A broker, or a peer. Only `handle` changes it."""

    def __init__(
        self,
        name: str,
        *,
        delivery: Delivery,
        rng: Random,
        routing: Routing | None = None,
        assignment: Assignment | None = None,
        overlay: Overlay | None = None,
        recovery: Recovery | None = None,
        membership: Membership | None = None,
        stable: bool = False,  # does what is persisted survive the process?
        recording: bool = False,  # emit rows of a history?
        limits: ResourceLimits = DEFAULT_LIMITS,
        event_bytes: int | None = None,  # the largest event; None: the largest that fits a frame
    ) -> None:
        self.name = name
        self._out: list[Effect] = []
        self._divider = Divider(limits)
        self._disk = NodeDisk(self._out.append, stable=stable, limits=limits)
        self.strange = 0  # messages that no strategy here understands
        self.unsent = 0  # messages that were larger than a frame
        self.over_links = 0  # events that came from other brokers, each once: hops
        ports = self._ports = Ports()
        ports.name, ports.rng, ports.recording = name, rng, recording
        ports.limits, ports.event_bytes = limits, limits.event_bytes if event_bytes is None else event_bytes
        ports.emit, ports.send = self._out.append, self._send
        ports.disk, ports.events = self._disk, self
        self.backlog = ports.backlog = Backlog()
        ports.interest = InterestTable(delivery.matcher or MatchingEngine(), limits)
        given: dict[str, Strategy] = {
            "delivery": delivery,
            "routing": routing or Routing(),
            "assignment": assignment or Assignment(),
            "overlay": overlay or Overlay(),
            "recovery": recovery or Recovery(),
            "membership": membership or Membership(),
        }
        self.slots: dict[str, Strategy] = {kind: given[kind] for kind in KINDS}
        self._owners = _owners(self.slots)
        self._compose()
        for strategy in self.slots.values():
            strategy.bind(ports)

    def _compose(self) -> None:
        """Offer the roles of the strategies, and see which steps of an event they have a part in."""
        ports, slots = self._ports, self.slots.values()
        ports.offer(*slots)
        for strategy in slots:
            for role in strategy.needs:
                if not ports.has(role):
                    raise lacking(role, f"{strategy.name} ({strategy.kind})")
        observes = type(ports.passage).observe is not EventPassage.observe
        self._is_blind = ports.passage.is_blind or not observes  # recovery has no part in what stays here
        ports.is_alone = type(ports.router) is Routing and not observes and type(ports.neighbours) is Overlay
        self._resolves = type(ports.placement).resolve is not Placement.resolve
        self._hints_events = type(ports.topology).event_seen is not TopologyHints.event_seen
        self._timed = [each for each in slots if type(each).next_deadline is not Strategy.next_deadline]

    # -- the door ------------------------------------------------------------------------

    def handle(self, input: Input, now: float) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            message = input.message  # type: ignore[union-attr]
            try:
                owner = self._owners[type(message)]
            except KeyError:
                self.strange += 1
            else:
                owner.on_message(input.sender, message, now)  # type: ignore[union-attr]
        elif kind is ReceivedAll:
            self._receive_all(input.sender, input.messages, now)  # type: ignore[union-attr]
        elif kind is PublishesReceived:
            self._owners[Publish].on_publishes(input.batches, now)  # type: ignore[union-attr]
        elif kind is TimerFired:
            self._on_timer(now)
        else:
            self._on_other(input, now)
        out = self._out
        effects = out[:]
        del out[:]
        return effects

    def next_deadline(self) -> float | None:
        earliest: float | None = None
        for strategy in self._timed:
            deadline = strategy.next_deadline()
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest

    def check(self) -> None:
        assert not self._out, "no effect is left behind"
        self._disk.check()
        self._ports.interest.check()
        for strategy in self.slots.values():
            strategy.check()

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        ports = self._ports
        syncing = [link for link in ports.neighbours.links() if not ports.link_interest.agreed(link)]
        return {
            **self.slots["delivery"].figures(),
            **self.slots["recovery"].figures(),
            **self.slots["overlay"].figures(),
            **self.slots["membership"].figures(),
            "unknown messages": self.strange,
            "messages too large": self.unsent,
            "disk full": int(self._disk.full is not None),
            "events over links": self.over_links,
            "neighbours": len(ports.neighbours.peers()) - ports.log_paths.is_unsure,
            "links syncing": len(syncing),  # the far end does not know yet all that is wanted here
            "logs": len(ports.logs.logs()),
        }

    @property
    def neighbours(self) -> tuple[str, ...]:
        """For people: the brokers that this one should be linked with, until they are replaced or parted."""
        return tuple(peer for peer in self._ports.neighbours.peers() if peer != UNKNOWN)

    def wanting(self, event: Event, sees: Callable[[SubscriptionId], bool]) -> dict[str, Any]:
        """For people: the subscriptions here that accept an event, of those that may be seen, and the links
        over which it is wanted."""
        ports = self._ports
        return {
            "subscriptions": [id.shown for id in ports.subscribers.wanting(event) if sees(id)],
            "links": {link: ports.link_interest.wants(link, event) for link in ports.neighbours.links()},
        }

    def subscription(self, id: SubscriptionId) -> tuple[Subscription, float] | None:
        """For people: a subscription that is held here, and when it began."""
        return self._ports.subscribers.subscription(id)

    @property
    def is_serving(self) -> bool:
        """For people: may clients be served here, or is the majority of its group apart from it?"""
        return self._ports.members.is_serving

    @property
    def has_caught_up(self) -> bool:
        """For people: does this broker's disk hold all that its group, if it has one, has committed?"""
        return not self._ports.has(GroupCommit) or self._ports.group_commit.has_caught_up

    def reached_at(self, address: str) -> None:
        """Set the address at which others reach this broker: the driver listens there."""
        self._ports.address = address

    def durables(self) -> Iterator[tuple[SubscriptionId, Filter]]:
        """For people: the durable subscriptions that are held here."""
        subscribers = self._ports.subscribers
        for id in subscribers.subscriptions():
            registered = subscribers.subscription(id)
            if registered is not None and registered[0].options.durable:
                yield id, registered[0].filter

    @property
    def log(self) -> str:
        """The name that positions in this broker's log carry."""
        return self._ports.own_log.position[0]

    def count_kept(self, kept: RetainedBytes) -> None:
        """Count kept bytes there from now on, by principal. Called before the first input."""
        self._ports.kept = kept

    def log_holds(self) -> Mapping[str, Filter]:
        """The filters by which readers hold the log, by name with its scope."""
        return self._ports.inspection.log_holds()

    def subscriptions(self) -> tuple[SubscriptionId, ...]:
        """For people: every subscription that is held here."""
        return self._ports.subscribers.subscriptions()

    def inspect(self, what: str, about: Any = None) -> Any:
        """For operators: `pins` of the log, `holds`, how far events were `released` to an archive, dead
        `letters` (of one subscription, or how many of each), the test for `superseded` offsets."""
        return self._ports.inspection.inspect(what, about)

    def log_keepers(self, offset: int) -> Sequence[str]:
        """For operators: the brokers that may still ask for this entry of our log."""
        return self._ports.log_guard.keepers(offset)

    @property
    def disk_problem(self) -> str | None:
        """For people: why the disk has failed for good."""
        failed = self._disk.failed
        return None if failed is None else failed.reason

    @property
    def disk_full(self) -> str | None:
        """For people: why the disk, or those of its group, take no more events at the moment."""
        group = self._ports.group_commit.full if self._ports.has(GroupCommit) else None
        return self._disk.full or group

    def describe(
        self, limit: int, sees: Callable[[SubscriptionId], bool] | None = None
    ) -> list[dict[str, Any]]:
        """Subscriptions that this broker holds, for people: those for which most waits, at most so many, of
        those that may be seen."""
        return self._ports.inspection.describe(limit, sees)

    def _receive_all(self, sender: str, messages: list[Message], now: float) -> None:
        owners, kinds = self._owners, {*map(type, messages)}
        begin, count = 0, len(messages)
        if len(kinds) == 1 and count > 1 and (only := owners.get(kinds.pop())) is not None:
            only.on_messages(sender, messages, now)
            return
        while begin < count:
            kind, end = type(messages[begin]), begin + 1
            owner = owners.get(kind)
            while end < count and (type(messages[end]) is kind or owners.get(type(messages[end])) is owner):
                end += 1
            if owner is None:
                self.strange += end - begin
            elif end == begin + 1:
                owner.on_message(sender, messages[begin], now)
            else:
                owner.on_messages(sender, messages[begin:end] if end - begin < count else messages, now)
            begin = end

    def _on_timer(self, now: float) -> None:
        for strategy in self._timed:
            deadline = strategy.next_deadline()
            if deadline is not None and deadline <= now:
                strategy.on_timer(now)

    def _on_other(self, input: Input, now: float) -> None:
        match input:
            case Persisted():
                self._disk.persisted(input, now)
            case Fetched():
                self._disk.fetched(input, now)
            case DiskFull():
                self._disk.disk_full(input)
            case PersistFailed():
                self._disk.persist_failed(input, now)
            case FetchFailed():
                self._disk.fetch_failed(input, now)
            case MessageTooLarge():
                self._unsendable(input, now)
            case (
                Started()
                | LinkUp()
                | LinkDown()
                | Probed()
                | Joined()
                | Parted()
                | ViewChanged()
                | PrincipalRevoked()
                | AdminInput()
            ):
                for strategy in self.slots.values():
                    strategy.on_input(input, now)
            case _:
                raise SettingsError(f"a node takes no {type(input).__name__}", hint="hand it to a client")

    def _unsendable(self, input: MessageTooLarge, now: float) -> None:
        self.unsent += 1
        owner = self._owners.get(type(input.message), self.slots["delivery"])  # which alone talks to clients
        owner.unsendable(input.to, input.message, now)

    def _send(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None:
        if not message.cut_field:
            self._out.append(Send(to, message, channel))
            return
        for part in self._divider.divide(message):
            self._out.append(Send(to, part, channel))

    # -- the way of events and of subscriptions (port `EventPath`) -----------------------------

    def accepted(self, envelope: Envelope, now: float) -> None:
        self.passing((envelope,), None, None, now)

    def received(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        ready = self._ports.passage.admit(envelopes, came_from, now)
        if ready:
            self.arrived(ready, came_from, now)

    def arrived(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        """Lead on together neighbouring events of one log: an event may have to wait until other logs are
        known up to an offset, and none may be known there before its events were dispatched."""
        if not envelopes[1:]:
            self.passing(envelopes, None, came_from, now)
            return
        begin, count = 0, len(envelopes)
        most = 1 if self._resolves else count
        while begin < count:
            origin, end = envelopes[begin].origin, begin + 1
            while end < count and end - begin < most and envelopes[end].origin == origin:
                end += 1
            some = envelopes[begin:end] if end - begin < count else envelopes
            self.passing(some, None, came_from, now)
            begin = end

    def passing(
        self,
        envelopes: Sequence[Envelope],
        matches: Sequence[Match] | None,
        came_from: str | None,
        now: float,
        dispatch: Callable[[Sequence[Envelope], Sequence[Match], float], None] | None = None,
    ) -> None:
        ports = self._ports
        interest = ports.interest
        version, passing = interest.version, ports.passage.observe(envelopes, came_from, now)
        if not passing:
            return
        if came_from is not None:
            self.over_links += len(passing)
        for envelope in passing if self._hints_events else ():
            ports.topology.event_seen(envelope, came_from)
        is_changed = passing is not envelopes and len(passing) < len(envelopes)
        if matches is None or is_changed or interest.version != version:
            version, matches = interest.version, interest.match_each(passing)
        if dispatch is None:
            ports.dispatcher.deliver(passing, matches, now)
        else:
            dispatch(passing, matches, now)
        if interest.version != version:  # a subscription ended
            matches = interest.match_each(passing)
        at = ports.placement.resolve(passing[0].event) if self._resolves else None
        ports.router.forward(passing, matches, at, came_from, now)

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        if not self._is_blind:
            return [False] * len(events)
        return self._ports.router.staying(events, matches, now)

    def interested(self, subscription: Subscription, now: float) -> None:
        at = self._ports.placement.assign(subscription)
        self._ports.router.interest_added(subscription, at, now)
        self._ports.passage.interested(subscription, now)
        self._ports.topology.interest_added(subscription.filter, now)

    def uninterested(self, subscription: Subscription, now: float) -> None:
        at = self._ports.placement.assign(subscription)
        self._ports.router.interest_removed(subscription, at, now)
        self._ports.passage.uninterested(subscription, now)
        self._ports.topology.interest_removed(subscription.filter, now)

    def advertised(self, advertisement: Advertisement, now: float) -> None:
        self._ports.router.advertisement_added(advertisement, now)

    def parted(self, parted: Parted, now: float) -> None:
        self._on_other(parted, now)

    def view_changed(self, change: ViewChanged, now: float) -> None:
        self._on_other(change, now)

    def unadvertised(self, advertisement: Advertisement, now: float) -> None:
        self._ports.router.advertisement_removed(advertisement, now)


def _owners(slots: dict[str, Strategy]) -> dict[type[Message], Strategy]:
    """Strategy by message type; two for one message are an error."""
    owners: dict[type[Message], Strategy] = {}
    for kind, strategy in slots.items():
        if strategy.kind != kind:
            raise SettingsError(f"a strategy for {strategy.kind} was put in the slot for {kind}")
        for message in strategy.messages:
            other = owners.setdefault(message, strategy)
            if other is not strategy:
                raise SettingsError(f"{other.name} and {strategy.name} both declare {tag_of(message)}")
        for header in strategy.headers:
            if not header.startswith(kind + "."):
                raise SettingsError(f"{strategy.name} declares the header {header!r} of another kind")
    return owners

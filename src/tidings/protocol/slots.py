"""The slots of a node: what each kind of strategy does, and what it may ask of the others.

Rules
- A node is a composition: one strategy in each slot (assignment, routing, overlay, recovery,
  membership, delivery). `node.py` alone knows them all; kinds never import one another.
- Every strategy has one shape: `on_input, on_message, on_timer, next_deadline, check`; its base does nothing.
- Strategies meet through ports: `self.ports.routing`, `self.ports.delivery` and so on, typed by
  the classes below. What a kind offers to the others are its methods here beyond the shape.
- Strategies act by `self.ports.send(...)`, `self.ports.emit(effect)` and `self.ports.disk`. They never build a
  `Send`: a slot that holds one strategy per scope (a topic, a service, a LAN) wraps what its strategies send.
- A strategy declares its messages and the envelope headers that it owns (`kind.name`).

The way of an event through a node:
  a client's publish -> `delivery` accepts and keeps it -> `ports.events.accepted`
  from another broker -> the strategy that received it  -> `ports.events.arrived`
  both: `recovery.observe` -> `delivery.deliver` -> `routing.forward`.
The way of a subscription: `delivery` -> `events.interested` -> `assignment` -> `routing` -> `recovery`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Protocol

from tidings.availability.records import Append, Put, Record
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement, Subscription, SubscriptionId
from tidings.protocol.effects import Channel, Effect
from tidings.protocol.inputs import FetchFailed, Input, Parted, PersistFailed, ViewChanged
from tidings.protocol.interest import InterestTable, Match
from tidings.protocol.kept import UNBOUNDED, KeptBytes
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.reading import Page, Wanted


class Machine(Protocol):
    """The one narrow door: a node, a client, and whatever else a driver drives."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what the driver is to do about it, in order."""

    def next_deadline(self) -> float | None:
        """When to hand in `TimerFired`; None: nothing is waiting for a time."""

    def check(self) -> None:
        """Raise `AssertionError` when an invariant does not hold."""


# -- ports that the node itself offers -----------------------------------------------------


class Disk(Protocol):
    """The node's disk. `then` runs when the driver reports, never before this call returns."""

    stable: bool  # False: what is kept lives as long as the process
    failed: PersistFailed | None  # set when the disk has failed for good
    full: str | None  # set while the disk has no room: why

    def persist(
        self,
        records: Sequence[Record],
        then: Callable[[float], None] | None = None,
        otherwise: Callable[[PersistFailed, float], None] | None = None,
        stalled: Callable[[str], None] | None = None,
    ) -> None:
        """Keep the records after everything that was handed in before; `stalled`: not yet, the disk is full."""

    def fetch(
        self, from_offset: int, limit: int, then: Callable[[Sequence[Append], float], None],
        otherwise: Callable[[FetchFailed, float], None],
    ) -> None:  # fmt: skip
        """Read log entries; none means that none follow."""


class Events(Protocol):
    """The node's own part in the way of events and of subscriptions."""

    def accepted(self, envelope: Envelope, now: float) -> None:
        """An event of one of our clients may be told from now on."""

    def arrived(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        """Events came from another broker, in this order, for the first time."""

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        """Which of these publishes, with their matches, leave this broker for none of its neighbours? For those
        recovery and routing have been told by this call."""

    def interested(self, subscription: Subscription, now: float) -> None:
        """A subscription of one of our clients began."""

    def uninterested(self, subscription: Subscription, now: float) -> None:
        """It ended."""

    def advertised(self, advertisement: Advertisement, now: float) -> None:
        """One of our clients says what it may publish."""

    def unadvertised(self, advertisement: Advertisement, now: float) -> None:
        """It will not any more."""

    def parted(self, parted: Parted, now: float) -> None:
        """The overlay itself gives up a neighbour: every slot hears of it."""

    def view_changed(self, change: ViewChanged, now: float) -> None:
        """Membership agreed on another view: every slot hears of it."""


class Sender(Protocol):
    """How a strategy sends a message; the only way for it to do so."""

    def __call__(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None: ...


class Ports:
    """What a strategy is given when the node is put together."""

    name: str  # of this node
    address: str = ""  # where others reach it, once the driver knows
    rng: Random
    recording: bool  # emit `Record` effects?
    limits: ResourceLimits
    event_bytes: int  # the largest event that may be published here
    kept: KeptBytes = UNBOUNDED  # see `Node.count_kept`
    send: Sender
    emit: Callable[[Effect], None]
    disk: Disk
    events: Events
    interest: InterestTable  # every filter that events are matched against here
    is_alone: bool = False  # no strategy but delivery has a part in an event
    assignment: Assignment
    routing: Routing
    overlay: Overlay
    recovery: Recovery
    membership: Membership
    delivery: Delivery


class Strategy:
    """The shape of every kind. The base does nothing."""

    kind: ClassVar[str]
    name: ClassVar[str] = "none"  # as `tidings systems` prints it
    messages: ClassVar[tuple[type[Message], ...]] = ()
    headers: ClassVar[frozenset[str]] = frozenset()
    ports: Ports

    def bind(self, ports: Ports) -> None:
        """Called once, before the first input."""
        self.ports = ports

    def on_input(self, input: Input, now: float) -> None:
        """Started, LinkUp, LinkDown, Joined, Parted and Probed, in the order of the slots."""

    def on_message(self, sender: str, message: Message, now: float) -> None:
        """One of `messages` arrived."""

    def on_messages(self, sender: str, messages: Sequence[Message], now: float) -> None:
        """Several of them arrived together, in this order."""
        for message in messages:
            self.on_message(sender, message, now)

    def unsendable(self, to: str, message: Message, now: float) -> None:
        """One of `messages` that we sent is larger than a frame: it did not leave, and will not when it is
        sent again. No link ends for it."""

    def on_timer(self, now: float) -> None:
        """`next_deadline()` has come."""

    def next_deadline(self) -> float | None:
        return None

    def check(self) -> None:
        """Raise `AssertionError` when an invariant of this strategy does not hold."""

    def matchers(self) -> tuple[Matcher, ...]:
        """What it matches events by, for drivers that prepare compiled kernels."""
        return ()


class Assignment(Strategy):
    """Where a subscription lives, and where an event is matched. The two must always meet."""

    kind = "assignment"

    def assign(self, subscription: Subscription) -> tuple[str, ...]:
        """The brokers that hold this subscription; in a system of rendezvous the keys whose brokers do."""
        return (self.ports.name,)

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        """The brokers that match this event; None: wherever routing leads it."""
        return None


class Routing(Strategy):
    """Which links an event takes."""

    kind = "routing"

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        """A client of ours subscribed; `at` are the brokers that hold the subscription."""

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        """It ended."""

    def forward(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        """Send the event on; `came_from` is None at the broker that accepted it."""

    def advertisement_added(self, advertisement: Advertisement, now: float) -> None:
        """A client of ours says what it may publish."""

    def advertisement_removed(self, advertisement: Advertisement, now: float) -> None:
        """It will not any more."""

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        """Which of these events, published by clients of ours, leave over no link? This call stands for `forward`
        of those. A strategy that does more at each event than forward it answers: none."""
        return [type(self).forward is Routing.forward] * len(events)

    def wanted_elsewhere(self, event: Event) -> bool:
        """Does any other broker want this event, as far as we know?"""
        return False

    def wants(self, link: str, event: Event) -> bool:
        """Is this event wanted over a link, as far as we know?"""
        return False

    def agreed(self, link: str) -> bool:
        """Does the far end of a link know all that we want over it?"""
        return True

    def interest(self, link: str) -> tuple[Filter, ...]:
        """What is wanted over a link."""
        return ()

    def toward(self, target: Filter | str) -> tuple[str, ...]:
        """The links that lead to whoever wants this filter, or to this key."""
        return ()

    def matching(self, event: Event) -> tuple[int, ...]:
        """The signatures of the filters that are wanted over some link and accept an event."""
        return ()

    def links_wanting(self, signature: int) -> tuple[str, ...]:
        """The links over which exactly this filter is wanted, in a fixed order."""
        return ()

    def wanted_here(self, signature: int) -> float | None:
        """Since when some client here has wanted exactly this filter; None: none does."""
        return None

    def swap(self, old: str, new: str, now: float) -> None:
        """The overlay replaces a link: move what was wanted over `old` to `new`."""

    def ways_changed(self, now: float) -> None:
        """The overlay may lead to some keys by other ways than before, or counts no unknown neighbour any more."""


class Overlay(Strategy):
    """Which links exist."""

    kind = "overlay"

    def links(self) -> tuple[str, ...]:
        """The brokers that we are linked with, in a fixed order."""
        return ()

    def peers(self) -> tuple[str, ...]:
        """The brokers that we should be linked with, up or not, in a fixed order."""
        return self.links()

    def next_hop(self, key: str) -> str | None:
        """The link toward the broker that is responsible for a key; None: that is us."""
        return None

    def distance(self, peer: str) -> float | None:
        """Seconds to a peer, when known."""
        return None

    def reach(self, peer: str, message: Message, address: str = "") -> None:
        """Send to a broker that need not be a neighbour; `address` says where it is, if we may not know it."""
        self.ports.send(peer, message, Channel.DATAGRAM)

    def doubted(self, peer: str, now: float) -> None:
        """Another slot waits for a peer in vain: see whether it lives."""

    def interest_added(self, filter: Filter, now: float) -> None:
        """A client of ours wants this from now on; routing knows it already."""

    def interest_removed(self, filter: Filter, now: float) -> None:
        """It does not any more."""

    def figures(self) -> dict[str, int]:
        """Counters for people."""
        return {}

    def event_seen(self, envelope: Envelope, came_from: str | None) -> None:
        """An event passes here; `came_from` is None at the broker that accepted it."""

    def heard_from_two(self, log: str, upstream: str, other: str, now: float) -> None:
        """A log that comes over the link `upstream` is told over another one too: in a tree it cannot be."""


class Recovery(Strategy):
    """Getting back what was lost on the way."""

    kind = "recovery"
    is_blind: ClassVar[bool] = False  # True: `observe` does nothing at a publish that no log holds
    full: str | None = None  # why our group can keep no event at the moment

    @property
    def is_unsure(self) -> bool:
        return False  # may an earlier life, on another disk, have had neighbours that are not back?

    @property
    def has_caught_up(self) -> bool:
        """Does our disk hold all that our group has committed? Without a group there is nothing to catch up with."""
        return True

    def interested(self, subscription: Subscription, now: float) -> None:
        """A subscription of one of our clients began."""

    def uninterested(self, subscription: Subscription, now: float) -> None:
        """It ended."""

    def observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope | None:
        """An event passes: note it, and put our headers on it. None: it passed before, and goes no further."""
        return envelope

    def outgoing(self, envelope: Envelope, link: str, now: float) -> Envelope | None:
        """An event is wanted over a link, up or not: put on it what the next broker needs; None: do not send it."""
        return envelope

    def admit(self, envelope: Envelope, came_from: str, now: float) -> Sequence[Envelope]:
        """The events that go on now that this one has come, in order (`ports.events.arrived`). None: it was here
        before, or waits for an earlier one."""
        return (envelope,)

    def flush(self, number: int, survivors: tuple[str, ...], now: float) -> None:
        """Before view `number` all who go on to it have to have the same events; `membership.flushed` says that
        it is so. Where nobody asks for virtual synchrony there is nothing to do."""
        self.ports.membership.flushed(number, now)

    def keeps(self, event: Event) -> bool:
        """Must our log hold this event, so that it can be brought back when it is lost on the way?"""
        return False

    def propose(self, proposals: Sequence[Any], now: float) -> None:
        """Of a group's log: give these events (`proposals.Proposal`) places; `delivery.enter` follows for each."""

    def is_pinned(self, offset: int) -> bool:
        """May another broker still ask for this entry of our log?"""
        return False

    def logs(self) -> tuple[str, ...]:
        """The logs of other brokers that we know of, in a fixed order."""
        return ()

    def has_log(self, log: str) -> bool:
        return False  # is it one of those?

    def upstream(self, log: str) -> str | None:
        """The link toward the broker of a log; None when it is not known, or ours."""
        return None

    def marks(self, link: str) -> dict[str, int] | None:
        """How far each log was heard that comes over this link; None: something is missing, or has no way to us."""
        return {}

    def is_settled(self, marks: Mapping[str, int]) -> bool:
        """Does nobody here or behind us need anything of these logs up to there?"""
        return True

    def elsewhere(self, peer: str, now: float) -> None:
        """What came from this neighbour comes another way from now on; what it may want is still kept for it."""

    def disclaim(self, log: str, link: str) -> None:
        """Say to a neighbour that it cannot hear this log from us."""

    def known(self, log: str) -> int:
        """Every event of this log up to here that is wanted at this broker has been here."""
        return 0

    def read(self, log: str, wanted: Wanted, then: Callable[[Page, float], None], now: float) -> int:
        """Read in the log of another broker; `then` runs once, unless the reading (its number) is given up."""
        return 0

    def give_up(self, reading: int) -> None:
        """Nobody waits for this reading any more."""

    def hurry(self, log: str, offset: int, now: float) -> None:
        """A subscription waits until this log is known up to there: ask for it; to be called again meanwhile."""

    def is_log_unsure(self, now: float) -> bool:
        return False  # may a neighbour that has not spoken since our start know more of our log than we do?

    def is_gone(self, log: str) -> bool:
        return False  # did the broker of this log say that it has another log now?

    def progressed(self, now: float) -> None:
        """Subscriptions here settled something of the logs of other brokers."""

    def lookup(self, ids: Iterable[tuple[str, str]]) -> tuple[Envelope, ...]:
        return ()  # what the cache holds of these identities; disk only through `ports.disk`

    def figures(self) -> dict[str, int]:
        """Counters for people."""
        return {}


class Membership(Strategy):
    """Who is there."""

    kind = "membership"

    def view(self, scope: str = "") -> tuple[str, ...]:
        """The members that we know of, in a fixed order."""
        return (self.ports.name,)

    def sample(self, k: int, scope: str = "") -> tuple[str, ...]:
        """At most k other members, drawn with the node's randomness."""
        others = [member for member in self.view(scope) if member != self.ports.name]
        return tuple(self.ports.rng.sample(others, min(k, len(others))))

    def size(self, scope: str = "") -> int:
        """How many members there are, as far as we can tell."""
        return len(self.view(scope))

    def join(self, scope: str, now: float) -> None:
        """We belong to this scope from now on."""

    def leave(self, scope: str, now: float) -> None:
        """We do not any more."""

    def loss(self) -> float:
        """The part of messages to members that do not arrive, as far as we can tell."""
        return 0.0

    def correct(self, peer: str, topics: tuple[str, ...]) -> bool:
        """Tell a peer that takes us for a member of one of these that we are not; False: nobody can be told."""
        return False

    def seek(self, scope: str, now: float) -> None:
        """Somebody here needs members of this scope, though we do not belong to it."""

    @property
    def epoch(self) -> int:
        """The number of the view that was agreed on; 0: none was, or nobody agrees here."""
        return 0

    @property
    def coordinator(self) -> str | None:
        """Who leads the view."""
        return None

    @property
    def is_serving(self) -> bool:
        """Are we in the view, and in the majority? Whoever is not accepts nothing."""
        return True

    @property
    def voters(self) -> dict[str, str]:
        """Of whom a majority decides: names, and the disks that they had when they were let in."""
        return {}

    def counts(self, peer: str) -> bool:
        """Is this peer, as it is now, one of the voters?"""
        return False

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        return {}

    def trusts(self, peer: str) -> bool:
        """Is it up, as far as we can tell?"""
        return True

    def flushed(self, number: int, now: float) -> None:
        """Recovery has done what `flush` asked for."""


class Delivery(Strategy):
    """To the clients of this broker: once, in order, with or without gaps.

    It owns the messages between clients and broker, sessions, subscriptions and the log.
    """

    kind = "delivery"
    matcher: Matcher | None = None  # of the node's interest table; None: the node makes one

    @property
    def log(self) -> str:
        """The name of this broker's log."""
        return self.ports.name

    @property
    def told_upto(self) -> int:
        """The last offset of our log that may be told."""
        return 0

    def holds(self, offset: int) -> bool:
        """Is this entry of our log still there?"""
        return False

    def headers_of(self, source: str, offset: int) -> dict[str, Any]:
        """What an envelope of this entry of our log carries besides it."""
        return {}

    def unpinned(self) -> None:
        """Recovery needs less of our log than before."""

    def settled(self, log: str) -> int | None:
        """Offset of another log up to which durable subscriptions here need nothing; None: there are none."""
        return None

    def log_holds(self) -> Mapping[str, Filter]:
        """The filters by which readers hold our log, by name."""
        return {}

    def log_found(self, log: str, now: float) -> None:
        """There is another broker's log that can be read from now on."""

    def log_gone(self, log: str, now: float) -> None:
        """That log is no more."""

    def deliver(self, envelope: Envelope, now: float) -> None:
        """Hand an event to every subscription of ours that accepts it."""

    def deliver_to(self, id: SubscriptionId, envelope: Envelope, now: float) -> None:
        """Hand an event to one subscription of ours that was owed it while it was elsewhere."""

    def enter(self, offset: int, proposal: Any, accepted: float, records: list[Record], now: float) -> None:
        """Of a group's log: this event was committed in this place; keep these records with it."""

    def knows(self, proposal: Any) -> bool | None:
        """Was it committed before? None: it was not, and a later event of its publisher was."""
        return False

    def settle(self, identity: tuple[str, str], *, is_kept: bool | None = True) -> None:
        """It was committed before, never will be, or (None) when disks have room: answer its publisher."""

    def needs(self) -> int:
        """The lowest offset of our log that a durable subscription here still needs."""
        return 0

    def placed(self, append: Append, now: float) -> Any:
        """An entry of our log as other members copy it (`proposals.Placed`)."""

    def skip_to(self, upto: int) -> None:
        """Our log holds nothing more up to there: the next event gets a higher offset."""

    def heard_of(self, log: str) -> int:
        return 0  # the highest offset of another broker's log that a subscription here has heard of

    def undeliverable(self, to: str, envelope: Envelope, now: float) -> None:
        """No frame can carry this event to a neighbour: it becomes a dead letter here."""

    def entering(self) -> int:
        """Committed events of the group that are on their way to our disk."""
        return 0

    def identities(self) -> tuple[Put, ...]:
        """What was published before, as far as we remember."""
        return ()

    def adopt_identities(self, rows: tuple[Put, ...]) -> None:
        """Remember this too."""

    def client_of(self, address: str) -> str | None:
        """Who is behind the address of a link; None: no client, or one that has not said hello."""
        return None

    def address_of(self, client: str) -> str | None:
        """The address of a client's link; None: it is not here."""
        return None

    def subscriptions(self) -> tuple[SubscriptionId, ...]:
        """The subscriptions that this broker holds, in a fixed order."""
        return ()

    def subscription(self, id: SubscriptionId) -> tuple[Subscription, float] | None:
        """For people: a subscription that this broker holds, and when it began."""
        return None

    def wanting(self, event: Event) -> tuple[SubscriptionId, ...]:
        """For people: the subscriptions here that accept an event now."""
        return ()

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        return {}

    def describe(
        self, limit: int, sees: Callable[[SubscriptionId], bool] | None = None
    ) -> list[dict[str, Any]]:
        """Subscriptions, for people: those for which most waits, at most so many, of those that may be seen."""
        return []


KINDS = ("membership", "overlay", "assignment", "recovery", "delivery", "routing")  # the order of inputs

"""Roles: the interfaces between slots, one subject each.

Rules
- A role has at most eight methods (`tests/tidy/test_roles.py`). A strategy asks strategies of other kinds
  through the roles in its ports and in no other way.
- A base class of a kind has the roles that every composition needs (`slots.py`); their defaults suit a node
  alone.
- A role that only some compositions have is inherited by the strategies that implement it. A strategy that
  asks for such a role lists the role in `needs`, and the node refuses a composition without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tidings.availability.records import Put, Record
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement, Subscription, SubscriptionId
from tidings.protocol.interest import Match
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.proposals import CopyRequest, LogCopy, Proposal
from tidings.protocol.reading import LogScan, ReaderNeeds, ReadRequest, ReadResult

if TYPE_CHECKING:
    from tidings.protocol.slots import Ports


class Role(ABC):
    """Base of the roles."""

    kind: ClassVar[str]  # of the strategies that can have the role
    port: ClassVar[str]  # the attribute of `Ports` that holds the strategy with the role
    ports: Ports


# -- assignment ----------------------------------------------------------------------------


class Placement(Role):
    """Brokers that hold a subscription and brokers that match an event. The two sets always meet."""

    kind, port = "assignment", "placement"

    def assign(self, subscription: Subscription) -> tuple[str, ...]:
        """The brokers that hold this subscription; in a system of rendezvous the keys whose brokers do."""
        return (self.ports.name,)

    def resolve(self, event: Event) -> tuple[str, ...] | None:
        """The brokers that match this event; None: all to which routing forwards it."""
        return None


# -- routing -------------------------------------------------------------------------------


class EventRouter(Role):
    """Propagation of interest and advertisements, and forwarding of events."""

    kind, port = "routing", "router"

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        """A client of ours subscribed; `at` are the brokers that hold the subscription."""

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        """A subscription of a client of ours ended."""

    def advertisement_added(self, advertisement: Advertisement, now: float) -> None:
        """A client of ours advertises what it may publish."""

    def advertisement_removed(self, advertisement: Advertisement, now: float) -> None:
        """A client of ours withdraws an advertisement."""

    def forward(
        self,
        envelopes: Sequence[Envelope],
        matches: Sequence[Match],
        at: tuple[str, ...] | None,
        came_from: str | None,
        now: float,
    ) -> None:
        """Send events of one log on; `came_from` is None at the broker that accepted them. `at`: the brokers
        that match the event, which is one alone where assignment names some."""

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        """Which of these events, published by clients of ours, leave over no link? This call stands for
        `forward` of those. A strategy that does more at each event than forward it answers: none."""
        return [type(self).forward is EventRouter.forward] * len(events)


class LinkInterest(Role):
    """Interest of other brokers, by link."""

    kind, port = "routing", "link_interest"

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
        """The filters of the brokers behind a link."""
        return ()

    def ways_changed(self, now: float) -> None:
        """The overlay may route some keys over other links than before, or counts no unknown neighbour any
        more."""


class PatternInterest(Role):
    """Interest in single filters (the patterns of epidemic recovery), by signature."""

    kind, port = "routing", "patterns"

    @abstractmethod
    def matching(self, event: Event) -> tuple[int, ...]:
        """The signatures of the filters that are wanted over some link and accept an event."""

    @abstractmethod
    def links_wanting(self, signature: int) -> tuple[str, ...]:
        """The links over which exactly this filter is wanted, in a fixed order."""

    @abstractmethod
    def wanted_here(self, signature: int) -> float | None:
        """Since when a client here has wanted exactly this filter; None: none does."""


# -- overlay -------------------------------------------------------------------------------


class LinkNeighbours(Role):
    """Brokers at the far ends of our links."""

    kind, port = "overlay", "neighbours"

    def links(self) -> tuple[str, ...]:
        """The brokers that we are linked with, in a fixed order."""
        return ()

    def peers(self) -> tuple[str, ...]:
        """The brokers that we should be linked with, up or not, in a fixed order."""
        return self.links()


class TopologyHints(Role):
    """Observations of the other slots by which an overlay improves or repairs itself."""

    kind, port = "overlay", "topology"

    def interest_added(self, filter: Filter, now: float) -> None:
        """A client of ours wants this from now on; routing knows it already."""

    def interest_removed(self, filter: Filter, now: float) -> None:
        """A client of ours does not want this any more."""

    def event_seen(self, envelope: Envelope, came_from: str | None) -> None:
        """An event passes here; `came_from` is None at the broker that accepted it."""

    def received_from_two(self, log: str, upstream: str, other: str, now: float) -> None:
        """A log that comes over the link `upstream` is announced over another link too: the overlay has a
        cycle."""


class KeyLookup(Role):
    """Routes of a structured overlay to the brokers that are responsible for keys."""

    kind, port = "overlay", "keys"

    @abstractmethod
    def next_hop(self, key: str) -> str | None:
        """The link toward the broker that is responsible for a key; None: we are."""

    @abstractmethod
    def reach(self, peer: str, message: Message, address: str = "") -> None:
        """Send to a broker that need not be a neighbour; `address` locates it when we may not know it."""

    def doubted(self, peer: str, now: float) -> None:
        """A peer did not answer another slot: probe it."""


# -- recovery ------------------------------------------------------------------------------


class EventPassage(Role):
    """Recovery's part when an event arrives, passes and leaves."""

    kind, port = "recovery", "passage"
    is_blind: ClassVar[bool] = False  # True: `observe` has no effect at a publish that no log holds

    def interested(self, subscription: Subscription, now: float) -> None:
        """A subscription of one of our clients began."""

    def uninterested(self, subscription: Subscription, now: float) -> None:
        """A subscription of one of our clients ended."""

    def admit(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> Sequence[Envelope]:
        """The events that go on now that these have come, in order (`ports.events.arrived`). Others were here
        before, or wait for an earlier one."""
        return envelopes

    def observe(self, envelopes: Sequence[Envelope], came_from: str | None, now: float) -> Sequence[Envelope]:
        """Events of one log pass: note them, and put our headers on them. Those that passed before are left
        out, and go no further."""
        return envelopes

    def outgoing(self, envelopes: Sequence[Envelope], link: str, now: float) -> Sequence[Envelope]:
        """Events of one log are wanted over a link, up or not: add what the next broker needs; those that are
        not to be sent are left out."""
        return envelopes


class LogTransport(Role):
    """Logs of other brokers: which exist, how far they are known here, and reading in them."""

    kind, port = "recovery", "logs"

    def logs(self) -> tuple[str, ...]:
        """The logs of other brokers that we know of, in a fixed order."""
        return ()

    def has_log(self, log: str) -> bool:
        """Is this a log of another broker that we know of?"""
        return False

    def known(self, log: str) -> int:
        """Every event of this log up to here that is wanted at this broker has been here."""
        return 0

    def read(
        self, log: str, wanted: ReadRequest, then: Callable[[ReadResult, float], None], now: float
    ) -> int:
        """Read in the log of another broker; `then` runs once, unless the reading (its number) is given up.
        0: the log is not known here, and its broker is asked about it."""
        return 0

    def give_up(self, reading: int) -> None:
        """The subscription waits for this reading no longer."""

    def hurry(self, log: str, offset: int, now: float) -> None:
        """A subscription waits until this log is known up to there: ask for it; to be called
        again meanwhile."""

    def is_gone(self, log: str) -> bool:
        """Did the broker of this log say that it has another log now?"""
        return False

    def progressed(self, now: float) -> None:
        """Subscriptions here settled offsets of the logs of other brokers."""


class LogGuard(Role):
    """Claims of other brokers on our own log."""

    kind, port = "recovery", "log_guard"

    def keeps(self, event: Event) -> bool:
        """Must our log hold this event, so that it can be brought back when it is lost on the way?"""
        return False

    def is_pinned(self, offset: int) -> bool:
        """May another broker still ask for this entry of our log?"""
        return False

    def keepers(self, offset: int) -> Sequence[str]:
        """The brokers that may still ask for this entry of our log, for people."""
        return ()

    def needs_superseded(self, offset: int) -> bool:
        """May another broker still ask for this entry of our log, for a subscription that is owed it though a
        newer one has its key?"""
        return False

    def is_log_unsure(self, now: float) -> bool:
        """May a neighbour that has not spoken since our start know more of our log than we do?"""
        return False


class LogPaths(Role):
    """Links over which the logs of other brokers come."""

    kind, port = "recovery", "log_paths"

    @property
    def is_unsure(self) -> bool:
        """May an earlier life, on another disk, have had neighbours that are not back?"""
        return False

    def knows_log_of(self, broker: str) -> bool:
        """Do we know of a log of this broker?"""
        return False

    def upstream(self, log: str) -> str | None:
        """The link toward the broker of a log; None when it is not known, or ours."""
        return None

    def marks(self, link: str) -> dict[str, int] | None:
        """Offset up to which each log of this link is known; None: an event is missing, or a log
        has no link."""
        return {}

    def is_settled(self, marks: Mapping[str, int]) -> bool:
        """Is all of these logs up to there acknowledged, here and behind us?"""
        return True

    def elsewhere(self, peer: str, now: float) -> None:
        """Logs that came from this neighbour come another way from now on; what it may want is still kept for
        it."""

    def trace(self, log: str, requester: str, links: Collection[str], now: float) -> str | None:
        """The one of our links over which a log comes that the neighbour `requester` gets from us. None: it
        comes over none of them, and the neighbours that depend on us learn so."""
        return None


class ViewSynchrony(Role):
    """Virtual synchrony: members that go on to the next view have the same events before it begins."""

    kind, port = "recovery", "synchrony"

    def flush(self, number: int, survivors: tuple[str, ...], now: float) -> bool:
        """Bring the survivors to the same events before view `number`. True: done; False: `Quorum.flushed`
        follows."""
        return True


class GroupCommit(Role):
    """The log of a group, as its members append to it."""

    kind, port = "recovery", "group_commit"

    @property
    @abstractmethod
    def full(self) -> str | None:
        """Reason why the group can keep no event at the moment."""

    @abstractmethod
    def propose(self, proposals: Sequence[Proposal], now: float) -> None:
        """Give these events offsets; `GroupEntries.enter` follows for each."""

    @property
    @abstractmethod
    def has_caught_up(self) -> bool:
        """Does our disk hold all that our group has committed?"""


# -- membership ----------------------------------------------------------------------------


class MemberView(Role):
    """Members that are there."""

    kind, port = "membership", "members"

    def view(self, scope: str = "") -> tuple[str, ...]:
        """The members that we know of, in a fixed order."""
        return (self.ports.name,)

    @property
    def is_serving(self) -> bool:
        """Are we in the view, and in the majority? A member that is not accepts no client."""
        return True


class Quorum(Role):
    """Agreement of a group on its views."""

    kind, port = "membership", "quorum"

    @property
    @abstractmethod
    def coordinator(self) -> str | None:
        """The member that leads the view."""

    @abstractmethod
    def voters(self) -> dict[str, str | None]:
        """Members that decide by majority, with their disks; None: its present disk is not the one that
        votes."""

    @abstractmethod
    def trusts(self, peer: str) -> bool:
        """Is the member up, as far as we can tell?"""

    @abstractmethod
    def flushed(self, number: int, now: float) -> None:
        """Recovery has done what `ViewSynchrony.flush` asked for."""


class PeerSampling(Role):
    """Samples of the members, for gossip."""

    kind, port = "membership", "sampling"

    @abstractmethod
    def sample(self, k: int, scope: str = "") -> tuple[str, ...]:
        """At most k other members, drawn with the node's randomness."""

    @abstractmethod
    def size(self, scope: str = "") -> int:
        """Number of members, as far as we can tell."""

    def loss(self) -> float:
        """The part of messages to members that do not arrive, as far as we can tell."""
        return 0.0


class TopicMembership(Role):
    """Our own groups, among the groups of topics."""

    kind, port = "membership", "topics"

    def join(self, scope: str, now: float) -> None:
        """We belong to this scope from now on."""

    def leave(self, scope: str, now: float) -> None:
        """We do not belong to this scope any more."""

    def seek(self, scope: str, now: float) -> None:
        """Members of this scope are needed here, though we do not belong to it."""

    def correct(self, peer: str, topics: tuple[str, ...]) -> bool:
        """Tell a peer that takes us for a member of one of these that we are not; False: it
        cannot be told."""
        return False


# -- delivery ------------------------------------------------------------------------------


class LocalDispatch(Role):
    """Delivery of events to the subscriptions of this broker."""

    kind, port = "delivery", "dispatcher"

    def deliver(self, envelopes: Sequence[Envelope], matches: Sequence[Match], now: float) -> None:
        """Deliver events of one log, in order, to every subscription of ours that accepts them."""

    def deliver_to(self, id: SubscriptionId, envelope: Envelope, now: float) -> None:
        """Deliver an event to one subscription of ours that was owed it while it was at another broker."""

    def undeliverable(self, to: str, envelope: Envelope, now: float) -> None:
        """No frame can carry this event to a neighbour: it becomes a dead letter here."""


class LogOwner(Role):
    """The log of this broker."""

    kind, port = "delivery", "own_log"

    @property
    def position(self) -> tuple[str, int]:
        """The name of this broker's log, and the last of its offsets that may be delivered."""
        return self.ports.name, 0

    def scan(self, scan: LogScan, now: float) -> None:
        """Read a page of our log, as it is sent to other brokers; at once where the log holds no entry."""

    def unpinned(self) -> None:
        """Recovery needs less of our log than before."""

    def skip_to(self, upto: int) -> None:
        """Our log holds no further event up to there: the next one gets a higher offset."""


class LogReaders(Role):
    """Subscriptions of this broker that read the logs of others."""

    kind, port = "delivery", "log_readers"

    def needs_of(self, log: str) -> ReaderNeeds:
        """What durable subscriptions here need of another broker's log."""
        return ReaderNeeds()

    def log_found(self, log: str, now: float) -> None:
        """There is another broker's log that can be read from now on."""

    def log_gone(self, log: str, *, is_replaced: bool) -> None:
        """That log cannot be read any more; `is_replaced`: its broker has another log now."""


class GroupEntries(Role):
    """This member's copy of its group's log."""

    kind, port = "delivery", "group_entries"

    @abstractmethod
    def enter(
        self, offset: int, proposal: Proposal, accepted: float, records: list[Record], now: float
    ) -> None:
        """This event was committed at this offset; persist these records with it."""

    @abstractmethod
    def entering(self) -> int:
        """Committed events of the group that are on their way to our disk."""

    @abstractmethod
    def knows(self, proposal: Proposal) -> bool | None:
        """Was it committed before? None: it was not, and a later event of its publisher was."""

    @abstractmethod
    def settle(self, identity: tuple[str, str], *, is_kept: bool = True, full: str = "") -> None:
        """The proposal was committed before, never will be, or (`full`) when disks have room: answer its
        publisher."""

    @abstractmethod
    def needs_from(self) -> int:
        """The lowest offset of our log that a durable subscription here still needs."""

    @abstractmethod
    def copy(self, requested: CopyRequest, then: Callable[[LogCopy], None]) -> None:
        """Read a page of our log for another member; `then` does not run while our disk lacks what it asks
        for."""

    @abstractmethod
    def adopt_identities(self, rows: tuple[Put, ...]) -> None:
        """Add the deduplication window of another member."""


class Subscribers(Role):
    """Clients of this broker and their subscriptions."""

    kind, port = "delivery", "subscribers"

    def client_of(self, address: str) -> str | None:
        """The client behind the address of a link; None: no client, or one that has not said hello."""
        return None

    def address_of(self, client: str) -> str | None:
        """The address of a client's link; None: it is not here."""
        return None

    def subscriptions(self) -> tuple[SubscriptionId, ...]:
        """The subscriptions that this broker holds, in a fixed order."""
        return ()

    def subscription(self, id: SubscriptionId) -> tuple[Subscription, float] | None:
        """A subscription that this broker holds, and when it began."""
        return None

    def wanting(self, event: Event) -> tuple[SubscriptionId, ...]:
        """The subscriptions here that accept an event now."""
        return ()


class Inspection(Role):
    """Descriptions of this broker for people."""

    kind, port = "delivery", "inspection"

    def log_holds(self) -> Mapping[str, Filter]:
        """The filters by which readers hold our log, by name."""
        return {}

    def describe(
        self, limit: int, sees: Callable[[SubscriptionId], bool] | None = None
    ) -> list[dict[str, Any]]:
        """Subscriptions, for people: those with the largest backlog, at most so many, of those that may be
        seen."""
        return []

    def inspect(self, what: str, about: Any = None) -> Any:
        """What operators ask about: pins of the log, holds, dead letters; `superseded` is a function: is this
        offset kept only for readers of superseded events?"""
        return None


def roles_of(strategy: type) -> tuple[type[Role], ...]:
    """The roles of a strategy's class."""
    return tuple(base for base in strategy.__mro__ if Role in base.__bases__)


def all_roles() -> dict[str, type[Role]]:
    """Every role, by its port."""
    return {role.port: role for role in Role.__subclasses__() if "port" in vars(role)}

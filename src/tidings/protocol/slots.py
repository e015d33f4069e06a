"""The slots of a node: the kinds of strategy, and the ports through which a strategy acts.

Rules
- A node is a composition: one strategy in each slot (assignment, routing, overlay, recovery,
  membership, delivery). `node.py` alone knows them all; kinds never import one another.
- Every strategy has one shape: `on_input, on_message, on_timer, next_deadline, check`; its base has no
  effect.
- A strategy asks the others through roles (`roles.py`), each under its port: `self.ports.logs`,
  `self.ports.neighbours` and so on. A kind is a set of roles.
- Strategies act by `self.ports.send(...)`, `self.ports.emit(effect)` and `self.ports.disk`. They never build
  a `Send`: a slot that holds one strategy per scope (a topic, a service, a LAN) wraps what its strategies
  send.
- A strategy declares its messages and the envelope headers that it owns (`kind.name`).

The way of an event through a node:
  a client's publish -> `delivery` accepts and keeps it -> `ports.events.accepted`
  from another broker -> the strategy that received it  -> `ports.events.arrived`
  both: `EventPassage.observe` -> `LocalDispatch.deliver` -> `EventRouter.forward`.
The way of a subscription: `delivery` -> `events.interested` -> `assignment` -> `routing` -> `recovery`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tidings.availability.records import Append, Record
from tidings.errors import SettingsError
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.subscription import Advertisement, Subscription
from tidings.protocol import roles
from tidings.protocol.effects import Channel, Effect
from tidings.protocol.inputs import FetchFailed, Input, Parted, PersistFailed, ViewChanged
from tidings.protocol.interest import InterestTable, Match
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.retained_bytes import UNBOUNDED, RetainedBytes


class StateMachine(Protocol):
    """The interface of every driven machine: a node, a client, a peer."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what the driver is to do about it, in order."""

    def next_deadline(self) -> float | None:
        """Time at which to hand in `TimerFired`; None: no timer is set."""

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
        """Keep the records after everything that was handed in before; `stalled`: not yet, the
        disk is full."""

    def keep(self, records: Sequence[Record]) -> None:
        """Keep rows of tables, where they last and the disk has not failed; nobody waits for it."""

    def fetch(
        self, from_offset: int, limit: int, then: Callable[[Sequence[Append], float], None],
        otherwise: Callable[[FetchFailed, float], None],
    ) -> None:  # fmt: skip
        """Read log entries; none means that none follow."""


class EventPath(Protocol):
    """The node's own part in the way of events and of subscriptions."""

    def accepted(self, envelope: Envelope, now: float) -> None:
        """An event of one of our clients may be delivered from now on."""

    def passing(
        self,
        envelopes: Sequence[Envelope],
        matches: Sequence[Match] | None,
        came_from: str | None,
        now: float,
        dispatch: Callable[[Sequence[Envelope], Sequence[Match], float], None] | None = None,
    ) -> None:
        """Lead events of one log through the slots; `came_from` is None at the broker that accepted them.
        `matches`: those of the events, where they are known. `dispatch` delivers them here, in place of
        `LocalDispatch.deliver`, with the same arguments."""

    def received(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        """Events came from another broker: recovery admits them, and the admitted events pass on."""

    def arrived(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> None:
        """Events came from another broker, in this order, for the first time."""

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        """Which of these publishes, with their matches, leave this broker for none of its neighbours? For
        those recovery and routing have been told by this call."""

    def interested(self, subscription: Subscription, now: float) -> None:
        """A subscription of one of our clients began."""

    def uninterested(self, subscription: Subscription, now: float) -> None:
        """The subscription ended."""

    def advertised(self, advertisement: Advertisement, now: float) -> None:
        """One of our clients advertises what it may publish."""

    def unadvertised(self, advertisement: Advertisement, now: float) -> None:
        """One of our clients withdraws an advertisement."""

    def parted(self, parted: Parted, now: float) -> None:
        """The overlay itself gives up a neighbour: every slot hears of it."""

    def view_changed(self, change: ViewChanged, now: float) -> None:
        """Membership agreed on another view: every slot hears of it."""


class Sender(Protocol):
    """Sending of messages by a strategy; the only way for it to do so."""

    def __call__(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None: ...


class Backlog:
    """Counts of the deliveries so far that had to wait for a member, and of what replays of the own log read:
    the driver reads publishers less as deliveries wait, and while pages are on their way."""

    __slots__ = ("read", "reading", "waited")

    def __init__(self) -> None:
        self.waited = 0
        self.read = 0  # entries that came for replays
        self.reading = 0  # pages that are on their way


class Ports:
    """Everything that a strategy is given when the node is composed."""

    name: str  # of this node
    address: str = ""  # where others reach it, once the driver knows
    rng: Random
    recording: bool  # emit `Record` effects?
    limits: ResourceLimits
    event_bytes: int  # the largest event that may be published here
    kept: RetainedBytes = UNBOUNDED  # see `Node.count_kept`
    send: Sender
    emit: Callable[[Effect], None]
    disk: Disk
    events: EventPath
    interest: InterestTable  # every filter that events are matched against here
    is_alone: bool = False  # no strategy but delivery has a part in an event
    backlog: Backlog

    placement: roles.Placement
    router: roles.EventRouter
    link_interest: roles.LinkInterest
    patterns: roles.PatternInterest
    neighbours: roles.LinkNeighbours
    topology: roles.TopologyHints
    keys: roles.KeyLookup
    passage: roles.EventPassage
    logs: roles.LogTransport
    log_guard: roles.LogGuard
    log_paths: roles.LogPaths
    synchrony: roles.ViewSynchrony
    group_commit: roles.GroupCommit
    members: roles.MemberView
    quorum: roles.Quorum
    sampling: roles.PeerSampling
    topics: roles.TopicMembership
    dispatcher: roles.LocalDispatch
    own_log: roles.LogOwner
    log_readers: roles.LogReaders
    group_entries: roles.GroupEntries
    subscribers: roles.Subscribers
    inspection: roles.Inspection

    def offer(self, *strategies: Strategy) -> None:
        """Put these strategies under the ports of their roles."""
        for strategy in strategies:
            for role in roles.roles_of(type(strategy)):
                setattr(self, role.port, strategy)

    def has(self, role: type[roles.Role]) -> bool:
        """Does a strategy of this node have the role?"""
        return role.port in vars(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            role = roles.all_roles().get(name)
            if role is None:
                raise AttributeError(name)
            raise lacking(role)


def lacking(role: type[roles.Role], requester: str = "a strategy") -> SettingsError:
    """The error for a composition in which no strategy has a role that another one asks for."""
    return SettingsError(
        f"{requester} needs the role {role.__name__}, which no strategy of this node has",
        hint=f"put a {role.kind} strategy with this role into the composition",
    )


class Strategy:
    """The shape of every kind. The base has no effect."""

    kind: ClassVar[str]
    name: ClassVar[str] = "none"  # as `tidings systems` prints it
    messages: ClassVar[tuple[type[Message], ...]] = ()
    headers: ClassVar[frozenset[str]] = frozenset()
    needs: ClassVar[
        tuple[type[roles.Role], ...]
    ] = ()  # of other strategies, beyond those that every node has
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

    def on_publishes(self, batches: Sequence[tuple[str, Sequence[Message]]], now: float) -> None:
        """Publishes of these senders arrived together."""
        for sender, messages in batches:
            self.on_messages(sender, messages, now)

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
        """Its matcher, for drivers that prepare compiled kernels."""
        return ()

    def figures(self) -> dict[str, Any]:
        """Counters for people."""
        return {}


class Assignment(Strategy, roles.Placement):
    """Brokers that hold subscriptions, and brokers that match events."""

    kind = "assignment"


class Routing(Strategy, roles.EventRouter, roles.LinkInterest):
    """Links that an event takes."""

    kind = "routing"


class Overlay(Strategy, roles.LinkNeighbours, roles.TopologyHints):
    """Links that exist."""

    kind = "overlay"


class Recovery(
    Strategy,
    roles.EventPassage,
    roles.LogTransport,
    roles.LogGuard,
    roles.LogPaths,
    roles.ViewSynchrony,
):
    """Retrieval of events that were lost on the way."""

    kind = "recovery"


class Membership(Strategy, roles.MemberView, roles.PeerSampling, roles.TopicMembership):
    """Members that are there."""

    kind = "membership"

    def sample(self, k: int, scope: str = "") -> tuple[str, ...]:
        others = [member for member in self.view(scope) if member != self.ports.name]
        return tuple(self.ports.rng.sample(others, min(k, len(others))))

    def size(self, scope: str = "") -> int:
        return len(self.view(scope))


class Delivery(
    Strategy, roles.LocalDispatch, roles.LogOwner, roles.LogReaders, roles.Subscribers, roles.Inspection
):
    """Delivery to the clients of this broker: once, in order, with or without gaps.

    It owns the messages between clients and broker, sessions, subscriptions and the log.
    """

    kind = "delivery"
    matcher: Matcher | None = None  # of the node's interest table; None: the node makes one


KINDS = ("membership", "overlay", "assignment", "recovery", "delivery", "routing")  # the order of inputs

"""A subscription as its broker holds it: its cursors, its queue, its members, and what they have not
acknowledged.

Rules
- It has a cursor in this broker's own log (`own`) and one in the log of each other broker (`others`). A
  broker has a million subscriptions and most hear one log, so the own cursor is an attribute and no table is
  made for it.
- Events of logs go from cursors to `queue`. Events that no log holds wait in the own cursor's `pending`
  during its replay, each behind the offset that was the log's end when it arrived, so that the events of one
  source keep their order.
- A full queue: a durable subscription spills to the log, a transient one follows its policy.
"""

from __future__ import annotations

from collections import deque
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.packed import pack, unpack
from tidings.model.subscription import DeliveryOptions, Position, Subscription, SubscriptionId
from tidings.protocol.delivery.cursor import LIVE, REPLAYING, Cursor
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.migration_header import MigrationHeader
from tidings.protocol.delivery.owner import UNCOUNTED, OwnerMemory
from tidings.protocol.delivery.unacked import NONE_UNACKED
from tidings.protocol.lazy_queues import EMPTY, NOTHING
from tidings.protocol.lazy_queues import own as own_queue
from tidings.protocol.messages import Unsubscribe

if TYPE_CHECKING:
    from tidings.protocol.delivery.group_returns import GroupMembers

_first_tag = attrgetter("first_tag")


class Member:
    """Who listens: a subscriber, or one of a group."""

    __slots__ = (
        "address",
        "credit",
        "ends",
        "is_open",
        "key",
        "last_word",
        "open_bytes",
        "ref",
        "subscription",
        "withheld",
    )

    def __init__(self, address: str, ref: int, credit: int, state: SubscriptionState) -> None:
        self.address = address
        self.ref = ref
        self.credit = credit  # notifications that it can take; below 0 after a race
        self.open_bytes = 0  # of events that it was sent and has not acknowledged ...
        self.withheld = 0  # ... and credit that counts again when there are fewer
        self.subscription = state
        self.ends = True  # False: it did not ask for a durable subscription, and so cannot end one
        self.key = ""  # of a member of a durable group that tells its holdings: the same on its next link
        self.is_open = False  # True: it was answered, and can be sent to
        self.last_word: Unsubscribe | None = None  # it leaves when it has acknowledged what it was sent


class DurableState(msgspec.Struct):
    """State of a durable subscription beyond that of a transient one."""

    owner: str = ""  # the principal whose quota counts what is owed; none: it does not count
    home: str = ""  # of a guest: the log of its home
    is_remote: bool = False  # it was resumed here, and another broker is its home
    attended: float = 0.0  # when a client last subscribed to it
    is_from_disk: bool = False  # it began before a restart
    is_kept: bool = False  # the disk holds it
    has_new_letter: bool = False  # the disk may not hold its last dead letter
    is_ranked: bool = False  # among the subscriptions of its owner that events wait for (`bounds.py`)
    left_at: float | None = None  # when the last listener of a guest left
    outlived: frozenset[str] = frozenset()  # brokers that lost a log which it heard


class MigrationOrder(msgspec.Struct):
    """Order of publishers that move between brokers (`publisher_migration.py`)."""

    barred: deque[Item] = msgspec.field(
        default_factory=deque
    )  # earlier events of their publisher are to come
    movers: dict[str, MigrationHeader] = msgspec.field(
        default_factory=dict
    )  # by source: the last stay of a publisher that moved


class LossCounts(msgspec.Struct):
    """Events that the subscription lost, and what its members know of them."""

    by_reason: dict[str, int] = msgspec.field(default_factory=dict)
    notified_at: float | None = None  # when the members were last told
    has_news: bool = False  # there are losses that the members do not know of


TRANSIENT = DurableState()  # of every subscription that is not durable


class SubscriptionState:
    """The state of one subscription. Rare state is an attribute of the class until it is set, all empty
    queues are one object, and the filter is packed while no log is read."""

    __slots__ = (
        "__dict__", "_filter", "are_others_live", "durable", "handle", "id", "joining", "last_tag", "members",
        "named", "number", "options", "others", "own", "queue", "since", "unacked",
    )  # fmt: skip

    delivered: DeliveredRanges | None = (
        None  # ranges that it was delivered under earlier filters and in earlier lives
    )
    stored = TRANSIENT
    moving: MigrationOrder | None = None
    losses: LossCounts | None = None
    group_members: GroupMembers | None = None  # of a durable group
    memory = UNCOUNTED  # of the principal that subscribed
    queued_bytes = 0  # of `queue` and the own cursor's `pending`, and counted in `memory` too
    blocked: deque[Item] = EMPTY
    dead_letters_of: SubscriptionId | None = None  # it hears those, and not the log
    has_ended = False

    def __init__(
        self, subscription: Subscription, own: Cursor, *, named: bool, number: int, since: float
    ) -> None:
        self.own = own
        self.others: dict[str, Cursor] = NOTHING  # by log of another broker
        self.are_others_live = True  # False: not known
        self.subscription = subscription
        self.named = named
        self.number = number  # orders publishes and subscribes of this node
        self.since = since  # when it took this filter: decides which events were available
        self.handle: int | None = None  # in the matcher; None: it hears dead letters
        self.queue: deque[Item] = EMPTY
        self.unacked = NONE_UNACKED
        self.members: tuple[Member, ...] = ()  # the next one to be served first
        self.joining: tuple[Member, ...] = ()  # not answered yet
        self.last_tag = 0

    @property
    def subscription(self) -> Subscription:
        return Subscription(self.id, self.filter, self.options)

    @subscription.setter
    def subscription(self, subscription: Subscription) -> None:
        self.id: SubscriptionId = subscription.id  # these three are asked for at every event
        self.options: DeliveryOptions = subscription.options
        self.durable: bool = subscription.options.durable
        self._filter: bytes | Filter = pack(subscription.filter)

    @property
    def filter(self) -> Filter:
        filter = self._filter
        if type(filter) is bytes:
            filter = unpack(filter)
            if self.is_behind:
                self._filter = filter
        assert isinstance(filter, Filter)
        return filter

    def pack_filter(self) -> None:
        """The replay is over: the filter is seldom needed from now on."""
        if isinstance(self._filter, Filter) and not self.is_behind:
            self._filter = pack(self._filter)

    # -- cursors -------------------------------------------------------------------------

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return (self.own, *self.others.values()) if self.others else (self.own,)

    def cursor_in(self, log: str) -> Cursor | None:
        """Cursor in a log; None when that log is no more."""
        return self.own if log == self.own.log else self.others.get(log)

    @property
    def is_behind(self) -> bool:
        """Is a part of a log left to read?"""
        if self.own.state is REPLAYING:
            return True
        if not self.are_others_live:
            self.are_others_live = REPLAYING not in [cursor.state for cursor in self.others.values()]
        return not self.are_others_live

    def was_delivered(self, cursor: Cursor, event: Event, offset: int) -> bool:
        """Is this entry settled, or was it delivered under an earlier filter or in an earlier life?"""
        if cursor.progress.is_settled(offset):
            return True
        return self.delivered is not None and self.delivered.was_delivered(event, cursor.log, offset, accepts)

    def owes(self) -> int:
        """Number of waiting events of a bounded subscription, as far as it is known without reading."""
        return sum(cursor.waiting() for cursor in self.cursors)

    def in_hand(self) -> int:
        """Number of events that wait here, or are with members."""
        waiting = len(self.queue) + self.unacked.deliveries + len(self.blocked) + len(self.barred)
        return waiting + sum(len(cursor.pending) for cursor in self.cursors)

    def backlog(self) -> int:
        """Number of events that it is owed, as far as it is known without reading a log: those in hand, and
        those that wait in a log for their turn. After a restart a broker reads the log once to count them
        (`runtime/backlogs.py`)."""
        found = self.in_hand()
        for cursor in self.cursors:
            found += max(0, len(cursor.later) - (0 if cursor is self.own else len(cursor.pending)))
            if not self.has_bounds:  # of one with bounds they are in `later`
                found += cursor.uncounted() if cursor.counted else len(cursor.unread)
        return found

    def sent_below(self) -> dict[str, int] | None:
        """By log: the offset below which owed events may have been sent. None: any may be, since the disk is
        not told of what a listener is sent."""
        if self.has_members:
            return None
        ends = {cursor.log: cursor.again_below for cursor in self.cursors if cursor.again_below}
        for item in (*self.queue, *self.own.pending, *self.blocked, *self.barred):
            if item.again and item.position is not None and item.dead_letter is None:
                log = item.position.log
                ends[log] = max(ends.get(log, 0), item.position.offset + 1)
        return ends

    def silences(self) -> list[Position]:
        """Positions up to which no event is for it and that its members do not know of yet: the token of a
        durable subscription advances also over what is not for it."""
        silent: list[Position] = []
        for cursor in self.cursors if not (self.unacked or self.queue) else ():
            floor = cursor.floor()
            if floor > cursor.silent_below and cursor.start is not None:
                cursor.silent_below = floor
                silent.append(Position(cursor.log, floor - 1))
        return silent

    def remember(self) -> DeliveredRanges:
        """The ranges that it was delivered so far, under this filter and earlier ones."""
        delivered, filter = self.delivered or DeliveredRanges(), self.filter
        for cursor in (*self.others.values(), self.own):
            cursor.remember(delivered, filter)
        self.delivered = delivered
        return delivered

    # -- rare state ------------------------------------------------------------------------

    @property
    def owner(self) -> str:
        return self.stored.owner

    @property
    def barred(self) -> deque[Item]:
        return EMPTY if self.moving is None else self.moving.barred

    @property
    def movers(self) -> dict[str, MigrationHeader]:
        return NOTHING if self.moving is None else self.moving.movers

    def own_moving(self) -> MigrationOrder:
        if self.moving is None:
            self.moving = MigrationOrder()
        return self.moving

    @property
    def lost(self) -> dict[str, int]:
        return NOTHING if self.losses is None else self.losses.by_reason

    def count_lost(self, reason: str) -> LossCounts:
        if self.losses is None:
            self.losses = LossCounts()
        self.losses.by_reason[reason] = self.losses.by_reason.get(reason, 0) + 1
        return self.losses

    @property
    def since_available(self) -> float:
        """It has a right to older events that ended later than that; infinite: to none."""
        return self.since if self.options.replay else inf

    def belongs_to(self, memory: OwnerMemory) -> None:
        """Count the subscription's bytes for this principal from now on."""
        if self.memory is not memory:
            used = self.queued_bytes + sum(item.size for item in self.unacked.items())
            self.memory.used -= used
            self.memory = memory
            memory.used += used

    def count_queued(self, size: int) -> None:
        """More bytes wait in its queue, or (below 0) fewer."""
        if size < -self.queued_bytes:
            size = -self.queued_bytes
        self.queued_bytes += size
        self.memory.used += size

    def put_back(self, returned: list[Item]) -> None:
        """Put events at the front of the queue, among those that were given back before, in the order in
        which all of them were sent first."""
        if not returned:
            return
        line, last = own_queue(self, "queue"), max(map(_first_tag, returned))
        for item in returned:
            self.count_queued(item.size)
        while line and 0 < line[0].first_tag < last:
            returned += (line.popleft(),)
        line.extendleft(sorted(returned, key=_first_tag, reverse=True))

    @property
    def has_bounds(self) -> bool:
        options = self.options
        return self.durable and (options.keep_events is not None or options.keep_seconds is not None)

    @property
    def is_full(self) -> bool:
        waiting = len(self.queue) + len(self.own.pending)
        return waiting >= self.options.queue or (waiting > 0 and self.memory.is_full)

    # -- members ---------------------------------------------------------------------------

    def leave_out(self, member: Member) -> None:
        """Remove a member that listens no more."""
        self.members = tuple(other for other in self.members if other is not member)
        self.joining = tuple(other for other in self.joining if other is not member)

    @property
    def is_ahead(self) -> bool:
        """Do events wait that no member has credit for? Those that are read now would wait in memory too."""
        return bool(self.queue) and not any(member.credit > 0 for member in self.members)

    def ready_member(self) -> Member | None:
        """The only member, when no event waits and it has credit: a new event can go straight to it."""
        if len(self.members) != 1 or self.queue or self.blocked:
            return None
        member = self.members[0]
        return member if member.credit > 0 and self.own.state is LIVE else None

    def next_member(self) -> Member | None:
        """The next member that has credit; who was served, or had none, goes to the end of the line."""
        members = self.members
        for position, member in enumerate(members):
            if member.credit > 0:
                if len(members) > 1:
                    self.members = members[position + 1 :] + members[: position + 1]
                return member
        return None

    def spared(self, filter: Filter) -> list[Item]:
        """Waiting events that are in no log and that the subscription's new filter accepts."""
        waiting = (*self.queue, *self.own.pending, *self.blocked, *self.barred)
        return [item for item in waiting if item.position is None and accepts(filter, item.event)]

    @property
    def is_regrouping(self) -> bool:
        """After a restart, do members that may have events in hand have still to return?"""
        return self.group_members is not None and bool(self.group_members.awaited)

    @property
    def has_members(self) -> bool:
        return bool(self.members or self.joining)

    # -- invariants ----------------------------------------------------------------------

    def check(self) -> None:
        assert not self.has_ended, f"{self.id} has ended and is still held"
        assert self.durable or not self.own.later, f"{self.id}: only durable subscriptions are owed"
        read = self.own.next if self.own.state is REPLAYING else 0
        assert max(read, self.own.progress.received) <= self.own.end, (
            f"{self.id}: it was dispatched what it read"
        )
        if self.handle is not None:
            waiting = self._waiting()
            for cursor in self.cursors:
                cursor.check(waiting.get(cursor.log, ()))
        assert not self.blocked or self.is_full, f"{self.id}: no publisher is blocked while there is room"
        idle = self.queue and any(member.credit > 0 for member in self.members)
        assert not idle, f"{self.id}: a member with credit waits beside a queue"

    def _waiting(self) -> dict[str, list[int]]:
        """By log: the offsets that are in the queue or with members."""
        found: dict[str, list[int]] = {}
        for item in (*self.queue, *self.blocked, *self.barred, *self.unacked.items()):
            if item.position is not None:
                found.setdefault(item.position.log, []).append(item.position.offset)
        return found

"""A subscription as its broker holds it.

Rules
- It reads the log like a reader with a bookmark. REPLAYING: `at` is the next offset to read;
  live events of the log are not queued, they will be read. LIVE: everything below the log's end
  was read, and new events are queued as they come. A slow durable subscription whose queue is
  full goes back to REPLAYING: it spills to the log, where its events are.
- Events that no log holds wait in `behind` during a replay, each with the offset before which
  it may not be told, so that one source's events keep their order.
- `progress` knows which offsets were handed out (they are in the queue, or with a member) and not
  settled. Settled means: acknowledged, dropped by a named policy or bound, or dead letters.
- All this is about this broker's own log; it has a `Lane` in the log of each other broker.
- `later` are offsets that a durable subscription is owed and has not read yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum

from tidings.availability.progress import LogProgress
from tidings.availability.told import Told
from tidings.model.filter import Filter
from tidings.model.packed import pack, unpack
from tidings.model.subscription import DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.lane import Lane
from tidings.protocol.delivery.moved import Moved
from tidings.protocol.delivery.owner import UNCOUNTED, OwnerMemory
from tidings.protocol.delivery.right import Right
from tidings.protocol.lines import EMPTY, NOTHING, own_table
from tidings.protocol.messages import Unsubscribe


class Phase(StrEnum):
    REPLAYING = "replaying"  # reads the log; reaching its end ends it
    LIVE = "live"  # hears events as they come; a full queue (durable) or a new filter ends it
    ENDED = "ended"  # over for good


TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.REPLAYING, "caught up"): Phase.LIVE,
    (Phase.REPLAYING, "read on"): Phase.REPLAYING,
    (Phase.LIVE, "read on"): Phase.REPLAYING,
    (Phase.REPLAYING, "end"): Phase.ENDED,
    (Phase.LIVE, "end"): Phase.ENDED,
}


class Member:
    """Who listens: a subscriber, or one of a group."""

    __slots__ = ("address", "credit", "held", "is_open", "last_word", "open_bytes", "ref", "withheld")

    def __init__(self, address: str, ref: int, credit: int, held: Held) -> None:
        self.address = address
        self.ref = ref
        self.credit = credit  # notifications that it can take; below 0 after a race
        self.open_bytes = 0  # of events that it was sent and has not acknowledged ...
        self.withheld = 0  # ... and credit that counts again when there are fewer
        self.held = held
        self.is_open = False  # True: it was answered, and can be sent to
        self.last_word: Unsubscribe | None = None  # it leaves when it has acknowledged what it was sent


class Held:
    """The state of one subscription. A broker has a million of them: what few have is an attribute of
    the class until it is set, all empty lines are one, and the filter is packed while nobody looks at it."""

    __slots__ = (
        "__dict__", "_heard", "_wanted", "at", "durable", "handle", "id", "joining", "lanes", "last_tag", "members",
        "named", "number", "options", "phase", "queue", "reading", "seam", "since", "start", "told_from", "unacked",
    )  # fmt: skip

    told: Told | None = None  # what it was told in earlier lives
    rights: Sequence[Right] = ()  # what it was owed under earlier filters
    again_below = 0  # offsets below this may have been sent in an earlier life
    is_from_disk = False  # it began in an earlier life
    is_kept = False  # the disk holds it
    is_guest = False  # it was resumed here; another broker is its home
    left_at: float | None = None  # when the last listener of a guest left
    outlived: frozenset[str] = frozenset()  # brokers that lost a log which it heard
    home = ""  # of a guest: the log of its home
    attended = 0.0  # of a durable one: when somebody last subscribed to it
    owner = ""  # of a durable one: the principal for whom what it is owed counts; none: it does not count
    is_ranked = False  # among the subscriptions of its owner that something waits for (`bounds.py`)
    memory = UNCOUNTED  # of the principal that subscribed
    queued_bytes = 0  # of `queue` and `behind`, and counted there too
    behind: deque[Item] = EMPTY
    blocked: deque[Item] = EMPTY
    barred: deque[Item] = EMPTY  # their publisher moved, and earlier ones are to come
    movers: dict[str, Moved] = NOTHING  # by source: the last stay of a publisher that moved
    unread: deque[int] = EMPTY  # handed out in an earlier life, and to be read again
    later: deque[int] = EMPTY
    silent_upto = -1
    lost: dict[str, int] = NOTHING  # by reason
    lost_told_at: float | None = None  # when the members were last told of losses
    has_losses = False  # there are some that they were not told of
    dead_letters_of: SubscriptionId | None = None  # it hears those, and not the log

    def __init__(self, subscription: Subscription, *, named: bool, number: int, since: float) -> None:
        self.subscription = subscription
        self.named = named
        self.number = number  # orders publishes and subscribes of this node
        self.since = since  # when it began to want this filter: decides which events were available
        self.handle: int | None = None  # in the matcher; None: it hears dead letters
        self.phase = Phase.LIVE
        self.at = 0  # next offset to read while REPLAYING
        self.start = 0  # offsets from here on came while it wanted this filter
        self.seam = 0  # what it is owed from here on is in `later`; below, every entry may be owed
        self.told_from = 0  # where its reading with this filter began
        self.reading = 0  # the number of the read that is under way; 0: none
        self.queue: deque[Item] = EMPTY
        self.lanes: dict[str, Lane] = NOTHING  # by log of another broker
        self.unacked: dict[int, tuple[Item, Member]] = NOTHING
        self.members: tuple[Member, ...] = ()  # the next one to be served first
        self.joining: tuple[Member, ...] = ()  # not answered yet
        self.last_tag = 0
        self._heard: int | LogProgress = 1  # a number while nothing is owed

    @property
    def subscription(self) -> Subscription:
        return Subscription(self.id, self.filter, self.options)

    @subscription.setter
    def subscription(self, subscription: Subscription) -> None:
        self.id: SubscriptionId = subscription.id  # these three are asked for at every event
        self.options: DeliveryOptions = subscription.options
        self.durable: bool = subscription.options.durable
        self._wanted: bytes | Filter = pack(subscription.filter)

    @property
    def filter(self) -> Filter:
        """What it wants. While it reads a log it keeps this at hand."""
        wanted = self._wanted
        if type(wanted) is bytes:
            wanted = unpack(wanted)
            if self.phase is Phase.REPLAYING:
                self._wanted = wanted
        assert isinstance(wanted, Filter)
        return wanted

    @property
    def progress(self) -> LogProgress:
        heard = self._heard
        if type(heard) is int:
            heard = self._heard = LogProgress(heard=heard)
        assert isinstance(heard, LogProgress)
        return heard

    @progress.setter
    def progress(self, progress: LogProgress) -> None:
        self._heard = progress if progress.owed else progress.heard

    def silence(self, upto: int) -> None:
        """There is nothing for it below `upto` but what was handed out."""
        heard = self._heard
        if type(heard) is int:
            self._heard = max(heard, upto)
        else:
            self.progress.silence(upto)

    def belongs_to(self, memory: OwnerMemory) -> None:
        """Its bytes count for this principal from now on."""
        if self.memory is not memory:
            used = self.queued_bytes + sum(item.size for item, _ in self.unacked.values())
            self.memory.used -= used
            self.memory = memory
            memory.used += used

    def count_queued(self, size: int) -> None:
        """More bytes wait in its queue, or (below 0) fewer."""
        size = max(size, -self.queued_bytes)
        self.queued_bytes += size
        self.memory.used += size

    def count_lost(self, reason: str) -> None:
        lost = own_table(self, "lost")
        lost[reason] = lost.get(reason, 0) + 1

    def leave_out(self, member: Member) -> None:
        """It listens no more."""
        self.members = tuple(other for other in self.members if other is not member)
        self.joining = tuple(other for other in self.joining if other is not member)

    @property
    def has_bounds(self) -> bool:
        options = self.options
        return self.durable and (options.keep_events is not None or options.keep_seconds is not None)

    @property
    def is_full(self) -> bool:
        waiting = len(self.queue) + len(self.behind)
        return waiting >= self.options.queue or (waiting > 0 and self.memory.is_full)

    @property
    def is_behind(self) -> bool:
        """Is there something left to read?"""
        if self.phase is Phase.REPLAYING:
            return True
        return bool(self.lanes) and any(not lane.is_live for lane in self.lanes.values())

    def ready_member(self) -> Member | None:
        """Its only member, when nothing waits and it has credit: what comes can go straight to it."""
        if len(self.members) != 1 or self.queue or self.behind or self.blocked:
            return None
        member = self.members[0]
        return member if member.credit > 0 and self.phase is Phase.LIVE else None

    @property
    def has_ended(self) -> bool:
        return self.phase is Phase.ENDED

    @property
    def has_members(self) -> bool:
        return bool(self.members or self.joining)

    def step(self, happening: str) -> None:
        self.phase = TRANSITIONS[self.phase, happening]
        if self.phase is not Phase.REPLAYING and isinstance(self._wanted, Filter):
            self._wanted = pack(self._wanted)

    # -- progress ------------------------------------------------------------------------

    def floor(self, log_end: int) -> int:
        """Everything below is settled; `log_end` is the log's end as far as it was told."""
        if self.phase is Phase.LIVE:
            self.silence(log_end)
        heard = self._heard
        return heard if type(heard) is int else self.progress.low_water

    def owes(self) -> int:
        """How many events wait for one with bounds, as far as it is known without reading. (What it has
        still to read again is in `later`.)"""
        own = len(self.progress.owed) - len(self.unread) + len(self.later)
        lanes = self.lanes.values()
        return own + sum(len(lane.progress.owed) - len(lane.unread) + len(lane.later) for lane in lanes)

    def in_hand(self) -> int:
        """How many events wait here for it, or are with its members."""
        if not (self.queue or self.unacked or self.behind or self.blocked or self.barred or self.lanes):
            return 0
        pending = sum(len(lane.pending) for lane in self.lanes.values())
        waiting = len(self.queue) + len(self.behind) + len(self.blocked) + len(self.barred)
        return waiting + len(self.unacked) + pending

    def remember(self, log: str, log_end: int, known: Callable[[str], int]) -> Told:
        """What it was told so far, under this filter and earlier ones: what it read, less what it owes."""
        told, filter = self.told or Told(), self.filter
        for lane in self.lanes.values():
            lane.remember(told, filter, known(lane.log))
        self.floor(log_end)
        start = self.told_from
        for owed in self.progress.owed:
            told.add(filter, log, start, owed)
            start = owed + 1
        told.add(filter, log, start, self.progress.heard)
        self.told = told
        return told

    # -- invariants ----------------------------------------------------------------------

    def check(self, log: str, log_end: int) -> None:
        assert self.phase is not Phase.ENDED, f"{self.id} has ended and is still held"
        assert self.durable or not self.later, f"{self.id}: only durable subscriptions are owed"
        assert self.progress.heard <= log_end, f"{self.id}: it heard what was told"
        if self.handle is not None:
            waiting = self._waiting()
            self._check_reading(waiting.get(log, []), log_end)
            for lane in self.lanes.values():
                lane.check(waiting.get(lane.log, []))
        assert not self.blocked or self.is_full, f"{self.id}: nobody is blocked while there is room"
        idle = self.queue and any(member.credit > 0 for member in self.members)
        assert not idle, f"{self.id}: a member with credit waits beside a queue"

    def _waiting(self) -> dict[str, list[int]]:
        """By log: the offsets that are in the queue or with members."""
        found: dict[str, list[int]] = {}
        for item in (*self.queue, *self.blocked, *self.barred, *(item for item, _ in self.unacked.values())):
            if item.position is not None:
                found.setdefault(item.position.log, []).append(item.position.offset)
        return found

    def _check_reading(self, waiting: list[int], log_end: int) -> None:
        read_to = self.at if self.phase is Phase.REPLAYING else log_end
        owed = [offset for offset in self.progress.owed if offset < read_to]
        assert owed == sorted(waiting), f"{self.id}: what was read and not settled is somewhere, once"
        if self.phase is Phase.LIVE:
            assert not self.behind, f"{self.id}: nothing waits behind a replay that is over"
            assert not self.later, f"{self.id}: nothing is left to read"
        else:
            assert self.at <= log_end, f"{self.id}: it reads what was told"
            assert all(offset >= self.at for offset in self.later), f"{self.id}: read, and still owed"

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

from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum

from tidings.availability.progress import LogProgress
from tidings.availability.told import Told
from tidings.model.subscription import DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.lane import Lane
from tidings.protocol.delivery.moved import Moved
from tidings.protocol.delivery.right import Right
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

    __slots__ = ("address", "credit", "held", "is_open", "last_word", "ref")

    def __init__(self, address: str, ref: int, credit: int, held: Held) -> None:
        self.address = address
        self.ref = ref
        self.credit = credit  # notifications that it can take; below 0 after a race
        self.held = held
        self.is_open = False  # True: it was answered, and can be sent to
        self.last_word: Unsubscribe | None = None  # it leaves when it has acknowledged what it was sent


class Held:
    """The state of one subscription."""

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
        self.told = Told()
        self.rights: list[Right] = []  # what it was owed under earlier filters
        self.again_below = 0  # offsets below this may have been sent in an earlier life
        self.is_from_disk = False  # it began in an earlier life
        self.is_guest = False  # it was resumed here; another broker is its home
        self.left_at: float | None = None  # when the last listener of a guest left
        self.home = ""  # of a guest: the log of its home
        self.attended = 0.0  # of a durable one: when somebody last subscribed to it
        self.reading = 0  # the number of the read that is under way; 0: none
        self.queue: deque[Item] = deque()
        self.behind: deque[Item] = deque()
        self.blocked: deque[Item] = deque()
        self.barred: deque[Item] = deque()  # their publisher moved, and earlier ones are to come
        self.movers: dict[str, Moved] = {}  # by source: the last stay of a publisher that moved
        self.progress = LogProgress()
        self.lanes: dict[str, Lane] = {}  # by log of another broker
        self.unread: deque[int] = deque()  # handed out in an earlier life, and to be read again
        self.later: deque[int] = deque()
        self.unacked: dict[int, tuple[Item, Member]] = {}
        self.members: deque[Member] = deque()  # the next one to be served first
        self.joining: list[Member] = []  # not answered yet
        self.last_tag = 0
        self.last_read = 0
        self.silent_upto = -1
        self.figures: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()  # by reason
        self.lost_told_at: float | None = None  # when the members were last told of losses
        self.has_losses = False  # there are some that they were not told of
        self.dead_letters_of: SubscriptionId | None = None  # it hears those, and not the log

    @property
    def subscription(self) -> Subscription:
        return self._subscription

    @subscription.setter
    def subscription(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self.id: SubscriptionId = subscription.id  # these three are asked for at every event
        self.options: DeliveryOptions = subscription.options
        self.durable: bool = subscription.options.durable

    @property
    def has_bounds(self) -> bool:
        options = self.subscription.options
        return options.durable and (options.keep_events is not None or options.keep_seconds is not None)

    @property
    def is_full(self) -> bool:
        return len(self.queue) + len(self.behind) >= self.options.queue

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

    # -- progress ------------------------------------------------------------------------

    def floor(self, log_end: int) -> int:
        """Everything below is settled; `log_end` is the log's end as far as it was told."""
        if self.phase is Phase.LIVE:
            self.progress.silence(log_end)
        return self.progress.low_water

    def owes(self) -> int:
        """How many events wait for it, as far as it is known without reading."""
        owed = sum(len(lane.progress.owed) + len(lane.later) for lane in self.lanes.values())
        return len(self.progress.owed) + len(self.later) + owed

    def in_hand(self) -> int:
        """How many events wait here for it, or are with its members."""
        pending = sum(len(lane.pending) for lane in self.lanes.values())
        waiting = len(self.queue) + len(self.behind) + len(self.blocked) + len(self.barred)
        return waiting + len(self.unacked) + pending

    def remember(self, log: str, log_end: int, known: Callable[[str], int]) -> Told:
        """What it was told so far, under this filter and earlier ones: what it read, less what it owes."""
        for lane in self.lanes.values():
            lane.remember(self.told, self.subscription.filter, known(lane.log))
        self.floor(log_end)
        start = self.told_from
        for owed in self.progress.owed:
            self.told.add(self.subscription.filter, log, start, owed)
            start = owed + 1
        self.told.add(self.subscription.filter, log, start, self.progress.heard)
        return self.told

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

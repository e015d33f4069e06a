"""Cursor of one subscription in one log: what was read, what is pending, what is still owed.

Rules
- Offsets are half-open everywhere. `next` is the first offset that was not read, and a range is [start, end).
- The class is the same for the broker's own log, a neighbour's and a group's; a `LogSource` holds the
  difference.
- REPLAYING: the log is read from `next` on, page by page. Live events of the log stay in it or wait in
  `pending`.
- LIVE: every offset below the log's end was read or dispatched, and events are queued as they arrive.
- The seam between the two is an offset, and each offset crosses it once:
  - a page and the pending events are merged by offset, so an event that arrived both ways is one item;
  - the cursor goes LIVE only after the page that reaches the log's end, and no event was left out before that
    end (`missed`), so no offset lies between the last page and the first live event;
  - an item below `next` was read, an offset below `progress.received` was handed out or is silent: both are
    dropped.
- `progress` holds the offsets that were handed out and not settled. Settled means acknowledged, dropped by a
  named policy or bound, or moved to the dead letters. A restart reads again from the lowest of them
  (`unread`).
- `later` holds offsets that a durable subscription is owed and has not read: each of them in the own log, and
  only those of a subscription with bounds in other logs, since an origin keeps what was not acknowledged.
- `rights` are ranges that earlier filters of a durable subscription leave owed; the low-water mark ends them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.availability.progress import LogProgress
from tidings.availability.records import Entry
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.delivery.item import Item
from tidings.protocol.lazy_queues import EMPTY, NOTHING, own, own_table

if TYPE_CHECKING:
    from tidings.protocol.delivery.subscription_state import SubscriptionState

ANY_OFFSET = 1 << 62  # above the end of every log


class CursorState(StrEnum):
    REPLAYING = "replaying"
    LIVE = "live"


REPLAYING, LIVE = CursorState.REPLAYING, CursorState.LIVE

TRANSITIONS: dict[tuple[CursorState, str], CursorState] = {
    (REPLAYING, "caught up"): LIVE,  # the log's end was read
    (REPLAYING, "read on"): REPLAYING,  # another filter, or a spill during a replay
    (LIVE, "read on"): REPLAYING,  # a full queue of a durable subscription, or another filter
}


class EarlierRange(msgspec.Struct, array_like=True, frozen=True):
    """Range of a log that a subscription is owed under an earlier filter: events that were available when it
    took that filter, and events in [start, stop). Each filter that it took since then has to accept them too.
    """

    filters: tuple[Filter, ...]
    since: float  # when it took the first of them; infinite: it has no right to older events
    start: int
    stop: int
    counted: tuple[int, ...] = ()  # for each filter but the first: below, what it gave up is counted

    def _holds(self, offset: int, ends_at: float) -> bool:
        return offset < self.stop and (offset >= self.start or ends_at > self.since)

    def gives(self, event: Event, offset: int, ends_at: float) -> bool:
        return self._holds(offset, ends_at) and all(accepts(filter, event) for filter in self.filters)

    def gave_up(self, event: Event, offset: int, ends_at: float) -> bool:
        """Was this event owed under the first filter, and does it count now that a later one gave it up? The
        present filter may be the first that does not accept it. A row of an earlier version does not say what
        was counted: then that counts as counted."""
        if not self._holds(offset, ends_at) or not accepts(self.filters[0], event):
            return False
        for number, filter in enumerate(self.filters[1:]):
            if not accepts(filter, event):
                return offset >= max(self.counted[number:], default=ANY_OFFSET)
        return True

    def narrowed(self, filter: Filter, counted: int) -> EarlierRange:
        """The range when this filter is left: the events that it gave up are counted below `counted`."""
        unknown = [ANY_OFFSET] * (len(self.filters) - 1 - len(self.counted))
        return msgspec.structs.replace(
            self, filters=(*self.filters, filter), counted=(*unknown, *self.counted, counted)
        )


class OwedRanges(NamedTuple):
    """Ranges of a log that a subscription is owed when it takes another filter; the last is of the filter
    before."""

    ranges: Sequence[EarlierRange]
    unsettled: int  # the first offset of the log that is not settled

    @property
    def first(self) -> int:
        return min(right.start for right in self.ranges)

    @property
    def stop(self) -> int:
        return self.ranges[-1].stop

    @property
    def begin(self) -> int:
        """The first offset that holds an owed event; before the ranges, one that was available to an earlier
        filter."""
        begin = min(self.first, self.stop)
        return min(begin, self.unsettled) if any(right.since < inf for right in self.ranges) else begin


class PendingLiveEvent(NamedTuple):
    """Live event of another broker's log that its cursor has still to read; without an id: every
    older event."""

    accepted: float
    source: str = ""
    id: str = ""


class ReadPage(NamedTuple):
    """Part of a log as it was read for one subscription."""

    items: Sequence[Item]  # accepted by the filter, not ended, and the subscription has a right to them
    end: int  # every offset below was read
    is_last: bool  # `end` is the end of the log
    failure: tuple[str, str] | None = None  # code and reason of a log that cannot be read


class LogSource(Protocol):
    """Log behind a cursor."""

    def end(self, log: str) -> int:
        """The first offset that this broker does not know of."""

    def begin(self, state: SubscriptionState, cursor: Cursor) -> bool:
        """Keep the entries from `next` on until they were read. False: the log holds none there."""

    def read(
        self,
        state: SubscriptionState,
        cursor: Cursor,
        limit: int,
        then: Callable[[ReadPage, float], None],
        now: float,
    ) -> int:
        """Read from `next` on; the number of the reading, or 0 when the log cannot be reached now. `then`
        runs once after this call has returned, unless the reading is stopped."""

    def stop(self, state: SubscriptionState, cursor: Cursor) -> None:
        """The replay is over: cancel its reading, and let go of the entries that were kept for it."""

    def is_gone(self, log: str) -> bool:
        """The broker of the log has begun another one."""

    def owe(self, state: SubscriptionState, offset: int) -> None:
        """Keep an entry for a durable subscription beyond its lifetime."""

    def release(self, state: SubscriptionState, offset: int, now: float) -> bool:
        """The subscription needs it no longer. True: the event has ended for every subscription."""

    def entry(self, cursor: Cursor, offset: int) -> Entry | PendingLiveEvent | None:
        """An entry that is in `later`, as far as this broker knows it; None: it was forgotten."""


class Cursor:
    """Position of one subscription in one log. Rare state is an attribute of the class until it is set."""

    __slots__ = (
        "__dict__", "_progress", "first", "log", "next", "reading", "seam", "source", "start", "state",
    )  # fmt: skip

    keep_from = 1  # a durable subscription needs no entry below, even before it has read them
    again_below = 0  # offsets below may have been sent before a restart
    silent_below = 0  # the members know that every offset below is settled
    missed = 0  # the last live event that is neither in `pending` nor read
    unread: deque[int] = EMPTY  # handed out before a restart, and to be read again
    later: deque[int] = EMPTY
    counted: Sequence[int] = ()  # own log: owed offsets below the seam, ascending; for people alone
    seen: dict[int, PendingLiveEvent] = NOTHING  # what is known of offsets of another log in `later`
    dropped: deque[int] = EMPTY  # starts and ends, by turns, of ranges of live events that counted as lost
    pending: deque[Item] = EMPTY  # live events behind the replay, each until it is read up to its `after`
    rights: Sequence[EarlierRange] = ()
    recounted = 0  # own log: below, events that earlier filters leave and this one gives up are counted
    plan: Sequence[int] | None = None  # own log: the only offsets below `planned` to be read; None: all
    planned = 0

    def __init__(
        self, log: str, source: LogSource, next: int, *, start: int | None, state: CursorState = REPLAYING
    ) -> None:
        self.log = log
        self.source = source
        self.state = state
        self.next = next
        self.first = next  # where reading with this filter began
        self.start = start  # it has a right to each event from here on; None: the last page says from where
        self.seam = 0  # own log: what is owed from here on is in `later`; below, any entry may be owed
        self.reading = 0  # number of the reading that is under way; 0: none
        self._progress: int | LogProgress = next  # a number while no offset is owed

    @property
    def end(self) -> int:
        return self.source.end(self.log)

    def step(self, happening: str) -> None:
        self.state = TRANSITIONS[self.state, happening]

    # -- progress ------------------------------------------------------------------------

    @property
    def progress(self) -> LogProgress:
        progress = self._progress
        if type(progress) is int:
            progress = self._progress = LogProgress(received=progress)
        assert isinstance(progress, LogProgress)
        return progress

    @progress.setter
    def progress(self, progress: LogProgress) -> None:
        self._progress = progress if progress.owed else progress.received

    def resume(self, progress: LogProgress) -> None:
        """Continue after a restart: read again what was handed out and not settled."""
        self.progress, self.next = progress, progress.low_water
        if progress.owed:
            self.unread = deque(progress.owed)

    def silence(self, end: int) -> None:
        """Every offset below was handed out, or is not for the subscription."""
        progress = self._progress
        if type(progress) is int:
            self._progress = max(progress, end)
        else:
            self.progress.silence(end)

    @property
    def counted_below(self) -> int:
        """Events below that earlier filters leave owed, and this one does not accept, are counted as lost."""
        return max(self.progress.received, self.recounted)

    @property
    def low_water(self) -> int:
        progress = self._progress
        return progress.low_water if isinstance(progress, LogProgress) else progress

    def floor(self) -> int:
        """The first offset that is not settled, as far as the log is known."""
        if self.state is LIVE:
            self.silence(self.end)
        return self.low_water

    def least_end(self) -> int:
        """The log's end as far as it is known, also while a restarted broker has not found the log again."""
        return max(self.end, self.progress.received, self.start or 0)

    def needs_from(self) -> int:
        """The first offset that a durable subscription still needs."""
        return self.keep_from if self.start is None else max(self.keep_from, self.floor())

    def waiting(self) -> int:
        """Number of owed offsets, as far as it is known without reading."""
        return len(self.progress.owed) - len(self.unread) + len(self.later)

    def uncounted(self) -> int:
        """Number of owed offsets in the part that is to be read and not in `later`, as it was counted."""
        if self.state is not REPLAYING:
            return 0
        return bisect_left(self.counted, self.seam) - bisect_left(self.counted, self.next)

    def remember(self, delivered: DeliveredRanges, filter: Filter) -> None:
        """Add the ranges that were delivered under this filter: what was read, less what is owed."""
        self.floor()
        start = self.first
        for owed in self.progress.owed:
            delivered.add(filter, self.log, start, owed)
            start = owed + 1
        delivered.add(filter, self.log, start, self.progress.received)

    # -- reading -------------------------------------------------------------------------

    def has_right(self, event: Event, offset: int, ends_at: float) -> bool:
        if self.start is not None and offset >= self.start:
            return True
        return any(right.gives(event, offset, ends_at) for right in self.rights)

    def merged(self, items: Sequence[Item], end: int) -> list[Item]:
        """The items of a page and the pending events below its end, in order. A page may lack an event that
        arrived live: an origin keeps none for a transient subscription."""
        found: list[Item] = []
        pending = self.pending
        for item in items:
            while pending and pending[0].after <= item.after:
                found.append(pending.popleft())
            if not found or found[-1].position != item.position:
                found.append(item)
        while pending and pending[0].after < end:
            found.append(pending.popleft())
        return found

    def read_to(self, end: int) -> list[int]:
        """Every offset below was read; the offsets of `later` among them that were not found."""
        while self.unread and self.unread[0] < end:
            self.progress.settle(self.unread.popleft())
        passed: list[int] = []
        while self.dropped and self.dropped[1] <= end:
            self.dropped.popleft()
            self.dropped.popleft()
        while self.later and self.later[0] < end:
            passed.append(self.later.popleft())
            self.seen.pop(passed[-1], None)
        self.next = max(self.next, end)
        self.silence(self.next)
        return passed

    def take(self, offset: int) -> bool:
        """This entry was read, and those below it before. True: it was in `later`."""
        self.next = offset + 1
        if self.unread and self.unread[0] == offset:
            self.unread.popleft()
        self.seen.pop(offset, None)
        return bool(self.later) and self.later[0] == offset and self.later.popleft() == offset

    def skip(self, offset: int) -> list[int]:
        """Give up every offset up to this one; the offsets of `later` among them."""
        self.keep_from = max(self.keep_from, offset + 1)
        while self.pending and self.pending[0].position is not None and self.pending[0].after <= offset:
            self.pending.popleft()
        return self.read_to(offset + 1)

    def drop(self, offset: int) -> None:
        """A live event counts as lost: no page may bring it."""
        dropped = own(self, "dropped")
        if dropped and not (self.pending and self.pending[-1].after >= dropped[-1]):
            dropped[-1] = offset + 1  # none that waits lies between
        else:
            dropped.extend((offset, offset + 1))

    def has_dropped(self, offset: int) -> bool:
        """Is this offset in the first range? Every offset below was read."""
        return self.dropped[0] <= offset < self.dropped[1]

    def spill(self, offset: int) -> None:
        """The queue is full: read this offset and later ones from the log, in their turn."""
        if self.state is LIVE:
            self.read_to(offset)
            self.step("read on")
            self.seam = offset

    def owe_later(self, offset: int, seen: PendingLiveEvent | None = None) -> None:
        own(self, "later").append(offset)
        if seen is not None:
            own_table(self, "seen")[offset] = seen

    def go_live(self) -> deque[Item]:
        """The log's end was read; the events that waited for that."""
        self.step("caught up")
        pending = self.pending
        for name in (
            "again_below",
            "counted",
            "dropped",
            "keep_from",
            "missed",
            "pending",
            "plan",
            "planned",
            "recounted",
        ):
            vars(self).pop(name, None)
        if self.rights:
            self.rights = [right for right in self.rights if right.stop > self.low_water]
        if self.start is None:
            self.start = self.next
        return pending

    def handed_out(self) -> list[int]:
        """The offsets that are in the queue or with members."""
        unread = set(self.unread)
        return [offset for offset in self.progress.owed if offset not in unread]

    def clear(self) -> list[int]:
        """The subscription ends, or takes another filter; the offsets that were owed."""
        owed = [*self.handed_out(), *self.later]
        self.progress.owed.clear()
        for name in ("counted", "dropped", "later", "pending", "seen", "unread"):
            vars(self).pop(name, None)
        return owed

    def check(self, waiting: Sequence[int]) -> None:
        assert self.handed_out() == sorted(waiting), f"{self.log}: what is not settled waits somewhere, once"
        due = (*self.later, *self.unread)
        assert all(offset >= self.next for offset in due), f"{self.log}: read, and still owed"
        assert self.state is REPLAYING or not (due or self.pending), f"{self.log}: left behind the replay"

"""Sources of cursors: this broker's own log on its disk, and the logs of other brokers through recovery.

Rules
- Own log: every entry that a replay has still to read is pinned, so the ledger does not forget it. A
  transient subscription pins to the end of the log. A durable one pins up to its seam, since it is owed
  later entries by offset.
- Own log: of the entries from before a subscription only those with a lifetime are for it. Those whose topic
  can match are found by an index (`make_plan`), and the others are not read.
- Own log: what is read beyond `log_index.end` is not dispatched yet; it arrives live.
- Own log: the subscription gets an entry that has not ended, that its filter accepts, and to which it has a
  right: it was available when the subscription began, or it was published later.
- Own log: an entry that a durable subscription was owed under an earlier filter, and that its present one
  does not accept, is lost: it is counted, and told, under `FILTER_CHANGED`. So is one that a filter between
  the two did not accept, unless a reading with that filter counted it.
- Other logs: the origin applies filter and age. The answer is judged again only where earlier filters widened
  the range. An event that was available to an earlier filter is owed while its lifetime lasts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from weakref import WeakValueDictionary

from tidings.availability.lifetime import expired
from tidings.availability.records import Append, Entry
from tidings.availability.topic_index import patterns_of
from tidings.language.evaluate import accepts, is_unknown
from tidings.model.event import Event, event_size
from tidings.model.subscription import Position
from tidings.protocol.batches import read_upto
from tidings.protocol.delivery.cursor import Cursor, PendingLiveEvent, ReadPage
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.loss_report import LossReport
from tidings.protocol.delivery.migration_header import moved_of
from tidings.protocol.delivery.publisher_migration import PublisherStays, is_gone
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.lazy_queues import EMPTY
from tidings.protocol.messages import Envelope
from tidings.protocol.reading import SUPERSEDED, ReadRequest, ReadResult
from tidings.protocol.slots import Ports

Then = Callable[[ReadPage, float], None]


FILTER_CHANGED = "filter changed"


class OwnLog:
    """The log of this broker: an index in memory, entries on its disk."""

    def __init__(self, ports: Ports, index: LogIndex, stays: PublisherStays, losses: LossReport) -> None:
        self._ports = ports
        self._index = index
        self._publisher_stays = stays
        self._losses = losses
        self._replaying: dict[SubscriptionState, None] = {}
        self._all_from: float = inf  # every entry from here on is pinned ...
        self._some_from: float = inf  # ... and those in [_some_from, _some_to)
        self._some_to = 0
        self._old_from: float = inf  # superseded entries in [_old_from, _old_to) are pinned
        self._old_to = 0
        self._last_read = 0
        self._events: WeakValueDictionary[int, Event] = WeakValueDictionary()  # read, and in use, by offset

    # -- pins ----------------------------------------------------------------------------

    def is_pinned(self, offset: int) -> bool:
        """May a replay still have to read this entry? (A yes may be outdated, a no is never wrong.)"""
        return offset >= self._all_from or self._some_from <= offset < self._some_to

    def keeps_superseded(self, offset: int) -> bool:
        """May a replay, or another broker, still have to read this entry though a newer one has its key?"""
        return self._old_from <= offset < self._old_to or self._ports.log_guard.needs_superseded(offset)

    def _pin(self, state: SubscriptionState) -> None:
        self._replaying[state] = None
        if state.durable and not state.options.superseding:
            self._old_from = min(self._old_from, state.own.next)
            self._old_to = max(self._old_to, state.own.seam)
        if state.durable:
            self._some_from = min(self._some_from, state.own.next)
            self._some_to = max(self._some_to, state.own.seam)
        else:
            self._all_from = min(self._all_from, state.own.next)

    def refresh_pins(self) -> None:
        """Replays have progressed: let go of what they have read."""
        self._all_from, self._some_from, self._some_to = inf, inf, 0
        self._old_from, self._old_to = inf, 0
        for state in self._replaying:
            self._pin(state)
        self._index.unpin()

    def uncounted(self) -> list[SubscriptionState]:
        """Durable subscriptions with a part of the log that they have not read, so that all of it
        is pinned."""
        return [state for state in self._replaying if state.durable and state.own.next < state.own.seam]

    # -- `LogSource` -----------------------------------------------------------------------

    def end(self, log: str) -> int:
        return self._index.end

    def make_plan(self, state: SubscriptionState, cursor: Cursor) -> None:
        """Find the entries from before the subscription that it may have to read."""
        if cursor.plan is not None:
            cursor.plan, cursor.planned = None, 0
        before = cursor.start if state.durable else self._index.end
        if before is None or cursor.rights or cursor.unread or cursor.next >= before:
            return
        patterns = patterns_of(state.filter)
        if patterns is not None:
            cursor.plan, cursor.planned = self._index.topics.find(patterns), before

    def _may_hold(self, cursor: Cursor, start: int) -> bool:
        """Is there perhaps an entry to read from this offset on?"""
        end = self._index.end
        if cursor.plan is not None and start < cursor.planned:
            if cursor.plan and cursor.plan[-1] >= start:
                return True
            start = cursor.planned
        return self._index.may_hold(start, end)

    def begin(self, state: SubscriptionState, cursor: Cursor) -> bool:
        if not self._may_hold(cursor, cursor.next):
            return False
        self._pin(state)
        return True

    def read(self, state: SubscriptionState, cursor: Cursor, limit: int, then: Then, now: float) -> int:
        self._last_read += 1
        number = self._last_read
        read = partial(self._on_read, state, cursor, number, then)
        start, limit = self._next_part(cursor, limit)
        self._ports.backlog.reading += 1
        self._ports.disk.fetch(start, limit, read, partial(self._on_failed, cursor, number, then))
        return number

    @staticmethod
    def _next_part(cursor: Cursor, limit: int) -> tuple[int, int]:
        """Where to read on, and how many entries: by the plan those that lie close together."""
        plan, start = cursor.plan, cursor.next
        if plan is None or start >= cursor.planned:
            return start, limit
        position = bisect_left(plan, start)
        if position == len(plan):
            return cursor.planned, limit
        start = plan[position]
        last = bisect_left(plan, start + limit, position) - 1
        return start, plan[last] - start + 1

    def stop(self, state: SubscriptionState, cursor: Cursor) -> None:
        cursor.reading = 0
        if self._replaying.pop(state, 0) is None:
            self.refresh_pins()

    def is_gone(self, log: str) -> bool:
        return False

    def owe(self, state: SubscriptionState, offset: int) -> None:
        self._index.owe(offset, state.owner, state.options.superseding)

    def release(self, state: SubscriptionState, offset: int, now: float) -> bool:
        has_ended = self._has_ended(offset, now)
        is_superseded = state.options.superseding and self._index.is_superseded(offset)  # and not forgotten
        self._index.release(offset, state.owner)
        return has_ended or is_superseded

    def entry(self, cursor: Cursor, offset: int) -> Entry | None:
        return self._index.entries.get(offset)

    # -- pages -----------------------------------------------------------------------------

    def _on_read(
        self,
        state: SubscriptionState,
        cursor: Cursor,
        number: int,
        then: Then,
        records: Sequence[Append],
        now: float,
    ) -> None:
        backlog = self._ports.backlog
        backlog.reading -= 1
        backlog.read += len(records)
        if cursor.reading != number:
            return
        end = self._index.end
        appended = [record for record in records if cursor.next <= record.offset < end]
        items = [self._item(record) for record in appended if self.is_for(state, record, now, counts=True)]
        read = end if read_upto(records, end) >= end else records[-1].offset + 1
        is_last = not self._may_hold(cursor, max(read, cursor.next))  # what is owed behind it was superseded
        then(ReadPage(items, end if is_last else read, is_last), now)

    def _on_failed(self, cursor: Cursor, number: int, then: Then, failure: FetchFailed, now: float) -> None:
        self._ports.backlog.reading -= 1
        if cursor.reading == number:
            then(ReadPage((), cursor.next, False, (failure.code, failure.reason)), now)

    def _item(self, record: Append) -> Item:
        offset = record.offset
        event = self._events.setdefault(offset, record.event)  # one copy for all subscriptions that read it
        item = Item(
            event,
            event_size(event),
            Position(self._index.log, offset),
            record.accepted,
            record.expires_at,
            after=offset,
        )
        item.moved = self._publisher_stays.of(event.source, offset)
        return item

    def is_for(self, state: SubscriptionState, record: Append, now: float, *, counts: bool = False) -> bool:
        """Does the subscription have a right to this entry, and want it? `counts`: count it as lost when its
        filter cannot accept it, or it accepts it no longer."""
        event, offset, cursor = record.event, record.offset, state.own
        if self._has_ended(offset, now):
            return False
        if accepts(state.filter, event):
            if self._index.is_superseded(offset):  # a subscription that wants such events was owed it before
                is_for = not state.options.superseding and cursor.has_right(event, offset, -inf)
            else:
                is_available = record.ends_at > state.since and state.options.replay
                is_for = is_available or cursor.has_right(event, offset, record.ends_at)
            if is_for:
                return True
        elif counts and is_unknown(state.filter, event):
            if not state.was_delivered(cursor, event, offset):
                self._losses.count_over_budget(state, now)
            return False
        if counts and cursor.rights and self.gave_up(state, record, now):
            self._losses.count_lost(state, event, FILTER_CHANGED, now)
        return False

    def gave_up(self, state: SubscriptionState, record: Append, now: float) -> bool:
        """Did the subscription, by a change of its filter that is not counted, give up this entry, which is
        not for it?"""
        event, offset, cursor = record.event, record.offset, state.own
        if offset < cursor.recounted or self._has_ended(offset, now):
            return False
        gave_up = any(right.gave_up(event, offset, record.ends_at) for right in cursor.rights)
        return gave_up and not state.was_delivered(cursor, event, offset)

    def count_given_up(self, state: SubscriptionState, offset: int, now: float) -> None:
        """Count an entry as lost that the subscription gave up, before its replay reads it."""
        entry = self._index.entries.get(offset)
        if entry is not None and not expired(entry, now):
            event = Event(source=entry.source, id=entry.id)
            self._losses.count_lost(state, event, FILTER_CHANGED, now)

    def _has_ended(self, offset: int, now: float) -> bool:
        """Superseded, or expired."""
        entry = self._index.entries.get(offset)
        return entry is None or expired(entry, now)


class OtherLogs:
    """The logs of other brokers, as recovery knows and reads them."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def end(self, log: str) -> int:
        return self._ports.logs.known(log) + 1

    def begin(self, state: SubscriptionState, cursor: Cursor) -> bool:
        return True  # the origin keeps what was not acknowledged, and its last page says where the log ends

    def read(self, state: SubscriptionState, cursor: Cursor, limit: int, then: Then, now: float) -> int:
        rights = cursor.rights
        start = min(right.start for right in rights) if rights else cursor.start
        superseding = state.options.superseding or not state.durable
        available = min([state.since_available, *[right.since for right in rights]])
        since = state.since if start is None else available
        wanted = ReadRequest(state.filter, cursor.next - 1, start, since, limit, superseding)
        then = partial(self._on_page, cursor, state.options.replay, then)
        reading = self._ports.logs.read(cursor.log, wanted, then, now)
        if reading and state.durable and (cursor.pending or cursor.missed):
            cursor.pending, cursor.missed = EMPTY, 0  # the log keeps them: they are read now
        return reading

    def _on_page(self, cursor: Cursor, replays: bool, then: Then, page: ReadResult, now: float) -> None:
        if page.is_gone:
            cursor.reading = 0
            return
        wanted = [envelope for envelope in page.envelopes if self._is_for(cursor, envelope, replays)]
        items = [item_of(envelope, now) for envelope in wanted]
        then(ReadPage(items, page.upto + 1, page.is_last), now)

    def _is_for(self, cursor: Cursor, envelope: Envelope, replays: bool) -> bool:
        is_available = envelope.remaining > 0 and SUPERSEDED not in envelope.headers
        if (replays and is_available) or not cursor.rights:
            return envelope.offset is not None
        return cursor.has_right(envelope.event, envelope.offset or 0, inf if is_available else -inf)

    def stop(self, state: SubscriptionState, cursor: Cursor) -> None:
        if cursor.reading:
            self._ports.logs.give_up(cursor.reading)
            cursor.reading = 0

    def is_gone(self, log: str) -> bool:
        return is_gone(self._ports, log)

    def owe(self, state: SubscriptionState, offset: int) -> None:
        """The origin keeps what this broker has not acknowledged."""

    def release(self, state: SubscriptionState, offset: int, now: float) -> bool:
        return False

    def entry(self, cursor: Cursor, offset: int) -> PendingLiveEvent | None:
        return cursor.seen.get(offset)


def item_of(envelope: Envelope, now: float) -> Item:
    """An event of another broker's log that is here now."""
    event, offset = envelope.event, envelope.offset
    assert offset is not None
    expires_at = None if envelope.expires is None else now + envelope.expires
    accepted = now if event.lifetime in (0.0, inf) else now - (event.lifetime - envelope.remaining)
    item = Item(
        event, event_size(event), Position(envelope.origin, offset), accepted, expires_at, after=offset
    )
    item.moved = moved_of(envelope)
    return item

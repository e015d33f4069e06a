"""Replay of logs for subscriptions: reading pages, and the step from replay to live.

Rules
- A subscription has a cursor in the own log and in each log that is known here. A new one reads what is
  available first, unless it wants no replay; a log that is found later is read then.
- A cursor reads in pages, only while a listener is there and the queue is at most half full.
- An event of a page is queued when it was not delivered before: neither settled, nor in the ranges that the
  subscription was delivered under earlier filters or in earlier lives, nor below the cursor's `next`.
- The cursor goes LIVE at the page that reaches the log's end; `cursor.py` states why no offset is lost or
  repeated.
- A durable subscription whose queue is full goes back to REPLAYING: it spills to the log, which keeps its
  events. A transient one has its live events wait behind the replay, and loses by its policy those for which
  there is no room.
- A log that replaces one which a durable subscription heard began after the subscription: it is owed all of
  it.
- A log that cannot be read ends the listening with an error; no entry is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidings.availability.progress import LogProgress
from tidings.protocol.delivery.cursor import (
    LIVE,
    REPLAYING,
    Cursor,
    EarlierRange,
    OwedRanges,
    PendingLiveEvent,
    ReadPage,
)
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.sources import OtherLogs, OwnLog, item_of
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.lazy_queues import EMPTY, NOTHING, own, own_table
from tidings.protocol.messages import Envelope
from tidings.protocol.naming import broker_of
from tidings.protocol.reading import ReaderNeeds
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.delivery.exactly_once import ExactlyOnce


class LogReplay:
    def __init__(
        self,
        ports: Ports,
        settings: DeliverySettings,
        index: LogIndex,
        dispatcher: Dispatcher,
        own_log: OwnLog,
        hooks: ExactlyOnce,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._index = index
        self._dispatcher = dispatcher
        self.own_log = own_log
        self._other_logs = OtherLogs(ports)
        self._hooks = hooks

    # -- beginning and ending ------------------------------------------------------------------

    def own_cursor(self) -> Cursor:
        """A cursor at the end of the own log."""
        end = self._index.end
        return Cursor(self._index.log, self.own_log, end, start=end, state=LIVE)

    def other_cursor(
        self, state: SubscriptionState, log: str, next: int, *, start: int | None, keep_from: int = 1
    ) -> Cursor:
        cursor = Cursor(log, self._other_logs, next, start=start)
        if keep_from > 1:
            cursor.keep_from = keep_from
        own_table(state, "others")[log] = cursor
        state.are_others_live = False
        return cursor

    def begin(self, state: SubscriptionState, now: float) -> None:
        """Read the own log from `next` on; a log that holds no entry there is read already."""
        cursor = state.own
        cursor.reading, cursor.seam = 0, cursor.end
        self.own_log.make_plan(state, cursor)
        if cursor.source.begin(state, cursor):
            cursor.step("read on")
        elif cursor.state is REPLAYING:
            self._go_live(state, cursor, cursor.end, now)
        else:
            self._read_to(state, cursor, cursor.end, now)

    def open(self, state: SubscriptionState, now: float) -> None:
        """The subscription begins: it reads the own log, and gets a cursor in each log of another broker."""
        cursor = state.own
        if state.durable and cursor.start is not None:
            cursor.keep_from = cursor.start
        cursor.first = cursor.next
        cursor.progress = LogProgress(received=cursor.next)
        self.begin(state, now)
        self._open_others(state)

    def _open_others(self, state: SubscriptionState) -> None:
        for log in self._ports.logs.logs():
            self.open_one(state, log)

    def open_one(self, state: SubscriptionState, log: str, *, is_found: bool = False) -> None:
        """`is_found`: the subscription is older than what is known here of this log."""
        if (state.handle is None and not state.options.until_live) or log in state.others:
            return
        end = self._other_logs.end(log)
        if is_found and state.durable and self._has_outlived(state, log):
            self.other_cursor(state, log, 1, start=1)
        elif state.stored.is_from_disk or (is_found and state.durable):
            # It began before a restart that did not record where in this log, or the log began on an empty
            # disk and accepted events before this broker knew of it: the origin has to keep all of it.
            self.other_cursor(state, log, 1, start=None)
        elif state.options.replay:
            # A durable one is owed by offset: its age may be judged after a restart, by another clock.
            start = end if state.durable else None
            self.other_cursor(state, log, 1, start=start, keep_from=end)
        else:
            self.other_cursor(state, log, end, start=end, keep_from=end).state = LIVE

    def _has_outlived(self, state: SubscriptionState, log: str) -> bool:
        """Did the subscription hear an earlier log of this broker? Then it is older than all that this log
        holds, and no clock is asked: either broker's may have been set back between two of its lives."""
        broker = broker_of(log)
        return broker in state.stored.outlived or any(broker_of(other) == broker for other in state.others)

    def resume_from(self, state: SubscriptionState, after: Mapping[str, int]) -> None:
        """A durable subscription of another broker continues here, in each log from its token on. A log that
        is not known yet is read when it is."""
        for log, offset in after.items():
            if log != state.own.log:
                self.other_cursor(state, log, offset + 1, start=offset + 1, keep_from=offset + 1)

    def rights(self, state: SubscriptionState) -> dict[str, OwedRanges]:
        """By log: the ranges that a durable subscription is owed, before it takes another filter."""
        filter, owed = state.filter, {}
        for cursor in state.cursors if state.durable else ():
            rights = [right for right in cursor.rights if right.stop > cursor.low_water]
            kept = [right.narrowed(filter, cursor.counted_below) for right in rights]
            start, stop = max(cursor.needs_from(), cursor.start or 0), cursor.least_end()
            ranges = [*kept, EarlierRange((filter,), state.since_available, start, stop)]
            owed[cursor.log] = OwedRanges(ranges, cursor.low_water)
        return owed

    def restart(self, state: SubscriptionState, rights: dict[str, OwedRanges], now: float) -> None:
        """The subscription has another filter: read in the own log what it may want now, and what it was owed
        before. The replay begins first, so that its entries are pinned when what was owed under the old
        filter is released."""
        cursor = state.own
        cursor.start = cursor.keep_from = cursor.end
        cursor.next = cursor.first = self._index.first_offset
        cursor.recounted = 0
        owed = rights.pop(cursor.log, None)
        cursor.rights = () if owed is None else owed.ranges
        self.begin(state, now)
        self._dispatcher.clear(state, now)
        cursor.progress = LogProgress(received=cursor.first)

    def reopen(self, state: SubscriptionState, rights: Mapping[str, OwedRanges]) -> None:
        """`restart` in the logs of other brokers. The present filter begins where the range of the one before
        it ends, so that no offset is in neither; also in a log that was not found again after a restart."""
        for cursor in state.others.values():
            cursor.source.stop(state, cursor)
        state.others = NOTHING
        for log, owed in rights.items():
            begin = 1 if state.options.replay else owed.begin
            cursor = self.other_cursor(state, log, begin, start=owed.stop, keep_from=owed.first)
            cursor.rights = owed.ranges
        self._open_others(state)

    def stop(self, state: SubscriptionState) -> None:
        """The subscription has ended."""
        for cursor in state.cursors:
            cursor.source.stop(state, cursor)
        state.others = NOTHING

    def drop(self, state: SubscriptionState, log: str, is_replaced: bool) -> None:
        """That log is no more; what was read of it is still delivered."""
        cursor = state.others.pop(log, None)
        if cursor is not None:
            cursor.source.stop(state, cursor)
            if state.durable and is_replaced:
                state.stored.outlived |= {broker_of(log)}

    # -- live events of other logs ---------------------------------------------------------------

    def offer(self, states: Sequence[SubscriptionState], envelopes: Sequence[Envelope], now: float) -> None:
        """Events of another broker's log arrive, and these subscriptions accept them. One that is live gets
        as many as it has credit for at once; any other is offered them one by one."""
        log, items = envelopes[0].origin, list[Item]()
        if envelopes[1:]:
            items = [item_of(envelope, now) for envelope in envelopes]
            if any(each.expires_at is not None or each.moved or each.event.key is not None for each in items):
                items = []
        for state in states:
            if state.has_ended:
                continue
            cursor, position = state.others[log], 0
            if items and cursor.state is LIVE and items[0].after >= cursor.progress.received:
                position = self._dispatcher.send_live(state, items, now)
            for envelope in envelopes[position:]:
                if not state.has_ended:
                    self._offer(state, cursor, item_of(envelope, now), now)

    def _offer(self, state: SubscriptionState, cursor: Cursor, item: Item, now: float) -> None:
        offset = item.after
        if cursor.state is REPLAYING:
            self._hold_back(state, cursor, item, now)
        elif state.durable and state.is_full and offset >= cursor.progress.received:
            cursor.spill(offset)
            state.are_others_live = False
            cursor.missed = offset
            self._owe_later(state, cursor, item, now)
        elif offset >= cursor.progress.received:  # else it was read
            self._dispatcher.take_in(state, item, None, now)

    def _hold_back(self, state: SubscriptionState, cursor: Cursor, item: Item, now: float) -> None:
        """A durable subscription has few events wait, and only while a page is on its way: the log keeps the
        rest. An event from before the subscription, which an origin sends again after a restart, is for a
        page to bring: the origin knows whether it is still available."""
        if cursor.start is not None and item.after < cursor.start:
            return
        has_room = len(cursor.pending) < max(
            0 if state.durable else state.options.queue, self._settings.chunk
        )
        if has_room and (not state.durable or (cursor.reading and not cursor.missed)):
            own(cursor, "pending").append(item)
        elif state.durable:
            cursor.pending, cursor.missed = EMPTY, item.after
        else:
            cursor.drop(item.after)
            self._dispatcher.losses.count_lost(state, item.event, state.options.policy, now)
        self._owe_later(state, cursor, item, now)

    def _owe_later(self, state: SubscriptionState, cursor: Cursor, item: Item, now: float) -> None:
        """Bounds of a subscription count what it has not read too."""
        if state.has_bounds:
            cursor.owe_later(item.after, PendingLiveEvent(now, item.event.source, item.event.id))
            self._dispatcher.bounds.keep(state, now)

    def found(self, state: SubscriptionState, log: str, now: float) -> None:
        """A log is known here from now on. After a restart a subscription with bounds has to read again what
        was handed out of it; how much it is owed beyond that is unknown, only that it is no younger."""
        self.open_one(state, log, is_found=True)
        cursor = state.others.get(log)
        if cursor is None or cursor.state is LIVE or not state.has_bounds or cursor.later:
            return
        if cursor.next < cursor.end:
            for offset in cursor.unread:
                cursor.owe_later(offset, PendingLiveEvent(now))
            if cursor.progress.received < cursor.end:
                cursor.owe_later(cursor.end - 1, PendingLiveEvent(now))

    # -- reading -------------------------------------------------------------------------------

    def read_on(self, state: SubscriptionState, now: float) -> None:
        """Read the next page of each log that is not read yet, if there is room and a listener."""
        if state.members and not state.is_regrouping:
            waiting = [each for each in state.cursors if each.state is REPLAYING and not each.reading]
            for cursor in waiting:
                self._read(state, cursor, now)

    def _read(self, state: SubscriptionState, cursor: Cursor, now: float) -> None:
        source = cursor.source
        if not source.begin(state, cursor):
            self._go_live(state, cursor, cursor.end, now)
            self._dispatcher.pump(state, now)
            return
        room = state.options.queue - len(state.queue)
        if state.is_ahead or len(state.queue) > state.options.queue // 2 or room <= 0:
            return
        if source.is_gone(cursor.log):
            self.drop(state, cursor.log, broker_of(cursor.log) != self._ports.name)
            return
        limit = min(room, self._settings.chunk)
        cursor.reading = source.read(state, cursor, limit, partial(self._on_page, state, cursor), now)

    def _on_page(self, state: SubscriptionState, cursor: Cursor, page: ReadPage, now: float) -> None:
        cursor.reading = 0
        if state.has_ended or state.cursor_in(cursor.log) is not cursor:
            return
        if page.failure is not None:
            self._hooks.close(state, *page.failure, now)
            return
        for item in cursor.merged(page.items, page.end):
            self._read_one(state, cursor, item, now)
        if page.is_last and cursor.missed < page.end:
            self._go_live(state, cursor, page.end, now)
        else:
            self._read_to(state, cursor, page.end, now)
        if not state.has_ended:
            if cursor is not state.own:
                self._hooks.touched(state, now)
            self._dispatcher.pump(state, now)

    def _read_one(self, state: SubscriptionState, cursor: Cursor, item: Item, now: float) -> None:
        if item.position is None:  # no log holds it: it waited for this place in the queue
            own(state, "queue").append(item)
            return
        offset = item.position.offset
        if offset < cursor.next:
            return
        self._read_to(state, cursor, offset, now)
        if (cursor.dropped and cursor.has_dropped(offset)) or state.was_delivered(cursor, item.event, offset):
            return  # the next offset that is read passes over it
        claims = NOTHING if state.group_members is None else state.group_members.claims
        is_claimed = item.position in claims
        holder = claims.pop(item.position) if is_claimed else None
        if is_claimed and holder is None:  # committed before the restart: likewise
            self._hooks.touched(state, now)
            return
        if not cursor.take(offset) and state.durable:
            cursor.source.owe(state, offset)
        item.again = offset < cursor.again_below
        if holder is None:
            self._dispatcher.take(state, item, now)
        else:
            cursor.progress.hand_out(offset)
            self._dispatcher.send_to(holder, item)

    def _read_to(self, state: SubscriptionState, cursor: Cursor, end: int, now: float) -> None:
        """Every offset below was read; an offset that was owed there and not found is owed no longer."""
        for offset in cursor.read_to(end):
            if cursor.source.release(state, offset, now):
                self._dispatcher.losses.count_gone(state, now)

    def _go_live(self, state: SubscriptionState, cursor: Cursor, end: int, now: float) -> None:
        self._read_to(state, cursor, end, now)
        pending = cursor.go_live()
        if state.group_members is not None:
            state.group_members.forget_log(cursor.log)
        state.pack_filter()
        cursor.source.stop(state, cursor)
        for item in pending:
            if state.has_ended:
                return  # it was too slow, and its policy is `disconnect`
            if item.position is None:
                own(state, "queue").append(item)
            else:
                self._offer(state, cursor, item, now)


def needs_of(log: str, states: Iterable[SubscriptionState]) -> ReaderNeeds:
    """What durable subscriptions need of this log. The cursor of a guest comes from its client's token, which
    proves no offset."""
    settled, highest, superseded = None, 0, False
    for state in states:
        cursor = state.others.get(log)
        if cursor is None:
            continue
        superseded = superseded or (state.durable and not state.options.superseding)
        if state.durable:
            upto = cursor.needs_from() - 1
            settled = upto if settled is None else min(settled, upto)
        if not state.stored.is_remote:
            highest = max(highest, cursor.next - 1, cursor.progress.received - 1)
    return ReaderNeeds(settled, highest, superseded)

"""A durable subscription's own bounds: how many events it wants kept, and for how long.

The events it waits for may be in its queue, in our log, or in the log of another broker; the oldest of all
goes first. A dropped event is counted and reported under the name of the bound.

The owner has a bound too, its quota of stored bytes: beyond it the oldest events of our log that wait for any
of its durable subscriptions are given up, from the subscription that is furthest behind. An event that is
with a member is not given up; how much that is has bounds of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from tidings.history.schema import drop_row
from tidings.model.event import Event
from tidings.protocol.delivery.cursor import LIVE, Cursor
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.loss_report import LossReport
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.effects import Record, Warn
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.delivery.dispatcher import Dispatcher
    from tidings.protocol.delivery.exactly_once import ExactlyOnce

QUEUE = ""  # no log has this name
ON_COUNT, ON_AGE = "bound on count", "bound on age"
ON_QUOTA = "quota of stored bytes"
PAUSE = 1.0  # seconds between two looks for entries that may be owed and are not known
FEW = 64  # subscriptions of one owner up to which ended ones are not searched for


class SubscriptionBounds:
    def __init__(
        self, ports: Ports, index: LogIndex, hooks: ExactlyOnce, queues: Dispatcher, losses: LossReport
    ) -> None:
        self._ports = ports
        self._index = index
        self._hooks = hooks
        self._queues = queues
        self._losses = losses
        self._ranks: dict[
            str, list[tuple[float, int, SubscriptionState]]
        ] = {}  # by owner: a heap, by what waits longest
        self._last_rank = 0
        self.over_quota = 0  # events that were given up
        self.count_unread: Callable[[], None] = lambda: None  # reads what is not known to be owed

    def keep(self, state: SubscriptionState, now: float) -> None:
        """Give up what is more than the subscription wants kept, or its owner may keep."""
        most = state.options.keep_events
        if most is not None and state.durable:
            if self.has_unknown(state):
                self.count_unread()  # the oldest of all may be there; its end calls this again
            else:
                while state.owes() - state.unacked.deliveries > most:
                    if not self._give_up_oldest(state, ON_COUNT, now):
                        break
        if state.owner:
            self._keep_quota(state, now)

    def _keep_quota(self, state: SubscriptionState, now: float) -> None:
        """Give up the oldest that wait for the subscriptions of its owner, as far as they are
        over its quota."""
        owner = state.owner
        if state.own.later and not state.stored.is_ranked:
            entry = self._index.entries.get(state.own.later[0])
            self.rank(state, now if entry is None else entry.accepted)
        ranks = self._ranks.get(owner, [])
        while ranks and self._ports.kept.is_backlog_over(owner):
            at, number, first = ranks[0]
            oldest = None if first.has_ended else self._oldest(first, now, own_log=True)
            if oldest is None:
                heappop(ranks)
                first.stored.is_ranked = False
            elif self.has_unknown(first):
                self.count_unread()  # its oldest may be there
                break
            elif oldest[0] > at:
                heapreplace(ranks, (oldest[0], number, first))
            else:
                self._warn_once(first)
                self._give_up(first, oldest, ON_QUOTA, now)
                self.over_quota += 1
        if not ranks:
            self._ranks.pop(owner, None)

    def _warn_once(self, state: SubscriptionState) -> None:
        if ON_QUOTA not in state.lost:
            self._ports.emit(
                Warn(
                    f"more waits for durable subscriptions of {state.owner} than its quota of "
                    "stored bytes allows: "
                    f"{state.id.own} gives up its oldest events; read it, end it, or raise `stored_bytes`"
                )
            )

    def rank(self, state: SubscriptionState, at: float) -> None:
        """An event of the own log waits for it from now on, accepted at that time. What else waits is not
        looked at: its queue may be long, with events of other logs before the first of ours."""
        if not state.owner or state.stored.is_ranked:
            return
        ranks = self._ranks.setdefault(state.owner, [])
        if len(ranks) >= FEW and not len(ranks) & (len(ranks) - 1):  # at each doubling
            ranks[:] = [each for each in ranks if not each[2].has_ended]
            heapify(ranks)
        self._last_rank += 1
        heappush(ranks, (at, self._last_rank, state))
        state.stored.is_ranked = True

    def has_unknown(self, state: SubscriptionState) -> bool:
        """After a restart: may entries before the seam be uncounted?"""
        cursor = state.own
        if cursor.state is LIVE:
            return False
        return self._index.may_hold(max(cursor.next, cursor.progress.received), cursor.seam)

    def age_out(self, state: SubscriptionState, now: float) -> float | None:
        """Give up what waits longer than the subscription wants; when to look again, if anything may wait."""
        if state.has_bounds and self.has_unknown(state):
            self.count_unread()  # what is known to wait may lie behind it; its end calls this again
            return now + PAUSE
        keep, oldest = state.options.keep_seconds, None
        while keep is not None and (oldest := self.oldest_waiting(state, now)) is not None:
            if oldest + keep > now:
                break
            self._give_up_oldest(state, ON_AGE, now)
        return None if keep is None or oldest is None else oldest + keep

    def oldest_waiting(self, state: SubscriptionState, now: float) -> float | None:
        """Time at which the oldest waiting event was accepted; None when none waits."""
        oldest = self._oldest(state, now)
        return None if oldest is None else oldest[0]

    def _oldest(
        self, state: SubscriptionState, now: float, *, own_log: bool = False
    ) -> tuple[float, str] | None:
        """Time of the oldest waiting event, and where it waits: in the queue, or in the log of that name.
        `own_log`: of events in the own log alone."""
        found: list[tuple[float, str]] = []
        if state.queue and (item := self._first_queued(state, own_log=own_log)) is not None:
            found.append((item.accepted, QUEUE))
        for cursor in (state.own,) if own_log else state.cursors:
            while cursor.later and (entry := cursor.source.entry(cursor, cursor.later[0])) is None:
                self._skip(state, cursor, cursor.later[0], now)
            if cursor.later and entry is not None:
                found.append((entry.accepted, cursor.log))
        return min(found, default=None)

    def _first_queued(self, state: SubscriptionState, *, own_log: bool) -> Item | None:
        if not own_log:
            return state.queue[0]
        log = self._index.log
        return next(
            (item for item in state.queue if item.position is not None and item.position.log == log), None
        )

    def _give_up_oldest(self, state: SubscriptionState, reason: str, now: float) -> bool:
        """False when all that is owed is in the hands of members."""
        oldest = self._oldest(state, now)
        if oldest is None:
            return False
        self._give_up(state, oldest, reason, now)
        return True

    def _give_up(self, state: SubscriptionState, oldest: tuple[float, str], reason: str, now: float) -> None:
        if oldest[1] == QUEUE:
            item = self._first_queued(state, own_log=reason == ON_QUOTA)
            assert item is not None, f"{state.id}: something waits in its queue"
            state.queue.remove(item)
            state.count_queued(-item.size)
            self._queues.lose(state, item, reason, now)
            return
        cursor = state.cursor_in(oldest[1])
        assert cursor is not None, f"{state.id}: it is owed by a log that it reads"
        self._record_given_up(state, cursor, reason, now)
        self._skip(state, cursor, cursor.later[0], now)
        state.count_lost(reason)
        self._losses.lost += 1
        self._losses.notify(state, now)
        self._hooks.touched(state, now)

    def _skip(self, state: SubscriptionState, cursor: Cursor, offset: int, now: float) -> None:
        """Move the cursor past the entries up to this offset."""
        for passed in cursor.skip(offset):
            cursor.source.release(state, passed, now)

    def _record_given_up(self, state: SubscriptionState, cursor: Cursor, reason: str, now: float) -> None:
        entry = cursor.source.entry(cursor, cursor.later[0])
        if entry is not None and entry.id and self._ports.recording:
            event = Event(source=entry.source, id=entry.id)
            self._ports.emit(Record(drop_row(now, self._ports.name, state.id, event, reason)))

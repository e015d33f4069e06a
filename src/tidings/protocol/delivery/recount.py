"""Counting what durable subscriptions are owed in a part of the log that they have not read.

A durable subscription that begins with a replay, or goes on after a restart, is owed entries that are known
only by reading the log with its filter. Until it reads them all entries of that part are pinned, also those
that it does not accept, and none counts for its owner. Rules
- When the lifetime of a pinned entry is over, the log is read once for all subscriptions with such a part,
  without delivering anything: the entries that they accept are owed to them from then on, and the others are
  let go.
- A subscription with bounds of its own is counted as soon as one of them may be met: each event that it gives
  up is counted as lost, so the broker has to know which of the entries are for it.
- Subscriptions without bounds, and without an owner that has a quota, are left alone.
- Events that a subscription gave up by changing its filter, and that its replay has not come to, are counted
  as lost here: the log may forget them afterwards. One reading looks at a few such subscriptions, since each
  is asked about each entry.
- A subscription that read, ended or changed its filter meanwhile knows better: it keeps what it found itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidings.availability.records import Append
from tidings.model.event import Event
from tidings.protocol.batches import read_upto
from tidings.protocol.delivery.bounds import PAUSE, SubscriptionBounds
from tidings.protocol.delivery.cursor import REPLAYING, EarlierRange
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.sources import OwnLog
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.slots import Ports


class Recount:
    """One reading of the log at a time, for all subscriptions with entries to count."""

    def __init__(
        self,
        ports: Ports,
        settings: DeliverySettings,
        index: LogIndex,
        own_log: OwnLog,
        bounds: SubscriptionBounds,
        match: Callable[[Event], Sequence[SubscriptionState]],
    ) -> None:
        self._ports = ports
        self._chunk = settings.chunk
        self._most_changed = ports.limits.recounted_changes
        self._index = index
        self._own_log = own_log
        self._bounds = bounds
        self._match = match
        self._found: dict[SubscriptionState, list[int]] = {}  # empty: no reading is under way
        self._rights: dict[SubscriptionState, Sequence[EarlierRange]] = {}  # others: its filter changed
        self._given_up: dict[SubscriptionState, list[int]] = {}  # by those that changed their filter
        self._end = 0
        self._next_look = 0.0
        self.done = 0

    def look(self) -> None:
        """An entry is over and pinned: begin, if some subscription has a part that is not counted."""
        now = self._index.now
        if self._found or now < self._next_look:
            return
        self._next_look = now + PAUSE
        states = [state for state in self._own_log.uncounted() if state.owner or state.has_bounds]
        changed = [state for state in states if state.own.rights][: self._most_changed]
        states = [state for state in states if not state.own.rights] + changed
        if states:
            self._found = {state: [] for state in states}
            self._given_up = {state: [] for state in changed}
            self._rights = {state: state.own.rights for state in states}
            self._end = max(state.own.seam for state in states)
            self._read(min(state.own.next for state in states))

    def _read(self, at: int) -> None:
        self._ports.disk.fetch(at, self._chunk, self._on_read, self._on_failed)

    def _on_failed(self, failure: FetchFailed, now: float) -> None:
        """The log stays pinned: its readers are told of the failure."""
        del failure, now
        self._found, self._given_up, self._rights = {}, {}, {}

    def _on_read(self, records: Sequence[Append], now: float) -> None:
        for record in records:
            for state in self._match(record.event) if record.offset < self._end else ():
                found = self._found.get(state)
                if found is None or not state.own.next <= record.offset < state.own.seam:
                    continue
                is_for = self._own_log.is_for(state, record, now)
                if is_for and not state.was_delivered(state.own, record.event, record.offset):
                    found.append(record.offset)
            for state, given_up in self._given_up.items():
                if self._is_given_up(state, record, now):
                    given_up.append(record.offset)
        upto = read_upto(records, self._end)
        if upto < self._end:
            self._read(upto + 1)
        else:
            self._finish(now)

    def _is_given_up(self, state: SubscriptionState, record: Append, now: float) -> bool:
        if not state.own.next <= record.offset < state.own.seam:
            return False
        return not self._own_log.is_for(state, record, now) and self._own_log.gave_up(state, record, now)

    def _finish(self, now: float) -> None:
        found, self._found = self._found, {}
        given_up, self._given_up = self._given_up, {}
        rights, self._rights = self._rights, {}
        self.done += 1
        counted = [
            state for state in found if state.own.state is REPLAYING and state.own.rights is rights[state]
        ]
        for state in counted:
            cursor = state.own
            if state in given_up:
                self._count_given_up(state, given_up[state], now)
            known = set(cursor.later)
            fresh = [
                at
                for at in found[state]
                if at >= cursor.next and at not in known and at in self._index.entries
            ]
            for offset in fresh:
                self._own_log.owe(state, offset)
            if fresh:
                cursor.later = deque(sorted((*cursor.later, *fresh)))
            cursor.seam = cursor.next
        self._own_log.refresh_pins()
        for state in counted:
            self._bounds.keep(state, now)
            self._bounds.age_out(state, now)

    def _count_given_up(self, state: SubscriptionState, offsets: Sequence[int], now: float) -> None:
        """Count those that the replay has not come to. It counts no event below `recounted`."""
        cursor = state.own
        for offset in offsets:
            if offset >= cursor.next:
                self._own_log.count_given_up(state, offset, now)
        cursor.recounted = cursor.seam

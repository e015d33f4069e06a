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
- A subscription that read, ended or changed its filter meanwhile knows better: it keeps what it found itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidings.availability.records import Append
from tidings.model.event import Event
from tidings.protocol.batches import read_upto
from tidings.protocol.delivery.bounds import PAUSE, SubscriptionBounds
from tidings.protocol.delivery.cursor import REPLAYING
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
        self._index = index
        self._own_log = own_log
        self._bounds = bounds
        self._match = match
        self._found: dict[SubscriptionState, list[int]] = {}  # empty: no reading is under way
        self._handles: dict[SubscriptionState, int | None] = {}  # another one: its filter changed
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
        if states:
            self._found = {state: [] for state in states}
            self._handles = {state: state.handle for state in states}
            self._end = max(state.own.seam for state in states)
            self._read(min(state.own.next for state in states))

    def _read(self, at: int) -> None:
        self._ports.disk.fetch(at, self._chunk, self._on_read, self._on_failed)

    def _on_failed(self, failure: FetchFailed, now: float) -> None:
        """The log stays pinned: its readers are told of the failure."""
        del failure, now
        self._found = {}

    def _on_read(self, records: Sequence[Append], now: float) -> None:
        for record in records:
            for state in self._match(record.event) if record.offset < self._end else ():
                found = self._found.get(state)
                if found is None or not state.own.next <= record.offset < state.own.seam:
                    continue
                is_for = self._own_log.is_for(state, record, now)
                if is_for and not state.was_delivered(state.own, record.event, record.offset):
                    found.append(record.offset)
        upto = read_upto(records, self._end)
        if upto < self._end:
            self._read(upto + 1)
        else:
            self._finish(now)

    def _finish(self, now: float) -> None:
        found, self._found = self._found, {}
        self.done += 1
        counted = [
            state for state in found if state.own.state is REPLAYING and state.handle == self._handles[state]
        ]
        for state in counted:
            cursor = state.own
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

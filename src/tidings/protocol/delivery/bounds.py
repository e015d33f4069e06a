"""A durable subscription's own bounds: how many events it wants kept, and for how long.

What it waits for may be in its queue, in our log, or in the log of another broker; the oldest of all goes first.
What is given up is counted and told under the name of the bound.
"""

from __future__ import annotations

from typing import Protocol

from tidings.history.schema import drop_row
from tidings.model.event import Event
from tidings.protocol.delivery.held import Held, Phase
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.lane import Lane
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.effects import Record
from tidings.protocol.slots import Ports

QUEUE = ""  # no log has this name
ON_COUNT = "bound on count"


class Touched(Protocol):
    def touched(self, held: Held, now: float) -> None: ...


class Queues(Protocol):
    """What is asked of the courier."""

    def lose(self, held: Held, item: Item, reason: str, now: float) -> None: ...

    def tell_losses(self, held: Held, now: float) -> None: ...


class Bounds:
    def __init__(self, ports: Ports, ledger: Ledger, hooks: Touched, queues: Queues) -> None:
        self._ports = ports
        self._ledger = ledger
        self._hooks = hooks
        self._queues = queues

    def keep(self, held: Held, now: float) -> None:
        """Give up what is more than the subscription wants kept."""
        most = held.options.keep_events
        if most is not None and held.durable:
            while held.owes() + self._has_unknown(held) > most:
                if not self._give_up_unknown(held, now) and not self._give_up_oldest(held, ON_COUNT, now):
                    break

    def _has_unknown(self, held: Held) -> bool:
        """After a restart: is there perhaps something before the seam that nobody has counted?"""
        start = max(held.at, held.progress.heard)
        return held.phase is Phase.REPLAYING and self._ledger.may_hold(start, held.seam)

    def _give_up_unknown(self, held: Held, now: float) -> bool:
        """As many as it may have are newer than that."""
        is_oldest = not held.queue and (not held.later or held.later[0] >= held.seam)
        if not is_oldest or not self._has_unknown(held):
            return False
        held.at = max(held.at, held.seam)
        held.silence(held.at)
        held.count_lost(ON_COUNT)
        self._queues.tell_losses(held, now)
        self._hooks.touched(held, now)
        return True

    def age_out(self, held: Held, now: float) -> None:
        """Give up what waits longer than the subscription wants."""
        keep = held.options.keep_seconds
        if keep is None:
            return
        while (oldest := self.oldest_waiting(held)) is not None and oldest + keep <= now:
            self._give_up_oldest(held, "bound on age", now)

    def oldest_waiting(self, held: Held) -> float | None:
        """When the oldest that waits was accepted; None when none waits."""
        oldest = self._oldest(held)
        return None if oldest is None else oldest[0]

    def _oldest(self, held: Held) -> tuple[float, str] | None:
        """Its time, and where it waits: in the queue, in our log, or in the log of that name."""
        found: list[tuple[float, str]] = []
        if held.queue:
            found.append((held.queue[0].accepted, QUEUE))
        while held.later and held.later[0] not in self._ledger.entries:
            self._pass_over(held)
        if held.later:
            found.append((self._ledger.entries[held.later[0]].accepted, self._ledger.log))
        found += [(lane.later[0].at, lane.log) for lane in held.lanes.values() if lane.later]
        return min(found, default=None)

    def _give_up_oldest(self, held: Held, reason: str, now: float) -> bool:
        """False when all that is owed is in the hands of members."""
        oldest = self._oldest(held)
        if oldest is None:
            return False
        if oldest[1] == QUEUE:
            self._queues.lose(held, held.queue.popleft(), reason, now)
            return True
        if oldest[1] == self._ledger.log:
            self._record_given_up(held, held.later[0], reason, now)
            held.at = max(held.at, held.later[0] + 1)
            self._pass_over(held)
        else:
            self._give_up_elsewhere(held, held.lanes[oldest[1]], reason, now)
        held.count_lost(reason)
        self._queues.tell_losses(held, now)
        self._hooks.touched(held, now)
        return True

    def _pass_over(self, held: Held) -> None:
        """It will not read what it is owed first."""
        offset = held.later.popleft()
        if held.unread and held.unread[0] == offset:
            held.unread.popleft()
            held.progress.settle(offset)
        self._ledger.release(offset)

    def _give_up_elsewhere(self, held: Held, lane: Lane, reason: str, now: float) -> None:
        passed = lane.later[0]
        lane.give_up(passed)
        if passed.id and self._ports.recording:
            event = Event(source=passed.source, id=passed.id)
            self._ports.emit(Record(drop_row(now, self._ports.name, held.id, event, reason)))

    def _record_given_up(self, held: Held, offset: int, reason: str, now: float) -> None:
        entry = self._ledger.entries.get(offset)
        if entry is not None and self._ports.recording:
            event = Event(source=entry.source, id=entry.id)
            self._ports.emit(Record(drop_row(now, self._ports.name, held.id, event, reason)))

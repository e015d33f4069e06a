"""A durable subscription's own bounds: how many events it wants kept, and for how long.

What it waits for may be in its queue, in our log, or in the log of another broker; the oldest of all goes first.
What is given up is counted and told under the name of the bound.

The owner has a bound too, its quota of stored bytes: beyond it the oldest events of our log that wait for any of its
durable subscriptions are given up, from the subscription that is furthest behind. An event that is with a member is not
given up; how much that is has bounds of its own.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Protocol

from tidings.history.schema import drop_row
from tidings.model.event import Event
from tidings.protocol.delivery.held import Held, Phase
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.lane import Lane
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.effects import Record, Warn
from tidings.protocol.slots import Ports

QUEUE = ""  # no log has this name
ON_COUNT = "bound on count"
ON_QUOTA = "quota of stored bytes"
FEW = 64  # subscriptions of one owner among which nobody looks for ended ones


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
        self._ranks: dict[str, list[tuple[float, int, Held]]] = {}  # by owner: a heap, by what waits longest
        self._last_rank = 0
        self.over_quota = 0  # events that were given up

    def keep(self, held: Held, now: float) -> None:
        """Give up what is more than the subscription wants kept, or its owner may keep."""
        most = held.options.keep_events
        if most is not None and held.durable:
            while held.owes() + self._has_unknown(held) > most:
                if not self._give_up_unknown(held, now) and not self._give_up_oldest(held, ON_COUNT, now):
                    break
        if held.owner:
            self._keep_quota(held, now)

    def _keep_quota(self, held: Held, now: float) -> None:
        """Give up the oldest that wait for the subscriptions of its owner, as far as they are over its quota."""
        owner = held.owner
        if not held.is_ranked:
            self._rank(held)
        ranks = self._ranks.get(owner, [])
        while ranks and self._ports.kept.is_backlog_over(owner):
            at, number, first = ranks[0]
            oldest = None if first.has_ended else self._oldest(first, own_log=True)
            if oldest is None:
                heappop(ranks)
                first.is_ranked = False
            elif oldest[0] > at:
                heapreplace(ranks, (oldest[0], number, first))
            else:
                self._warn_once(first)
                self._give_up(first, oldest, ON_QUOTA, now)
                self.over_quota += 1
        if not ranks:
            self._ranks.pop(owner, None)

    def _warn_once(self, held: Held) -> None:
        if ON_QUOTA not in held.lost:
            self._ports.emit(
                Warn(
                    f"more waits for durable subscriptions of {held.owner} than its quota of stored bytes allows: "
                    f"{held.id.own} gives up its oldest events; read it, end it, or raise `stored_bytes`"
                )
            )

    def _rank(self, held: Held) -> None:
        oldest = self._oldest(held, own_log=True)
        if oldest is None:
            return
        ranks = self._ranks.setdefault(held.owner, [])
        if len(ranks) >= FEW and not len(ranks) & (len(ranks) - 1):  # at each doubling
            ranks[:] = [each for each in ranks if not each[2].has_ended]
            heapify(ranks)
        self._last_rank += 1
        heappush(ranks, (oldest[0], self._last_rank, held))
        held.is_ranked = True

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

    def _oldest(self, held: Held, *, own_log: bool = False) -> tuple[float, str] | None:
        """Its time, and where it waits: in the queue, in our log, or in the log of that name. `own_log`: of events
        in our log alone."""
        found: list[tuple[float, str]] = []
        if held.queue and (item := self._first_queued(held, own_log=own_log)) is not None:
            found.append((item.accepted, QUEUE))
        while held.later and held.later[0] not in self._ledger.entries:
            self._pass_over(held)
        if held.later:
            found.append((self._ledger.entries[held.later[0]].accepted, self._ledger.log))
        if not own_log:
            found += [(lane.later[0].at, lane.log) for lane in held.lanes.values() if lane.later]
        return min(found, default=None)

    def _first_queued(self, held: Held, *, own_log: bool) -> Item | None:
        if not own_log:
            return held.queue[0]
        log = self._ledger.log
        return next(
            (item for item in held.queue if item.position is not None and item.position.log == log), None
        )

    def _give_up_oldest(self, held: Held, reason: str, now: float) -> bool:
        """False when all that is owed is in the hands of members."""
        oldest = self._oldest(held)
        if oldest is None:
            return False
        self._give_up(held, oldest, reason, now)
        return True

    def _give_up(self, held: Held, oldest: tuple[float, str], reason: str, now: float) -> None:
        if oldest[1] == QUEUE:
            item = self._first_queued(held, own_log=reason == ON_QUOTA)
            assert item is not None, f"{held.id}: something waits in its queue"
            held.queue.remove(item)
            held.count_queued(-item.size)
            self._queues.lose(held, item, reason, now)
            return
        if oldest[1] == self._ledger.log:
            self._record_given_up(held, held.later[0], reason, now)
            held.at = max(held.at, held.later[0] + 1)
            self._pass_over(held)
        else:
            self._give_up_elsewhere(held, held.lanes[oldest[1]], reason, now)
        held.count_lost(reason)
        self._queues.tell_losses(held, now)
        self._hooks.touched(held, now)

    def _pass_over(self, held: Held) -> None:
        """It will not read what it is owed first."""
        offset = held.later.popleft()
        if held.unread and held.unread[0] == offset:
            held.unread.popleft()
            held.progress.settle(offset)
        self._ledger.release(offset, held.owner)

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

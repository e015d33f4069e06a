"""Reading the log for a subscription: replay first, then live, the seam decided by offset.

Rules
- It reads in chunks, only while somebody listens and the queue is at most half full.
- What it reads is told when the filter accepts it, it was not told before, and the
  subscription has a right to it: it was available when the subscription began, or it came later
  (then a durable one owns its right to it, whatever the lifetime).
- What is read beyond the log's end (`ledger.end`) comes the live way: it is not told here.
- A log that cannot be read there ends the listening with an error; nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from tidings.availability.lifetime import expired
from tidings.availability.records import Append
from tidings.language.evaluate import accepts
from tidings.language.work import is_over
from tidings.model.event import event_size
from tidings.model.subscription import Position
from tidings.protocol.batches import read_upto
from tidings.protocol.delivery.courier import Courier
from tidings.protocol.delivery.held import Held, Phase
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.delivery.moves import Stays
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.lines import EMPTY, own
from tidings.protocol.slots import Ports


class Reader:
    def __init__(
        self,
        ports: Ports,
        settings: DeliverySettings,
        ledger: Ledger,
        courier: Courier,
        stays: Stays,
        on_broken: Callable[[Held, str, str, float], None],
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._ledger = ledger
        self._courier = courier
        self._stays = stays
        self._on_broken = on_broken
        self._replaying: dict[Held, None] = {}
        self._all_from: float = inf  # everything from here on is pinned ...
        self._some_from: float = inf  # ... and what lies between these two
        self._some_to = 0
        self._last_read = 0

    def is_pinned(self, offset: int) -> bool:
        """May some replay still have to read this entry? (Perhaps a yes too much, never a wrong no.)"""
        return offset >= self._all_from or self._some_from <= offset < self._some_to

    def _pin(self, held: Held) -> None:
        """A transient subscription reads to the end; what a durable one is owed beyond its seam is known."""
        self._replaying[held] = None
        if held.durable:
            self._some_from = min(self._some_from, held.at)
            self._some_to = max(self._some_to, held.seam)
        else:
            self._all_from = min(self._all_from, held.at)

    def refresh_pins(self) -> None:
        """Replays went on: what they have read is no longer pinned."""
        self._all_from, self._some_from, self._some_to = inf, inf, 0
        for held in self._replaying:
            self._pin(held)
        self._ledger.unpin()

    def uncounted(self) -> list[Held]:
        """Durable subscriptions with a part of the log that they have not read, and for which all of it is pinned."""
        return [held for held in self._replaying if held.durable and held.at < held.seam]

    def begin(self, held: Held, at: int, now: float) -> None:
        """Read from there on; a log that holds nothing there is read already."""
        held.at = at
        held.reading = 0
        if self._ledger.may_hold(at, self._ledger.end):
            held.step("read on")
            held.seam = self._ledger.end
            self._pin(held)
        elif held.phase is Phase.REPLAYING:
            self._catch_up(held, now)
        else:
            self._move_to(held, self._ledger.end, now)

    def stop(self, held: Held) -> None:
        """The subscription has ended."""
        if self._replaying.pop(held, 0) is None:
            self.refresh_pins()

    def read_on(self, held: Held, now: float) -> None:
        """Read the next chunk, if there is room for it and somebody to hear it."""
        if held.phase is not Phase.REPLAYING or held.reading or not held.members:
            return
        self._pin(held)
        if not self._ledger.may_hold(held.at, self._ledger.end):
            self._catch_up(held, now)
            self._courier.pump(held, now)
            return
        room = held.options.queue - len(held.queue)
        if len(held.queue) > held.options.queue // 2 or room <= 0:
            return
        self._last_read += 1
        held.reading = self._last_read
        self._ports.disk.fetch(
            held.at,
            min(room, self._settings.chunk),
            partial(self._on_read, held, held.reading),
            partial(self._on_failed, held, held.reading),
        )

    def skip_older(self, held: Held, now: float) -> float | None:
        """Pass over what is older than a durable subscription wants, so that the log need not keep it.
        When the oldest that is left was accepted, if any may be left."""
        keep = held.options.keep_seconds
        if keep is None or held.phase is not Phase.REPLAYING or held.reading:
            return None
        oldest = None
        for offset, entry in list(self._ledger.entries.items()):
            if entry.accepted + keep > now or offset >= self._ledger.end:
                oldest = entry.accepted
                break
            self._move_to(held, offset + 1, now)
        self.refresh_pins()
        return oldest

    def _on_read(self, held: Held, number: int, records: Sequence[Append], now: float) -> None:
        if held.reading != number or held.phase is not Phase.REPLAYING:
            return
        held.reading = 0
        end = self._ledger.end
        for record in records:
            if record.offset >= end:
                break
            if record.offset < held.at:
                continue  # it was given up while it was read
            self._read_one(held, record, now)
        if read_upto(records, end) >= end:
            self._move_to(held, end, now)
        if not self._ledger.may_hold(held.at, end):
            self._catch_up(held, now)
        self._courier.pump(held, now)

    def _on_failed(self, held: Held, number: int, failure: FetchFailed, now: float) -> None:
        if held.reading == number and held.phase is Phase.REPLAYING:
            held.reading = 0
            self._on_broken(held, failure.code, failure.reason, now)

    def _read_one(self, held: Held, record: Append, now: float) -> None:
        offset = record.offset
        while held.behind and held.behind[0].after <= offset:
            own(held, "queue").append(held.behind.popleft())
        self._move_to(held, offset, now)
        is_owed = bool(held.later) and held.later[0] == offset
        if is_owed:
            held.later.popleft()
        if held.unread and held.unread[0] == offset:
            held.unread.popleft()
        held.at = offset + 1
        if not self.is_for(held, record, now):
            held.progress.settle(offset)
            held.silence(held.at)
            if is_owed:
                self._ledger.release(offset, held.owner)
                if self._has_ended(record, now):
                    self._courier.count_gone(held, now)
            return
        if held.durable and not is_owed:
            self._ledger.owe(offset, held.owner)
        position = Position(self._ledger.log, offset)
        item = Item(record.event, event_size(record.event), position, record.accepted, record.expires_at)
        item.again = offset < held.again_below
        item.moved = self._stays.of(record.event.source, offset)
        self._courier.take(held, item, now)

    def is_for(self, held: Held, record: Append, now: float) -> bool:
        """Is the subscription to hear this entry?"""
        event, offset = record.event, record.offset
        if self._has_ended(record, now):
            return False
        if held.progress.is_settled(offset):
            return False
        if not accepts(held.filter, event):
            if is_over(held.filter, event):
                self._courier.count_over_budget(held, now)
            return False
        if held.told is not None and held.told.was_told(event, self._ledger.log, offset, accepts):
            return False
        if offset >= held.start or record.ends_at > held.since:
            return True
        return any(right.gives(record) for right in held.rights)

    def _has_ended(self, record: Append, now: float) -> bool:
        """Superseded, or expired for everybody."""
        return expired(record, now) or record.offset not in self._ledger.entries

    def _move_to(self, held: Held, offset: int, now: float) -> None:
        """Everything below was read; what was owed there and is gone has ended for everybody."""
        held.at = max(held.at, offset)
        held.silence(held.at)
        while held.unread and held.unread[0] < offset:
            held.progress.settle(held.unread.popleft())
        while held.later and held.later[0] < offset:
            self._ledger.release(held.later.popleft(), held.owner)
            self._courier.count_gone(held, now)

    def _catch_up(self, held: Held, now: float) -> None:
        self._move_to(held, self._ledger.end, now)
        held.step("caught up")
        if held.behind:
            own(held, "queue").extend(held.behind)
            held.behind = EMPTY
        self.stop(held)

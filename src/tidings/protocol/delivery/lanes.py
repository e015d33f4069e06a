"""Subscriptions in the logs of other brokers: a lane for each, read through recovery.

Rules
- Every subscription has a lane in every log that is known. A new one reads what is available
  there first, unless it wants no replay; a log that is found later is read then.
- A log that replaces one which a durable subscription heard began after the subscription: it has a right to all of it.
- It reads only while somebody listens and the queue is at most half full, like the reader of our
  own log. A durable subscription whose queue is full reads on later: it spills to the log of
  origin, which keeps its events because our acknowledgement waits for its progress.
- What it reads is told when it was not told before and has not ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from tidings.availability.told import Span
from tidings.language.evaluate import accepts
from tidings.model.event import event_size
from tidings.model.subscription import Position
from tidings.protocol.delivery.courier import Courier
from tidings.protocol.delivery.held import Held
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.lane import Lane, LanePhase, Passed
from tidings.protocol.delivery.moved import moved_of
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.lines import EMPTY, NOTHING, own, own_table
from tidings.protocol.messages import Envelope
from tidings.protocol.naming import broker_of
from tidings.protocol.reading import Page, Wanted
from tidings.protocol.slots import Ports


class Lanes:
    def __init__(self, ports: Ports, settings: DeliverySettings, courier: Courier) -> None:
        self._ports = ports
        self._settings = settings
        self._courier = courier

    # -- beginning and ending ------------------------------------------------------------------

    def open(self, held: Held) -> None:
        """The subscription begins, or goes on after a restart."""
        for log in self._ports.recovery.logs():
            self.open_one(held, log)

    def open_one(self, held: Held, log: str, *, is_found: bool = False) -> None:
        """`is_found`: the subscription is older than what is known here of this log."""
        if held.handle is None or log in held.lanes:
            return
        known = self._ports.recovery.known(log)
        if is_found and held.durable and self._has_outlived(held, log):
            own_table(held, "lanes")[log] = Lane(log, 0, start=1, hold=0)
            return
        if held.is_from_disk or (is_found and held.durable):
            # It began in an earlier life, which did not write down where in this log, or the log began on an empty
            # disk and took events before it was heard of here: nothing of it may go.
            own_table(held, "lanes")[log] = Lane(log, 0, start=None, hold=0)
            return
        if held.options.replay:
            # What a durable one is owed is said by offset: its age may be read in another life, by another clock.
            start = known + 1 if held.durable else None
            own_table(held, "lanes")[log] = Lane(log, 0, start=start, hold=known)
            return
        lane = own_table(held, "lanes")[log] = Lane(log, known, start=known + 1, hold=known)
        lane.phase = LanePhase.LIVE

    def _has_outlived(self, held: Held, log: str) -> bool:
        """Did the subscription hear an earlier log of this broker? Then it is older than all that this log holds, and
        no clock is asked: that of either broker may have been set back between two of its lives."""
        broker = broker_of(log)
        return broker in held.outlived or any(broker_of(other) == broker for other in held.lanes)

    def resume_from(self, held: Held, after: Mapping[str, int]) -> None:
        """A durable subscription goes on here that was at another broker; in each log from its token on.
        A log that is not known yet will be read when it is."""
        for log, offset in after.items():
            if log != self._ports.delivery.log:
                own_table(held, "lanes")[log] = Lane(log, offset, start=offset + 1, hold=offset)

    def rights(self, held: Held) -> dict[str, list[Span]]:
        """What a durable subscription is owed in each log, before it takes another filter."""
        found: dict[str, list[Span]] = {}
        for log, lane in held.lanes.items():
            if held.durable:
                known = self._ports.recovery.known(log)
                first = lane.settled_upto(known) + 1
                found[log] = [*lane.rights, Span(held.filter, log, first, known + 1)]
        return found

    def reopen(self, held: Held, rights: dict[str, list[Span]]) -> None:
        """It has another filter: read what it may want now, and what it was owed before."""
        self.stop(held)
        self.open(held)
        for log, owed in rights.items():  # also of logs that were not found again after a restart
            lane = own_table(held, "lanes").setdefault(log, Lane(log, 0, start=None, hold=0))
            lane.rights = owed
            lane.hold = min(right.start for right in owed) - 1

    def stop(self, held: Held) -> None:
        """The subscription has ended."""
        for lane in held.lanes.values():
            self._stop(lane)
        held.lanes = NOTHING

    def _stop(self, lane: Lane) -> None:
        if lane.reading is not None:
            self._ports.recovery.give_up(lane.reading)
            lane.reading = None

    def drop(self, held: Held, log: str) -> None:
        """That log is no more; what was read of it is still told."""
        lane = held.lanes.pop(log, None)
        if lane is not None:
            self._stop(lane)
            if held.durable and self._ports.recovery.is_gone(log):
                held.outlived = held.outlived | {broker_of(log)}

    # -- the live way --------------------------------------------------------------------------

    def offer(self, held: Held, envelope: Envelope, now: float) -> None:
        """An event of another broker's log passes, and the subscription accepts it."""
        lane, offset = held.lanes[envelope.origin], envelope.offset
        assert offset is not None
        if not lane.is_live:
            self._wait(held, lane, envelope, now)
            return
        if offset < lane.progress.heard:
            return  # it was read
        if held.durable and held.is_full:
            lane.phase = LanePhase.READING
            lane.read_to(offset - 1)
            lane.missed = offset
            self._owe_later(held, lane, envelope, now)
            return
        self._courier.offer_read(held, _item(envelope, now), now)

    def _wait(self, held: Held, lane: Lane, envelope: Envelope, now: float) -> None:
        if held.durable:
            lane.wait(envelope, self._settings.chunk)
            self._owe_later(held, lane, envelope, now)
        elif len(lane.pending) < max(held.options.queue, self._settings.chunk):
            own(lane, "pending").append(envelope)
        else:
            self._courier.count_lost(held, envelope.event, held.options.policy, now)

    def _owe_later(self, held: Held, lane: Lane, envelope: Envelope, now: float) -> None:
        """Its bounds act on what it has not read, so it must be known how much that is."""
        if held.has_bounds and envelope.offset is not None:
            event = envelope.event
            own(lane, "later").append(Passed(envelope.offset, now, event.source, event.id))
            self._courier.bounds.keep(held, now)

    def found_again(self, held: Held, log: str, now: float) -> None:
        """After a restart: what was handed to it is to be read again; how much it is owed beyond that nobody
        knows, only that it is no younger."""
        lane, known = held.lanes.get(log), self._ports.recovery.known(log)
        if lane is not None and held.has_bounds and not lane.is_live and lane.at < known and not lane.later:
            later = own(lane, "later")
            later.extend(Passed(offset, now) for offset in lane.unread)
            if lane.progress.heard <= known:
                later.append(Passed(known, now))

    # -- reading -------------------------------------------------------------------------------

    def read_on(self, held: Held, now: float) -> None:
        """Ask for the next page of each log that is not read yet, if there is room for it."""
        if not held.members or len(held.queue) > held.options.queue // 2:
            return
        for lane in list(held.lanes.values()):
            if lane.is_live or lane.reading is not None:
                continue
            if self._ports.recovery.has_log(lane.log):
                self._ask(held, lane, now)
            elif self._courier.moves.is_gone(lane.log):
                self.drop(held, lane.log)
            else:
                self._ports.recovery.hurry(lane.log, lane.at + 1, now)  # its broker may have lost that disk

    def _ask(self, held: Held, lane: Lane, now: float) -> None:
        if held.durable:
            lane.pending.clear()
            lane.missed = 0
        start = min(right.start for right in lane.rights) if lane.rights else lane.start
        limit = min(held.options.queue - len(held.queue), self._settings.chunk)
        wanted = Wanted(held.filter, lane.at, start, held.since, limit)
        lane.reading = self._ports.recovery.read(lane.log, wanted, partial(self._on_page, held, lane), now)

    def _on_page(self, held: Held, lane: Lane, page: Page, now: float) -> None:
        lane.reading = None
        if page.is_gone or held.has_ended or held.lanes.get(lane.log) is not lane:
            return
        for envelope in lane.merged(page.envelopes, page.upto):
            self._read_one(held, lane, envelope, now)
        lane.read_to(page.upto)
        if page.is_last and lane.missed <= page.upto:
            self._go_live(held, lane, now)
        if not held.has_ended:
            self._courier.touched(held, now)
            self._courier.pump(held, now)

    def _read_one(self, held: Held, lane: Lane, envelope: Envelope, now: float) -> None:
        offset = envelope.offset
        if offset is None or offset <= lane.at:
            return
        lane.read_to(offset - 1)
        if lane.unread and lane.unread[0] == offset:
            lane.unread.popleft()
        if self._is_for(held, lane, envelope, offset):
            item = _item(envelope, now)
            item.again = lane.again
            self._courier.take(held, item, now)
        else:
            lane.progress.settle(offset)
        lane.read_to(offset)

    def _is_for(self, held: Held, lane: Lane, envelope: Envelope, offset: int) -> bool:
        event = envelope.event
        if lane.progress.is_settled(offset) or (
            held.told is not None and held.told.was_told(event, lane.log, offset, accepts)
        ):
            return False
        if not lane.rights or (lane.start is not None and offset >= lane.start):
            return True
        return envelope.remaining > 0 or any(
            right.start <= offset < right.stop and accepts(right.filter, event) for right in lane.rights
        )

    def _go_live(self, held: Held, lane: Lane, now: float) -> None:
        lane.phase = LanePhase.LIVE
        lane.again = False
        lane.rights = ()
        lane.hold = 0  # from now on its progress alone says what it needs
        if lane.start is None:
            lane.start = lane.at + 1
        pending, lane.pending = list(lane.pending), EMPTY
        for envelope in pending:
            if held.has_ended:
                return  # it was too slow, and its policy is `disconnect`
            if lane.is_live:
                self.offer(held, envelope, now)
            else:
                self._wait(held, lane, envelope, now)

    # -- what is needed no more ------------------------------------------------------------------

    def settled(self, log: str, helds: Iterable[Held]) -> int | None:
        """The durable subscriptions need nothing of this log up to there; None: there are none."""
        known = self._ports.recovery.known(log)
        needs = [held.lanes[log].settled_upto(known) for held in helds if held.durable and log in held.lanes]
        return min(needs, default=None)


def heard_of(log: str, helds: Iterable[Held]) -> int:
    """The highest offset of a log that one of these has heard of. A guest may have it from its client's token, which
    proves nothing."""
    lanes = [held.lanes[log] for held in helds if log in held.lanes and not held.is_guest]
    return max((max(lane.at, lane.progress.heard - 1) for lane in lanes), default=0)


def _item(envelope: Envelope, now: float) -> Item:
    event, offset = envelope.event, envelope.offset
    assert offset is not None
    expires_at = None if envelope.expires is None else now + envelope.expires
    accepted = now if event.lifetime in (0.0, float("inf")) else now - (event.lifetime - envelope.remaining)
    item = Item(event, event_size(event), Position(envelope.origin, offset), accepted, expires_at)
    item.moved = moved_of(envelope)
    return item

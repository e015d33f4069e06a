"""Publishers that move: one source's events in the logs of several brokers, in order.

Rules
- A publisher that comes to another broker says where the last events of its sources are that were
  acknowledged (`ClientJoined`): by log, an offset. Everything that it publishes there comes after those
  places, and says so (`MigrationHeader`, a header between brokers), as long as it stays; the log remembers it
  (`PublisherStays`).
- A subscription is told such an event when it has passed those places: all that it is to hear of
  those logs up to there is in its queue. Until then the event is *barred*, and so is what comes
  after it in its log, since a client's token counts on the order of a log.
- Each stay has a number. Events of an earlier stay beyond the places that the publisher named were never
  acknowledged; when an event of a later stay was delivered, such an event comes too late and is given up.
- Bounded: so many wait for a subscription at most, and so long. Past that, order is given up, and
  counted. A publisher that names what does not exist delays its own log's events, and no others.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from tidings.availability.records import Delete, Loaded, Put, Record
from tidings.protocol.delivery.cursor import LIVE
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.migration_header import MigrationHeader
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.naming import broker_of
from tidings.protocol.slots import Ports

TABLE = "moved"  # by source: its stays at this broker
MOST_BARRED = 1024  # events that wait for one subscription
MOST_SOURCES = 10_000  # that moved, as far as a broker or a subscription remembers
BARRED_SECONDS = 60.0  # that one waits at most; its log may be at a broker that is gone


class _PublisherStay(msgspec.Struct, frozen=True, array_like=True):
    start: int  # offset in our log
    moved: MigrationHeader


class PublisherStays:
    """Earlier brokers of the publishers here, for entries of our log that are read again."""

    def __init__(self, index: LogIndex) -> None:
        self._index = index
        self._by_source: OrderedDict[str, list[_PublisherStay]] = OrderedDict()

    def load(self, state: Loaded) -> None:
        for source, row in sorted(state.tables.get(TABLE, {}).items()):
            self._by_source[source] = msgspec.msgpack.decode(row, type=list[_PublisherStay])

    def of(self, source: str, offset: int) -> MigrationHeader | None:
        for stay in reversed(self._by_source.get(source, ())):
            if stay.start <= offset:
                return stay.moved if stay.moved.stay else None
        return None

    def keep(self, source: str, moved: MigrationHeader, offset: int) -> list[Record]:
        """An event of that source is appended there; the records to persist with it."""
        stays = self._by_source.get(source, [])
        if (stays and stays[-1].moved == moved) or (not stays and not moved.stay):
            return []
        first = self._index.first_offset
        ends = [stay.start for stay in stays[1:]] + [offset]
        kept = [stay for stay, end in zip(stays, ends, strict=False) if end > first]
        self._by_source[source] = [*kept, _PublisherStay(offset, moved)]
        self._by_source.move_to_end(source)
        records: list[Record] = [Put(TABLE, source, msgspec.msgpack.encode(self._by_source[source]))]
        if len(self._by_source) > MOST_SOURCES:
            records.append(Delete(TABLE, self._by_source.popitem(last=False)[0]))
        return records


class PublisherMigration:
    """The order of moved publishers, for each subscription of this broker."""

    def __init__(self, ports: Ports, index: LogIndex) -> None:
        self._ports = ports
        self._index = index
        self.waiting: dict[SubscriptionState, None] = {}  # with events that are barred
        self.given_up = 0  # events that were told before their time

    def is_overtaken(self, state: SubscriptionState, item: Item) -> bool:
        """A later stay of its publisher was told, and it was never acknowledged."""
        header = state.movers.get(item.event.source)
        if header is None:
            return False
        if item.moved is None:
            stay = 0 if item.event.id.startswith(f"{header.mover}-") else header.stay
        else:
            stay = item.moved.stay if item.moved.mover == header.mover else header.stay
        if stay >= header.stay:
            return False
        return item.position is None or item.position.offset > header.places.get(item.position.log, 0)

    def must_wait(self, state: SubscriptionState, item: Item) -> bool:
        lines = self._lines(item)
        if any(not lines.isdisjoint(self._lines(other)) for other in state.barred):
            return True
        return item.moved is not None and not self._is_clear(state, item.moved)

    def bar(self, state: SubscriptionState, item: Item, now: float) -> None:
        item.barred_at = now
        state.own_moving().barred.append(item)
        self.waiting[state] = None

    def passes(self, state: SubscriptionState, item: Item) -> None:
        """The event goes to the queue: the stays of its publisher at other brokers are over."""
        moved = item.moved
        if moved is None:
            return
        movers = state.own_moving().movers
        header = movers.pop(item.event.source, None)
        if header is None or header.mover != moved.mover or header.stay < moved.stay:
            header = moved
        movers[item.event.source] = header
        if len(movers) > MOST_SOURCES:
            del movers[next(iter(movers))]

    def released(self, state: SubscriptionState, now: float) -> list[Item]:
        """Events that need not wait any longer, in order: one may wait for another that waits."""
        free: list[Item] = []
        while (item := self._next_free(state, now)) is not None:
            state.barred.remove(item)
            free.append(item)
        for item in state.barred:
            for log, offset in item.moved.places.items() if item.moved is not None else ():
                self._ports.logs.hurry(log, offset, now)  # silence may not have reached us
        if not state.barred:
            self.waiting.pop(state, None)
        return free

    def _next_free(self, state: SubscriptionState, now: float) -> Item | None:
        waiting: set[str] = set()  # lines of the items before this one
        for item in state.barred:
            lines = self._lines(item)
            if lines.isdisjoint(waiting) and (item.moved is None or self._is_clear(state, item.moved)):
                return item
            waiting |= lines
        oldest = state.barred[0] if state.barred else None
        if oldest is None or (len(state.barred) <= MOST_BARRED and now < oldest.barred_at + BARRED_SECONDS):
            return None
        self.given_up += 1
        return oldest

    def _is_clear(self, state: SubscriptionState, moved: MigrationHeader) -> bool:
        return all(self._has_passed(state, log, offset) for log, offset in moved.places.items())

    def _has_passed(self, state: SubscriptionState, log: str, offset: int) -> bool:
        """Is all that it is to hear of that log up to there in its queue, or beyond?"""
        for item in state.barred:
            if item.position is not None and item.position.log == log and item.position.offset <= offset:
                return False
        cursor = state.cursor_in(log)
        if cursor is None:
            return is_gone(self._ports, log)
        return (cursor.end if cursor.state is LIVE else cursor.next) > offset

    def _lines(self, item: Item) -> set[str]:
        """The sequences that an item keeps its place in: its log, and its source for an event of a client of
        this broker, since of one source some events are in the log and others in no log."""
        position = item.position
        source = f"/{item.event.source}"
        if position is None:
            return {source}
        return {position.log, source} if position.log == self._index.log else {position.log}


def is_gone(ports: Ports, log: str) -> bool:
    """Has its broker begun another log since? `recovery` asks that broker (`hurry`)."""
    return broker_of(log) == ports.name or ports.logs.is_gone(log)

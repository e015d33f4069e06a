"""Recall: a broker on an empty disk learns from its neighbours which brokers were behind its earlier life.

A broker keeps its neighbours on its disk. One whose disk was replaced knows none of them, so it would take
the first neighbour that is back for the only one: it would acknowledge events that the others have not
received, and withdraw their interest. Rules
- Such a broker asks each neighbour, over the new link, which logs came from it: an `RangeRequest` for its own
  log. The neighbour answers with `LogsUnreachable`, which names them, and with an empty `RangeReply`.
- Until every neighbour that joined has answered, and until a log of each broker that was named is announced,
  the broker is *unsure*: the overlay counts one more, silent neighbour (`UNKNOWN`). So events are kept, no
  event is acknowledged and no interest is withdrawn.
- A broker that was told to join another one is unsure from its start, until a neighbour has answered that it
  dialled itself, or that names a log of an earlier life. Any other neighbour may be as new as the broker: its
  answer is waited for, and ends the search only after `recall_seconds`.
- A neighbour of the last version does not answer, and a broker that was named may be gone for good: both are
  waited for at most `recall_seconds`.
- A broker keeps on its disk which brokers it hears over each link (`recovery.behind`), so that it can answer
  after a restart of its own. A row goes when the log is forgotten or the neighbour parts.
- A row on the disk says that the recall is over. A next life that does not find it asks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tidings.availability.records import Delete, Loaded, Put, Record
from tidings.protocol.naming import broker_of
from tidings.protocol.recovery.messages import LogsUnreachable, RangeReply, RangeRequest
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery

TABLE = "recovery.recall"
BEHIND = "recovery.behind"  # table: by broker, the link over which it is heard and its log
DONE = "done"
ASK = "recall"  # timer, by link: ask it again
NAMED = "named"  # timer, by broker: it is waited for no longer
ALONE = "alone"  # timer, by link: no neighbour that may know us is waited for any longer


class Recall:
    def __init__(self, ports: Ports, recovery: AcknowledgedRecovery, *, is_joining: bool) -> None:
        self._ports = ports
        self._recovery = recovery
        self._is_joining = is_joining  # it was told to join a broker, and none that may know us has answered
        self._knowing: set[str] = set()  # neighbours that we dialled, or that knew an earlier life of ours
        self._is_new = False  # no row says that the neighbours are known
        self._requested: dict[str, float] = {}  # by neighbour: until when its answer is waited for
        self._named: dict[str, None] = {}  # brokers of which no log is announced yet
        self._behind: dict[
            str, tuple[str, str]
        ] = {}  # by broker: its log, and the link toward it; on the disk

    @property
    def is_unsure(self) -> bool:
        return self._is_new and bool(self._is_joining or self._requested or self._named)

    def load(self, state: Loaded, *, recalls: bool) -> None:
        self._is_new = recalls and DONE not in state.tables.get(TABLE, {})
        for broker, row in state.tables.get(BEHIND, {}).items():
            self._behind[broker] = msgspec.msgpack.decode(row, type=tuple[str, str])

    def note_links(self, logs: Iterable[str], link: str) -> None:
        """Remember over restarts behind which neighbour the brokers of these logs are: their disk may be lost
        while we restart."""
        behind, records = self._behind, list[Record]()
        for log in logs:
            if behind.get(broker := broker_of(log)) != (log, link):
                behind[broker] = (log, link)
                records.append(Put(BEHIND, broker, msgspec.msgpack.encode((log, link))))
        self._ports.disk.keep(records)

    # -- asking --------------------------------------------------------------------------------

    def link_up(self, link: str, now: float) -> None:
        if self._is_new:
            self._requested.setdefault(link, now + self._recovery.settings.recall_seconds)
            self.ask(link, now)

    def dialled(self, link: str) -> None:
        self._knowing.add(link)

    def ask(self, link: str, now: float) -> None:
        """Ask a neighbour, again and again until it has answered."""
        until = self._requested.get(link)
        if until is None:
            return
        if until <= now:
            self._answered(link, now)
            return
        if self._recovery.is_up(link):
            self._ports.send(link, RangeRequest(self._recovery.own().name, 0, 0, (self._ports.name,)))
        self._recovery.timers.set((ASK, link), now + self._recovery.settings.retry_seconds)

    def named(self, link: str, logs: tuple[str, ...], now: float) -> None:
        """A neighbour hears these logs from us alone."""
        if not self._is_new:
            return
        if any(log != self._recovery.own().name for log in logs):
            self._knowing.add(link)
        known = {broker_of(log) for log in self._recovery.views}
        for broker in {broker_of(log) for log in logs} - known - {self._ports.name}:
            if broker not in self._named:
                self._named[broker] = None
                self._recovery.timers.set((NAMED, broker), now + self._recovery.settings.recall_seconds)

    def filled(self, fill: RangeReply, link: str, now: float) -> None:
        if fill.log == self._recovery.own().name and link in self._requested:
            self._answered(link, now)

    def _answered(self, link: str, now: float) -> None:
        self._requested.pop(link, None)
        self._recovery.timers.clear((ASK, link))
        if link in self._knowing:
            self.stop_joining(now)
        elif self._is_joining:
            timers = self._recovery.timers
            timers.set((ALONE, link), now + self._recovery.settings.recall_seconds)
        else:
            self._review(now)

    def stop_joining(self, now: float) -> None:
        """A neighbour that may know us has answered, or is waited for no longer."""
        self._is_joining = False
        self._review(now)

    def found(self, broker: str, now: float) -> None:
        """A log of this broker is announced, or the broker is waited for no longer."""
        if broker in self._named:
            del self._named[broker]
            self._recovery.timers.clear((NAMED, broker))
            self._review(now)

    def part(self, peer: str, now: float) -> None:
        if peer in self._requested:
            self._answered(peer, now)
        self.found(peer, now)
        for broker in [each for each, (_, link) in self._behind.items() if link == peer]:
            self.unheard(broker)

    def unheard(self, broker: str) -> None:
        """A broker is not behind a neighbour any more."""
        if self._behind.pop(broker, None):
            self._ports.disk.keep([Delete(BEHIND, broker)])

    def _review(self, now: float) -> None:
        if self._is_new and not self.is_unsure:
            self._is_new = False
            self._ports.disk.keep([Put(TABLE, DONE, b"")])
            self._recovery.is_sure(now)

    # -- answering -----------------------------------------------------------------------------

    def answer(self, link: str, ask: RangeRequest) -> bool:
        """Was this a neighbour's question about itself?"""
        if broker_of(ask.log) != link or ask.path != (link,):
            return False
        logs = tuple(
            {view.name: None for view in self._recovery.views.values() if view.upstream == link}
            | {log: None for log, way in self._behind.values() if way == link}
        )
        if logs:
            self._ports.send(link, LogsUnreachable(logs))
        self._ports.send(link, RangeReply(ask.log, 0, 0, (), ask.path))
        return True

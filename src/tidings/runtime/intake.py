"""Intake of publishers under overload: output comes first, and publishers are read when nothing else is to be
done.

A broker that is sent more than it can deliver does not queue the surplus: it stops reading the connections
that publish, so that TCP slows their publishers. Rules
- Publishers are held when more than `waiting_deliveries` had to wait since the last quiet turn of the event
  loop. A connection is held after its own next publish, so one that does not publish is never held.
- They are released after a turn in which no connection had input and none could be written to again: all
  credit and all acknowledgements that had arrived are handled by then, and all that they allow was sent.
- Pages of the log that are on their way to subscribers with credit are output too: publishers wait for them,
  while at most `READ_FIRST` entries were read for each delivery that had to wait. A page that waits for the
  share of its subscriber's principal (`fairness.py`) holds no publisher.
- After a turn in which replays read, publishers are read in small parts, so that each acknowledgement is
  handled soon: `FEW` publishes, then deliveries again. A subscriber that keeps up prolongs that, until some
  time after it is live again; one that takes less than half of what is published ends it.
- A slow consumer holds no publisher for long: it makes no turn busy and has no page read. Its queue fills,
  and its policy decides, or its events wait in the log.
- Publishers wait `waiting_turns` at most, so that no flood of other messages keeps them out.
"""

from __future__ import annotations

import asyncio

from tidings.protocol.limits import ResourceLimits
from tidings.protocol.slots import Backlog
from tidings.runtime.connection import OVERLOAD, Connection, NetworkSettings, WriteCoalescer
from tidings.runtime.fairness import ReadingShares

FEW = 64  # publishes that are read at a time while replays lag; more delays deliveries, fewer cost more each
FEW_UNANSWERED = 256  # publishes of a connection that wait for the disk meanwhile; beyond it reading pauses
READ_FIRST = 4  # entries that replays read for each delivery that waits; fewer let replays fall behind
ANSWER_SECONDS = 0.01  # that publishers wait for the acknowledgements of a page; less lets replays lag
TRIAL = 1024  # publishes that are read in small parts when a replay read; more slows publishers for longer
AFTER = 16  # times `waiting_deliveries`: publishes that are read so at most after the last page


class Intake:
    """The publishers of one broker that are held, and when they are read again."""

    def __init__(
        self,
        backlog: Backlog,
        coalescer: WriteCoalescer,
        limits: ResourceLimits,
        network: NetworkSettings | None = None,
        reading: ReadingShares | None = None,
    ) -> None:
        self.backlog = backlog
        self._limits = limits
        self.most = limits.waiting_deliveries  # of `backlog.waited`: more hold publishers
        self._most_unanswered = (network or NetworkSettings()).unanswered
        self.unanswered = self._most_unanswered  # publishes of one connection; beyond it reading pauses
        self._coalescer = coalescer
        self._reading = reading
        if reading is not None:
            reading.on_fetched = self.page_came
        self._paused: dict[Connection, None] = {}
        self._inputs = 0  # of the gathering at the last look
        self._turns = 0  # since the first was held
        self._awaits_page = False  # before the next look
        self._timer: asyncio.TimerHandle | None = None
        self._read = self._waited = 0  # of `backlog`, at the last release
        self._answered = 0  # of `backlog.read`, at the last time that acknowledgements were waited for
        self._publishes = 0  # that came since then
        self._small = 0  # publishes that are still to be read in small parts
        self._together = 1  # connections that are released at a time meanwhile
        self.figures = {"publishers paused": 0}

    def hold(self, connection: Connection, publishes: int = 1) -> None:
        """Read no more from a connection that sent so many publishes, until the loop has a quiet turn."""
        self._publishes += publishes
        if connection in self._paused:
            return
        if not self._paused:
            self._look_soon(connection)
        self._paused[connection] = None
        self.figures["publishers paused"] += 1
        connection.hold(OVERLOAD)
        if self._small:
            connection.handle_fewer(FEW)

    def page_came(self) -> None:
        """A page of the log was read and handled, or could not be read."""
        if self._awaits_page:
            self._awaits_page = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            next(iter(self._paused)).loop.call_soon(self._look)

    def _look_soon(self, connection: Connection) -> None:
        self._turns, self._inputs = 0, -1
        connection.loop.call_soon(self._look)

    def _look(self) -> None:
        """Is this turn quiet? Callbacks of the turn before have run, those of this one have not."""
        backlog = self.backlog
        if backlog.read - self._read < READ_FIRST * max(backlog.waited - self._waited, self._publishes):
            if backlog.reading > (0 if self._reading is None else self._reading.deferred):
                self._awaits_page = True
                return
            if self._small and backlog.read != self._answered:
                self._answered, self._awaits_page = backlog.read, True
                self._timer = next(iter(self._paused)).loop.call_later(ANSWER_SECONDS, self.page_came)
                return
        inputs, self._turns = self._coalescer.inputs, self._turns + 1
        stored = self._paused
        if inputs != self._inputs and self._turns < self._limits.waiting_turns:
            self._inputs = inputs
            next(iter(stored)).loop.call_soon(self._look)
            return
        self._plan_release()
        for connection in list(stored)[: self._together if self._small else None]:
            del stored[connection]
            connection.release(OVERLOAD)
        if stored:
            self._look_soon(next(iter(stored)))

    def _plan_release(self) -> None:
        """Decide whether publishers are read in small parts from now on."""
        backlog, published, self._publishes = self.backlog, self._publishes, 0
        read = backlog.read - self._read
        self._read, self._waited = backlog.read, backlog.waited
        if self._small:
            small = max(self._small + 2 * read - published, 0)
            self._small = min(small, AFTER * self._limits.waiting_deliveries)
        elif read:
            self._small, self._answered = TRIAL, backlog.read
        if published < FEW:
            self._together = min(2 * self._together, len(self._paused))
        elif published > 2 * FEW:
            self._together = max(self._together // 2, 1)
        self.most = -1 if self._small else backlog.waited + self._limits.waiting_deliveries
        few = min(FEW_UNANSWERED, self._most_unanswered)
        self.unanswered = few if self._small else self._most_unanswered

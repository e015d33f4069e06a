"""Intake of publishers under overload: output comes first, and publishers are read when nothing else is to be
done.

A broker that is sent more than it can deliver does not queue the surplus: it stops reading the connections
that publish, so that TCP slows their publishers. Rules
- Publishers are held when more than `waiting_deliveries` had to wait since the last quiet turn of the event
  loop. A connection is held after its own next publish, so one that does not publish is never held.
- They are released after a turn in which no connection had input and none could be written to again: all
  credit and all acknowledgements that had arrived are handled by then, and all that they allow was sent.
- A slow consumer holds no publisher for long: it makes no turn busy. Its queue fills, and its policy decides.
- Publishers wait `waiting_turns` at most, so that no flood of other messages keeps them out.
"""

from __future__ import annotations

from tidings.protocol.limits import ResourceLimits
from tidings.protocol.slots import Backlog
from tidings.runtime.connection import Connection, WriteCoalescer

REASON = "overload"  # for which a connection is held


class Intake:
    """The publishers of one broker that are held, and when they are read again."""

    def __init__(self, backlog: Backlog, coalescer: WriteCoalescer, limits: ResourceLimits) -> None:
        self.backlog = backlog
        self._limits = limits
        self.most = limits.waiting_deliveries  # of `backlog.waited`: more hold publishers
        self._coalescer = coalescer
        self._paused: dict[Connection, None] = {}
        self._inputs = 0  # of the gathering at the last look
        self._turns = 0  # since the first was held
        self.figures = {"publishers paused": 0}

    def hold(self, connection: Connection) -> None:
        """Read no more from a connection that publishes, until the loop has a quiet turn."""
        if connection in self._paused:
            return
        if not self._paused:
            self._turns, self._inputs = 0, -1
            connection.loop.call_soon(self._look)
        self._paused[connection] = None
        self.figures["publishers paused"] += 1
        connection.hold(REASON)

    def _look(self) -> None:
        """Is this turn quiet? Callbacks of the turn before have run, those of this one have not."""
        inputs, self._turns = self._coalescer.inputs, self._turns + 1
        stored = self._paused
        if inputs != self._inputs and self._turns < self._limits.waiting_turns:
            self._inputs = inputs
            next(iter(stored)).loop.call_soon(self._look)
            return
        self._paused, self.most = {}, self.backlog.waited + self._limits.waiting_deliveries
        for connection in stored:
            connection.release(REASON)

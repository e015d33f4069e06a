"""The embedded driver: one broker and its clients in one process, on one event loop.

It performs effects and passes messages on, in order and at once. It decides nothing: whatever a
broker or a client does is in `protocol`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tidings.history.schema import Row
from tidings.protocol import effects as fx
from tidings.protocol.inputs import Input, LinkDown, LinkUp, Received, Started, TimerFired
from tidings.protocol.node import Node
from tidings.protocol.slots import Machine
from tidings.runtime.clock import Clock, Timer
from tidings.runtime.drives import Drive, Inline, Threaded
from tidings.store.store import Store

Hear = Callable[[fx.Effect], None]  # what a client's application hears


class Embedded:
    """Drives the machines. Everything happens on the loop that it was started on."""

    def __init__(
        self, node: Node, store: Store, clock: Clock, *, threaded: bool, record: Callable[[Row], None]
    ) -> None:
        self.node = node
        self._clock = clock
        self._machines: dict[str, Machine] = {node.name: node}
        self._hears: dict[str, Hear] = {}
        self._line: deque[tuple[str, Input]] = deque()
        self._is_running = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._wake_at: float | None = None
        self._drive: Drive = (
            Threaded(store, self._report, asyncio.get_running_loop())
            if threaded
            else Inline(store, self._report)
        )
        self._performers: dict[type, Callable[[str, Any], None]] = {
            fx.Send: self._send,
            fx.Record: lambda _, effect: record(effect.row),
            fx.Persist: lambda _, effect: self._drive.persist(effect),
            fx.Fetch: lambda _, effect: self._drive.fetch(effect),
        }

    def start(self, input: Started) -> None:
        self.hand(self.node.name, input)

    # -- clients -------------------------------------------------------------------------

    def attach(self, address: str, client: Machine, hear: Hear) -> None:
        """Link a client with the broker; `hear` gets the effects that are for its application."""
        self._machines[address] = client
        self._hears[address] = hear
        self._line.append((self.node.name, LinkUp(address)))
        self.hand(address, LinkUp(self.node.name))

    def detach(self, address: str) -> None:
        """The client is gone."""
        self._machines.pop(address, None)
        self._hears.pop(address, None)
        self.hand(self.node.name, LinkDown(address))

    def __contains__(self, address: str) -> bool:
        return address in self._machines

    # -- driving ---------------------------------------------------------------------------

    def hand(self, name: str, input: Input) -> None:
        """Hand an input to a machine, and pass on whatever follows until nothing is left."""
        self._line.append((name, input))
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._line:
                self._step(*self._line.popleft())
        finally:
            self._is_running = False
        self._set_timer()

    def _step(self, name: str, input: Input) -> None:
        machine = self._machines.get(name)
        if machine is None:
            return  # it went while this was on its way
        hear = self._hears.get(name)
        for effect in machine.handle(input, self._clock.now()):
            perform = self._performers.get(type(effect))
            if perform is not None:
                perform(name, effect)
            elif hear is not None:
                hear(effect)

    def _send(self, name: str, effect: fx.Send) -> None:
        self._line.append((effect.to, Received(name, effect.message)))

    def _report(self, input: Input) -> None:
        self.hand(self.node.name, input)

    # -- the timer -----------------------------------------------------------------------

    def _set_timer(self) -> None:
        wake_at = None if self._is_closed else self.node.next_deadline()
        if wake_at == self._wake_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake_at = wake_at
        if wake_at is not None:
            self._timer = self._clock.wake(wake_at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.hand(self.node.name, TimerFired())

    async def close(self) -> None:
        """Every client is gone: let the disk finish, and stop."""
        for address in list(self._hears):
            self.detach(address)
        self._is_closed = True
        self._set_timer()
        await self._drive.close()
        await asyncio.sleep(0)  # what the disk reported last

"""The driver: one machine and what is attached to it, on one event loop.

The machine is a broker's node, or a client whose broker is elsewhere. Attached are clients in the
same process (machines too) and links (whatever takes a message: see `connection.py`). The driver
performs effects and passes messages on, in order and at once. It decides nothing: whatever a broker
or a client does is in `protocol`. Rules
- Inputs wait in one line. What follows from an input is passed on until nothing is left; only then
  is the timer set, once.
- What a machine says that no performer is for is for its application (`hear`).
- A machine's time is that of the clock, and never behind what its disk holds: a machine whose wall clock was set
  back while it was down goes on from where its last life ended.
- A timer that was set too early asks again; so a deadline that moves away costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from tidings.history.schema import Row
from tidings.protocol import effects as fx
from tidings.protocol.inputs import (
    Fetched,
    FetchFailed,
    Input,
    LinkDown,
    LinkUp,
    Received,
    ReceivedAll,
    Started,
    TimerFired,
)
from tidings.protocol.messages import Message, Publish
from tidings.protocol.slots import Machine
from tidings.runtime.clock import Clock, Timer
from tidings.runtime.drives import Drive, Inline, Threaded
from tidings.store.store import Store

BREATH = 2048  # effects; fewer write oftener, more let those wait longer who could work meanwhile

Hear = Callable[[fx.Effect], None]  # what a client's application hears
Outlet = Callable[[Message], None]  # the near end of a link
Fault = Callable[[str, BaseException], None]  # a machine failed at an input; the name is whose word it was


class Tap(Protocol):
    """Watches what comes and goes, and changes nothing."""

    def came(self, peer: str, message: Message, now: float) -> None: ...

    def came_all(self, peer: str, messages: list[Message], now: float) -> None: ...

    def went(self, peer: str, message: Message, now: float) -> None: ...

    def gone(self, peer: str) -> None: ...


class FetchMeter(Protocol):
    """Counts reading the log for those who asked for it (see `fairness.py`)."""

    def fetch(self, request: int, author: str, perform: Callable[[], None]) -> None:
        """Read on behalf of this author, now or when it is its turn."""

    def fetched(self, request: int, seconds: float) -> None:
        """It was read, or failed, and handling that took so long."""


class Driver:
    """Drives the machines. Everything happens on the loop that it was started on."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        clock: Clock,
        *,
        record: Callable[[Row], None],
        hear: Hear | None = None,
        fault: Fault | None = None,
        tap: Tap | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self._main = machine
        self._machines: dict[str, Machine] = {name: machine}
        self._hears: dict[str, Hear] = {} if hear is None else {name: hear}
        self._outlets: dict[str, Outlet] = {}
        self._line: deque[tuple[str, Input]] = deque()
        self._fault = fault
        self._tap = tap
        self._is_running = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._wake_at: float | None = None  # in the machine's time
        self._ahead = 0.0  # seconds by which the machine's time is ahead of the clock
        self._drive: Drive | None = None
        self.datagram: Callable[[str, Message], None] | None = None  # how to send one
        self._breathe: Callable[[], None] | None = None
        self.meter: FetchMeter | None = None
        self._author: str | None = None  # on whose behalf the log is read in this step; None: nobody's
        self._fetches: dict[int, str] = {}  # by request: the same of reads that are on their way
        self._performed = 0  # effects since the last breath
        self._sets_timer_soon = False
        self._performers: dict[type, Callable[[str, Any], None]] = {
            fx.Record: lambda _, effect: record(effect.row),
        }

    def use_store(self, store: Store, *, threaded: bool) -> None:
        """Perform what the machine asks of its disk there."""
        drive: Drive
        if threaded:
            drive = Threaded(store, self.report, asyncio.get_running_loop())
        else:
            drive = Inline(store, self.report)
        self._drive = drive
        self.perform(fx.Persist, drive.persist)
        self.perform(fx.Fetch, partial(self._fetch, drive))

    def perform(self, kind: type, performer: Callable[[Any], None]) -> None:
        """Have effects of this kind performed so."""
        self._performers[kind] = lambda _, effect: performer(effect)

    def _fetch(self, drive: Drive, effect: fx.Fetch) -> None:
        author = self._author
        if author is None or self.meter is None:
            drive.fetch(effect)
        else:
            self._fetches[effect.request] = author
            self.meter.fetch(effect.request, author, partial(drive.fetch, effect))

    def breathe_by(self, breathe: Callable[[], None]) -> None:
        """Call this in the middle of a long run, so that what was said leaves before all is said."""
        self._breathe = breathe

    def start(self, input: Started) -> None:
        self._ahead = max(0.0, input.state.latest - self.clock.now())
        self.hand(self.name, input)

    def now(self) -> float:
        """The machine's time."""
        return self.clock.now() + self._ahead

    # -- what is attached ------------------------------------------------------------------

    def attach(self, address: str, client: Machine, hear: Hear) -> None:
        """Link a client in this process; `hear` gets the effects that are for its application."""
        self._machines[address] = client
        self._hears[address] = hear
        self._line.append((self.name, LinkUp(address)))
        self.hand(address, LinkUp(self.name))

    def detach(self, address: str) -> None:
        """The client is gone."""
        self._machines.pop(address, None)
        self._hears.pop(address, None)
        self.hand(self.name, LinkDown(address))

    def link_up(self, address: str, outlet: Outlet, frame_bytes: int = 0) -> None:
        """A link to a peer elsewhere can be used. `frame_bytes`: the largest frame that the peer takes."""
        self._outlets[address] = outlet
        self.hand(self.name, LinkUp(address, frame_bytes))

    def link_down(self, address: str) -> None:
        self._outlets.pop(address, None)
        if self._tap is not None:
            self._tap.gone(address)
        self.hand(self.name, LinkDown(address))

    def __contains__(self, address: str) -> bool:
        return address in self._machines or address in self._outlets

    # -- driving ---------------------------------------------------------------------------

    def hand(self, name: str, input: Input) -> None:
        """Hand an input to a machine, and pass on whatever follows until nothing is left."""
        self._line.append((name, input))
        self._run()

    def _author_of(self, input: Input) -> str | None:
        """Whose request makes the machine read its log; a publish may make it read for others."""
        if type(input) is Received:
            return None if isinstance(input.message, Publish) else input.sender
        if type(input) is ReceivedAll:
            return None if any(isinstance(each, Publish) for each in input.messages) else input.sender
        return self._fetches.pop(input.request, None) if isinstance(input, Fetched | FetchFailed) else None

    def receive(self, sender: str, messages: list[Message], *, soon: bool = False) -> None:
        """Messages came together on a link, in this order. `soon`: the timer is set once in a turn of the loop,
        however many were heard in it."""
        if len(messages) > 1:
            self._line.append((self.name, ReceivedAll(sender, messages)))
        elif messages:
            self._line.append((self.name, Received(sender, messages[0])))
        self._run(soon=soon)

    def report(self, input: Input) -> None:
        began = perf_counter()
        self.hand(self.name, input)
        if self.meter is not None and isinstance(input, Fetched | FetchFailed):
            self.meter.fetched(input.request, perf_counter() - began)

    def _run(self, *, soon: bool = False) -> None:
        if self._is_running:
            return
        self._is_running = True
        line = self._line
        try:
            while line:
                name, input = line.popleft()
                self._step(name, input)
        finally:
            self._is_running = False
        if not soon:
            self._set_timer()
        elif not self._sets_timer_soon:
            self._sets_timer_soon = True
            asyncio.get_running_loop().call_soon(self._set_timer)

    def _step(self, name: str, input: Input) -> None:
        """Hand in one input and perform what follows."""
        machine = self._machines.get(name)
        if machine is None:
            return  # it went while this was on its way
        now = self.clock.now()
        if self.meter is not None and name == self.name:
            self._author = self._author_of(input)
        tap = self._tap
        if tap is not None:
            _watch(tap, input, now)
        try:
            effects = machine.handle(input, now + self._ahead)
        except Exception as error:
            is_heard = isinstance(input, Received | ReceivedAll) and input.sender in self._outlets
            if self._fault is None or not is_heard:
                raise
            self._fault(input.sender, error)  # type: ignore[union-attr]
            return
        for begin in range(0, len(effects), BREATH):
            some = effects[begin : begin + BREATH] if len(effects) > BREATH else effects
            self._performed += len(some)
            if self._performed > BREATH and self._breathe is not None:
                self._performed = 0
                self._breathe()
            self._perform_all(name, some, now)

    def _perform_all(self, name: str, effects: list[fx.Effect], now: float) -> None:
        outlet_to, tap, datagram = self._outlets.get, self._tap, self.datagram
        for effect in effects:
            if type(effect) is not fx.Send:
                self._perform(name, effect)
                continue
            to, message = effect.to, effect.message
            if datagram is not None and effect.channel is not fx.Channel.LINK:
                datagram(to, message)
                continue
            outlet = outlet_to(to)
            if outlet is None:
                self._line.append((to, Received(name, message)))
                continue
            if tap is not None:
                tap.went(to, message, now)
            outlet(message)

    def _perform(self, name: str, effect: fx.Effect) -> None:
        perform = self._performers.get(type(effect))
        if perform is not None:
            perform(name, effect)
        elif (hear := self._hears.get(name)) is not None:
            hear(effect)

    # -- the timer -----------------------------------------------------------------------

    def _set_timer(self) -> None:
        self._sets_timer_soon = False
        wake_at = None if self._is_closed else self._main.next_deadline()
        if wake_at is not None and self._timer is not None:
            assert self._wake_at is not None
            if self._wake_at <= wake_at:
                return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake_at = wake_at
        if wake_at is not None:
            self._timer = self.clock.wake(wake_at - self._ahead, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        due = self._main.next_deadline()
        if due is not None and due <= self.now():
            self.hand(self.name, TimerFired())
        else:
            self._set_timer()

    async def close(self) -> None:
        """Everybody goes: let the disk finish, and stop."""
        for address in [address for address in self._hears if address != self.name]:
            self.detach(address)
        for address in list(self._outlets):
            self.link_down(address)
        self._is_closed = True
        self._set_timer()
        if self._drive is not None:
            await self._drive.close()
            await asyncio.sleep(0)  # what the disk reported last


def _watch(tap: Tap, input: Input, now: float) -> None:
    if type(input) is Received:
        tap.came(input.sender, input.message, now)
    elif type(input) is ReceivedAll:
        tap.came_all(input.sender, input.messages, now)

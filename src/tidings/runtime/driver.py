"""The driver: one machine and what is attached to it, on one event loop.

The machine is a broker's node, or a client of a remote broker. Attached are clients in the same process
(machines too) and links (objects that take a message: see `connection.py`). The driver performs effects and
passes messages on, in order and at once. It makes no decisions: the behaviour of brokers and clients is in
`protocol`. Rules
- Inputs wait in one line. Messages that follow from an input are passed on until the line is empty; only then
  is the timer set, once in a turn of the event loop.
- All inputs that follow from one another are handled at one time of the clock.
- An effect without a performer is for the application of its machine (`on_effect`).
- A machine's time is that of the clock, and never behind what its disk holds: a machine whose wall clock was
  set back while it was down goes on from where its last life ended.
- A timer that was set too early asks again; so a deadline that moves away is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from tidings.history.schema import Row
from tidings.protocol import effects as fx
from tidings.protocol.effects import Send, SendAll
from tidings.protocol.inputs import (
    IN_PROCESS_FEATURES,
    Fetched,
    FetchFailed,
    Input,
    LinkDown,
    LinkUp,
    PublishesReceived,
    Received,
    ReceivedAll,
    Started,
    TimerFired,
)
from tidings.protocol.messages import Message, Publish
from tidings.protocol.slots import StateMachine
from tidings.runtime.clock import RuntimeClock, RuntimeTimer
from tidings.runtime.disk_executor import DiskExecutor, InlineExecutor, ThreadedExecutor
from tidings.store.store import Store

LINK = fx.Channel.LINK
BREATH = 2048  # messages; fewer write oftener, more let those wait longer who could work meanwhile

EffectHandler = Callable[[fx.Effect], None]  # takes the effects for an application
Outlet = Callable[[Message], None]  # the near end of a link
# A machine failed at messages of a peer: its name, the messages, the error.
Fault = Callable[[str, list[Message], Exception], None]


class Tap(Protocol):
    """Observer of messages in and out; it changes no state of the node."""

    def came(self, peer: str, message: Message, now: float) -> None: ...

    def came_all(self, peer: str, messages: list[Message], now: float) -> None: ...

    def publishes_came(self, batches: list[tuple[str, list[Message]]], now: float) -> None: ...

    def went(self, peer: str, message: Message, now: float) -> None: ...

    def gone(self, peer: str) -> None: ...


class FetchMeter(Protocol):
    """Counts reading the log for those who asked for it (see `fairness.py`)."""

    def fetch(self, request: int, author: str, perform: Callable[[], None]) -> None:
        """Read on behalf of this author, now or when it is its turn."""

    def fetched(self, request: int, seconds: float) -> None:
        """A read of the log ended, or failed, and handling that took so long."""


class Driver:
    """Drives the machines. Everything happens on the loop that it was started on."""

    def __init__(
        self,
        name: str,
        machine: StateMachine,
        clock: RuntimeClock,
        *,
        record: Callable[[Row], None],
        on_effect: EffectHandler | None = None,
        fault: Fault | None = None,
        tap: Tap | None = None,
        timed: bool = True,
    ) -> None:
        self.name = name
        self.clock = clock
        self._is_timed = timed  # does the machine have deadlines?
        self._main = machine
        self._machines: dict[str, StateMachine] = {name: machine}
        self._effect_handlers: dict[str, EffectHandler] = {} if on_effect is None else {name: on_effect}
        self._outlets: dict[str, Outlet] = {}
        self._line: list[tuple[str, Input]] = []
        self._fault = fault
        self._tap = tap
        self._is_running = False
        self._is_closed = False
        self._timer: RuntimeTimer | None = None
        self._wake_at: float | None = None  # in the machine's time
        self._ahead = 0.0  # seconds by which the machine's time is ahead of the clock
        self._disk_executor: DiskExecutor | None = None
        self.datagram: Callable[[str, Message], None] | None = None  # how to send one
        self._breathe: Callable[[], None] | None = None
        self._soon: Callable[[Callable[[], None]], None] | None = None
        self.meter: FetchMeter | None = None
        self._handled: Input | None = None  # in this step; the main machine alone reads its disk
        self._fetches: dict[int, str] = {}  # by request: the same of reads that are on their way
        self._breath = BREATH  # messages until the next breath
        self._sets_timer_soon = False
        self._performers: dict[type, Callable[[Any], None]] = {
            fx.Record: lambda effect: record(effect.row),
        }

    def use_store(self, store: Store, *, threaded: bool) -> None:
        """Perform what the machine asks of its disk there."""
        executor: DiskExecutor
        if threaded:
            executor = ThreadedExecutor(store, self.report, asyncio.get_running_loop())
        else:
            executor = InlineExecutor(store, self.report)
        self._disk_executor = executor
        self.perform(fx.Persist, executor.persist)
        self.perform(fx.Fetch, partial(self._fetch, executor))

    def perform(self, kind: type, performer: Callable[[Any], None]) -> None:
        """Have effects of this kind performed so."""
        self._performers[kind] = performer

    def _fetch(self, executor: DiskExecutor, effect: fx.Fetch) -> None:
        author = None if self._handled is None else self._author_of(self._handled)
        if author is None or self.meter is None:
            executor.fetch(effect)
        else:
            self._fetches[effect.request] = author
            self.meter.fetch(effect.request, author, partial(executor.fetch, effect))

    def breathe_by(
        self, breathe: Callable[[], None], soon: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        """Call `breathe` in the middle of a long run, so that messages leave before all of them are made.
        `soon` calls back at the end of a turn of the loop."""
        self._breathe, self._soon = breathe, soon

    def start(self, input: Started) -> None:
        self._ahead = max(0.0, input.state.latest - self.clock.now())
        self.hand(self.name, input)

    def now(self) -> float:
        """The machine's time."""
        return self.clock.now() + self._ahead

    # -- what is attached ------------------------------------------------------------------

    def attach(self, address: str, client: StateMachine, on_effect: EffectHandler) -> None:
        """Link a client in this process; `on_effect` gets the effects that are for its application."""
        self._machines[address] = client
        self._effect_handlers[address] = on_effect
        self._line.append((self.name, LinkUp(address)))
        self.hand(address, LinkUp(self.name, features=IN_PROCESS_FEATURES))

    def detach(self, address: str) -> None:
        """The client is gone."""
        self._machines.pop(address, None)
        self._effect_handlers.pop(address, None)
        self.hand(self.name, LinkDown(address))

    def link_up(self, address: str, outlet: Outlet, frame_bytes: int = 0, features: int = 0) -> None:
        """A link to a remote peer can be used. `frame_bytes`: the largest frame that the peer takes;
        `features`: the kinds of messages that it announced."""
        self._outlets[address] = outlet
        self.hand(self.name, LinkUp(address, frame_bytes, features))

    def link_down(self, address: str) -> None:
        self._outlets.pop(address, None)
        if self._tap is not None:
            self._tap.gone(address)
        self.hand(self.name, LinkDown(address))

    def __contains__(self, address: str) -> bool:
        return address in self._machines or address in self._outlets

    # -- driving ---------------------------------------------------------------------------

    def hand(self, name: str, input: Input) -> None:
        """Hand an input to a machine, and pass on what follows until the line is empty."""
        if self._is_running:
            self._line.append((name, input))
            return
        self._is_running = True
        now = self.clock.now()
        time, tap, machines, outlets = now + self._ahead, self._tap, self._machines, self._outlets
        performers, handlers, datagram = self._performers, self._effect_handlers, self.datagram
        line = self._line  # what was left when a machine failed, and what links said before it was handed in
        line += ((name, input),)
        position, self._line = 0, []  # inputs of this line that were handed in
        try:
            while line:
                following = self._line
                for name, input in line:
                    position += 1
                    if name not in machines:
                        continue  # it went while this was on its way
                    self._handled = input
                    if tap is not None:
                        self._show(tap, input, now)
                    try:
                        effects = machines[name].handle(input, time)
                    except Exception as error:
                        if not self._is_fault_of_a_peer(input, error):
                            raise
                        continue
                    last: tuple[str, Input] | None = None  # messages of one kind in a row to one machine ...
                    run: type[Message] | None = None  # ... go together in this entry, while it is the last
                    for effect in effects:
                        if (kind := type(effect)) is Send:
                            to, message = effect.to, effect.message  # type: ignore[union-attr]
                            if datagram is not None and effect.channel is not LINK:  # type: ignore[union-attr]
                                datagram(to, message)
                            elif to in outlets:
                                if tap is not None:
                                    tap.went(to, message, now)
                                outlets[to](message)
                                self._breath -= 1
                                if not self._breath:
                                    self._take_breath()
                            elif (
                                last is None
                                or type(message) is not run
                                or to != last[0]
                                or following[-1] is not last
                            ):
                                last, run = (to, Received(name, message)), type(message)
                                following += (last,)
                            elif type(last[1]) is ReceivedAll:
                                messages = last[1].messages
                                messages += (message,)
                            else:
                                first: Any = last[1]
                                last = following[-1] = (to, ReceivedAll(name, [first.message, message]))
                        elif kind in performers:
                            performers[kind](effect)
                        elif kind is SendAll:
                            self._send_all(name, effect)  # type: ignore[arg-type]
                        elif name in handlers:
                            handlers[name](effect)
                line, self._line, position = following, [], 0
        finally:
            self._is_running = False
            if line:  # a machine failed: what is left waits for the next input
                self._line[:0] = line[position:]
        if self._is_timed and not self._sets_timer_soon:
            self._sets_timer_soon = True
            if self._soon is None:
                self.clock.wake(now, self._set_timer)  # before any later time is reached
            else:
                self._soon(self._set_timer)

    def _send_all(self, name: str, effect: SendAll) -> None:
        """Send messages of this machine to one other, which is no remote broker's node: no tap looks on."""
        to, messages = effect.to, effect.messages
        if to not in self._outlets:
            self._line.append((to, ReceivedAll(name, messages)))
            return
        for message in messages:
            self._outlets[to](message)

    def _show(self, tap: Tap, input: Input, now: float) -> None:
        """Show the tap what came."""
        if type(input) is Received:
            tap.came(input.sender, input.message, now)
        elif type(input) is ReceivedAll:
            tap.came_all(input.sender, input.messages, now)
        elif type(input) is PublishesReceived:
            tap.publishes_came(input.batches, now)

    def _is_fault_of_a_peer(self, input: Input, error: Exception) -> bool:
        """Whether the machine failed at a message of a remote peer: that peer is left, and others
        are served."""
        if self._fault is None:
            return False
        batches: list[tuple[str, list[Message]]] = []
        if isinstance(input, Received):
            batches = [(input.sender, [input.message])]
        elif isinstance(input, ReceivedAll):
            batches = [(input.sender, list(input.messages))]
        elif isinstance(input, PublishesReceived):  # one of them is to blame, and all are left
            batches = input.batches
        if not batches or any(sender not in self._outlets for sender, _ in batches):
            return False
        for sender, messages in batches:
            self._fault(sender, messages, error)
        return True

    def _take_breath(self) -> None:
        self._breath = BREATH
        if self._breathe is not None:
            self._breathe()

    def _author_of(self, input: Input) -> str | None:
        """Whose request makes the machine read its log; a publish may make it read for others."""
        if type(input) is Received:
            return None if isinstance(input.message, Publish) else input.sender
        if type(input) is ReceivedAll:
            return None if Publish in map(type, input.messages) else input.sender
        return self._fetches.get(input.request) if isinstance(input, Fetched | FetchFailed) else None

    def receive(self, sender: str, messages: list[Message]) -> None:
        """Messages came together on a link, in this order."""
        if len(messages) == 1:
            self.hand(self.name, Received(sender, messages[0]))
        elif messages:
            self.hand(self.name, ReceivedAll(sender, messages))

    def receive_publishes(self, batches: list[tuple[str, list[Message]]]) -> None:
        """Publishes came together on several links, in this order on each."""
        if len(batches) == 1:
            self.receive(*batches[0])
        elif batches:
            self.hand(self.name, PublishesReceived(batches))

    def report(self, input: Input) -> None:
        began = perf_counter()
        self.hand(self.name, input)
        if self.meter is not None and isinstance(input, Fetched | FetchFailed):
            self._fetches.pop(input.request, None)
            self.meter.fetched(input.request, perf_counter() - began)

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
        self._set_timer()

    async def close(self) -> None:
        """Detach all clients and links, let the disk finish, and stop."""
        for address in [address for address in self._effect_handlers if address != self.name]:
            self.detach(address)
        for address in list(self._outlets):
            self.link_down(address)
        self._is_closed = True
        self._set_timer()
        if self._disk_executor is not None:
            await self._disk_executor.close()
            await asyncio.sleep(0)  # what the disk reported last

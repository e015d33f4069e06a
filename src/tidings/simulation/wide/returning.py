"""Clients with a durable subscription that leave and return as their run says, and commit late.

Rules
- A subscription returns with the filter of its return; while its client is connected, it takes it at once.
- A subscribe that is refused, and one that the broker ended, is repeated after `RETRY_SECONDS`. No leave and
  no further subscribe begins before the answer to one that is under way.
- An application that keeps events open commits each of them some time after it has taken it, in any order.
  What is open when it leaves without committing comes again; all else never does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.simulation.wide.drawing import SETTLE, TROUBLE, DrawnReturn, DrawnSubscribe
from tidings.simulation.wide.observer import BrokenPromise, Observer
from tidings.simulation.world import World

RETRY_SECONDS = 0.5  # of an application after a refused subscribe
OPEN_SECONDS = 1.5  # that an event stays open at most, while there are faults ...
CALM_SECONDS = 0.02  # ... and afterwards, since progress is judged then
TROUBLE_OVER = SETTLE + TROUBLE
NAME = "n"  # of each client's subscription

Identity = tuple[str, str]


class ReturningClient:
    """One client, its subscription and its application."""

    def __init__(self, drawn: DrawnSubscribe, world: World, observer: Observer) -> None:
        self.drawn = drawn
        self.id = f"{drawn.client}/{NAME}"
        self._world = world
        self._observer = observer
        self._rng = world.simulation.rng(f"returning/{drawn.client}")
        self._wanted: DrawnReturn | None = None  # how it wants to listen; None: not at all
        self._commits = True  # at the next leave
        self._is_quiet = False
        self._asked: DrawnReturn | None = None
        self._call: int | None = None  # the subscribe that is under way
        self.ref: int | None = None
        self._stages: dict[int, int | None] = {}  # by ref; None: the first filter
        self._stage: int | None = None  # that was asked for
        self._open: dict[int, Identity] = {}  # by number: taken and not committed
        self._taken: dict[int, Identity] = {}  # by number: on this ref
        self._numbers: dict[str, int] = {}  # by source: the last that came, in this order
        self._is_other = False  # older events may come: another filter than the last that was answered
        self._is_taking = False

    # -- coming and going ---------------------------------------------------------------------

    def begin(self) -> None:
        self.want(DrawnReturn(0.0, 0.0, self.drawn.filter))

    def want(self, wanted: DrawnReturn | None, commits: bool = True, *, is_quiet: bool = False) -> None:
        """Listen like this from now on, or leave. `is_quiet`: no event is under way."""
        self._wanted, self._commits, self._is_quiet = wanted, commits, is_quiet
        self._settle()

    def move(self, broker: str) -> None:
        """The client goes to another broker, whatever is not settled."""
        self._world.move(self.drawn.client, broker)
        self._numbers = {}  # the home may be owed earlier events of a log that it had not found yet

    def _settle(self) -> None:
        if self._call is not None:
            return
        if self.ref is not None and self._asked is not self._wanted:
            self._leave(self.ref)
        if self.ref is None and self._wanted is not None:
            self._subscribe(self._wanted)

    def _subscribe(self, wanted: DrawnReturn) -> None:
        each = self.drawn
        is_same = self._asked is None or self._asked.filter == wanted.filter
        if not is_same or self._asked is not wanted:
            if self.id in self._observer.standing and not is_same:
                right = f"({wanted.filter}) AND ({each.right})" if each.right else wanted.filter
                self._stage = self._observer.asks(self.id, parse_filter(right), wanted.replay, self._is_quiet)
            self._is_other = self._is_other or not is_same
        self._asked = wanted
        self._world.subscribe(
            each.client, NAME, wanted.filter, durable=True, queue=each.queue, window=each.window,
            superseding=each.superseding, replay=wanted.replay, auto=not each.keeps_open,
        )  # fmt: skip
        self._call = next(reversed(self._world.applications[each.client].calls))

    def _leave(self, ref: int) -> None:
        self.ref = None
        self._world.applications[self.drawn.client].refs.pop(NAME, None)
        self._input(ins.ClientLeave(self._world.next_call(), ref, commit=self._commits))
        self._give_back(is_committed=self._commits)

    def _give_back(self, *, is_committed: bool) -> None:
        given, taken = self._open, self._taken
        self._open, self._taken = {}, {}
        if given and not is_committed:
            behind = [each for number, each in taken.items() if number > min(given) and number not in given]
            self._observer.gave_back(self.id, given.values(), behind)
            self._numbers = {}

    # -- what its machine answers -------------------------------------------------------------

    def observed(self, effect: Any) -> None:
        kind = type(effect)
        if kind is fx.Notify:
            self._notified(effect)
        elif kind is fx.CallResult and effect.call == self._call:
            self._opened(effect.value.ref)
        elif kind is fx.CallFailed and effect.call == self._call:
            self._call = None
            self._later(RETRY_SECONDS, self._settle)
        elif kind is fx.SubscriptionEnded and effect.ref == self.ref:
            self.ref = None
            self._give_back(is_committed=False)
            self._later(RETRY_SECONDS, self._settle)

    def _opened(self, ref: int) -> None:
        self._call, self.ref, self._is_taking = None, ref, False
        self._stages[ref] = self._stage
        if self._is_other:  # not when it is asked for: deliveries to the earlier listener still arrive
            self._numbers, self._is_other = {}, False
        if self._stage is not None:
            self._observer.answered(self.id, self._stage)
        self._settle()
        self._take(ref)

    def _notified(self, effect: fx.Notify) -> None:
        numbers = list(effect.numbers)
        for number, notification in zip(numbers, effect.notifications, strict=True):
            event = notification.event
            if self.drawn.keeps_open:
                self._open[number] = self._taken[number] = event.identity
                most = CALM_SECONDS if self._world.simulation.now > TROUBLE_OVER else OPEN_SECONDS
                self._later(self._rng.uniform(0.0, most), partial(self._commit, effect.ref, number))
            self.received(event, self._stages.get(effect.ref))
        if self.drawn.keeps_open:
            self._is_taking = False
            self._take(effect.ref)

    def received(self, event: Event, stage: int | None) -> None:
        if self._observer.is_hostile(event.source):
            return  # it may publish a little
        self._observer.notified(self.id, event, stage)
        number, last = int(event.id.rpartition("-")[2]), self._numbers.get(event.source, 0)
        if number <= last:
            raise BrokenPromise(f"{self.id} received {event.identity} after number {last} of its publisher")
        self._numbers[event.source] = number

    # -- an application that commits late -------------------------------------------------------

    def _take(self, ref: int) -> None:
        if not self.drawn.keeps_open or ref != self.ref or self._is_taking:
            return
        room = self.drawn.keeps_open - len(self._open)
        if room > 0:
            self._is_taking = True
            most = self._rng.randint(1, room)
            self._input(ins.ClientTake(self._world.next_call(), ref, commits=False, most=most))

    def _commit(self, ref: int, number: int) -> None:
        if ref == self.ref and number in self._open:
            del self._open[number]
            self._input(ins.ClientAck(ref, number))
            self._take(ref)

    def _input(self, item: Any) -> None:
        self._world.simulation.input(self.drawn.client, item)

    def _later(self, seconds: float, action: Any) -> None:
        simulation = self._world.simulation
        simulation.call_at(simulation.now + seconds, action)

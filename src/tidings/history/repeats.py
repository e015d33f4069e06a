"""Redeliveries: the rows with the reason `redelivery` that a history bears out.

Rules
- Such a row counts as a redelivery only beside an earlier notification of the same event to the same
  receiver, and only when the history shows why the earlier one may not have been committed: a `nack` row
  between the two, or a break. Any other row counts as a notification like the first.
- A break is the crash of the receiver's process, a `sub` of a subscription that its process had never left,
  the crash of the broker that sent it, or a `suspect` row of the process about that broker.
- A group hands an event to another process when the first one has gone without a word. Of that the first
  one says so later, or (killed for good) never: then the break may follow, and a subscription without an
  end may be one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import msgspec

from tidings.history.facts import Operation, ReturnFact
from tidings.history.schema import CRASH, SUSPECT

ANYONE = ""  # a crashed broker breaks off the deliveries to all
UNKNOWN_BROKER = (
    ""  # of a notification that does not name its broker: the crash of any process may be the one
)


class Break(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A broker crashed, or a process lost its broker."""

    run: str
    process: str
    broker: str
    time: float


def breaks_of(operation: Operation) -> Iterator[Break]:
    """The breaks that an operation shows."""
    if operation.op == SUSPECT:
        yield Break(operation.run, operation.process, operation.broker, operation.time)
    elif operation.op == CRASH:
        yield Break(operation.run, ANYONE, operation.process, operation.time)
        yield Break(operation.run, ANYONE, UNKNOWN_BROKER, operation.time)


class Breaks:
    """The breaks of one run, by time."""

    def __init__(self, breaks: Iterable[Break]) -> None:
        self._times: dict[tuple[str, str], list[float]] = {}
        for each in breaks:
            insort(self._times.setdefault((each.process, each.broker), []), each.time)

    def first(self, process: str, broker: str, time: float) -> float:
        """When the broker was first lost to the process, from that time on; infinite: it was not."""
        found = math.inf
        for key in ((process, broker), (ANYONE, broker)):
            times = self._times.get(key, ())
            at = bisect_left(times, time)
            if at < len(times):
                found = min(found, times[at])
        return found


class SentEvent(Protocol):
    """A notification, as far as redeliveries are concerned."""

    @property
    def process(self) -> str: ...
    @property
    def subscription(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def broker(self) -> str: ...
    @property
    def labelled(self) -> bool: ...
    @property
    def cut(self) -> float | None: ...


def borne_out(of_one_event: Sequence[SentEvent], returns: Sequence[ReturnFact], receiver: str) -> list[bool]:
    """For each delivery of one event: is it a redelivery?"""
    found = [False] * len(of_one_event)
    if len(of_one_event) == 1 or not any(each.labelled for each in of_one_event):
        return found
    groups: dict[str, list[int]] = {}
    for number, each in enumerate(of_one_event):
        groups.setdefault(getattr(each, receiver), []).append(number)
    given_back: dict[str, list[float]] = {}
    for back in returns:
        insort(given_back.setdefault(getattr(back, receiver), []), back.time)
    for name, numbers in groups.items():
        numbers.sort(key=lambda number: _order(of_one_event[number]))
        for before, number in pairwise(numbers):
            earlier, later = of_one_event[before], of_one_event[number]
            if later.labelled:
                found[number] = _explains(earlier, later, given_back.get(name, ()))
    return found


def _order(each: SentEvent) -> tuple[float, bool, str, str, str]:
    return (each.time, each.labelled, each.process, each.subscription, each.broker)


def _explains(earlier: SentEvent, later: SentEvent, given_back: Sequence[float]) -> bool:
    """May the earlier notification not have been committed when the later one came?"""
    at = bisect_left(given_back, earlier.time)
    if at < len(given_back) and given_back[at] <= later.time:
        return True
    if earlier.process != later.process:
        return earlier.cut is None or earlier.cut < math.inf
    return earlier.cut is not None and earlier.cut <= later.time

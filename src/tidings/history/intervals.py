"""Intervals in which each subscription was on: `sub` and `usub` rows paired up, process by process.

Rules
- A `usub` belongs to the latest `sub` of that id that is still open (so subscribing again to the
  same filter is fine). A crash of the process ends all its intervals. A `sub` of an id that is
  still open resumes it: the old interval ends and the next begins.
- Refused operations had no effect. After a `sub` of unknown outcome the interval *may* be on
  (`sure` is False: it is owed no event). After a `usub` of unknown outcome it may still be on:
  `sure_end` is the last moment when it surely was, `end` the one after which it surely is not.
- Operations of one instant have no order among them, so they are read in the order in which
  they make sense: ends of what is open, then begins, then ends of what has just begun.
- `since` looks back over detachments: from then on the subscription stood, with one filter,
  whether its subscriber was listening or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from tidings.errors import HistoryError
from tidings.history.facts import Operation
from tidings.history.schema import CRASH, REFUSED, SUB, SUSPECT, UNKNOWN, USUB


class SubscriptionPair(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A `sub` and its end. No `sub`: an end without a beginning. No `end`: open until the last."""

    sub: Operation | None
    end: Operation | None
    doubtful_end: float | None = None  # the first `usub` of unknown outcome before that


class Interval(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A subscription was on, and its subscriber listened, from `start` to `end`."""

    run: str
    process: str
    subscription: str
    filter: str
    dialect: str
    broker: str
    start: float
    end: float  # infinite without an end
    sure: bool
    sure_end: float
    since: float
    cut: bool = False  # its subscriber crashed, or subscribed again, and had never left it

    def contains(self, time: float) -> bool:
        return self.start <= time <= self.end


_Open = dict[str, list[tuple[Operation, float | None]]]  # subscription -> open subs, their doubtful ends


def pair_up(operations: Iterable[Operation], *, resuming: bool = True) -> list[SubscriptionPair]:
    """The pairs of one process.

    A `sub` of an id that is still open ends the old one when `resuming`; otherwise both are open,
    and a `usub` belongs to the latest."""
    acted = sorted(
        (o for o in operations if o.outcome != REFUSED and o.op != SUSPECT), key=attrgetter("time")
    )
    still_open: _Open = {}
    pairs: list[SubscriptionPair] = []
    for _, instant in groupby(acted, key=attrgetter("time")):
        for operation in _sensible(list(instant), still_open):
            pairs.extend(_ended_by(operation, still_open, resuming))
            if operation.op == SUB:
                still_open.setdefault(operation.subscription, []).append((operation, None))
    pairs.extend(SubscriptionPair(sub, None, doubt) for subs in still_open.values() for sub, doubt in subs)
    return pairs


def _sensible(instant: list[Operation], still_open: _Open) -> list[Operation]:
    if len(instant) == 1:
        return instant

    def rank(operation: Operation) -> tuple[int, str, str, str]:
        if operation.op == SUB:
            position = 1
        elif operation.op == USUB:
            position = 0 if operation.subscription in still_open else 2
        else:
            position = 3
        return (position, operation.subscription, operation.outcome, operation.filter or "")

    return sorted(instant, key=rank)


def _ended_by(operation: Operation, still_open: _Open, resuming: bool) -> Iterator[SubscriptionPair]:
    name = operation.subscription
    if operation.op == CRASH:
        yield from (
            SubscriptionPair(sub, operation, doubt) for subs in still_open.values() for sub, doubt in subs
        )
        still_open.clear()
        return
    subs = still_open.get(name)
    if operation.op == SUB:
        if subs and resuming:
            yield SubscriptionPair(subs[0][0], operation, subs[0][1])
            del still_open[name]
    elif not subs:
        yield SubscriptionPair(None, operation)
    elif operation.outcome == UNKNOWN:
        sub, doubt = subs[-1]
        subs[-1] = (sub, operation.time if doubt is None else doubt)
    else:
        sub, doubt = subs.pop()
        yield SubscriptionPair(sub, operation, doubt)
        if not subs:
            del still_open[name]


def intervals_of(operations: Sequence[Operation]) -> Iterator[Interval]:
    """The intervals of one process."""
    latest: dict[str, tuple[Interval, bool]] = {}  # subscription -> last interval, does it stand on?
    pairs = [pair for pair in pair_up(operations) if pair.sub is not None]
    for pair in sorted(pairs, key=lambda pair: (_begin(pair).time, _end_time(pair))):
        sub = _begin(pair)
        interval = _interval(sub, pair, latest.get(sub.subscription))
        latest[sub.subscription] = (interval, _stands_on(pair))
        yield interval


def _begin(pair: SubscriptionPair) -> Operation:
    assert pair.sub is not None
    return pair.sub


def _end_time(pair: SubscriptionPair) -> float:
    return math.inf if pair.end is None else pair.end.time


def _stands_on(pair: SubscriptionPair) -> bool:
    """Does the subscription outlive this interval? Not past a plain or doubtful `usub`."""
    if pair.doubtful_end is not None or pair.end is None:
        return False
    return pair.end.op in (SUB, CRASH) or pair.end.detach


def _interval(sub: Operation, pair: SubscriptionPair, before: tuple[Interval, bool] | None) -> Interval:
    filter, dialect = sub.filter, sub.dialect
    if filter is None and before is not None:
        filter, dialect = before[0].filter, before[0].dialect
    if filter is None:
        raise HistoryError(
            f"the subscription {sub.subscription!r} of {sub.process!r} at {sub.time} s has no filter",
            hint="a sub row carries the filter's text, unless it resumes an earlier one",
        )
    since = sub.time
    if before is not None:
        earlier, stands = before
        if stands and earlier.sure and (earlier.filter, earlier.dialect) == (filter, dialect):
            since = earlier.since
    end = _end_time(pair)
    return Interval(
        sub.run,
        sub.process,
        sub.subscription,
        filter,
        dialect,
        sub.broker,
        sub.time,
        end,
        sub.outcome != UNKNOWN,
        end if pair.doubtful_end is None else pair.doubtful_end,
        since,
        pair.end is not None and pair.end.op in (SUB, CRASH),
    )

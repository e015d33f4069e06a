"""All intervals of a history as arrays, so that a bucket of notifications is placed at once.

A *group* has the intervals of one subscription in one process, by their start. Numbers stand for
names: of intervals, of filters (equal texts have one), of receivers and of subscriptions in a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.history.acceptance import filter_of
from tidings.history.intervals import Interval

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]
Flags = NDArray[np.bool_]
IntervalKey = tuple[str, str, str]  # run, process, subscription


class Claims(NamedTuple):
    """Claims as arrays: which event (its place in a bucket), which interval, and what rules ask for."""

    event: Numbers
    interval: Numbers
    published: Times
    lifetime: Times
    ends: Times
    available: Times
    start: Times
    end: Times
    since: Times

    def where(self, these: Any) -> Claims:
        return Claims(*(column[these] for column in self))


class IntervalIndex:
    """The intervals, and the filters of those that may be owed an event."""

    def __init__(self, intervals: Iterable[Interval], subscriber: str) -> None:
        own = sorted(intervals, key=lambda i: (i.run, i.process, i.subscription, i.start, i.end))
        self.names = [(i.run, i.process, i.subscription) for i in own]
        self.group_of: dict[IntervalKey, int] = {}
        groups = [self.group_of.setdefault(name, len(self.group_of)) for name in self.names]
        self.first = np.searchsorted(np.array(groups, np.int64), np.arange(len(self.group_of) + 1))
        self.start = np.array([i.start for i in own], np.float64)
        self.end = np.array([i.end for i in own], np.float64)
        self.since = np.array([i.since for i in own], np.float64)
        self.sure_end = np.array([i.sure_end for i in own], np.float64)
        self.runs = _numbered(i.run for i in own)
        self.run = np.array([self.runs[i.run] for i in own], np.int64)
        self.owners = _numbered((i.run, i.subscription) for i in own)
        self.owner = np.array([self.owners[i.run, i.subscription] for i in own], np.int64)
        receivers = _numbered((i.run, getattr(i, subscriber)) for i in own)
        self.subscriber = np.array([receivers[i.run, getattr(i, subscriber)] for i in own], np.int64)
        self.receivers = max(1, len(receivers))
        texts = _numbered((i.filter, i.dialect) for i in own)
        self.filter = np.array([texts[i.filter, i.dialect] for i in own], np.int64)
        self.filters = max(1, len(texts))
        self.matcher = _matcher(texts)
        sure = np.flatnonzero(np.array([i.sure for i in own], bool))
        requested = self.run[sure] * self.filters + self.filter[sure]
        order = np.argsort(requested, kind="stable")
        self._requested, self._sure = requested[order], sure[order]

    def place(self, group: Numbers, time: Times) -> tuple[Numbers, Flags]:
        """For each notification the interval of its group (or none: -1) that alone holds its time."""
        low, high = self.first[group] - 1, self.first[group + 1] - 1
        while True:  # the last interval that starts at that time or before
            open_ = low < high
            if not open_.any():
                break
            middle = (low + high + 1) // 2
            right = open_ & (self.start[middle] <= time)
            low = np.where(right, middle, low)
            high = np.where(open_ & ~right, middle - 1, high)
        started = low >= self.first[group]
        safe = np.maximum(low, 0)
        inside = started & (self.end[safe] >= time)
        before = np.maximum(low - 1, 0)
        touching = (low - 1 >= self.first[group]) & (self.end[before] >= time)
        return safe, inside & ~touching

    def claims(
        self, event: Numbers, filter: Numbers, run: Numbers, published: Times, lifetime: Times
    ) -> tuple[Numbers, Numbers]:
        """(pair, interval) for each interval that may be owed the event of a matching pair."""
        wanted = run * self.filters + filter
        low = np.searchsorted(self._requested, wanted, "left")
        counts = np.searchsorted(self._requested, wanted, "right") - low
        pair = np.repeat(np.arange(len(event)), counts)
        offset = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
        interval = self._sure[low[pair] + offset]
        begun, late = published[pair], published[pair] + lifetime[pair]
        early = (self.start[interval] > late) & (self.since[interval] > begun)
        kept = ~early & (self.sure_end[interval] >= begun)
        return pair[kept], interval[kept]


def _numbered(names: Iterable[Any]) -> dict[Any, int]:
    numbers: dict[Any, int] = {}
    for name in names:
        numbers.setdefault(name, len(numbers))
    return numbers


def _matcher(texts: Iterable[tuple[str, str]]) -> Any:
    """Its handles are the filters' numbers."""
    from tidings.matching.engine import columnar_matcher

    matcher = columnar_matcher()
    matcher.load(filter_of(*each) for each in texts)
    return matcher


def is_due(claims: Claims, t_sub: float, t_diff: float, until: float) -> Flags:
    """`properties.delivery.is_due` of many claims at once."""
    stable, diffused = claims.start + t_sub, claims.published + t_diff
    last = np.minimum(np.minimum(claims.end, claims.ends), until)
    stood = (claims.start < claims.published) & (stable <= claims.published) & (diffused <= last)
    stays = np.minimum(claims.published + claims.lifetime, last)
    stored = (claims.lifetime > 0) & (np.maximum(diffused, stable) <= stays)
    found: Flags = (claims.published < claims.end) & (stood | stored)
    return found


def is_owed(claims: Claims, t_sub: float, t_diff: float, until: float) -> Flags:
    """`properties.delivery.is_owed` of many claims at once."""
    stood = (claims.since < claims.published) & (claims.since + t_sub <= claims.published)
    available_until = np.where(stood, np.inf, claims.published + claims.lifetime)
    begin = np.maximum(claims.available, claims.start + t_sub)
    end = np.minimum(np.minimum(available_until, claims.end), np.minimum(claims.ends, until))
    with np.errstate(invalid="ignore"):
        found: Flags = (end > begin) & (end - begin >= t_diff)
    return found

"""Deliveries: each notification with the interval it fell in and the event it carried."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from tidings.history.acceptance import accepts_event
from tidings.history.facts import Notice, ReceiptFact, ReturnFact
from tidings.history.intervals import Interval
from tidings.history.publications import Publication
from tidings.history.repeats import Break, Breaks, borne_out

Filters = tuple[tuple[str, str], ...]  # (text, dialect) of each


class PlacedNotification(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A notification and the interval of its subscription that it fell in, or the nearest one."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    time: float
    labelled: bool  # as a redelivery
    sequence: int | None
    inside: bool
    start: float | None  # None: that process never had such a subscription
    end: float | None
    since: float | None
    filters: Filters  # in force at that time
    broker: str
    cut: float | None  # when it may have been cut short; infinite: never; None: its interval has no end


class JudgedNotification(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A notification with all that the properties ask of it."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    time: float
    repeated: bool  # a redelivery, and the history bears it out
    inside: bool
    start: float | None
    end: float | None
    since: float | None  # the subscription stood from then on, listening or not
    sequence: int
    published: float | None  # None: no such event was ever published
    refused: bool
    accepted: bool | None  # by the filter in force; None: there is no filter or no event to ask
    publication: Publication | None = None  # only in case of a violation, for a closer look

    @property
    def lawful(self) -> bool:
        """Does it lie in an interval of its subscription with a filter that accepts it, if that is known?"""
        return self.inside and self.accepted is not False

    @property
    def counts(self) -> bool:
        """Is it a notification that completeness counts?"""
        return self.lawful and self.published is not None and self.published <= self.time

    @property
    def order(self) -> tuple[float, int]:
        """The event's place among those of its source; only of use when `published` is known."""
        return (0.0 if self.published is None else self.published, self.sequence)

    @property
    def delay(self) -> float | None:
        """Seconds since the event could have been handed over: published, and the subscription on."""
        if self.repeated or not self.counts or self.start is None or self.published is None:
            return None
        return self.time - max(self.published, self.start)


def placed(
    notices: Sequence[Notice], intervals: Sequence[Interval], breaks: Sequence[Break]
) -> Iterator[PlacedNotification]:
    """The notifications of one run beside the intervals of their processes."""
    groups: dict[tuple[str, str], _SubscriptionIntervals] = {}
    for interval in sorted(intervals, key=lambda each: (each.start, each.end)):
        groups.setdefault((interval.process, interval.subscription), _SubscriptionIntervals()).add(interval)
    broken = Breaks(breaks)
    for notice in notices:
        around: Interval | None = None
        filters: Filters = ()
        if (group := groups.get((notice.process, notice.subscription))) is not None:
            around, filters = group.at(notice.time)
        yield _placed(notice, around, filters, _cut(notice, around if filters else None, broken))


def _cut(notice: Notice, interval: Interval | None, broken: Breaks) -> float | None:
    cut = broken.first(notice.process, notice.broker, notice.time)
    if interval is None:
        return cut
    if interval.cut:
        return min(cut, interval.end)
    return None if cut == interval.end == math.inf else cut


class _SubscriptionIntervals:
    """The intervals of one subscription in one process: one after the other, at most touching."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.intervals: list[tuple[Interval, Filters]] = []

    def add(self, interval: Interval) -> None:
        self.starts.append(interval.start)
        self.intervals.append((interval, ((interval.filter, interval.dialect),)))

    def at(self, time: float) -> tuple[Interval, Filters]:
        """The interval that holds this time, or else the nearest; and the filters in force."""
        last = bisect_right(self.starts, time) - 1
        interval, filters = self.intervals[max(0, last)]
        inside = interval.start <= time <= interval.end
        if last < 1 or self.intervals[last - 1][0].end < time:
            return interval, filters if inside else ()
        before, earlier = self.intervals[last - 1]  # they touch at this very instant
        return (interval, earlier + filters) if inside else (before, earlier)


def _placed(
    notice: Notice, interval: Interval | None, filters: Filters, cut: float | None
) -> PlacedNotification:
    return PlacedNotification(
        notice.run,
        notice.process,
        notice.subscription,
        notice.source,
        notice.event,
        notice.time,
        notice.labelled,
        notice.sequence,
        bool(filters),
        None if interval is None else interval.start,
        None if interval is None else interval.end,
        None if interval is None else interval.since,
        filters,
        notice.broker,
        cut,
    )


def judged(
    of_one_event: Sequence[PlacedNotification],
    publications: Sequence[Publication],
    returns: Sequence[ReturnFact],
    *,
    receiver: str,
) -> Iterator[JudgedNotification]:
    """The notifications of one event beside its publication, and what was given back of them."""
    publication = publications[0] if publications else None
    content = None if publication is None else publication.content()
    answers: dict[Filters, bool | None] = {(): None}
    repeated = borne_out(of_one_event, returns, receiver)
    for each, again in zip(of_one_event, repeated, strict=True):
        accepted = None
        if content is not None:
            if each.filters not in answers:
                answers[each.filters] = any(accepts_event(*filter, content) for filter in each.filters)
            accepted = answers[each.filters]
        yield _judged(each, publication, accepted, again)


def _judged(
    each: PlacedNotification, publication: Publication | None, accepted: bool | None, repeated: bool
) -> JudgedNotification:
    sequence = each.sequence
    if sequence is None and publication is not None:
        sequence = publication.sequence
    lawful = each.inside and accepted is not False
    return JudgedNotification(
        each.run,
        each.process,
        each.subscription,
        each.source,
        each.event,
        each.time,
        repeated,
        each.inside,
        each.start,
        each.end,
        each.since,
        -1 if sequence is None else sequence,
        None if publication is None or publication.refused else publication.published,
        publication is not None and publication.refused,
        accepted,
        None if lawful else publication,
    )


class JudgedReceipt(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A receipt with the filters that its process had in force."""

    run: str
    process: str
    source: str
    event: str
    time: float
    filters: Filters


def reached(receipts: Sequence[ReceiptFact], intervals: Sequence[Interval]) -> Iterator[JudgedReceipt]:
    """The receipts of one process beside its intervals."""
    for receipt in receipts:
        filters = {(each.filter, each.dialect) for each in intervals if each.contains(receipt.time)}
        yield JudgedReceipt(
            receipt.run,
            receipt.process,
            receipt.source,
            receipt.event,
            receipt.time,
            tuple(sorted(filters)),
        )

"""Deliveries: each notification with the interval it fell in and the event it carried."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from tidings.history.acceptance import accepts_event
from tidings.history.facts import Notice, ReceiptFact
from tidings.history.intervals import Interval
from tidings.history.publications import Publication

Filters = tuple[tuple[str, str], ...]  # (text, dialect) of each


class PlacedNotification(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A notification and the interval of its subscription that it fell in, or the nearest one."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    time: float
    repeated: bool
    sequence: int | None
    inside: bool
    start: float | None  # None: that process never had such a subscription
    end: float | None
    since: float | None
    filters: Filters  # in force at that time


class JudgedNotification(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A notification with all that the properties ask of it."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    time: float
    repeated: bool
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


def placed(notices: Sequence[Notice], intervals: Sequence[Interval]) -> Iterator[PlacedNotification]:
    """The notifications of one process beside its intervals."""
    groups: dict[str, _SubscriptionIntervals] = {}
    for interval in sorted(intervals, key=lambda each: (each.start, each.end)):
        groups.setdefault(interval.subscription, _SubscriptionIntervals()).add(interval)
    for notice in notices:
        group = groups.get(notice.subscription)
        yield _placed(notice, None, ()) if group is None else _placed(notice, *group.at(notice.time))


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


def _placed(notice: Notice, interval: Interval | None, filters: Filters) -> PlacedNotification:
    return PlacedNotification(
        notice.run,
        notice.process,
        notice.subscription,
        notice.source,
        notice.event,
        notice.time,
        notice.repeated,
        notice.sequence,
        bool(filters),
        None if interval is None else interval.start,
        None if interval is None else interval.end,
        None if interval is None else interval.since,
        filters,
    )


def judged(
    of_one_event: Sequence[PlacedNotification], publications: Sequence[Publication]
) -> Iterator[JudgedNotification]:
    """The notifications of one event beside its publication."""
    publication = publications[0] if publications else None
    content = None if publication is None else publication.content()
    answers: dict[Filters, bool | None] = {(): None}
    for each in of_one_event:
        accepted = None
        if content is not None:
            if each.filters not in answers:
                answers[each.filters] = any(accepts_event(*filter, content) for filter in each.filters)
            accepted = answers[each.filters]
        yield _judged(each, publication, accepted)


def _judged(
    each: PlacedNotification, publication: Publication | None, accepted: bool | None
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
        each.repeated,
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

"""Possible debts: each promised event beside each interval with a filter that accepts it.

A claim is settled by a notification, or by a `drop` or `dead` row that names a reason. When a
claim that is not settled is a debt differs: liveness goes by T_sub and T_diff, completeness by
the room for a hand-over, gap freedom by what was told before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec

from tidings.history import acceptance
from tidings.history.acceptance import AcceptanceMatcher
from tidings.history.deliveries import JudgedNotification
from tidings.history.facts import ArrivalFact, LossFact
from tidings.history.intervals import Interval
from tidings.history.publications import Publication


class OwedDelivery(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A filter that was surely on accepts an event that was surely published."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    sequence: int
    published: float
    lifetime: float
    ends: float  # when the event expires for all subscribers
    available: float  # from then on it can be handed over
    broker: str
    start: float
    end: float  # the last moment when the subscription was surely on
    since: float  # the subscription stood from then on, listening or not

    @property
    def order(self) -> tuple[float, int]:
        return (self.published, self.sequence)


class OwedIndex:
    """The intervals of one run by their filter."""

    def __init__(
        self, intervals: Iterable[Interval], matcher: Callable[[], AcceptanceMatcher] | None
    ) -> None:
        by_filter: dict[tuple[str, str], list[Interval]] = {}
        for interval in intervals:
            by_filter.setdefault((interval.filter, interval.dialect), []).append(interval)
        self.filters = acceptance.index_of(by_filter, matcher)
        self.intervals = list(by_filter.values())


Index: TypeAlias = dict[str, OwedIndex]


def index_of(
    intervals: Iterable[Interval], *, matcher: Callable[[], AcceptanceMatcher] | None = None
) -> Index:
    """For each run an index of the intervals that may be owed events."""
    runs: dict[str, list[Interval]] = {}
    for interval in intervals:
        if interval.sure:
            runs.setdefault(interval.run, []).append(interval)
    return {run: OwedIndex(own, matcher) for run, own in runs.items()}


def claims_on(index: Index, publication: Publication) -> Iterator[OwedDelivery]:
    """The intervals that may be owed this event."""
    own = index.get(publication.run)
    if own is None or math.isinf(publication.promised):
        return
    last_start = publication.published + publication.lifetime
    for number in own.filters.accepting(publication.content()):
        for interval in own.intervals[number]:
            early = interval.start > last_start and interval.since > publication.published
            if not early and interval.sure_end >= publication.published:
                yield _claim(publication, interval)


def _claim(publication: Publication, interval: Interval) -> OwedDelivery:
    return OwedDelivery(
        publication.run,
        interval.process,
        interval.subscription,
        publication.source,
        publication.event,
        -1 if publication.sequence is None else publication.sequence,
        publication.published,
        publication.lifetime,
        publication.ends,
        publication.promised,
        interval.broker,
        interval.start,
        interval.sure_end,
        interval.since,
    )


def arrived(claims: Sequence[OwedDelivery], arrivals: Sequence[ArrivalFact]) -> Iterator[OwedDelivery]:
    """The claims of one event at one broker: available once it has reached that broker."""
    at = min((each.time for each in arrivals), default=-math.inf)
    for claim in claims:
        yield msgspec.structs.replace(claim, available=at) if at > claim.available else claim


class Unsettled(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """All claims of one receiver on one event, none of them settled within an interval."""

    run: str
    process: str
    subscription: str
    source: str
    event: str
    claims: tuple[OwedDelivery, ...]  # by their start
    delivered_anyway: bool  # there is a notification, but outside the intervals or before its time


def not_lost(claims: Sequence[OwedDelivery], losses: Sequence[LossFact]) -> Iterator[OwedDelivery]:
    """The claims of one subscription on one event, unless it was lost for a reason."""
    if not losses:
        yield from claims


def unsettled(
    claims: Sequence[OwedDelivery], notifications: Sequence[JudgedNotification]
) -> Iterator[Unsettled]:
    """The claims of one receiver on one event, unless they are settled."""
    if any(each.counts for each in notifications):
        return
    in_time = sorted(claims, key=attrgetter("start", "process", "subscription"))
    first = in_time[0]
    yield Unsettled(
        first.run,
        first.process,
        first.subscription,
        first.source,
        first.event,
        tuple(in_time),
        bool(notifications),
    )

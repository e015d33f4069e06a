"""FIFO and gap freedom: the events of one publisher come in order, and none is left out between.

(Mathur et al. 1995, 3.2, guarantees 3 and 4b.) Publishing order is the order of the `pub` rows
of a source, then its counter. Deliveries in the same instant have no order.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from tidings.history.deliveries import JudgedNotification
from tidings.history.owed import OwedDelivery, Unsettled
from tidings.history.properties.property import NO_NOTIFICATIONS, Property, notified
from tidings.history.relations import Columns, Table, Violation
from tidings.history.story import event_name, on_behalf, seconds, violation
from tidings.history.tables import Tables

STREAM: Columns = ("run", "process", "subscription", "source", "start")

_Receipt = tuple[tuple[float, int], float, str]  # place among its source's events, time of delivery, event


def overtaken(of_one_stream: Sequence[JudgedNotification]) -> Iterator[Violation]:
    """The notifications of one source in one interval: each event comes after all that were
    published before it and are delivered at all. Only the first delivery of an event counts: a second
    one breaks minimality, and a redelivery that the history bears out comes when
    it was asked for."""
    if len(of_one_stream) == 1:
        return
    firsts: dict[str, JudgedNotification] = {}
    for each in sorted(of_one_stream, key=attrgetter("time")):
        if each.published is not None and not each.repeated:
            firsts.setdefault(each.event, each)
    newest: JudgedNotification | None = None
    for _, instant in groupby(firsts.values(), key=attrgetter("time")):
        together = sorted(instant, key=attrgetter("order", "event"))
        for each in together:
            if newest is not None and each.order < newest.order:
                yield _late(each, newest)
        if newest is None or together[-1].order > newest.order:
            newest = together[-1]


def _late(each: JudgedNotification, newer: JudgedNotification) -> Violation:
    story = (
        f"At {seconds(each.time)} {on_behalf(each.process, each.subscription)} received "
        f"{event_name(each.source, each.event)}, after {newer.event} at {seconds(newer.time)}, "
        f"which its publisher published later."
    )
    return violation(each, each.time, story, overtaken_by=newer.event, told_before=newer.time)


def left_out(
    open_claims: Sequence[Unsettled], notifications: Sequence[JudgedNotification], *, t_sub: float = 0.0
) -> Iterator[Violation]:
    """Gaps in the deliveries of one source to one subscriber: once the subscription stood (T_sub after it
    began), every event that was published between two delivered ones is delivered too (or lost for a reason).
    """
    received: dict[float, list[_Receipt]] = {}
    for each in notifications:
        if each.counts and each.since is not None and each.order > (each.since, math.inf):
            received.setdefault(each.since, []).append((each.order, each.time, each.event))
    for own in received.values():
        own.sort()
    for case in open_claims:
        for claim in case.claims:
            if claim.since + t_sub < claim.published < claim.end:
                yield from _between(claim, received.get(claim.since, []))


def _between(claim: OwedDelivery, received: list[_Receipt]) -> Iterator[Violation]:
    before = bisect_left(received, (claim.order, -math.inf, "")) - 1
    after = bisect_right(received, (claim.order, math.inf, ""))
    if before >= 0 and after < len(received) and received[after][1] < claim.ends:
        yield _gap(claim, received[before], received[after])


def _gap(claim: OwedDelivery, before: _Receipt, after: _Receipt) -> Violation:
    story = (
        f"At {seconds(claim.published)} {event_name(claim.source, claim.event)} was published, but "
        f"{on_behalf(claim.process, claim.subscription)} received {before[2]} before it and {after[2]} "
        f"after it (at {seconds(after[1])}), and never {claim.event}."
    )
    return violation(claim, claim.published, story, told_before=before[2], told_after=after[2])


def _overtaken(tables: Tables) -> Sequence[Table]:
    return (tables.engine.group(overtaken, (tables.judged, STREAM), output=Violation),)


def _left_out(tables: Tables) -> Sequence[Table]:
    key: Columns = ("run", tables.settings.receiver, "source")
    streams = (tables.unsettled, key), (tables.judged, key)
    stood = partial(left_out, t_sub=tables.settings.t_sub or 0.0)
    return (tables.engine.group(stood, *streams, output=Violation),)


FIFO = Property(
    "fifo",
    "The events of one publisher are delivered in the order of their publication.",
    "Mathur et al. 1995, 3.2, guarantee 3",
    _overtaken,
    instances=notified,
    nothing=NO_NOTIFICATIONS,
)
GAP_FREEDOM = Property(
    "gap_freedom",
    "Between two events of a publisher that a subscription received, no matching one is left out.",
    "Mathur et al. 1995, 3.2, guarantee 4b",
    _left_out,
    instances=notified,
    nothing=NO_NOTIFICATIONS,
)

"""LP1 to LP4: a legal local computation (Baldoni et al. 2002, 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tidings.history.acceptance import accepts_event
from tidings.history.deliveries import JudgedNotification
from tidings.history.facts import Operation
from tidings.history.intervals import Interval, SubscriptionPair, pair_up
from tidings.history.properties.property import NO_NOTIFICATIONS, Property, notified
from tidings.history.properties.safety import delivered_sentence
from tidings.history.relations import Table, Violation
from tidings.history.schema import UNKNOWN
from tidings.history.story import on_behalf, seconds, span, violation
from tidings.history.tables import PROCESS, Tables


def ends_of_nothing(of_one_process: Sequence[Operation]) -> Iterator[Violation]:
    """LP1: an unsubscription has an earlier subscription that was not ended otherwise (E-B2)."""
    for pair in pair_up(of_one_process, resuming=False):
        if pair.sub is None and pair.end is not None and pair.end.outcome != UNKNOWN:
            usub = pair.end
            who = on_behalf(usub.process, usub.subscription)
            story = f"At {seconds(usub.time)} {who} unsubscribed, but was not subscribed."
            yield violation(usub, usub.time, story)


def never_ended(of_one_process: Sequence[Operation]) -> Iterator[Violation]:
    """LP2: a subscription is followed by its unsubscription."""
    for pair in pair_up(of_one_process, resuming=False):
        sub = pair.sub
        if sub is not None and pair.end is None and pair.doubtful_end is None:
            who = on_behalf(sub.process, sub.subscription)
            yield violation(
                sub, sub.time, f"At {seconds(sub.time)} {who} subscribed, and never unsubscribed."
            )


def overlapping(of_one_process: Sequence[Operation]) -> Iterator[Violation]:
    """LP3: no subscription begins inside the interval of another, or of its own."""
    began = sorted(
        ((pair.sub, _end(pair)) for pair in pair_up(of_one_process, resuming=False) if pair.sub is not None),
        key=lambda item: (item[0].time, item[0].subscription, item[1]),
    )
    holder, open_until = None, -math.inf
    for sub, end in began:
        if holder is not None and sub.time < min(open_until, end):
            story = (
                f"At {seconds(sub.time)} {on_behalf(sub.process, sub.subscription)} subscribed, while "
                f"its subscription {holder.subscription} was on {span(holder.time, open_until)}."
            )
            yield violation(sub, sub.time, story, other=holder.subscription)
        if end > open_until:
            holder, open_until = sub, end


def _end(pair: SubscriptionPair) -> float:
    if pair.doubtful_end is not None:
        return pair.doubtful_end
    return math.inf if pair.end is None else pair.end.time


def suspicious(notification: JudgedNotification) -> Iterator[JudgedNotification]:
    """Only what is outside its own subscription needs a look at the process's other ones."""
    if not notification.lawful:
        yield notification


def outside(suspects: Sequence[JudgedNotification], intervals: Sequence[Interval]) -> Iterator[Violation]:
    """LP4: a notification lies in an interval of some matching subscription of its process."""
    for notification in suspects:
        holding = [each for each in intervals if each.contains(notification.time)]
        content = None if notification.publication is None else notification.publication.content()
        if any(content is None or accepts_event(each.filter, each.dialect, content) for each in holding):
            continue
        reason = "none of its filters in force accepts it" if holding else "had no subscription at that time"
        yield violation(
            notification,
            notification.time,
            f"{delivered_sentence(notification)}, but {reason}.",
            subscriptions=len(holding),
        )


def _ends_of_nothing(tables: Tables) -> Sequence[Table]:
    return (tables.engine.group(ends_of_nothing, (tables.operations, PROCESS), output=Violation),)


def _never_ended(tables: Tables) -> Sequence[Table]:
    return (tables.engine.group(never_ended, (tables.operations, PROCESS), output=Violation),)


def _overlapping(tables: Tables) -> Sequence[Table]:
    return (tables.engine.group(overlapping, (tables.operations, PROCESS), output=Violation),)


def _outside(tables: Tables) -> Sequence[Table]:
    suspects = tables.engine.each(suspicious, tables.judged, output=JudgedNotification)
    by_process = (suspects, PROCESS), (tables.intervals, PROCESS)
    return (tables.engine.group(outside, *by_process, output=Violation, apart=True),)


LP1 = Property(
    "lp1",
    "Every unsubscription has an earlier subscription that is still on.",
    "Baldoni et al. 2002, 3.2, LP1",
    _ends_of_nothing,
)
LP2 = Property(
    "lp2",
    "Every subscription is followed by its unsubscription.",
    "Baldoni et al. 2002, 3.2, LP2",
    _never_ended,
)
LP3 = Property(
    "lp3",
    "A process has one subscription at a time.",
    "Baldoni et al. 2002, 3.2, LP3",
    _overlapping,
)
LP4 = Property(
    "lp4",
    "Every notification lies in an interval of a matching subscription of its process.",
    "Baldoni et al. 2002, 3.2, LP4",
    _outside,
    instances=notified,
    nothing=NO_NOTIFICATIONS,
)

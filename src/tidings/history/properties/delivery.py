"""Liveness and completeness: each subscription receives the events that it was owed.

A `OwedDelivery` is a promised event beside an interval with a filter that accepts it. These are the rules for
when a claim is a debt; a debt must be paid by a notification, or be excused by a `drop` or `dead`
row that names a reason. Not owed at all, and so never claimed or never a debt:
- an event with a refused or unknown outcome of its publication, or to a subscription of unknown
  outcome, or after an unsubscription of unknown outcome;
- an event after its `expires`, or after a later event of its key;
- an event without lifetime to a subscription that began or ended in the same instant, since
  their order is unknown;
- anything while a durable subscription is detached; events of that time are owed when it is attached
  again. Events that were due after the end of the recording (`until`) are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tidings.history.owed import OwedDelivery, Unsettled
from tidings.history.properties.property import Property
from tidings.history.relations import Table, Violation
from tidings.history.story import event_name, on_behalf, seconds, span, violation
from tidings.history.tables import DelayBounds, Tables

NOTHING_DUE = "no delivery fell due: no subscription stood long enough around an event that it accepts"


def is_due(claim: OwedDelivery, t_sub: float, t_diff: float, until: float) -> bool:
    """P3 and P3a: the stable interval [start + T_sub, end] contains [t, t + T_diff], or it meets
    [t + T_diff, t + lifetime]. (T_sub must leave time for handing over what was available.)"""
    stable, diffused = claim.start + t_sub, claim.published + t_diff
    last = min(claim.end, claim.ends, until)
    if claim.published >= claim.end:
        return False
    if claim.start < claim.published and stable <= claim.published and diffused <= last:
        return True
    stored = claim.lifetime > 0
    return stored and max(diffused, stable) <= min(claim.published + claim.lifetime, last)


def is_owed(claim: OwedDelivery, t_sub: float, t_diff: float, until: float) -> bool:
    """E-B1: availability and subscription meet, with room for the hand-over (T_diff).

    An event that came while the subscription stood stays available to it (for lifetime 0 that is
    what being available for T_diff comes to); to others it is available for its lifetime."""
    stood = claim.since < claim.published and claim.since + t_sub <= claim.published
    available_until = math.inf if stood else claim.published + claim.lifetime
    begin = max(claim.available, claim.start + t_sub)
    end = min(available_until, claim.end, claim.ends, until)
    return end > begin and end - begin >= t_diff


Rule = Callable[[OwedDelivery, float, float, float], bool]


def unpaid(
    open_claims: Unsettled, *, rule: Rule, anywhere: bool, bounds: DelayBounds, until: float
) -> Iterator[Violation]:
    """The unsettled claims of one subscriber on one event: not owed, or a violation.

    P3 asks for a notification anywhere in the history, completeness for one in an interval."""
    if anywhere and open_claims.delivered_anyway:
        return
    t_sub, t_diff = bounds.of(open_claims.run)
    for claim in open_claims.claims:
        if rule(claim, t_sub, t_diff, until):
            yield violation(
                claim,
                claim.published,
                _story(claim, t_diff),
                published=claim.published,
                start=claim.start,
                end=claim.end,
                t_sub=t_sub,
                t_diff=t_diff,
            )
            return


def _story(claim: OwedDelivery, t_diff: float) -> str:
    who = on_behalf(claim.process, claim.subscription)
    due = max(claim.published, claim.start) + t_diff
    what = event_name(claim.source, claim.event)
    return (
        f"At {seconds(claim.published)} {what} was published, and {who} was subscribed to it "
        f"{span(claim.start, claim.end)}; it never received it (due by about {seconds(due)})."
    )


def _unpaid(tables: Tables, rule: Rule, *, anywhere: bool) -> Sequence[Table]:
    until = tables.settings.until
    judge = partial(
        unpaid,
        rule=rule,
        anywhere=anywhere,
        bounds=tables.bounds,
        until=math.inf if until is None else until,
    )
    return (tables.engine.each(judge, tables.unsettled, output=Violation),)


def _not_live(tables: Tables) -> Sequence[Table]:
    return _unpaid(tables, is_due, anywhere=True)


def _incomplete(tables: Tables) -> Sequence[Table]:
    return _unpaid(tables, is_owed, anywhere=False)


def judged_claims(
    claim: OwedDelivery, *, rule: Rule, bounds: DelayBounds, until: float
) -> Iterator[OwedDelivery]:
    """The claim, if it is a debt, paid or not."""
    if rule(claim, *bounds.of(claim.run), until):
        yield claim


def _instances(tables: Tables, rule: Rule) -> Table:
    until = tables.settings.until
    judge = partial(
        judged_claims, rule=rule, bounds=tables.bounds, until=math.inf if until is None else until
    )
    return tables.engine.each(judge, tables.claims, output=OwedDelivery)


def _no_times(tables: Tables) -> str | None:
    missing = [name for name in ("t_sub", "t_diff") if getattr(tables.settings, name) is None]
    if not missing:
        return None
    return f"{' and '.join(missing)} not given: without them the time by which an event is due is not known"


LIVENESS = Property(
    "liveness",
    "A subscriber that was stably subscribed for T_diff after a publication, or while the event was "
    "available, receives it.",
    "Virgillito 2003, 3.1.4 and 3.1.5, P3 and P3a",
    _not_live,
    _no_times,
    late=True,
    instances=partial(_instances, rule=is_due),
    nothing=NOTHING_DUE,
)
COMPLETENESS = Property(
    "completeness",
    "Every available event is delivered within a matching subscription, where there is room for it.",
    "Baldoni et al. 2002, 4.2, definition 1",
    _incomplete,
    late=True,
    instances=partial(_instances, rule=is_owed),
    nothing=NOTHING_DUE,
)

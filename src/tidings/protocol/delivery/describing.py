"""Subscriptions as people see them, at a cost that has a bound however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from itertools import islice
from typing import Any

from tidings.model.subscription import SubscriptionId
from tidings.protocol.delivery.subscription_state import SubscriptionState

Sees = Callable[[SubscriptionId], bool]
LOOKED_THROUGH = 100_000  # subscriptions that are asked about for one that may see a few of them
AT_ONCE = 10_000  # subscriptions that one question looks at, some milliseconds; more are looked at in turns


class Sweep:
    """Totals over all subscriptions: waiting events, and subscriptions that read. Of many subscriptions the
    sum takes several calls; until it is done the previous sum counts."""

    def __init__(self) -> None:
        self._unseen: list[SubscriptionState] = []
        self._sum = (0, 0)
        self._last: tuple[int, int] | None = None

    def look(self, helds: Mapping[Any, SubscriptionState]) -> tuple[int, int]:
        if len(helds) <= AT_ONCE:
            self._unseen, self._last = [], None
            return _counted(helds.values())
        if not self._unseen:
            self._unseen, self._sum = list(helds.values()), (0, 0)
        some = self._unseen[-AT_ONCE:]
        del self._unseen[-AT_ONCE:]
        waiting, reading = _counted(some)
        self._sum = (self._sum[0] + waiting, self._sum[1] + reading)
        if not self._unseen:
            self._last = self._sum
        return self._last or self._sum


def _counted(helds: Iterable[SubscriptionState]) -> tuple[int, int]:
    waiting = reading = 0
    for held in helds:
        if not held.has_ended:
            waiting += held.in_hand()
            reading += held.is_behind
    return waiting, reading


def busiest(
    helds: Mapping[Any, SubscriptionState], limit: int, sees: Sees | None = None
) -> list[SubscriptionState]:
    """The subscriptions with most waiting events, first; of many, among the first of them. `sees`: which may
    be shown."""
    some: Iterable[SubscriptionState] = helds.values()
    if sees is not None:
        some = (held for held in islice(some, LOOKED_THROUGH) if sees(held.id))
    return nlargest(limit, islice(some, AT_ONCE), key=SubscriptionState.in_hand)


def described(held: SubscriptionState) -> dict[str, Any]:
    """Description of a subscription for people: what waits for it here, and its cursor in each log."""
    row = {
        "subscription": held.id.shown,
        "filter": held.filter.text,
        "dialect": held.filter.dialect,
        "delivered": held.last_tag,  # it counts what was sent
        "lost": sum(held.lost.values()),
        "durable": held.durable,
        "since": held.since,
        "listeners": len(held.members),
        "credit": sum(member.credit + member.withheld for member in held.members),
        "waiting": len(held.queue),
        "blocked": len(held.blocked),
        "unacknowledged": len(held.unacked),
        "phase": str(held.own.state),
        "logs": {
            log: {
                "phase": str(cursor.state),
                "at": cursor.next - 1,
                "known": cursor.end - 1,
                "missed": cursor.missed,
            }
            for log, cursor in held.others.items()
        },
    }
    if held.blocked:  # only where policy `block` is allowed: in the application's own process
        row["publishers"] = [each for item in held.blocked if item.ticket for each in item.ticket.waiters]
    return row

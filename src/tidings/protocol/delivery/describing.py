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

    def look(self, states: Mapping[Any, SubscriptionState]) -> tuple[int, int]:
        if len(states) <= AT_ONCE:
            self._unseen, self._last = [], None
            return _counted(states.values())
        if not self._unseen:
            self._unseen, self._sum = list(states.values()), (0, 0)
        some = self._unseen[-AT_ONCE:]
        del self._unseen[-AT_ONCE:]
        waiting, reading = _counted(some)
        self._sum = (self._sum[0] + waiting, self._sum[1] + reading)
        if not self._unseen:
            self._last = self._sum
        return self._last or self._sum


def _counted(states: Iterable[SubscriptionState]) -> tuple[int, int]:
    waiting = reading = 0
    for state in states:
        if not state.has_ended:
            waiting += state.backlog()
            reading += state.is_behind
    return waiting, reading


def busiest(
    states: Mapping[Any, SubscriptionState], limit: int, sees: Sees | None = None
) -> list[SubscriptionState]:
    """The subscriptions with most waiting events, first; of many, among the first of them. `sees`: which may
    be shown."""
    some: Iterable[SubscriptionState] = states.values()
    if sees is not None:
        some = (state for state in islice(some, LOOKED_THROUGH) if sees(state.id))
    return nlargest(limit, islice(some, AT_ONCE), key=SubscriptionState.backlog)


def described(state: SubscriptionState) -> dict[str, Any]:
    """Description of a subscription for people: what waits for it here, and its cursor in each log."""
    row = {
        "subscription": state.id.shown,
        "filter": state.filter.text,
        "dialect": state.filter.dialect,
        "delivered": state.last_tag,  # it counts what was sent
        "lost": sum(state.lost.values()),
        "durable": state.durable,
        "since": state.since,
        "listeners": len(state.members),
        "credit": sum(member.credit + member.withheld for member in state.members),
        "waiting": state.backlog() - state.unacked.deliveries - len(state.blocked),
        "blocked": len(state.blocked),
        "unacknowledged": state.unacked.deliveries,
        "phase": str(state.own.state),
        "logs": {
            log: {
                "phase": str(cursor.state),
                "at": cursor.next - 1,
                "known": cursor.end - 1,
                "missed": cursor.missed,
            }
            for log, cursor in state.others.items()
        },
    }
    if state.blocked:  # only where policy `block` is allowed: in the application's own process
        row["publishers"] = [each for item in state.blocked if item.ticket for each in item.ticket.waiters]
    return row

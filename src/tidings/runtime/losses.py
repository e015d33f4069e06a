"""Losses of a subscription, said aloud: by a warning in the log `tidings.client`, and counted.

Rules
- The first loss is logged at once; later ones at most every `SAY_SECONDS`, and what is left at the end.
- An event that expired or was superseded is counted and not warned of: its publisher asked for that.
- A broker counts from zero when it opens a subscription again; the counts here only grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tidings.model.subscription import Policy

log = logging.getLogger("tidings.client")

SAY_SECONDS = 10.0  # between two warnings about one subscription
UNREADABLE = "unreadable"  # as the class subscribed to
ASKED_FOR = ("expired", "superseded", "superseded or expired", "overtaken by a move", UNREADABLE)
DURABLE = "with durable=True and a name (`tidings sub --durable --as NAME`), which misses nothing"
WAY_OUT = f"its queue was full: read faster, subscribe with a larger queue=, or {DURABLE}"


class LossWarning(Protocol):
    """A subscription that may lose events."""

    _durable: bool

    @property
    def id(self) -> Any: ...


class SubscriptionLosses:
    """Losses of one subscription, by the name of the policy or bound."""

    __slots__ = ("_at_broker", "_said", "_timer", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._at_broker: Mapping[str, int] = {}  # as it told last
        self._said = 0
        self._timer: asyncio.TimerHandle | None = None  # until it ends, losses are counted and not said

    def count(self, subscription: LossWarning, reported: Mapping[str, int], *, warns: bool) -> None:
        """Take in what the broker counted so far."""
        for reason, number in reported.items():
            before = self._at_broker.get(reason, 0)
            more = number - before if number >= before else number
            self.counts[reason] = self.counts.get(reason, 0) + more
        self._at_broker = dict(reported)
        if warns and self._timer is None:
            self._send(subscription)

    def count_unreadable(self) -> None:
        """Count an event that became a dead letter, since it could not be read; its own line is logged."""
        self.counts[UNREADABLE] = self.counts.get(UNREADABLE, 0) + 1

    def end(self, subscription: LossWarning) -> None:
        """Say what was not said yet: the subscription is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._warn(subscription)

    def _send(self, subscription: LossWarning) -> None:
        is_new = self._warn(subscription)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SAY_SECONDS, self._send, subscription) if is_new else None

    def _warn(self, subscription: LossWarning) -> bool:
        """Warn of losses that are new; False: there are none."""
        lost = {reason: number for reason, number in self.counts.items() if reason not in ASKED_FOR}
        total = sum(lost.values())
        if total <= self._said:
            return False
        self._said = total
        is_dropped = Policy.DROP_OLDEST in lost or Policy.DROP_NEWEST in lost
        log.warning(
            "subscription %s lost %d event%s so far (%s)%s",
            subscription.id,
            total,
            "" if total == 1 else "s",
            ", ".join(f"{reason}: {number}" for reason, number in lost.items()),
            f"; {WAY_OUT}" if is_dropped else "",
        )
        return True


def warn_of_gap(client: str, subscriptions: Iterable[LossWarning]) -> None:
    """Warn that transient subscriptions begin anew: the client has a broker again, and had none."""
    names = ", ".join(str(each.id) for each in subscriptions if not each._durable)
    if names:
        log.warning(
            "client %s was without a broker for a while; %s may have missed events without a lifetime "
            "meanwhile (with replay=False any event): subscribe %s",
            client,
            names,
            DURABLE,
        )

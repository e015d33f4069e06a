"""The tables that the properties are written on, each made when the first property asks for it.

operations -> intervals --+--> placed --> told      (notices, publications)
publishings -> publications --> claims              (intervals by their filters)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import msgspec

from tidings.history import deliveries, owed, publications
from tidings.history.acceptance import AcceptanceMatcher
from tidings.history.facts import (
    ArrivalFact,
    LossFact,
    Notice,
    Operation,
    PublishAttempt,
    ReceiptFact,
    ReturnFact,
    ViewFact,
)
from tidings.history.intervals import Interval, intervals_of
from tidings.history.relations import Columns, RelationEngine, Table
from tidings.history.repeats import Break, breaks_of

EVENT: Columns = ("run", "source", "event")
PROCESS: Columns = ("run", "process")
RUN: Columns = ("run",)


class CheckSettings(msgspec.Struct, frozen=True):
    """Parameters of a check."""

    t_sub: float | None = None  # seconds until a subscription is known everywhere
    t_diff: float | None = None  # seconds until an event has reached all subscribers
    receiver: str = "subscription"  # receiver of each event, once: each subscription, or each process
    until: float | None = None  # the recording ends here: what was due later is not judged


class DelayBounds(msgspec.Struct, frozen=True):
    """T_sub and T_diff for each run: as given, or the largest delay seen there."""

    t_sub: float | None
    t_diff: float | None
    seen: dict[str, float]

    def of(self, run: str) -> tuple[float, float]:
        seen = self.seen.get(run, 0.0)
        return (
            seen if self.t_sub is None else self.t_sub,
            seen if self.t_diff is None else self.t_diff,
        )


class Tables:
    def __init__(
        self,
        engine: RelationEngine,
        settings: CheckSettings,
        matcher: Callable[[], AcceptanceMatcher] | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.matcher = matcher

    @property
    def receiver(self) -> Columns:
        """The columns that identify a delivery."""
        return ("run", self.settings.receiver, "source", "event")

    @cached_property
    def operations(self) -> Table:
        return self.engine.facts(Operation)

    @cached_property
    def notices(self) -> Table:
        return self.engine.facts(Notice)

    @cached_property
    def receipts(self) -> Table:
        return self.engine.facts(ReceiptFact)

    @cached_property
    def losses(self) -> Table:
        return self.engine.facts(LossFact)

    @cached_property
    def installs(self) -> Table:
        return self.engine.facts(ViewFact)

    @cached_property
    def intervals(self) -> Table:
        return self.engine.group(intervals_of, (self.operations, PROCESS), output=Interval)

    @cached_property
    def publications(self) -> Table:
        group = self.engine.group
        tries = self.engine.facts(PublishAttempt)
        found = group(publications.published, (tries, EVENT), output=publications.Publication)
        keyed = self.engine.each(publications.keyed, found, output=publications.KeyedPublication)
        if self.engine.is_empty(keyed):
            return found
        losers = group(
            publications.superseded, (keyed, ("run", "key")), output=publications.SupersededPublication
        )
        return group(publications.ended, (found, EVENT), (losers, EVENT), output=publications.Publication)

    @cached_property
    def judged(self) -> Table:
        group = self.engine.group
        breaks = self.engine.each(breaks_of, self.operations, output=Break)
        by_run = (self.notices, RUN), (self.intervals, RUN), (breaks, RUN)
        placed = group(deliveries.placed, *by_run, output=deliveries.PlacedNotification, apart=True)
        return group(
            partial(deliveries.judged, receiver=self.settings.receiver),
            (placed, EVENT),
            (self.publications, EVENT),
            (self.engine.facts(ReturnFact), EVENT),
            output=deliveries.JudgedNotification,
        )

    @cached_property
    def claims(self) -> Table:
        prepare = partial(owed.index_of, matcher=self.matcher)
        claims = self.engine.probe(
            owed.claims_on, self.publications, self.intervals, prepare, output=owed.OwedDelivery
        )
        arrivals = self.engine.facts(ArrivalFact)
        if self.engine.is_empty(arrivals):
            return claims
        position: Columns = ("run", "broker", "source", "event")
        return self.engine.group(
            owed.arrived, (claims, position), (arrivals, position), output=owed.OwedDelivery
        )

    @cached_property
    def unsettled(self) -> Table:
        claims = self.claims
        if not self.engine.is_empty(self.losses):
            key: Columns = ("run", "subscription", "source", "event")
            claims = self.engine.group(
                owed.not_lost, (claims, key), (self.losses, key), output=owed.OwedDelivery
            )
        by_receiver = (claims, self.receiver), (self.judged, self.receiver)
        return self.engine.group(owed.unsettled, *by_receiver, output=owed.Unsettled)

    @cached_property
    def reached(self) -> Table:
        by_process = (self.receipts, PROCESS), (self.intervals, PROCESS)
        return self.engine.group(deliveries.reached, *by_process, output=deliveries.JudgedReceipt, apart=True)

    @cached_property
    def bounds(self) -> DelayBounds:
        t_sub, t_diff = self.settings.t_sub, self.settings.t_diff
        seen: Mapping[str, float] = {}
        if t_sub is None or t_diff is None:
            self.engine.keep(self.unsettled)  # judged as soon as the bounds are known
            seen = self.engine.largest(self.judged, delay_of)
        return DelayBounds(t_sub, t_diff, dict(seen))


def delay_of(each: deliveries.JudgedNotification) -> float | None:
    return each.delay

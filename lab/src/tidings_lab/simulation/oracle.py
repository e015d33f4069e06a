"""Oracle of deliveries, computed the simplest way: from each subscription and the time in which it stood.

An event is *due* to a subscription that accepts it, stood for `margin` seconds before the publish, and stood
for as long after it; it is *allowed* to one that accepts it and stood at any time between the publish and
`margin` later. The difference of the two is what happens while a subscription comes or goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import inf

import msgspec

from tidings.history.schema import NTFY, OK, PUB, SUB, USUB, Row
from tidings.language import accepts, parse_filter
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter

DeliveryKey = tuple[str, str, str]  # subscription, source, event


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries compared with those that were due."""

    due: int
    delivered: int  # that was allowed
    missing: int  # due, and not told
    stray: int  # told, and not allowed
    twice: int  # told again

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.stray or self.twice)

    def words(self) -> str:
        found = {"missing": self.missing, "stray": self.stray, "told twice": self.twice}
        return ", ".join(f"{count} {name}" for name, count in found.items() if count) or "exact"


class _Stand(msgspec.Struct, frozen=True):
    subscription: str
    filter: Filter
    begin: float
    end: float


def judge(rows: Sequence[Row], clients: Collection[str], margin: float) -> Judgement:
    """Judge the notifications in a history; `clients` are those whose subscriptions count."""
    stands = _stands([row for row in rows if row.process in clients])
    due: set[DeliveryKey] = set()
    allowed: set[DeliveryKey] = set()
    for row, event in _events(rows):
        for stand in stands:
            if stand.begin - margin < row.time < stand.end and accepts(stand.filter, event):
                key = (stand.subscription, event.source, event.id)
                allowed.add(key)
                if stand.begin + margin <= row.time and row.time + margin <= stand.end:
                    due.add(key)
    delivered = Counter(
        (str(row.subscription), str(row.source), str(row.event)) for row in rows if row.op == NTFY
    )
    return Judgement(
        due=len(due),
        delivered=len(allowed & delivered.keys()),
        missing=len(due - delivered.keys()),
        stray=len(delivered.keys() - allowed),
        twice=sum(count - 1 for count in delivered.values()),
    )


def _events(rows: Iterable[Row]) -> Iterable[tuple[Row, Event]]:
    for row in rows:
        if row.op == PUB and row.outcome in (OK, None):
            yield row, make_event(
                row.attributes or {}, source=str(row.source), id=str(row.event), topic=row.topic,
                type=row.type or None,
            )  # fmt: skip


def _stands(rows: Iterable[Row]) -> list[_Stand]:
    """From each `sub` to the next `usub` of that subscription."""
    found = []
    begun: dict[str, Row] = {}
    for row in sorted((row for row in rows if row.op in (SUB, USUB)), key=lambda row: row.time):
        before = begun.pop(str(row.subscription), None)
        if before is not None:
            found.append(_stand(before, row.time))
        if row.op == SUB:
            begun[str(row.subscription)] = row
    return [*found, *(_stand(row, inf) for row in begun.values())]


def _stand(sub: Row, end: float) -> _Stand:
    return _Stand(str(sub.subscription), parse_filter(sub.filter or ""), sub.time, end)

"""The sieve: which small part of a history can break a property at all?

The properties' own functions judge record by record, which takes a hundred times longer than
arithmetic on arrays. In a healthy history nearly everything is beyond suspicion, and arrays can show
that (see `history_sieving.py`, `history_order.py`). So the sieve names the suspects, streams from one source
to one subscription, and only their rows are judged by the properties, which alone give verdicts and stories.

Rules
- No violation lies outside the suspects; the tests compare reports with and without the sieve.
- Suspicion spreads: processes that share a subscription's name are suspected together, so that every
  group of records that a property looks at is inside or outside as a whole.
- Too many suspects, or a bucket that gave up: everything is judged, as without the sieve.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tidings.history.facts import LossFact, Notice, PublishAttempt
from tidings.history.properties import PROPERTIES
from tidings.history.tables import EVENT
from tidings.pipeline import history_sieving as sieving
from tidings.pipeline.history_intervals import Claims, IntervalIndex, IntervalKey
from tidings.pipeline.history_order import streamed
from tidings.pipeline.history_rows import History, spark_errors
from tidings.pipeline.history_sieving import Doubt, Findings, SieveRequest, Suspect

MOST_SUSPECTS = 3_000
BUCKET_ROWS = 400_000  # rows that a worker sieves at once; some 500 bytes each

COVERED = frozenset(PROPERTIES) - {"no_parasites"}  # which asks for all publications


class Sieved(NamedTuple):
    """What came out. `suspects` is None when everything must be judged."""

    suspects: frozenset[Suspect] | None
    seen: dict[str, float]  # the largest delay of each run, of what is not suspected
    words: str


def sieve(history: History, request: SieveRequest, bucket_rows: int = BUCKET_ROWS) -> Sieved:
    """Look through the history in two passes; `request.intervals` has the intervals."""
    spark = history.spark
    kinds = [PublishAttempt, Notice] + ([LossFact] if history.count([LossFact]) else [])
    cores: int = spark.sparkContext.defaultParallelism
    buckets = max(cores, -(-history.count(kinds) // bucket_rows))
    rows = history.narrow(kinds, EVENT).repartition(buckets, "place")
    frame = rows.mapInArrow(lambda batches: sieving.sieved(request, batches), sieving.OUTPUT)
    if request.streams:
        frame = frame.repartition(buckets, "receiver", "source").mapInArrow(
            lambda batches: streamed(request, batches), sieving.OUTPUT
        )
    stated = spark_errors(lambda: frame.where(f"kind = {sieving.SAID}").select("data").collect())
    found = [msgspec.msgpack.decode(row["data"], type=Findings) for row in stated]
    return _together(found, sieving.groups_for(request), request)


def _together(found: list[Findings], groups: IntervalIndex, request: SieveRequest) -> Sieved:
    gave_up = sorted(each.gave_up for each in found if each.gave_up)
    if gave_up:
        return Sieved(None, {}, f"everything is judged row by row: {gave_up[0]}")
    seen: dict[str, float] = {}
    for each in found:
        for run, delay in each.seen.items():
            seen[run] = max(delay, seen.get(run, delay))
    suspects = {suspect for each in found for suspect in each.suspects}
    suspects |= _debtors([doubt for each in found for doubt in each.doubts], seen, groups, request)
    spread = frozenset(spread_out(suspects, groups.group_of))
    if len(spread) > MOST_SUSPECTS:
        return Sieved(None, {}, f"everything is judged row by row: {len(spread):,} streams are suspicious")
    return Sieved(spread, seen, f"{len(spread):,} streams are suspicious")


def _debtors(
    doubts: list[Doubt], seen: dict[str, float], groups: IntervalIndex, request: SieveRequest
) -> set[Suspect]:
    """Claims in doubt that are debts, were the largest delays those seen so far."""
    suspects: set[Suspect] = set()
    for run in {groups.names[doubt[0]][0] for doubt in doubts}:
        own = [doubt for doubt in doubts if groups.names[doubt[0]][0] == run]
        known = max(0.0, seen.get(run, 0.0))
        t_sub = known if request.t_sub is None else request.t_sub
        t_diff = known if request.t_diff is None else request.t_diff
        debts = sieving.in_doubt(_claims(own, groups), t_sub, t_diff, request.until)
        suspects |= {(*groups.names[own[at][0]], own[at][1]) for at in np.flatnonzero(debts).tolist()}
    return suspects


def _claims(doubts: list[Doubt], groups: IntervalIndex) -> Claims:
    interval = np.array([doubt[0] for doubt in doubts], np.int64)
    published, lifetime, ends, available = (
        np.array([doubt[n] for doubt in doubts], np.float64) for n in range(2, 6)
    )
    return Claims(
        interval, interval, published, lifetime, ends, available,
        groups.start[interval], groups.sure_end[interval], groups.since[interval],
    )  # fmt: skip


def spread_out(suspects: Iterable[Suspect], groups: Iterable[IntervalKey]) -> set[Suspect]:
    """The suspects, and with each every group that shares a process or a subscription with it."""
    wanted = set(suspects)
    names = {*groups, *((run, process, own) for run, process, own, _ in wanted)}
    root: dict[tuple[str, ...], tuple[str, ...]] = {}

    def find(node: tuple[str, ...]) -> tuple[str, ...]:
        while (above := root.setdefault(node, node)) != node:
            root[node] = root.setdefault(above, above)
            node = above
        return node

    for run, process, own in names:
        root[find(("process", run, process))] = find(("subscription", run, own))
    suspected: dict[tuple[str, ...], set[str]] = {}
    for run, process, _, source in wanted:
        suspected.setdefault(find(("process", run, process)), set()).add(source)
    if not suspected:
        return set()
    return {
        (*name, source) for name in names for source in suspected.get(find(("process", name[0], name[1])), ())
    }


class Only:
    """Claims of suspects alone: what `probe` makes of the publications of their sources."""

    def __init__(self, make: Any, suspects: frozenset[Suspect]) -> None:
        self._make, self._suspects = make, suspects

    def __call__(self, index: Any, record: Any) -> Iterable[Any]:
        for claim in self._make(index, record):
            if (claim.run, claim.process, claim.subscription, claim.source) in self._suspects:
                yield claim

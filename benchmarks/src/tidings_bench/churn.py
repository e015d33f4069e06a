"""Churn: filters come and go while events are matched and the delta is merged into the table.

Operations, matches and steps of upkeep take turns in one thread, as a broker's node does them,
at the asked rate of operations: the time that they leave goes to matching. Latency of a match is
counted from when its turn came, so waiting behind a step of upkeep counts too. The clock is the CPU
time of this process, which leaves out what others took of a shared machine; the rate by the clock on
the wall stands beside it, and is the lower the busier the machine is.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.warm import warm
from tidings_bench.workloads import events, filters, workload

OPERATIONS = 20_000  # a second: half of them add, half remove
PAIRS_IN_TURN = 5
SPARE = 20_000


def churn(size: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Rows of a churn run beside a quiet one."""
    from tidings_bench.matching import row

    made = workload("W2")
    matcher, probes = ColumnarMatcher(), events(made, 4_000)
    supply = filters(made, size + SPARE)
    matcher.load(islice(supply, size), sample=probes[3_000:])
    spare = list(supply)
    warm()
    gc.collect()
    gc.freeze()  # what is loaded lives long: the collector need not look at it again
    quiet = _quiet(matcher, probes)
    run = _ChurnRun(matcher, probes, spare, size)
    run.go(seconds)
    work = f"W2, {OPERATIONS} changes/s"
    yield row(work, size, "tidings, quiet", quiet, "matches/cpu s", None)
    yield row(work, size, "tidings", run.matches / run.matching, "matches/cpu s of matching", None)
    yield row(work, size, "tidings", run.matches / run.matching / quiet, "of the quiet rate", None)
    yield row(work, size, "tidings", run.changes / run.took, "changes/s reached, cpu", None)
    yield row(work, size, "tidings", run.changes / run.took_wall, "changes/s reached, wall", None)
    yield row(work, size, "tidings", run.changes / run.changing, "changes/cpu s of changing", None)
    yield row(work, size, "tidings", run.merges, "merges of the delta", None)
    for share in (50, 99, 99.9):
        yield row(work, size, "tidings", run.latency(share), f"ms p{share} latency, cpu", None)
    gc.unfreeze()


def _quiet(matcher: ColumnarMatcher, probes: list[Any]) -> float:
    for event in probes[:500]:
        matcher.match(event)
    began = time.process_time()
    for event in probes[:2_000]:
        matcher.match(event)
    return 2_000 / (time.process_time() - began)


class _ChurnRun:
    def __init__(self, matcher: ColumnarMatcher, probes: list[Any], spare: list[Any], size: int) -> None:
        self.matcher, self.probes, self.spare = matcher, probes, spare
        self.victims = np.random.default_rng(1).permutation(size).tolist()
        self.added: list[int] = []
        self.changes = self.matches = self.merges = 0
        self.changing = self.matching = self.took = self.took_wall = 0.0
        self.latencies: list[float] = []

    def go(self, seconds: float) -> None:
        table, wall, busy = self.matcher.table, time.perf_counter(), time.process_time
        start = busy()
        while (now := busy() - start) < seconds:
            if self.changes > now * OPERATIONS:
                self._match(busy(), busy)
                continue
            waiting = busy()
            self._change()
            changed = busy()
            self.changing += changed - waiting
            self.matcher.maintain(1)  # as a broker does after what it handled
            self._match(changed, busy)
            if self.matcher.table is not table:
                table, self.merges = self.matcher.table, self.merges + 1
        self.took, self.took_wall = busy() - start, time.perf_counter() - wall

    def _change(self) -> None:
        for _ in range(PAIRS_IN_TURN):
            self.added.append(self.matcher.add(self.spare[self.changes % SPARE]))
            self.matcher.remove(self.victims.pop() if self.victims else self.added.pop(0))
            self.changes += 2

    def _match(self, since: float, busy: Any) -> None:
        began = busy()
        self.matcher.match(self.probes[self.matches % len(self.probes)])
        ended = busy()
        self.matching += ended - began
        self.latencies.append(ended - since)
        self.matches += 1

    def latency(self, share: float) -> float:
        return float(np.percentile(self.latencies, share)) * 1e3

"""Histogram of durations in fixed buckets: cheap to count, and histograms of several brokers can be added."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

# Upper ends, in seconds; what takes longer is in a last bucket of its own.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def figures(self) -> dict[str, Any]:
        """`buckets`: how many took at most so long, for each of `BOUNDS`, and in all."""
        so_far, upto = 0, []
        for count in self._counts:
            so_far += count
            upto.append(so_far)
        return {"buckets": upto, "seconds": self._sum}


def quantile(buckets: list[int], part: float) -> float | None:
    """Quantile in seconds: the upper end of its bucket. None: no measurement."""
    if not buckets or not buckets[-1]:
        return None
    wanted = part * buckets[-1]
    for bound, count in zip(BOUNDS, buckets, strict=False):
        if count >= wanted:
            return bound
    return float("inf")

"""Could two samples come from one distribution? Kolmogorov and Smirnov's test, and one for shares."""

from __future__ import annotations

import math
from collections.abc import Sequence


def same_distribution(one: Sequence[float], other: Sequence[float]) -> float:
    """The chance of a gap as large as this between the two distribution functions; ties make it larger."""
    values = sorted({*one, *other})
    a, b = sorted(one), sorted(other)
    gap, i, j = 0.0, 0, 0
    for value in values:
        while i < len(a) and a[i] <= value:
            i += 1
        while j < len(b) and b[j] <= value:
            j += 1
        gap = max(gap, abs(i / len(a) - j / len(b)))
    n = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    x = (n + 0.12 + 0.11 / n) * gap
    if x < 0.2:
        return 1.0
    return max(0.0, min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 101))))


def same_share(hits: int, of: int, others: int, of_others: int) -> float:
    """The chance that two shares differ as much as these."""
    pooled = (hits + others) / (of + of_others)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / of + 1 / of_others))
    if not spread:
        return 1.0
    return math.erfc(abs(hits / of - others / of_others) / spread / math.sqrt(2))

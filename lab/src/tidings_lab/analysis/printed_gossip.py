"""Formulas of Baehni et al. 2004 as they are printed and wrong; for studies, to show the gap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidings_lab.analysis.gossip import spread_rounds


def printed_passing(
    size: float, *, g: float = 5, a: float = 1, z: int = 3, success: float = 1.0, reached: float = 1.0
) -> float:
    """pit with the mean in place of a random count of links (5.3; E-D1)."""
    return float(1 - (1 - success) ** (size * (g / size) * reached * (a / z) * z))


def printed_reliability(levels: int, c: float, pit: float, target: int = 0) -> float:
    """The printed formula: one pit too many, and no loss inside groups (5.3; E-D2, E-D3)."""
    return float((math.exp(-math.exp(-c)) * pit) ** (levels - target))


def printed_messages(
    sizes: Sequence[float], c: float, g: float = 5, a: float = 1, success: float = 1.0
) -> float:
    """Counts links from the root and not from the lowest group, and only what arrives (5.1; E-D4)."""
    inside = sum(size * (math.log(size) + c) for size in sizes)
    return inside + printed_messages_across(len(sizes), g, a, success)


def printed_messages_across(levels: int, g: float = 5, a: float = 1, success: float = 1.0) -> float:
    """The second sum of 5.1: messages between groups (E-D4)."""
    return g * a * success * (levels - 1)


def printed_latency(sizes: Sequence[float], target: int = 0) -> float:
    """On average; halves the target group too (5.4; E-D6)."""
    return sum(spread_rounds(size) for size in sizes[target:]) / 2 + len(sizes) - 1 - target


def printed_memory_multicast(sizes: Sequence[float], level: int, c: float = 5) -> float:
    """Approach b: the tables of pattern 1 with the sizes of pattern 2 (5.5.2; E-D8)."""
    return sum(math.log(size) + c for size in sizes[level:])


def printed_reliability_multicast(levels: int, c: float) -> float:
    """Approach b as if the event went from group to group (5.5.3; E-D8)."""
    return math.exp(-levels * math.exp(-c))

"""Gossip over a hierarchy of topics: reliability, messages, memory, latency (Baehni et al. 2004, section 5).

Corrected forms; `printed_gossip.py` keeps those of the text that are wrong. Levels are numbered from the
root: sizes[0] is that of T0, and an event of the last level travels up. Words of the paper: S size of a
group, c constant of the fan-out, g links on average, a entries that a link sends to on average, z entries of
a supertopic table, pit the chance that an event passes from a group to its supertopic's. `success` is the
chance that a message arrives, `crashed` the part of the processes that are down and still in the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tidings.protocol.gossip_constants import Constants, constants_for, passing_named

__all__ = ["Constants", "constants_for", "passing_named"]  # the formulas that a peer uses itself

Range = tuple[float, float]


def spread_rounds(size: float) -> float:
    """R_S: rounds to infect a group, up to a constant (5.4). Below 16 processes it says little."""
    return math.log(size) / math.log(math.log(size))


def group_reliability(size: float, fan_out: float, success: float = 1.0) -> float:
    """The chance that every member of a group hears: e^{-e^{-(success F - ln S)}} (E-D2)."""
    return math.exp(-math.exp(-(success * fan_out - math.log(size))))


def passing(
    size: float, *, g: float = 5, a: float = 1, z: int = 3, success: float = 1.0, crashed: float = 0.0,
    reached: float = 1.0, apparent: float = 0.0,
) -> float:  # fmt: skip
    """pit: a member above hears, when links elect themselves and take each entry by chance (E-D1).

    `crashed`: of both groups, at the start; `apparent`: receivers that look crashed to a sender by chance."""
    arrives = success * (1 - crashed) * (1 - apparent)
    by_one = min(1.0, g / size) * (1 - (1 - min(1.0, a / z) * arrives) ** z)
    return float(1 - (1 - by_one) ** (size * (1 - crashed) * reached))


def passing_exact(
    size: float, *, g: float = 5, a: int = 1, success: float = 1.0, crashed: float = 0.0
) -> float:
    """pit when an elected link sends to exactly `a` entries."""
    by_one = min(1.0, g / size) * (1 - (1 - success * (1 - crashed)) ** a)
    return float(1 - (1 - by_one) ** (size * (1 - crashed)))


def reliability(
    sizes: Sequence[float], fan_outs: Sequence[float], pits: Sequence[float], success: float = 1.0,
    target: int = 0
) -> float:  # fmt: skip
    """The chance that every member of all groups from the last down to `target` hears. `pits[i]` leads from
    T_i to T_{i-1}; the target's own has no part in it (E-D3)."""
    groups = range(target, len(sizes))
    inside = math.prod(group_reliability(sizes[i], fan_outs[i], success) for i in groups)
    return inside * math.prod(pits[i] for i in groups if i > target)


def messages(sizes: Sequence[float], fan_outs: Sequence[float], g: float = 5, a: float = 1) -> float:
    """Sends of one event of the last level when all are reached: links are sent from every level but the root
    (E-D4), and what is lost was sent too."""
    inside = sum(size * fan for size, fan in zip(sizes, fan_outs, strict=True))
    return inside + g * a * (len(sizes) - 1)


def most_messages(levels: int, largest: float, c: float, z: float) -> float:
    """The bound t S ln S (1 + c + z) of 5.1; it needs ln S >= 1 (E-D5)."""
    if largest < math.e:
        raise ValueError(f"the bound needs a largest group of 3 or more, not {largest}")
    return levels * largest * math.log(largest) * (1 + c + z)


class Latency(NamedTuple):
    least: float
    average: float
    most: float


def latency(sizes: Sequence[float], target: int = 0) -> Latency:
    """Rounds from the last level to every member of the target (5.4); on average half of each group but the
    target is infected when the event passes on (E-D6)."""
    steps = len(sizes) - 1 - target
    rounds = [spread_rounds(size) for size in sizes[target:]]
    return Latency(steps + rounds[0], sum(rounds[1:]) / 2 + rounds[0] + steps, sum(rounds) + steps)


# -- memory: entries of all tables of one process ------------------------------------------------


def memory_damulticast(size: float, c: float = 5, z: float = 3, *, is_root: bool = False) -> float:
    return math.log(size) + c + (0 if is_root else z)


def memory_broadcast(processes: float, c: float = 5) -> float:
    return math.log(processes) + c


def memory_publisher_groups(sizes: Sequence[float], level: int, c: float = 5) -> float:
    """Figure 1, pattern 1: a table for the own group and for every subtopic's, each with all superprocesses
    in it (E-D8)."""
    return sum(math.log(sum(sizes[: group + 1])) + c for group in range(level, len(sizes)))


def memory_subscriber_groups(sizes: Sequence[float], level: int, c: float = 5) -> float:
    """Figure 1, pattern 2, for a publisher: a table for the own group and for every supertopic's."""
    return sum(math.log(size) + c for size in sizes[: level + 1])


def memory_hierarchical(processes: float, clusters: float, c1: float = 5, c2: float = 5) -> float:
    return math.log(processes / clusters) + c1 + math.log(clusters) + c2


def reliability_hierarchical(clusters: float, c1: float = 5, c2: float = 5) -> float:
    return math.exp(-clusters * math.exp(-c1) - math.exp(-c2))


def messages_hierarchical(processes: float, clusters: float, c1: float = 5, c2: float = 5) -> float:
    """Messages of hierarchical gossip, which is a broadcast (E-D9)."""
    inside = processes * (math.log(processes / clusters) + c1)
    return inside + clusters * (math.log(clusters) + c2)


def parasites_broadcast(processes: int, interested: int, fan_out: int, success: float) -> float:
    """Copies that reach the uninterested when every peer gossips (Table 2, in closed form: E-D10)."""
    return (processes - interested) * fan_out * success


# -- equal reliability (5.5.3): t levels, groups of one size S, one pit for all; c is the rival's constant
# ------


def equals_broadcast(levels: int, pit: float) -> Range:
    """For which c of gossip broadcast daMulticast can be as reliable."""
    return 0.0, _bound(-levels * math.log(pit))


def equals_multicast(pit: float) -> Range:
    return 0.0, _bound(-math.log(pit))


def equals_hierarchical(levels: int, clusters: float, pit: float) -> Range:
    """c1 = c2 = c."""
    low = -math.log(levels * (1 - math.log(pit)) / (clusters + 1))
    return low, _bound(-levels * math.log(pit) / (clusters + 1))


def _bound(x: float) -> float:
    return math.inf if x <= 0 else -math.log(x)


def own_constant_for_broadcast(levels: int, pit: float, c: float) -> float:
    """The constant that daMulticast needs in its groups to be as reliable as broadcast with c."""
    return -math.log((math.exp(-c) + levels * math.log(pit)) / levels)


def own_constant_for_multicast(pit: float, c: float) -> float:
    return -math.log(math.exp(-c) + math.log(pit))


def own_constant_for_hierarchical(levels: int, clusters: float, pit: float, c: float) -> float:
    return -math.log(((clusters + 1) * math.exp(-c) + levels * math.log(pit)) / levels)


def smaller_than_broadcast(processes: float, size: float, levels: int, pit: float, c: float) -> float:
    """The largest z with which daMulticast, as reliable as broadcast with c, needs no more memory."""
    return (
        math.log(processes)
        + math.log(1 + levels * math.exp(c) * math.log(pit))
        - math.log(size)
        - math.log(levels)
    )


def smaller_than_multicast(size: float, levels: int, pit: float, c: float) -> float:
    return (levels - 1) * (math.log(size) + c) + math.log(1 + math.exp(c) * math.log(pit))


def smaller_than_hierarchical(clusters: float, levels: int, pit: float, c: float) -> float:
    inner = clusters + 1 + levels * math.exp(c) * math.log(pit)
    return c + math.log(clusters) + math.log(inner) - math.log(levels)

"""Constants of gossip over topics that give a wanted reliability (Baehni et al. 2004, section 5, corrected).

c is the constant of the fan-out, g the number of links between a group and its supertopic's, a the entries
that a link sends to, z the entries of a supertopic table.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple


def passing_named(*, g: int = 5, a: int = 1, success: float = 1.0, crashed: float = 0.0) -> float:
    """pit when the entry process names itself and g-1 others, and each sends to exactly `a` entries."""
    misses = (1 - success * (1 - crashed)) ** a
    others = 1 - (1 - crashed) * (1 - misses)
    return float(1 - misses * others ** (g - 1))


class Constants(NamedTuple):
    """Constants for a wanted reliability; links are named, and the fan-out makes up for loss."""

    c: float
    g: int
    a: int
    z: int
    success: float  # of one message to one entry, crashes included: the fan-out is (ln S + c) / success
    reliability: float  # as the formulas give it


@lru_cache(maxsize=1024)
def constants_for(wanted: float, levels: int, *, loss: float = 0.0, crashed: float = 0.0) -> Constants:
    """c, g, a, z so that every member of every group hears with chance `wanted`, at the loss that was
    observed.

    Half of what may fail is left to gossip inside groups and half to the links between them."""
    if not 0 < wanted < 1:
        raise ValueError(f"a reliability of {wanted}: it lies between 0 and 1, both excluded")
    if not (0 <= loss < 1 and 0 <= crashed < 1):
        raise ValueError(f"loss {loss} and crashed {crashed}: each is from 0 to below 1")
    success = (1 - loss) * (1 - crashed)
    share = -math.log(wanted) / 2
    c = -math.log(share / levels)
    steps = max(1, levels - 1)
    g = next(g for g in range(1, 1000) if _enough(g, share / steps, 1 - loss, crashed))
    z = max(3, math.ceil(math.log(share / steps) / math.log(crashed)) if crashed else 3)
    pit = passing_named(g=g, success=1 - loss, crashed=crashed)
    reached = math.exp(-levels * math.exp(-c)) * pit ** (levels - 1)
    return Constants(c, g, 1, z, success, reached)


def _enough(g: int, share: float, success: float, crashed: float) -> bool:
    pit = passing_named(g=g, success=success, crashed=crashed)
    return pit > 0 and -math.log(pit) <= share

"""The space that zones lie in: numeric attributes, each with a range.

It is made and checked without NumPy, which is imported when its bounds are first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tidings.errors import FilterError

if TYPE_CHECKING:
    from tidings.algebra.volume import Box


@dataclass(frozen=True)
class Space:
    """The attributes that events have here, each with its range."""

    names: tuple[str, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    @classmethod
    def of(cls, ranges: Mapping[str, tuple[float, float]]) -> Space:
        """`Space.of({"price": (0, 100), "change": (-10, 10)})`."""
        for name, (low, high) in ranges.items():
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise FilterError(
                    f"the range of {name!r} is {low} to {high}", hint="give low < high, both finite"
                )
        return cls(
            tuple(ranges),
            tuple(float(low) for low, _ in ranges.values()),
            tuple(float(high) for _, high in ranges.values()),
        )

    @cached_property
    def bounds(self) -> Box:
        import numpy as np

        return np.array([self.lows, self.highs])

    @cached_property
    def volume(self) -> float:
        from tidings.algebra.volume import box_volume

        return box_volume(self.bounds)

    def box(self, ranges: Mapping[str, tuple[float, float]]) -> Box:
        """A box; an attribute that is not given keeps its whole range."""
        result = self.bounds.copy()
        for name, (low, high) in ranges.items():
            if name not in self.names:
                raise FilterError(f"{name!r} is not an attribute of the space {', '.join(self.names)}")
            axis = self.names.index(name)
            result[0, axis], result[1, axis] = max(low, self.lows[axis]), min(high, self.highs[axis])
        return result

"""Measures of zones: the size of one, and the share of it that another broker wants too.

Two measures with one shape; everything above them compares numbers and knows neither.
- `ExactMeasure`: unions of boxes and their exact volume (`algebra.zones`). The cost grows with the boxes.
- `SampledMeasure`: the same points for every broker, drawn once from a seed; a zone is the set of points
  that it holds, as the bits of one integer. A comparison costs one operation on some hundred bytes, however
  many subscriptions there are. A share that is measured on n points is off by more than sqrt(ln(2/d) / 2n)
  with probability d at most (Hoeffding): 0.051 for 1,024 points and d = 1%.

A size is a share of the space. The associativity of an empty zone is 0 (Virgillito 2003, 4.2.2, has no
value there). NumPy is imported at the first measurement, so that the systems are listed without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tidings.algebra.space import Space
from tidings.model.filter import Filter

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    from tidings.algebra.zones import Zone

Z = Any  # a zone as its measure holds it
KEPT_FILTERS = 100_000  # zones of single filters that are remembered


class Measure(Protocol):
    """Interface to zones, as the rules of `choosing.py` use it."""

    @property
    def name(self) -> str: ...

    @property
    def empty(self) -> Z: ...

    def of(self, filters: Iterable[Filter]) -> Z:
        """The zone of some filters together."""

    def join(self, one: Z, other: Z) -> Z: ...

    def size(self, zone: Z) -> float: ...

    def common(self, one: Z, other: Z) -> float:
        """The size of what both hold."""

    def pack(self, zone: Z) -> bytes: ...

    def unpack(self, packed: bytes) -> Z: ...


def associativity(measure: Measure, zone: Z, other: Z) -> float:
    """AS_Z(Z'): the share of a zone that the other one wants too."""
    size = measure.size(zone)
    return min(1.0, measure.common(zone, other) / size) if size > 0 else 0.0


def weight(measure: Measure, zone: Z, other: Z) -> float:
    """Weight of a link: the associativity of its ends with each other, both ways."""
    common = measure.common(zone, other)
    sizes = (measure.size(zone), measure.size(other))
    return sum(min(1.0, common / size) for size in sizes if size > 0)


class ExactMeasure:
    name: ClassVar[str] = "exact"

    def __init__(self, ranges: Mapping[str, tuple[float, float]]) -> None:
        from tidings.algebra.zones import Zone

        self.space = Space.of(ranges)
        self.empty = Zone.of(self.space)
        self._boxes: dict[str, Zone] = {}

    def of(self, filters: Iterable[Filter]) -> Zone:
        zones = [self._zone(filter) for filter in filters]
        return type(self.empty).of(self.space, (box for zone in zones for box in zone.boxes))

    def _zone(self, filter: Filter) -> Zone:
        found = self._boxes.get(filter.digest)
        if found is None:
            if len(self._boxes) >= KEPT_FILTERS:
                self._boxes.clear()
            from tidings.algebra.zones import zone_of

            found = self._boxes[filter.digest] = zone_of(filter, self.space, outside="ignore")
        return found

    def join(self, one: Zone, other: Zone) -> Zone:
        return one.union(other)

    def size(self, zone: Zone) -> float:
        return zone.volume / self.space.volume

    def common(self, one: Zone, other: Zone) -> float:
        return one.intersection_volume(other) / self.space.volume

    def pack(self, zone: Zone) -> bytes:
        return zone.boxes.tobytes()

    def unpack(self, packed: bytes) -> Zone:
        import numpy as np

        return type(self.empty).of(self.space, np.frombuffer(packed).reshape((-1, 2, len(self.space.names))))


class SampledMeasure:
    name: ClassVar[str] = "sampled"
    empty: ClassVar[int] = 0

    def __init__(
        self, ranges: Mapping[str, tuple[float, float]], *, points: int = 1024, seed: int = 1
    ) -> None:
        self.space = Space.of(ranges)
        self.points = points
        self._seed = seed
        self._bits: dict[str, int] = {}

    @cached_property
    def _at(self) -> NDArray[float64]:
        """The points, one a row."""
        import numpy as np

        low, high = self.space.bounds
        drawn = np.random.default_rng(self._seed).random((self.points, len(self.space.names)))
        at: NDArray[float64] = low + (high - low) * drawn
        return at

    def error(self, confidence: float = 0.99) -> float:
        """Largest error of a share, but for one case in 1 / (1 - confidence)."""
        return math.sqrt(math.log(2 / (1 - confidence)) / (2 * self.points))

    def of(self, filters: Iterable[Filter]) -> int:
        bits = 0
        for filter in filters:
            bits |= self._mask(filter)
        return bits

    def _mask(self, filter: Filter) -> int:
        found = self._bits.get(filter.digest)
        if found is None:
            if len(self._bits) >= KEPT_FILTERS:
                self._bits.clear()
            import numpy as np

            from tidings.algebra.zones import zone_of

            inside = zone_of(filter, self.space, outside="ignore").holds(self._at)
            found = self._bits[filter.digest] = int.from_bytes(np.packbits(inside).tobytes())
        return found

    def join(self, one: int, other: int) -> int:
        return one | other

    def size(self, zone: int) -> float:
        return zone.bit_count() / self.points

    def common(self, one: int, other: int) -> float:
        return (one & other).bit_count() / self.points

    def pack(self, zone: int) -> bytes:
        return zone.to_bytes((self.points + 7) // 8)

    def unpack(self, packed: bytes) -> int:
        return int.from_bytes(packed)

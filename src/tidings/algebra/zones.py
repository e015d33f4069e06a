"""Zones: unions of boxes over a fixed space of numeric attributes, and their associativity.

Rules
- A space gives each attribute a range; events are points in it (Virgillito's thesis, section 4.1.1).
  A zone is the union of the boxes of a broker's subscriptions, clipped to the space.
- AS_Z(Z') = |Z ∩ Z'| / |Z|, and 0 for a zone without volume. The weight of a link is the
  associativity of its two ends with each other, added up (sections 4.2.2 and 4.3.1).
- A zone is a value. `add` and `remove` give a new zone and measure only inside the box that came or
  went; an `Association` does the same for two zones, so that growth costs little.
- Exact by default. `sampled_associativity` says how far off it can be, and how surely.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tidings.algebra import volume as vol
from tidings.algebra.domain import Domain
from tidings.algebra.intervals import BOTTOM, TOP, Cut
from tidings.algebra.lineage import ANY_LINEAGE
from tidings.algebra.region import Region, regions_of
from tidings.algebra.space import Space as Space
from tidings.algebra.volume import Box, Boxes
from tidings.errors import FilterError, FilterLimitError
from tidings.model.filter import Filter
from tidings.model.value import Kind

_PAIRS = 1 << 20  # points times boxes that are compared at once
MAX_BOXES = 4096  # of one filter: several ranges on several attributes multiply


@dataclass(frozen=True, eq=False)
class Zone:
    """A union of boxes in a space."""

    space: Space
    boxes: Boxes  # every box that was added; doubles are kept, so that each can be removed
    _maximal: Boxes  # the boxes that lie in no other one: the same union

    @classmethod
    def of(cls, space: Space, boxes: Iterable[Box] = ()) -> Zone:
        """The zone of some boxes, clipped to the space; a box that lies outside is left out."""
        found = np.array(list(boxes), dtype=np.float64).reshape((-1, 2, len(space.names)))
        found = np.stack([np.maximum(found[:, 0], space.lows), np.minimum(found[:, 1], space.highs)], axis=1)
        found = found[(found[:, 0] <= found[:, 1]).all(axis=1)]
        return cls(space, found, vol.pruned(vol.solid(found)))

    @cached_property
    def volume(self) -> float:
        return vol.union_volume(self._maximal)

    @property
    def is_empty(self) -> bool:
        """Has the zone no volume?"""
        return len(self._maximal) == 0

    def __len__(self) -> int:
        return len(self.boxes)

    def holds(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of the points, an array of shape (n, d), lie in the zone (its edge included)?"""
        inside: NDArray[np.bool_] = _multiplicity(self.boxes, points) > 0
        return inside

    def growth(self, box: Box) -> float:
        """The volume that the zone would gain by this box; 0.0: it covers the box already."""
        box = self._clip(box)
        if not (box[0] < box[1]).all() or vol.inside_one(box, self._maximal):
            return 0.0
        return max(0.0, vol.box_volume(box) - vol.union_volume(self.within(box)))

    def within(self, box: Box) -> Boxes:
        """The part of the zone inside a box."""
        return vol.clipped(self._maximal, box)

    def add(self, box: Box) -> Zone:
        """The zone with one more box, clipped to the space."""
        box = self._clip(box)
        if not (box[0] <= box[1]).all():
            return self
        boxes, kept = np.concatenate([self.boxes, box[None]]), self._maximal
        if (box[0] < box[1]).all() and not vol.inside_one(box, kept):
            swallowed = ((kept[:, 0] >= box[0]) & (kept[:, 1] <= box[1])).all(axis=1)
            kept = np.concatenate([kept[~swallowed], box[None]])
        return _measured(Zone(self.space, boxes, kept), self.volume + self.growth(box))

    def remove(self, box: Box) -> Zone:
        """The zone without one box of these very bounds."""
        box = self._clip(box)
        same = (self.boxes == box).all(axis=(1, 2))
        if not same.any():
            raise FilterError(
                "the box is not in the zone", hint="remove a box with the bounds it was added with"
            )
        rest = np.delete(self.boxes, int(same.argmax()), axis=0)
        kept = self._maximal[~(self._maximal == box).all(axis=(1, 2))]
        if len(kept) == len(self._maximal):  # it lay inside another one
            return _measured(Zone(self.space, rest, kept), self.volume)
        hidden = vol.solid(rest[((rest[:, 0] >= box[0]) & (rest[:, 1] <= box[1])).all(axis=1)])
        shown = [one for one in vol.pruned(hidden) if not vol.inside_one(one, kept)]
        smaller = Zone(self.space, rest, np.concatenate([kept, *(one[None] for one in shown)]))
        return _measured(smaller, max(0.0, self.volume - smaller.growth(box)))

    def _clip(self, box: Box) -> Box:
        bounds = self.space.bounds
        return np.stack([np.maximum(box[0], bounds[0]), np.minimum(box[1], bounds[1])])

    def union(self, other: Zone) -> Zone:
        """Both zones as one."""
        _same_space(self, other)
        both = np.concatenate([self._maximal, other._maximal])
        return Zone(self.space, np.concatenate([self.boxes, other.boxes]), vol.pruned(both))

    def intersection_volume(self, other: Zone) -> float:
        _same_space(self, other)
        return vol.common_volume(self._maximal, other._maximal)

    def union_volume(self, other: Zone) -> float:
        return self.volume + other.volume - self.intersection_volume(other)

    def covers(self, other: Zone) -> bool:
        """Is the other zone inside, but for what has no volume?"""
        return self.intersection_volume(other) >= other.volume * (1 - 1e-12)


def _measured(zone: Zone, volume: float) -> Zone:
    zone.__dict__["volume"] = volume
    return zone


def _same_space(one: Zone, other: Zone) -> None:
    if one.space != other.space:
        raise FilterError(
            "two zones of different spaces cannot be compared", hint="build both with one Space"
        )


def _multiplicity(boxes: Boxes, points: NDArray[np.float64]) -> NDArray[np.int64]:
    """In how many of the boxes is each point? A block of points at a time, to bound the memory."""
    count = np.zeros(len(points), dtype=np.int64)
    block = max(1, _PAIRS // max(1, len(boxes)))
    for start in range(0, len(points), block):
        some = points[start : start + block]
        inside = np.ones((len(some), len(boxes)), dtype=np.bool_)
        for axis in range(boxes.shape[2]):
            inside &= some[:, None, axis] >= boxes[None, :, 0, axis]
            inside &= some[:, None, axis] <= boxes[None, :, 1, axis]
        count[start : start + block] = inside.sum(axis=1)
    return count


def zone_of(filter: Filter, space: Space, *, outside: Literal["refuse", "ignore"] = "refuse") -> Zone:
    """The zone of a filter: the points of the space that it accepts.

    Constraints outside the space (another attribute, a pattern, a residual) are refused, or ignored:
    then the zone is a superset.
    """
    boxes: list[Box] = []
    for region in regions_of(filter):
        if outside == "refuse":
            _refuse_foreign(filter, region, space)
        boxes.extend(_boxes_of(region, space))
        if len(boxes) > MAX_BOXES:
            raise FilterLimitError(f"filter {filter.text!r} is more than {MAX_BOXES} boxes")
    return Zone.of(space, boxes)


def _refuse_foreign(filter: Filter, region: Region, space: Space) -> None:
    foreign = sorted(set(region.domains).difference(space.names))
    if region.residuals:
        foreign.append("a residual condition")
    if region.lineage != ANY_LINEAGE:
        foreign.append("the type")
    if foreign:
        raise FilterError(
            f"filter {filter.text!r} also depends on {', '.join(foreign)}, which the space does not have",
            hint="add the attribute to the space, or ask for outside='ignore' and get a superset",
        )


def _boxes_of(region: Region, space: Space) -> list[Box]:
    sides = [
        _sides(region.domain(name), *bounds)
        for name, *bounds in zip(space.names, space.lows, space.highs, strict=True)
    ]
    if math.prod(len(side) for side in sides) > MAX_BOXES:
        raise FilterLimitError(f"a conjunction is more than {MAX_BOXES} boxes")
    return [np.array(corners, dtype=np.float64).T for corners in product(*sides)]


def _sides(domain: Domain, low: float, high: float) -> list[tuple[float, float]]:
    """The intervals of numbers inside the range; a hole of one point does not cut an interval."""
    result: list[tuple[float, float]] = []
    for start, end in domain.kinds[Kind.NUMBER]:
        side = (max(low, _coordinate(start)), min(high, _coordinate(end)))
        if result and result[-1][1] == side[0] and result[-1][0] < side[0] < side[1]:
            result[-1] = (result[-1][0], side[1])
        elif side[0] <= side[1]:
            result.append(side)
    return result


def _coordinate(cut: Cut) -> float:
    if cut in (BOTTOM, TOP):
        return math.copysign(math.inf, cut[0])
    return float(cut[1])


def associativity(zone: Zone, other: Zone) -> float:
    """AS_Z(Z') = |Z ∩ Z'| / |Z|: the share of this zone that the other one wants too."""
    return _ratio(zone.intersection_volume(other), zone.volume)


def link_weight(zone: Zone, other: Zone) -> float:
    """Weight of a link between two brokers: the sum of their associativities, both ways."""
    common = zone.intersection_volume(other)
    return _ratio(common, zone.volume) + _ratio(common, other.volume)


def mean_associativity(zones: Sequence[Zone], links: Iterable[tuple[int, int]]) -> float:
    """The associativity of a system: over brokers, the mean of the sum over their links."""
    return sum(link_weight(zones[i], zones[j]) for i, j in links) / len(zones) if zones else 0.0


def _ratio(common: float, volume: float) -> float:
    return min(1.0, common / volume) if volume > 0 else 0.0


@dataclass(frozen=True)
class Association:
    """Two zones and the volume that they share, kept up to date box by box."""

    zone: Zone
    other: Zone
    common: float

    @classmethod
    def of(cls, zone: Zone, other: Zone) -> Association:
        return cls(zone, other, zone.intersection_volume(other))

    @property
    def associativity(self) -> float:
        return _ratio(self.common, self.zone.volume)

    @property
    def weight(self) -> float:
        return self.associativity + _ratio(self.common, self.other.volume)

    def grow(self, box: Box) -> Association:
        """The zone gets one more box."""
        return Association(
            self.zone.add(box), self.other, self.common + _new_common(self.zone, self.other, box)
        )

    def shrink(self, box: Box) -> Association:
        """The zone loses one box."""
        zone = self.zone.remove(box)
        return Association(zone, self.other, max(0.0, self.common - _new_common(zone, self.other, box)))

    def grow_other(self, box: Box) -> Association:
        """The other zone gets one more box."""
        return Association(
            self.zone, self.other.add(box), self.common + _new_common(self.other, self.zone, box)
        )


def _new_common(growing: Zone, other: Zone, box: Box) -> float:
    """The volume of what is new in the box and lies in the other zone."""
    box = growing._clip(box)
    wanted = other.within(box)
    if len(wanted) == 0 or vol.inside_one(box, growing._maximal):
        return 0.0
    return max(0.0, vol.union_volume(wanted) - vol.common_volume(growing.within(box), wanted))


@dataclass(frozen=True)
class Estimate:
    """A sampled value: off by more than `error` with probability of at most 1 - confidence."""

    value: float
    error: float
    confidence: float
    points: int


def sampled_associativity(
    zone: Zone, other: Zone, *, rng: Random, points: int = 2000, confidence: float = 0.99
) -> Estimate:
    """Associativity from points drawn evenly in the zone; the error is Hoeffding's bound.

    Even over the union: a box is drawn by its volume, a point in it, and the point is kept with
    probability 1/m when m boxes hold it.
    """
    boxes = zone._maximal
    if len(boxes) == 0:
        return Estimate(0.0, 0.0, confidence, 0)
    draw = np.random.default_rng(rng.getrandbits(64))
    weights = np.prod(boxes[:, 1] - boxes[:, 0], axis=1)
    hits = kept = 0
    while kept < points:
        chosen = boxes[draw.choice(len(boxes), size=points, p=weights / weights.sum())]
        found = chosen[:, 0] + (chosen[:, 1] - chosen[:, 0]) * draw.random((points, boxes.shape[2]))
        found = found[draw.random(points) * _multiplicity(boxes, found) < 1.0][: points - kept]
        kept += len(found)
        hits += int((_multiplicity(other._maximal, found) > 0).sum())
    error = math.sqrt(math.log(2 / (1 - confidence)) / (2 * kept))
    return Estimate(hits / kept, error, confidence, kept)

"""A geometric index for boxes: filters that are ranges over numbers, as rectangles in space.

A packed R-tree (sort-tile-recursive), as the prototype of Virgillito 2003 (section 4.5.1) used
an R-tree, in arrays level by level. Filters of any other form go to a plain index beside it.
Bounds are doubles: a value strictly inside is sure, one on a bound is asked of the constraint.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.matcher import Matches
from tidings.matching.naive import Handles, one_by_one
from tidings.matching.small import SmallMatcher
from tidings.model.constraint import Equals, Range
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.value import Kind, kind_of

FAN_OUT = 64
MOST_DIMENSIONS = 8
FAR = 1e300  # where a side without a bound is taken to end

Floats = NDArray[np.float64]


def box_of(filter: Filter) -> dict[str, tuple[float, float]] | None:
    """The filter as a box, its bounds rounded to doubles; None when it is none."""
    if len(filter.conjunctions) != 1 or filter.conjunctions[0].residuals:
        return None
    box: dict[str, tuple[float, float]] = {}
    for c in filter.conjunctions[0].constraints:
        if c.attribute in box:
            return None
        if isinstance(c, Equals) and kind_of(c.value) is Kind.NUMBER:
            box[c.attribute] = (float(c.value), float(c.value))
        elif isinstance(c, Range) and c.kind is Kind.NUMBER:
            low = -np.inf if c.low is None else float(c.low)
            box[c.attribute] = (low, np.inf if c.high is None else float(c.high))
        else:
            return None
    return box or None


class BoxMatcher:
    """An R-tree that is packed anew after changes, and a plain index for what is no box."""

    def __init__(self) -> None:
        self._handles = Handles()
        self._boxes: dict[int, tuple[Filter, dict[str, tuple[float, float]]]] = {}
        self._others = SmallMatcher()
        self._other_handles: dict[int, int] = {}  # ours -> theirs
        self._ours: dict[int, int] = {}
        self._names: list[str] = []
        self._stale = True

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        box = box_of(filter)
        if box is None or len({*self._names, *box}) > MOST_DIMENSIONS:
            theirs = self._others.add(filter)
            self._other_handles[handle], self._ours[theirs] = theirs, handle
        else:
            self._names += [name for name in box if name not in self._names]
            self._boxes[handle] = (filter, box)
            self._stale = True
        return handle

    def remove(self, handle: int) -> None:
        if handle in self._boxes:
            del self._boxes[handle]
            self._stale = True
        else:
            theirs = self._other_handles.pop(handle)
            self._others.remove(theirs)
            del self._ours[theirs]
        self._handles.give_back(handle)

    def _rebuild(self) -> None:
        count, dimensions = len(self._boxes), len(self._names)
        low, high = np.full((count, dimensions), -np.inf), np.full((count, dimensions), np.inf)
        wanted = np.zeros((count, dimensions), bool)
        handles = np.array(list(self._boxes), np.int64)
        position = {name: number for number, name in enumerate(self._names)}
        for row, (_, box) in enumerate(self._boxes.values()):
            for name, (a, b) in box.items():
                low[row, position[name]], high[row, position[name]], wanted[row, position[name]] = a, b, True
        order = _tiled(low, high) if count else np.zeros(0, np.int64)
        self._leaves = (low[order], high[order], wanted[order], handles[order])
        self._levels = _levels(low[order], high[order])
        self._stale = False

    def match(self, event: Event) -> list[int]:
        if self._stale:
            self._rebuild()
        found = [self._ours[theirs] for theirs in self._others.match(event)]
        if self._boxes:
            found += self._search(event)
        return sorted(found)

    def _search(self, event: Event) -> list[int]:
        values = [event.view.get(name) for name in self._names]
        stored = np.array([kind_of(v) is Kind.NUMBER for v in values])
        point = np.array(
            [float(v) if h and v is not None else 0.0 for v, h in zip(values, stored, strict=True)]
        )
        rows = np.arange(len(self._levels[-1][0])) if self._levels else np.arange(len(self._leaves[0]))
        for low, high in reversed(self._levels):
            rows = rows[rows < len(low)]
            inside = ((low[rows] <= point) & (point <= high[rows]) | ~stored).all(axis=1)
            rows = (rows[inside][:, None] * FAN_OUT + np.arange(FAN_OUT)[None, :]).ravel()
        low, high, wanted, handles = self._leaves
        rows = rows[rows < len(low)]
        low, high, wanted = low[rows], high[rows], wanted[rows]
        touching = (((low <= point) & (point <= high) & stored) | ~wanted).all(axis=1)
        rows, low, high, wanted = rows[touching], low[touching], high[touching], wanted[touching]
        sure = (((low < point) & (point < high)) | ~wanted).all(axis=1)
        found: list[int] = handles[rows[sure]].tolist()
        view = event.view.get
        for handle in handles[rows[~sure]].tolist():
            constraints = self._boxes[handle][0].conjunctions[0].constraints
            if all(c.accepts(view(c.attribute)) for c in constraints):
                found.append(handle)
        return found

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:
        if self._stale and budget:
            self._rebuild()
        return 0

    def stats(self) -> dict[str, Any]:
        return {
            "engine": "boxes", "filters": len(self._boxes) + len(self._ours), "boxes": len(self._boxes),
            "others": len(self._ours), "dimensions": list(self._names), "stale": self._stale,
        }  # fmt: skip


def _tiled(low: Floats, high: Floats) -> NDArray[np.int64]:
    """Sort-tile-recursive order: slices of the first dimension, each sorted by the second, and so on."""
    centre = np.clip(low, -FAR, FAR) / 2 + np.clip(high, -FAR, FAR) / 2

    def tiled(rows: NDArray[np.int64], dimension: int) -> NDArray[np.int64]:
        rows = rows[np.argsort(centre[rows, dimension], kind="stable")]
        if dimension == centre.shape[1] - 1 or len(rows) <= FAN_OUT:
            return rows
        leaves = -(-len(rows) // FAN_OUT)
        slices = max(1, round(leaves ** (1 / (centre.shape[1] - dimension))))
        size = -(-leaves // slices) * FAN_OUT
        return np.concatenate(
            [tiled(rows[at : at + size], dimension + 1) for at in range(0, len(rows), size)]
        )

    return tiled(np.arange(len(low)), 0)


def _levels(low: Floats, high: Floats) -> list[tuple[Floats, Floats]]:
    """Hulls of runs of FAN_OUT, upwards, until one run is left."""
    levels: list[tuple[Floats, Floats]] = []
    while len(low) > FAN_OUT:
        starts = np.arange(0, len(low), FAN_OUT)
        low, high = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
        levels.append((low, high))
    return levels

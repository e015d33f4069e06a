"""Geometry: how the values of a slot are cut into buckets.

*Edges* are taken from the constraints' own bounds (the most frequent ones, and quantiles of
the rest), at most 2046 a slot, so that most constraints begin and end on an edge and need
no exact check. *Cells* group neighbouring buckets so that each cell of a slot sees an equal
share of the events; how many there are depends on how wide the slot's constraints are and
on how many rows there are. Shares come from a sample of the events seen; without one every
bucket counts the same.

On string slots edges lie at even positions: a value at an odd position (a text that no
constraint names) is *doubtful*, and is always checked exactly. So is an integer that is no double.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.freeze import ranges
from tidings.matching.columnar.rows import OUTSIDE, FrozenRows

MOST_EDGES = 2046
MOST_ACCESS_SLOTS = 56
PARTS_SAMPLED = 65_536
PARTS_IN_STEP = 8192
ASSUMED_PRESENCE = 0.5  # of an attribute, before any event was seen
ANYWHERE = 0.1  # share of the events that may hold any value: a sample is of the past, and values drift
WANTED_COVER = 4.0  # cells that an average constraint of a slot covers

Floats = NDArray[np.float64]


@dataclass
class Edges:
    """Buckets of every slot: those of slot s begin at edges[at[s]:at[s + 1]]."""

    at: NDArray[np.int32]
    edges: Floats
    shares_at: NDArray[np.int32]
    shares: Floats  # cumulative share of events by bucket; one more entry than buckets
    widths: Floats  # mean share of a slot's constraints, given that it is present
    counts: NDArray[np.int64]  # constraints by slot

    def buckets(self, slot: int) -> int:
        return int(self.at[slot + 1] - self.at[slot]) + 1


@dataclass
class Grid:
    """Cells of the access slots, and where the cells of each pair begin."""

    access: NDArray[np.int32]  # slot -> access number, or -1
    lut_at: NDArray[np.int32]  # access number -> where its buckets begin in `lut`
    lut: NDArray[np.uint16]  # bucket -> cell
    first_at: NDArray[np.int32]  # access number -> where its cells begin in `first`
    first: NDArray[np.int32]  # cell -> its first bucket; one more entry than cells
    sizes: NDArray[np.int64]  # access number -> cells; the last is 1 (no second slot)
    pairs: NDArray[np.int64]  # pair of access numbers -> number of its first cell, or -1
    singles: NDArray[np.int64]  # slot -> its first cell by bucket, or -1
    cells: int


@dataclass
class Extended:
    """Geometry over more slots than it was made for: the newer ones have no edges and no cells."""

    edges_at: NDArray[np.int32]
    shares_at: NDArray[np.int32]
    shares: Floats
    access: NDArray[np.int32]
    singles: NDArray[np.int64]


def extended_geometry(edges: Edges, grid: Grid, slots: int) -> Extended:
    known = len(grid.singles)
    more = max(0, slots - known)
    return Extended(
        np.concatenate((edges.at[: known + 1], np.full(more, edges.at[known], np.int32))),
        np.concatenate((edges.shares_at[: known + 1], np.full(more, len(edges.shares), np.int32))),
        np.concatenate((edges.shares, np.array([0.0, 0.5, 0.5]))),
        np.concatenate((grid.access, np.full(more, -1, np.int32))),
        np.concatenate((grid.singles, np.full(more, -1, np.int64))),
    )


def thresholds(parts: Any, points: Floats, strings: NDArray[np.uint8]) -> tuple[NDArray[Any], Floats]:
    """Slots and the values at which something begins or ends to hold."""
    slots, found = [], []
    counts = (parts["count"] & ~np.uint16(OUTSIDE)).astype(np.int64)
    for bound, rest, upper in (("lo", "lo_rest", False), ("hi", "hi_rest", True)):
        chosen = np.isfinite(parts[bound]) & (counts == 0)
        value, place = parts[bound][chosen], parts["slot"][chosen]
        text = strings[place] > 0
        slots.append(place)
        found.append(_edges_of(value, parts[rest][chosen], text, upper))
    many = counts > 0
    index = ranges(parts["at"][many].astype(np.int64), counts[many])
    place, value = np.repeat(parts["slot"][many], counts[many]), points[index]
    text = strings[place] > 0
    for upper in (False, True):
        slots.append(place)
        found.append(_edges_of(value, np.zeros(len(value)), text, upper))
    return np.concatenate(slots), np.concatenate(found)


def _edges_of(value: Floats, rest: NDArray[Any], text: NDArray[Any], upper: bool) -> Floats:
    """Where bounds begin to hold or (`upper`) cease to."""
    result = value.copy()
    odd = np.mod(value[text], 2) == 1
    result[text] += np.where(odd, 1.0, 2.0 if upper else 0.0)
    further = ~text & (rest >= 0 if upper else rest > 0)
    with np.errstate(over="ignore"):  # the next double after the greatest is infinity, as it should be
        result[further] = np.nextafter(value[further], np.inf)
    return result


def chosen_edges(values: Floats, most: int = MOST_EDGES) -> Floats:
    """At most `most` of the values: the frequent ones, and quantiles of the rest."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= most:
        return distinct
    frequent = np.argsort(-counts, kind="stable")[: most // 2]
    rest = np.delete(np.arange(len(distinct)), frequent)
    spread = rest[np.linspace(0, len(rest) - 1, most - len(frequent)).astype(np.int64)]
    return np.asarray(distinct[np.unique(np.concatenate((frequent, spread)))])


def find_edges(
    rows: FrozenRows, strings: NDArray[np.uint8], sample: Floats | None
) -> Generator[None, None, Edges]:
    """The edges of every slot, and the share of events in every bucket."""
    slots = len(strings)
    parts = _some_parts(rows)
    times = len(rows.parts) / max(1, len(parts))
    yield
    places, values = [np.zeros(0, np.uint16)], [np.zeros(0)]
    for start in range(0, len(parts), PARTS_IN_STEP):
        place, value = thresholds(parts[start : start + PARTS_IN_STEP], rows.points, strings)
        places.append(place)
        values.append(value)
        yield
    cuts, value = _grouped_by(np.concatenate(places), np.concatenate(values), slots)
    part_cuts, parts = _grouped_by(parts["slot"], parts, slots)
    yield
    edges, shares, widths = [], [], np.ones(slots)
    for slot in range(slots):
        edges.append(chosen_edges(value[cuts[slot] : cuts[slot + 1]]))
        shares.append(_shares(edges[slot], sample[:, slot] if sample is not None else None))
        mine = parts[part_cuts[slot] : part_cuts[slot + 1]]
        if len(mine) and len(edges[slot]):
            widths[slot] = _mean_width(mine, edges[slot], shares[slot])
        yield
    at, shares_at = np.zeros(slots + 1, np.int32), np.zeros(slots + 1, np.int32)
    np.cumsum([len(e) for e in edges], out=at[1:])
    np.cumsum([len(s) for s in shares], out=shares_at[1:])
    nothing = [np.zeros(0)]
    counts = (np.diff(part_cuts) * times).astype(np.int64)
    return Edges(
        at, np.concatenate(edges or nothing), shares_at, np.concatenate(shares or nothing), widths, counts
    )


def _some_parts(rows: FrozenRows) -> Any:
    """Parts drawn over all rows; not by a stride, which rows of equal length would fall in step with."""
    if len(rows.parts) <= PARTS_SAMPLED:
        return rows.parts
    rng = np.random.default_rng(len(rows.parts))
    return rows.parts[np.sort(rng.integers(0, len(rows.parts), PARTS_SAMPLED))]


def _grouped_by(slots: NDArray[Any], held: Any, count: int) -> tuple[NDArray[np.int64], Any]:
    order = np.argsort(slots, kind="stable")
    return np.searchsorted(slots[order], np.arange(count + 1)), held[order]


def _shares(edges: Floats, seen: Floats | None) -> Floats:
    buckets = len(edges) + 1
    if seen is None or not len(seen):
        mass = np.full(buckets, ASSUMED_PRESENCE / buckets)
    else:
        present = seen[~np.isnan(seen)]
        hits = np.bincount(np.searchsorted(edges, present, side="right"), minlength=buckets)
        spread = (len(present) + 0.5) / buckets
        mass = ((1 - ANYWHERE) * hits + ANYWHERE * spread) / (len(seen) + 1)
    return np.concatenate((np.zeros(1), np.cumsum(mass)))


def _mean_width(parts: Any, edges: Floats, shares: Floats) -> float:
    """The mean share that constraints take of the events that hold the slot."""
    sizes = parts["count"]
    low = np.searchsorted(edges, parts["lo"], side="right")
    high = np.searchsorted(edges, parts["hi"], side="right")
    wide = shares[high + 1] - shares[low]
    some = np.where((sizes > 0) & (sizes < OUTSIDE), sizes * shares[-1] / len(edges), wide)
    return max(float(np.minimum(wide, some).mean()) / max(float(shares[-1]), 1e-9), 1e-4)


def make_grid(edges: Edges, rows: int, budget: int) -> Grid:
    """Cells for the most used slots, about `budget` for all pairs together."""
    slots = len(edges.at) - 1
    cut = np.where(np.diff(edges.at) > 0, edges.counts, 0)  # a slot of one bucket tells nothing apart
    used = np.argsort(-cut, kind="stable")[:MOST_ACCESS_SLOTS]
    used = np.sort(used[cut[used] > 0])
    access = np.full(slots, -1, np.int32)
    access[used] = np.arange(len(used))
    wanted = np.array(
        [min(edges.buckets(s), max(16, int(WANTED_COVER / edges.widths[s]))) for s in used.tolist()], np.int64
    )
    sizes = _fitting(wanted, budget, rows)
    luts, firsts = [], []
    for slot, size in zip(used.tolist(), sizes.tolist(), strict=True):
        lut = _grouped(edges.shares[edges.shares_at[slot] : edges.shares_at[slot + 1]], size)
        luts.append(lut)
        firsts.append(np.concatenate((np.nonzero(np.diff(lut, prepend=-1))[0], [len(lut)])))
    counts = np.array([len(f) - 1 for f in firsts] + [1], np.int64)
    return Grid(
        access=access,
        lut_at=np.cumsum([0, *(len(x) for x in luts)]).astype(np.int32),
        lut=np.concatenate([*luts, np.zeros(1)]).astype(np.uint16),
        first_at=np.cumsum([0, *(len(x) for x in firsts)]).astype(np.int32),
        first=np.concatenate([*firsts, np.zeros(1)]).astype(np.int32),
        sizes=counts,
        pairs=np.full((len(counts), len(counts)), -1, np.int64),
        singles=np.full(slots, -1, np.int64),
        cells=1,
    )


def _fitting(wanted: NDArray[np.int64], budget: int, rows: int) -> NDArray[np.int64]:
    """Cells by slot, cut at one height so that all pairs fit into the budget."""
    low, high = 2, max(4, int(wanted.max(initial=1)))
    while low < high:
        cut = (low + high + 1) // 2
        sizes = np.minimum(wanted, cut).astype(np.float64)
        pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2
        if pairs <= budget and cut <= max(16, rows):
            low = cut
        else:
            high = cut - 1
    return np.asarray(np.minimum(wanted, low))


def _grouped(shares: Floats, size: int) -> NDArray[np.int64]:
    """Buckets to cells of equal share."""
    buckets = len(shares) - 1
    if buckets <= size:
        return np.arange(buckets)
    # half by share of events, half by number of buckets: an unseen region keeps some resolution
    total = float(shares[-1]) or 1.0
    middle = (shares[:-1] + shares[1:]) / (2 * total)
    rank = 0.85 * middle + 0.15 * (np.arange(buckets) + 0.5) / buckets
    return np.asarray(np.unique(np.floor(rank * size).astype(np.int64), return_inverse=True)[1])


def lay_out(grid: Grid, edges: Edges, used: NDArray[Any], single: NDArray[Any]) -> None:
    """Number the cells of the pairs in use (a matrix of flags) and of the slots used alone."""
    cell = 1  # cell 0: rows that every event must look at
    last = len(grid.sizes) - 1
    for a in range(last):
        for b in range(a + 1, last + 1):
            if used[a, b]:
                grid.pairs[a, b] = cell
                cell += int(grid.sizes[a] * grid.sizes[b])
    for slot in np.nonzero(single)[0].tolist():
        grid.singles[slot] = cell
        cell += edges.buckets(slot)
    grid.cells = cell

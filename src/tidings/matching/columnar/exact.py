"""Exact tests of rows by NumPy: for the matcher without Numba, and for numbers that no compiled walk can
file.

Each frozen row is found by one of its parts: by value when one part is an equality or a
set, else with all rows that ask for that slot. Candidates are then checked together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.freeze import ranges
from tidings.matching.columnar.merge import link_presence
from tidings.matching.columnar.programs import accepted
from tidings.matching.columnar.rows import OUTSIDE
from tidings.model.event import Event

Ints = NDArray[np.int64]


class RowsView:
    """Rows of any tier, as `holds` needs them."""

    def __init__(self, rows: Any, count: int) -> None:
        self.starts = rows.starts[: count + 1].astype(np.int64)
        self.parts, self.points, self.rests = rows.parts, rows.points, rows.rests
        self.count = count


def holds(view: RowsView, rows: Ints, row: NDArray[np.float64], rest: NDArray[np.int32]) -> Ints:
    """The rows with parts that all hold."""
    position = 0
    while len(rows):
        more = view.starts[rows] + position < view.starts[rows + 1]
        if not more.any():
            break
        passing = np.ones(len(rows), bool)
        passing[more] = _parts_hold(view, view.starts[rows[more]] + position, row, rest)
        rows = rows[passing]
        position += 1
    return rows


def _parts_hold(
    view: RowsView, index: Ints, row: NDArray[np.float64], rest: NDArray[np.int32]
) -> NDArray[Any]:
    parts = view.parts[index]
    value, off = row[parts["slot"]], rest[parts["slot"]]
    low, high = parts["lo"], parts["hi"]
    good = (low <= value) & (value <= high)
    good &= ~((value == low) & (off < parts["lo_rest"])) & ~((value == high) & (off > parts["hi_rest"]))
    many = np.nonzero(good & (parts["count"] > 0))[0]
    if len(many):
        counts = (parts["count"][many] & ~np.uint16(OUTSIDE)).astype(np.int64)
        at = ranges(parts["at"][many].astype(np.int64), counts)
        owner = np.repeat(np.arange(len(many)), counts)
        same = (view.points[at] == value[many][owner]) & (view.rests[at] == off[many][owner])
        hit = np.zeros(len(many), bool)
        hit[owner[same]] = True
        good[many] = hit != (parts["count"][many] >= OUTSIDE)
    return np.asarray(good)


class PlainIndex:
    """Candidates of a frozen table: rows by value, rows by slot, and rows for every event."""

    def __init__(self, rows: Any, count: int) -> None:
        self.view = RowsView(rows, count)
        starts, parts = self.view.starts, rows.parts
        lengths = np.diff(starts)
        owner = np.repeat(np.arange(count), lengths)
        sizes = parts["count"][: len(owner)]
        own = parts[: len(owner)]
        exact = ((own["lo"] == own["hi"]) & (sizes == 0)) | ((sizes > 0) & (sizes < OUTSIDE))
        candidates = np.nonzero(exact)[0]
        valued, first = np.unique(owner[candidates], return_index=True)
        self._by_value(own, candidates[first], valued, rows.points)
        rest = np.setdiff1d(np.arange(count), valued, assume_unique=True)
        self.everyone = rest[lengths[rest] == 0]
        by_slot = rest[lengths[rest] > 0]
        slots = parts["slot"][starts[by_slot]]
        self.by_slot = {int(s): by_slot[slots == s] for s in np.unique(slots)}

    def _by_value(self, parts: Any, chosen: Ints, rows: Ints, points: NDArray[np.float64]) -> None:
        counts = parts["count"][chosen].astype(np.int64)
        alone = counts == 0
        at = ranges(parts["at"][chosen[~alone]].astype(np.int64), counts[~alone])
        values = np.concatenate((parts["lo"][chosen[alone]], points[at]))
        owners = np.concatenate((rows[alone], np.repeat(rows[~alone], counts[~alone])))
        slots = np.concatenate(
            (parts["slot"][chosen[alone]], np.repeat(parts["slot"][chosen[~alone]], counts[~alone]))
        )
        self.valued: dict[int, tuple[NDArray[np.float64], Ints]] = {}
        for slot in np.unique(slots).tolist():
            mine = np.nonzero(slots == slot)[0]
            order = mine[np.argsort(values[mine], kind="stable")]
            self.valued[slot] = (values[order], owners[order])

    def rows(self, row: NDArray[np.float64], rest: NDArray[np.int32]) -> Ints:
        """The rows that match."""
        found = [self.everyone]
        for slot in np.nonzero(~np.isnan(row))[0].tolist():
            group = self.by_slot.get(slot)
            if group is not None:
                found.append(group)
            valued = self.valued.get(slot)
            if valued is not None:
                values, owners = valued
                found.append(owners[values.searchsorted(row[slot]) : values.searchsorted(row[slot], "right")])
        return holds(self.view, np.unique(np.concatenate(found)), row, rest)


def match_row(
    matcher: Any, values: NDArray[np.float64], rest: NDArray[np.int32], event: Event
) -> NDArray[np.int32]:
    """The answer of either columnar matcher for one row, exact for every rest."""
    slots = len(matcher.slots)
    row = values[None, :slots].copy()
    link_presence(row, *matcher.slots.links())
    found: list[Any] = []
    for tier, (owners, checks, matching) in enumerate(_tiers(matcher, row[0], rest)):
        handles = owners[matching]
        live = handles >= 0
        handles, requested = (
            handles[live],
            checks[matching][live] if len(checks) else np.full(int(live.sum()), -1),
        )
        found.append(handles[requested < 0])
        waiting = [
            (h, c, at.TIER + tier * at.TIER_SIZE) for h, c in zip(handles, requested, strict=True) if c >= 0
        ]
        found.append(
            np.array(accepted(waiting, matcher.checks(), event, matcher.without, matcher.meter), np.int32)
        )
    return np.unique(np.concatenate(found)).astype(np.int32)


def _tiers(matcher: Any, row: NDArray[np.float64], rest: NDArray[np.int32]) -> Any:
    table, known = matcher.table, matcher.plain_index
    if known is None or known[0] is not table:
        known = matcher.plain_index = (table, PlainIndex(table.rows, len(table.rows)))
    yield table.rows.owners, table.rows.checks, known[1].rows(row, rest)
    for delta in matcher.deltas:
        count = len(delta.rows)
        if count:
            view = RowsView(delta.rows, count)
            yield delta.rows.owners, delta.rows.checks, holds(view, np.arange(count), row, rest)

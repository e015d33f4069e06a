"""The columnar matcher without Numba: the same rows and upkeep, walked by NumPy.

The same answers in plain NumPy, where Numba is absent.

Each frozen row is found by one of its parts: by value when one part is an equality or a
set, else with all rows that ask for that slot. Candidates are then checked together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.batches import event_of, is_record_batch, pieces, rows_of_batch, rows_of_events
from tidings.matching.columnar.freeze import ranges
from tidings.matching.columnar.matcher import ColumnarMatcher, Handles
from tidings.matching.columnar.merge import link_presence
from tidings.matching.columnar.programs import accepted
from tidings.matching.columnar.rows import OUTSIDE
from tidings.matching.matcher import Matches
from tidings.model.event import Event

# -- plain -------------------------------------------------------------------------------------

Ints = NDArray[np.int64]


class RowsView:
    """Rows of any tier, as `holds` needs them."""

    def __init__(self, rows: Any, count: int) -> None:
        self.starts = rows.starts[: count + 1].astype(np.int64)
        self.parts, self.points, self.rests = rows.parts, rows.points, rows.rests
        self.count = count


def holds(view: RowsView, rows: Ints, row: NDArray[np.float64], rest: NDArray[np.int32]) -> Ints:
    """The rows with parts that all hold."""
    place = 0
    while len(rows):
        more = view.starts[rows] + place < view.starts[rows + 1]
        if not more.any():
            break
        passing = np.ones(len(rows), bool)
        passing[more] = _parts_hold(view, view.starts[rows[more]] + place, row, rest)
        rows = rows[passing]
        place += 1
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


# -- numpy matcher -----------------------------------------------------------------------------


class NumpyMatcher(ColumnarMatcher):
    """Slower by far, equal in every answer."""

    compiled = False
    _index: tuple[Any, PlainIndex] | None = None

    def _find_walk(self) -> tuple[Callable[..., int], Callable[..., int]]:
        def never(*_: Any) -> int:
            raise AssertionError("matching is overridden below")

        return never, never

    def match(self, event: Event) -> Handles:
        self.learn([event])
        return self._match(*rows_of_events(self.packer(), [event]), 0, event)

    def _match(
        self, rows: NDArray[np.float64], rests: NDArray[np.int32], number: int, event: Event
    ) -> Handles:
        slots = len(self.slots)
        row = rows[number : number + 1, :slots].copy()
        link_presence(row, *self.slots.links())
        rest = rests[number] if len(rests) else np.zeros(slots + 1, np.int32)
        found: list[Any] = []
        for tier, (owners, checks, matching) in enumerate(self._tiers(row[0], rest)):
            handles = owners[matching]
            live = handles >= 0
            handles, asked = (
                handles[live],
                checks[matching][live] if len(checks) else np.full(int(live.sum()), -1),
            )
            found.append(handles[asked < 0])
            waiting = [
                (h, c, at.TIER + tier * at.TIER_SIZE) for h, c in zip(handles, asked, strict=True) if c >= 0
            ]
            found.append(np.array(accepted(waiting, self.checks(), event), np.int32))
        return np.unique(np.concatenate(found)).astype(np.int32)

    def _tiers(self, row: NDArray[np.float64], rest: NDArray[np.int32]) -> Any:
        if self._index is None or self._index[0] is not self.table:
            self._index = (self.table, PlainIndex(self.table.rows, len(self.table.rows)))
        yield self.table.rows.owners, self.table.rows.checks, self._index[1].rows(row, rest)
        for delta in self.deltas:
            count = len(delta.rows)
            if count:
                view = RowsView(delta.rows, count)
                yield delta.rows.owners, delta.rows.checks, holds(view, np.arange(count), row, rest)

    def match_batch(self, events: Any) -> Matches:
        offsets, handles = [0], []
        packer = self.packer()
        for piece in pieces(events):
            columnar = is_record_batch(piece)
            rows, rests = (rows_of_batch if columnar else rows_of_events)(packer, piece)
            for number in range(len(rows)):
                event = event_of(piece, number) if columnar else piece[number]
                handles.append(self._match(rows, rests, number, event))
                offsets.append(offsets[-1] + len(handles[-1]))
        together = np.concatenate(handles) if handles else np.zeros(0, np.int32)
        return Matches(np.array(offsets, np.int64), together)  # type: ignore[arg-type]

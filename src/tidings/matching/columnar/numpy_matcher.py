"""The columnar matcher without Numba: the same rows and upkeep, walked by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.asking import accepted
from tidings.matching.columnar.batch_walk import pieces
from tidings.matching.columnar.batches import event_of, is_record_batch, rows_of_batch, rows_of_events
from tidings.matching.columnar.matcher import ColumnarMatcher, Handles
from tidings.matching.columnar.plain import PlainIndex, RowsView, holds
from tidings.matching.columnar.upkeep import link_presence
from tidings.matching.matcher import Matches
from tidings.model.event import Event


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

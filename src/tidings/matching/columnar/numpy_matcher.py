"""The columnar matcher without Numba: the same rows and upkeep, walked by NumPy (`exact`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.batches import event_of, is_record_batch, pieces, rows_of_batch, rows_of_events
from tidings.matching.columnar.exact import match_row
from tidings.matching.columnar.matcher import ColumnarMatcher, Handles
from tidings.matching.matcher import Matches
from tidings.model.event import Event

# -- numpy matcher -----------------------------------------------------------------------------


class NumpyMatcher(ColumnarMatcher):
    """Slower by far, equal in every answer."""

    compiled = False

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
        rest = rests[number] if len(rests) else np.zeros(len(self.slots) + 1, np.int32)
        return match_row(self, rows[number], rest, event)

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

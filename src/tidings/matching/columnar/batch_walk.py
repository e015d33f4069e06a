"""Batches through the compiled walk: CSR offsets and handles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.asking import accepted, merged
from tidings.matching.columnar.batches import (
    ROWS_AT_ONCE,
    event_of,
    is_record_batch,
    rows_of_batch,
    rows_of_events,
)
from tidings.matching.matcher import Matches

if TYPE_CHECKING:
    from tidings.matching.columnar.matcher import ColumnarMatcher

ROOM = 1 << 16
LEARNT_OF_A_BATCH = 32


def match_batch(matcher: ColumnarMatcher, events: Any) -> Matches:
    offsets, handles = [np.zeros(1, np.int64)], []
    total = 0
    for piece in pieces(events):
        some_offsets, some = _match_piece(matcher, piece)
        offsets.append(some_offsets[1:] + total)
        handles.append(some)
        total += len(some)
    return Matches(np.concatenate(offsets), np.concatenate(handles) if handles else np.zeros(0, np.int32))  # type: ignore[arg-type]


def pieces(events: Any) -> Iterator[Any]:
    """Lists of events, or slices of a record batch."""
    if is_record_batch(events):
        for start in range(0, events.num_rows, ROWS_AT_ONCE):
            yield events.slice(start, ROWS_AT_ONCE)
    else:
        events = events if isinstance(events, list) else list(events)
        for start in range(0, len(events), ROWS_AT_ONCE):
            yield events[start : start + ROWS_AT_ONCE]


def _match_piece(matcher: ColumnarMatcher, piece: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    from tidings.matching.columnar.kernels import match_rows

    scratch, packer = matcher.ready()
    columnar = is_record_batch(piece)
    rows, rests = (rows_of_batch if columnar else rows_of_events)(packer, piece)
    _learn(matcher, piece, columnar)
    offsets = np.zeros(len(rows) + 1, np.int64)
    # as much room as the last batch took: growing costs a copy
    out, ask = np.empty(matcher.batch_room, np.int32), np.empty((ROOM, 4), np.int32)
    number = used = asked = 0
    while True:
        number, used, asked = match_rows(scratch.table, rows, rests, number, out, offsets, used, ask, asked)
        if number == len(rows):
            break
        # it stopped for want of room, and goes on with the same event
        out, ask = _larger(out), _larger(ask)
        rows[number] = (rows_of_batch if columnar else rows_of_events)(
            packer, _slice(piece, number, columnar)
        )[0][0]
    matcher.batch_room = max(matcher.batch_room, used + used // 4)
    out = out[:used]
    if not asked:
        return offsets, out
    return _with_asked(matcher, piece, columnar, offsets, out, ask[:asked])


def _larger(some: NDArray[Any]) -> NDArray[Any]:
    fresh = np.empty((4 * len(some), *some.shape[1:]), some.dtype)
    fresh[: len(some)] = some
    return fresh


def _slice(piece: Any, number: int, columnar: bool) -> Any:
    return piece.slice(number, 1) if columnar else piece[number : number + 1]


def _learn(matcher: ColumnarMatcher, piece: Any, columnar: bool) -> None:
    if columnar:
        if matcher.wants_sample():
            step = max(1, piece.num_rows // LEARNT_OF_A_BATCH)
            matcher.learn(event_of(piece, number) for number in range(0, piece.num_rows, step))
    else:
        matcher.learn(piece[:: max(1, len(piece) // LEARNT_OF_A_BATCH)])


def _with_asked(
    matcher: ColumnarMatcher,
    piece: Any,
    columnar: bool,
    offsets: NDArray[np.int64],
    out: NDArray[np.int32],
    ask: Any,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Ask Python about the rows that wait for it, event by event, and merge."""
    checks = matcher.checks()
    numbers, firsts = np.unique(ask[:, 0], return_index=True)
    ends = [*firsts[1:].tolist(), len(ask)]
    found: list[NDArray[np.int32]] = []
    counts = np.diff(offsets)
    last = 0
    for number, first, end in zip(numbers.tolist(), firsts.tolist(), ends, strict=True):
        event = event_of(piece, number) if columnar else piece[number]
        more = accepted(ask[first:end, 1:].tolist(), checks, event)
        if more:
            start, stop = int(offsets[number]), int(offsets[number + 1])
            both = merged(out[start:stop], more)
            found += [out[last:start], both]
            counts[number], last = len(both), stop
    found.append(out[last:])
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))), np.concatenate(found)

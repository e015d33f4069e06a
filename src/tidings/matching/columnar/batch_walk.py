"""Batches through the compiled walk: CSR offsets and handles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.batches import (
    ROWS_AT_ONCE,
    Matrix,
    Rests,
    compute_rows,
    event_of,
    is_record_batch,
    rows_of_batch,
    rows_of_events,
    texts_of_batch,
    texts_of_events,
)
from tidings.matching.columnar.pack import Packer
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
    from tidings.matching.columnar.box_kernels import match_box_rows
    from tidings.matching.columnar.kernels import match_rows

    scratch, packer = matcher.ready()
    columnar = is_record_batch(piece)
    rows, rests = (rows_of_batch if columnar else rows_of_events)(packer, piece)
    if len(packer.computed) < len(packer.programs):
        rests = _derived(scratch, packer, piece, rows, rests)
    _learn(matcher, piece, columnar)
    offsets = np.zeros(len(rows) + 1, np.int64)
    # as much room as the last batch took: growing costs a copy
    out, ask = np.empty(matcher.batch_room, np.int32), np.empty((ROOM, 4), np.int32)
    number = used = asked = 0
    boxes = matcher.table.boxes if _only_boxes(matcher) else None
    while True:
        if boxes is not None and not len(rests):
            number, used = match_box_rows(
                scratch.table, rows, scratch.rest, number, out, offsets, used, boxes.most
            )
        else:
            number, used, asked = match_rows(
                scratch.table, rows, rests, number, out, offsets, used, ask, asked
            )
        if number == len(rows):
            break
        # it stopped for want of room, and goes on with the same event
        out, ask = _larger(out), _larger(ask)
    matcher.batch_room = max(matcher.batch_room, used + used // 4)
    out = out[:used]
    if not asked:
        return offsets, out
    return _with_asked(matcher, scratch, piece, offsets, out, ask[:asked])


def _only_boxes(matcher: ColumnarMatcher) -> bool:
    """Is there nothing but rectangles, each the whole of the filter of its row's number?"""
    table = matcher.table
    return (
        table.boxes is not None
        and table.plain
        and not table.removed
        and not table.cell_at[-1]
        and not any(len(delta.rows) for delta in matcher.deltas)
    )


def _derived(scratch: Any, packer: Packer, piece: Any, rows: Matrix, rests: Rests) -> Rests:
    """Let the machine compute what it can, and Python the rows where it stopped."""
    from tidings.matching.columnar.program_kernels import derive_rows

    failed = np.empty(len(rows), np.int64)
    count = derive_rows(scratch.table, rows, failed)
    return compute_rows(packer, piece, failed[:count].tolist(), rows, rests) if count else rests


def _larger(some: NDArray[Any]) -> NDArray[Any]:
    fresh = np.empty((4 * len(some), *some.shape[1:]), some.dtype)
    fresh[: len(some)] = some
    return fresh


def _learn(matcher: ColumnarMatcher, piece: Any, columnar: bool) -> None:
    if columnar:
        if matcher.wants_sample():
            step = max(1, piece.num_rows // LEARNT_OF_A_BATCH)
            matcher.learn(event_of(piece, number) for number in range(0, piece.num_rows, step))
    else:
        matcher.learn(piece[:: max(1, len(piece) // LEARNT_OF_A_BATCH)])


def _with_asked(
    matcher: ColumnarMatcher,
    scratch: Any,
    piece: Any,
    offsets: NDArray[np.int64],
    out: NDArray[np.int32],
    ask: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Settle the rows that wait for a check, and merge them with what was found."""
    from tidings.matching.columnar.question_kernels import PYTHON, answer_rows, merge_rows

    attributes = [attribute for _, attribute in scratch.asked_texts]
    texts_of = texts_of_batch if is_record_batch(piece) else texts_of_events
    addresses, sizes, _kept = texts_of(piece, attributes)
    verdicts = np.empty(len(ask), np.uint8)
    answer_rows(scratch.table, ask, addresses, sizes, verdicts)
    left = np.nonzero(verdicts == PYTHON)[0]
    if len(left):
        verdicts[left] = _ask_python(matcher, piece, ask[left])
    fresh, fresh_offsets = np.empty(len(out) + len(ask), np.int32), np.zeros(len(offsets), np.int64)
    used = merge_rows(scratch.table, offsets, out, ask, verdicts, fresh_offsets, fresh)
    return fresh_offsets, fresh[:used]


def _ask_python(matcher: ColumnarMatcher, piece: Any, ask: NDArray[np.int32]) -> list[bool]:
    """What only Python can say of (event, handle, check, tier): each question once an event."""
    checks = matcher.checks()
    columnar = is_record_batch(piece)
    answers: list[bool] = []
    event: Any = None
    last, known = -1, dict[tuple[int, int], bool]()
    for number, _, check, tier in ask.tolist():
        if number != last:
            event, last, known = event_of(piece, number) if columnar else piece[number], number, {}
        if (tier, check) not in known:
            known[tier, check] = checks[tier].passes(check, event)
        answers.append(known[tier, check])
    return answers

"""Batches: many events, or the columns of an Arrow record batch, as a matrix of rows.

Columns are attributes; members of struct columns are nested attributes (`venue.city`). A
null and a NaN are absent. A column that no filter asks for is not looked at; one of a type
that is no attribute value is an error, if some filter asks for it.

Batches through the compiled walk: CSR offsets and handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidings.errors import EventError
from tidings.matching.columnar.layout import EXACT_DOUBLES, MOST_BETWEEN
from tidings.matching.columnar.merge import Delta
from tidings.matching.columnar.parts import AttributePlan, Packer, exact_number, exact_time
from tidings.matching.columnar.programs import A_LIST, Program, no_text, result_of, text_of
from tidings.matching.columnar.slots import Strings, encoded, has_kernels, places_of
from tidings.matching.columnar.table import FrozenTable
from tidings.matching.matcher import Matches
from tidings.model.body import HAS_LIST, seen_value
from tidings.model.event import LINEAGE, Event, row_event


class Batched(Protocol):
    """The matcher that matches a batch: a table, its deltas, and what it learns from events."""

    table: FrozenTable
    deltas: list[Delta]
    batch_room: int

    def ready(self) -> tuple[Any, Packer]: ...

    def checks(self) -> Any: ...

    def wants_sample(self) -> bool: ...

    def learn(self, events: Iterable[Event]) -> None: ...


# -- batches -----------------------------------------------------------------------------------

ROWS_AT_ONCE = 4096

Matrix = NDArray[np.float64]
Rests = NDArray[np.int32]


def rows_of_events(packer: Packer, events: Sequence[Event]) -> tuple[Matrix, Rests]:
    """A row for each event; the rests have no rows if no event needs one."""
    width = len(packer.blank)
    matrix = np.empty((len(events), width))
    row = packer.blank[:]
    view = np.frombuffer(row)
    exactly: dict[int, dict[int, int]] = {}
    for number, event in enumerate(events):
        if not packer.pack(event, row):
            exactly[number] = packer.pack_all(event, row)
        matrix[number] = view
    large = (np.abs(matrix) >= EXACT_DOUBLES) & np.isfinite(matrix)
    for number in np.nonzero(large.any(axis=1))[0].tolist():
        if number not in exactly:
            exactly[number] = packer.pack_all(events[number], row)
    rests = np.zeros((len(events) if any(exactly.values()) else 0, width), np.int32)
    for number, found in exactly.items():
        for slot, rest in found.items():
            rests[number, slot] = rest
    return matrix, rests


def is_record_batch(events: Any) -> bool:
    return hasattr(events, "schema") and hasattr(events, "num_rows")


def rows_of_batch(packer: Packer, batch: Any) -> tuple[Matrix, Rests]:
    """A row for each row of an Arrow record batch."""
    width = len(packer.blank)
    matrix = np.empty((batch.num_rows, width))
    matrix[:] = packer.blank
    rests = np.zeros((batch.num_rows, width), np.int32)
    needed = False
    for name, column in _columns(batch):
        plan = packer.plans.get(name)
        if plan is not None:
            needed = _fill(plan, name, column, matrix, rests) or needed
        elif name == LINEAGE:
            _fill_lineage(packer, column, matrix)
    if HAS_LIST in packer.plans:
        for name, column in _columns(batch):
            if name != LINEAGE and _is_list(column.type):
                matrix[np.asarray(column.is_valid()), packer.plans[HAS_LIST].present] = 0.0
    if packer.computed:
        needed = _compute(packer.computed, batch, range(batch.num_rows), matrix, rests) or needed
    return matrix, rests if needed else rests[:0]


def compute_rows(packer: Packer, piece: Any, numbers: list[int], matrix: Matrix, rests: Rests) -> Rests:
    """Every derived attribute of some rows, which the machine would not compute; their rests."""
    if not len(rests):
        rests = np.zeros((len(matrix), len(packer.blank)), np.int32)
    if is_record_batch(piece):
        _compute(packer.programs, piece, numbers, matrix, rests)
        return rests
    row = packer.blank[:]
    for number in numbers:
        found = packer.pack_all(piece[number], row)
        matrix[number] = row
        for slot, rest in found.items():
            rests[number, slot] = rest
    return rests


def _compute(
    programs: list[tuple[Program, AttributePlan]],
    batch: Any,
    numbers: Sequence[int],
    matrix: Matrix,
    rests: Rests,
) -> bool:
    """Derived attributes, row by row where their inputs are there."""
    needed = False
    columns = dict(_columns(batch))
    taken = None if len(numbers) == batch.num_rows else list(numbers)
    for program, plan in programs:
        if program.remembered is not None and taken is None and _is_text(columns.get(program.inputs[0])):
            needed = _compute_texts(program, plan, columns[program.inputs[0]], matrix, rests) or needed
            continue
        stored = {
            name: (columns[name] if taken is None else columns[name].take(taken)).to_pylist()
            for name in program.inputs
            if name in columns
        }
        if program.direct and len(stored) < len(program.inputs):
            continue
        for position, number in enumerate(numbers):
            view = {n: seen for n, v in stored.items() if (seen := seen_value(v[position])) is not None}
            if program.direct and len(view) < len(stored):
                continue
            value = result_of(program, view)
            if value is not None:
                slot, (matrix[number, slot], rests[number, slot]) = _placed(plan, value)
                needed = needed or rests[number, slot] != 0
    return needed


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    return column is not None and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _compute_texts(program: Program, plan: AttributePlan, column: Any, matrix: Matrix, rests: Rests) -> bool:
    """A function of one text: computed once for each different text."""
    coded = column.dictionary_encode()
    values = [result_of(program, {program.inputs[0]: text}) for text in coded.dictionary.to_pylist()]
    placed = [(-1, (0.0, 0)) if value is None else _placed(plan, value) for value in values]
    slots = np.array([slot for slot, _ in placed], np.int64)
    numbers = np.array([number for _, number in placed], np.float64).reshape(-1, 2)
    stored = np.nonzero(np.asarray(column.is_valid()))[0]
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)[stored]
    known = slots[codes] >= 0 if len(codes) else np.zeros(0, bool)
    stored, codes = stored[known], codes[known]
    matrix[stored, slots[codes]] = numbers[codes, 0]
    rests[stored, slots[codes]] = numbers[codes, 1]
    return bool(len(numbers)) and bool(numbers[:, 1].any())


def _placed(plan: AttributePlan, value: Any) -> tuple[int, tuple[float, int]]:
    if type(value) is str:
        return plan.text, plan.strings.find(value)
    if type(value) is datetime:
        return plan.time, exact_time(value)
    return (plan.flag if type(value) is bool else plan.number), exact_number(value)


def _columns(batch: Any) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    waiting = [(field.name, batch.column(i)) for i, field in enumerate(batch.schema)]
    while waiting:
        name, column = waiting.pop(0)
        if pa.types.is_struct(column.type):
            members = column.flatten()  # nulls of the struct become nulls of its members
            waiting[:0] = [(f"{name}.{column.type[i].name}", member) for i, member in enumerate(members)]
        elif pa.types.is_timestamp(column.type) and column.type.tz not in (None, "UTC"):
            yield name, column.cast(pa.timestamp(column.type.unit, "UTC"))  # as events have it
        else:
            yield name, column


def _fill(plan: AttributePlan, name: str, column: Any, matrix: Matrix, rests: Rests) -> bool:
    """Write one column; True when some value needs a rest."""
    import pyarrow as pa

    kind = column.type
    valid = np.asarray(column.is_valid())
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _fill_texts(plan, column, valid, matrix, rests)
    if pa.types.is_null(kind):
        return False
    if pa.types.is_boolean(kind):
        position, values = (
            plan.flag,
            column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.float64),
        )
    elif pa.types.is_floating(kind):
        position, values = (
            plan.number,
            column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64),
        )
    elif pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        position = plan.number if pa.types.is_integer(kind) else plan.time
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return _fill_integers(
            position, column.fill_null(0).to_numpy(zero_copy_only=False), valid, plan, matrix, rests
        )
    else:
        return _fill_others(plan, name, column, valid, matrix, rests)
    _scatter(matrix, position, valid, values)
    return False


def _fill_others(
    plan: AttributePlan, name: str, column: Any, valid: NDArray[Any], matrix: Matrix, rests: Rests
) -> bool:
    """Decimals, dates, times of day; lists and bytes, which are only there or not."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date(kind):
        days = column.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _fill_integers(plan.time, days, valid, plan, matrix, rests)
    if pa.types.is_decimal(kind) or pa.types.is_time(kind):
        needed = False
        for number in np.nonzero(valid)[0].tolist():
            seen = seen_value(column[number].as_py())
            slot, (matrix[number, slot], rests[number, slot]) = _placed(plan, seen)
            needed = needed or rests[number, slot] != 0
        return needed
    if not _is_opaque(kind):
        raise EventError(
            f"column {name!r} is of type {kind}, which is no attribute value",
            hint="cast it to a number, a string, a bool, a timestamp, a date, a list or binary",
        )
    matrix[valid, plan.present] = 0.0
    return False


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_opaque(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        _is_list(kind) or types.is_binary(kind) or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_duration(kind)
    )  # fmt: skip


def _scatter(matrix: Matrix, position: int, valid: NDArray[Any], values: NDArray[Any]) -> None:
    """Write the valid values of a column to one place of each row; NaN is no value."""
    if has_kernels():
        from tidings.matching.columnar.row_kernels import scatter

        scatter(matrix, position, valid, values)
        return
    valid = valid & ~np.isnan(values)
    matrix[valid, position] = values[valid]


def _fill_integers(
    position: int,
    values: NDArray[Any],
    valid: NDArray[Any],
    plan: AttributePlan,
    matrix: Matrix,
    rests: Rests,
) -> bool:
    doubles = values.astype(np.float64)
    _scatter(matrix, position, valid, doubles)
    large = np.nonzero(valid & (np.abs(doubles) >= EXACT_DOUBLES))[0]
    if position == plan.present:
        return False
    for number in large.tolist():
        rests[number, position] = 2 * (int(values[number]) - int(doubles[number]))
    return len(large) > 0


def _fill_texts(plan: AttributePlan, column: Any, valid: NDArray[Any], matrix: Matrix, rests: Rests) -> bool:
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if not (pa.types.is_string(coded.type.value_type) or pa.types.is_large_string(coded.type.value_type)):
        return _fill(plan, "", coded.dictionary_decode(), matrix, rests)
    positions, ids = _text_places(plan.strings, coded.dictionary)
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    if not valid.any():
        return False
    if has_kernels():
        from tidings.matching.columnar.row_kernels import scatter_coded

        scatter_coded(matrix, plan.text, valid, codes, positions)
    else:
        matrix[valid, plan.text] = positions[codes[valid]]
    if ids is None or plan.text == plan.present:
        return False
    rests[valid, plan.text] = ids[codes[valid]]
    return True


def _text_places(strings: Strings, texts: Any) -> tuple[Any, NDArray[np.int32] | None]:
    """Positions of an array of texts, and their ids when some are extras."""
    found = _bytes_of(texts)
    positions = None if found is None else places_of(strings.texts, *found)
    if positions is None:
        positions = np.array([strings.position(text) for text in texts.to_pylist()], np.float64)
    if not strings.extra_ids:
        return positions, None
    ids = np.zeros(len(positions), np.int32)
    unnamed = np.nonzero(np.mod(positions, 2) == 1)[0]
    for index in unnamed.tolist():
        ids[index] = strings.extra_ids.get(texts[index].as_py(), 0)
    return positions, ids if ids.any() else None


def _fill_lineage(packer: Packer, column: Any, matrix: Matrix) -> None:
    import pyarrow.compute as pc

    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    if packer.typed >= 0:
        matrix[sizes > 0, packer.typed] = 0.0
    coded = column.flatten().dictionary_encode()
    known = [packer.members.get(ancestor, -1) for ancestor in coded.dictionary.to_pylist()]
    positions = np.array([*known, -1], np.int64)[
        coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    ]
    numbers = np.repeat(np.arange(len(sizes)), sizes)[positions >= 0]
    matrix[numbers, positions[positions >= 0]] = 0.0


def texts_of_batch(batch: Any, attributes: Sequence[str]) -> tuple[Any, Any, Any]:
    """Addresses and lengths (-1: none, `A_LIST`) of the texts of some columns, by attribute and row.

    The third keeps what the addresses point into.
    """
    addresses = np.zeros((len(attributes), batch.num_rows), np.int64)
    sizes = np.full((len(attributes), batch.num_rows), -1, np.int64)
    kept = []
    for name, column in _columns(batch):
        if name in attributes:
            found = _bytes_of(column)
            if found is not None:
                position = attributes.index(name)
                addresses[position], sizes[position] = found
                kept.append(column)
        if _is_list(column.type):
            below = [n for n, each in enumerate(attributes) if each == name or each.startswith(f"{name}.")]
            for position in below:
                sizes[position][np.asarray(column.is_valid())] = A_LIST
    return addresses, sizes, kept


def _bytes_of(column: Any) -> tuple[Any, Any] | None:
    """Addresses and lengths of the texts of one column; None when it holds no texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        found = _bytes_of(column.dictionary)
        if found is None or not len(column.dictionary):
            return None
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        valid = np.asarray(column.is_valid())
        return found[0][codes], np.where(valid, found[1][codes], -1)
    large = pa.types.is_large_string(column.type)
    if not large and not pa.types.is_string(column.type):
        return None
    _, positions, data = column.buffers()
    at = np.frombuffer(positions, np.int64 if large else np.int32)[column.offset :][: len(column) + 1]
    at = at.astype(np.int64)
    start = data.address if data is not None else 0
    return start + at[:-1], np.where(np.asarray(column.is_valid()), np.diff(at), -1)


def texts_of_events(events: Sequence[Event], attributes: Sequence[str]) -> tuple[Any, Any, Any]:
    """The same for events."""
    addresses = np.zeros((len(attributes), len(events)), np.int64)
    sizes = np.full((len(attributes), len(events)), -1, np.int64)
    kept = []
    for position, name in enumerate(attributes):
        texts = [text_of(event, name) for event in events]
        stored = [b"" if text is None else encoded(text) for text in texts]
        data = np.frombuffer(b"".join(stored) or b"-", np.uint8)
        lengths = np.array([len(some) for some in stored], np.int64)
        addresses[position] = data.ctypes.data + np.cumsum(lengths) - lengths
        absent = [no_text(event, name) if event.rich else -1 for event in events]
        sizes[position] = np.where([text is None for text in texts], absent, lengths)
        kept.append(data)
    return addresses, sizes, kept


def event_of(batch: Any, number: int) -> Event:
    """One row as an event, for what must be asked of Python."""
    values = {name: column[number].as_py() for name, column in _columns(batch)}
    lineage = values.pop(LINEAGE, None) or ()
    known = {name: value for name, value in values.items() if value is not None}
    own = {name: known.pop(name) for name in ("topic", "time") if name in known}
    kind = known.pop("type", None)
    source, id = str(known.pop("source", "")), str(known.pop("id", ""))
    return row_event(known, source=source, id=id, type=tuple(lineage) or ((kind,) if kind else ()), **own)


# -- batch walk --------------------------------------------------------------------------------

ROOM = 1 << 16
LEARNT_OF_A_BATCH = 32


def match_batch(matcher: Batched, events: Any) -> Matches:
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


def _match_piece(matcher: Batched, piece: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    from tidings.matching.columnar.walk_kernels import match_box_rows, match_rows

    scratch, packer = matcher.ready()
    columnar = is_record_batch(piece)
    rows, rests = (rows_of_batch if columnar else rows_of_events)(packer, piece)
    if len(packer.computed) < len(packer.programs):
        rests = _derived(scratch, packer, piece, rows, rests)
    many = np.nonzero(_between(packer, rests) > MOST_BETWEEN)[0]
    if len(many):
        return _one_by_one(matcher, piece, many)
    _learn(matcher, piece, columnar)
    offsets = np.zeros(len(rows) + 1, np.int64)
    # as much room as the last batch took: growing costs a copy
    out, ask = np.empty(matcher.batch_room, np.int32), np.empty((ROOM, 4), np.int32)
    number = used = requested = 0
    boxes = matcher.table.boxes if _only_boxes(matcher) else None
    while True:
        if boxes is not None and not len(rests):
            number, used = match_box_rows(
                scratch.table, rows, scratch.rest, number, out, offsets, used, boxes.most
            )
        else:
            number, used, requested = match_rows(
                scratch.table, rows, rests, number, out, offsets, used, ask, requested
            )
        if number == len(rows):
            break
        # it stopped for want of room, and goes on with the same event
        out, ask = _larger(out), _larger(ask)
    matcher.batch_room = max(matcher.batch_room, used + used // 4)
    out = out[:used]
    if not requested:
        return offsets, out
    return _with_asked(matcher, scratch, piece, offsets, out, ask[:requested])


def _between(packer: Packer, rests: Rests) -> NDArray[np.int64]:
    """Numbers between neighbouring doubles, by row."""
    return np.asarray((rests[:, sorted(packer.numbers)] & 1).sum(axis=1))


def _one_by_one(
    matcher: Any, piece: Any, alone: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """A piece in which some rows are matched by themselves, and the others together."""
    columnar = is_record_batch(piece)
    single = set(alone.tolist())
    others = [number for number in range(piece.num_rows if columnar else len(piece)) if number not in single]
    rest = piece.take(others) if columnar else [piece[number] for number in others]
    found: dict[int, Any] = {}
    if others:
        offsets, handles = _match_piece(matcher, rest)
        found = {number: handles[offsets[i] : offsets[i + 1]] for i, number in enumerate(others)}
    for number in single:
        found[number] = matcher.match(event_of(piece, number) if columnar else piece[number])
    parts = [found[number] for number in range(len(found))]
    together = np.concatenate(parts).astype(np.int32)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum([len(part) for part in parts]))), together


def _only_boxes(matcher: Batched) -> bool:
    """Does the table hold only rectangles, each the whole of the filter of its row's number?"""
    table = matcher.table
    return (
        table.boxes is not None
        and table.plain
        and not table.removed
        and not table.cell_at[-1]
        and not any(len(delta.rows) for delta in matcher.deltas)
    )


def _derived(scratch: Any, packer: Packer, piece: Any, rows: Matrix, rests: Rests) -> Rests:
    """Let the machine compute what it can, and Python the rows where it stopped. The machine knows doubles
    alone: rows with a number between two of them are Python's too."""
    from tidings.matching.columnar.row_kernels import derive_rows

    failed = np.empty(len(rows), np.int64)
    count = derive_rows(scratch.table, rows, failed)
    between = np.nonzero(_between(packer, rests))[0]
    for program, _ in packer.programs:
        if program.steps is not None:
            rows[between, program.target] = np.nan
    left = np.union1d(failed[:count], between)
    return compute_rows(packer, piece, left.tolist(), rows, rests) if len(left) else rests


def _larger(some: NDArray[Any]) -> NDArray[Any]:
    fresh = np.empty((4 * len(some), *some.shape[1:]), some.dtype)
    fresh[: len(some)] = some
    return fresh


def _learn(matcher: Batched, piece: Any, columnar: bool) -> None:
    if columnar:
        if matcher.wants_sample():
            step = max(1, piece.num_rows // LEARNT_OF_A_BATCH)
            matcher.learn(event_of(piece, number) for number in range(0, piece.num_rows, step))
    else:
        matcher.learn(piece[:: max(1, len(piece) // LEARNT_OF_A_BATCH)])


def _with_asked(
    matcher: Batched,
    scratch: Any,
    piece: Any,
    offsets: NDArray[np.int64],
    out: NDArray[np.int32],
    ask: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Settle the rows that wait for a check, and merge them with what was found."""
    from tidings.matching.columnar.row_kernels import PYTHON, answer_rows, merge_rows

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


def _ask_python(matcher: Batched, piece: Any, ask: NDArray[np.int32]) -> list[bool]:
    """Python's answers to checks (event, handle, check, tier); each question is asked once an event."""
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

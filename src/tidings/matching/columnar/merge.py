"""Upkeep: table and delta become the next table, in small steps, while both still serve.

Changes that come meanwhile are noted in a journal and replayed on the next table before
the swap; so the newer delta need not be translated from old dictionaries to new ones.

The delta: filters that came after the table was frozen.

It uses the table's edges and dictionaries with cells of its own, so that an event is encoded
once for both. Each cell is a growing block of one heap of entries. Rows outside the table's geometry
(a new attribute) are checked for every event until the next freeze.

Merging: a delta's rows join the table under the table's own edges, cells and dictionaries.

A merge costs what the delta holds and one pass over the entries, where a freeze computes everything
anew. Rows keep their numbers: those of the delta are appended, and dead ones stay until the next
freeze, though their entries go. Since edges and dictionaries stay, the newer delta stays valid.
A freeze is better when the events or the texts have moved away from the table, or when much is dead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout
from tidings.matching.columnar.freeze import (
    ROWS_IN_STEP,
    RUN,
    RowSource,
    SlotEdges,
    SlotGrid,
    extended_geometry,
    freeze,
    make_grid,
)
from tidings.matching.columnar.layout import PART
from tidings.matching.columnar.parts import ConstraintParts, Packer
from tidings.matching.columnar.programs import Checks
from tidings.matching.columnar.rows import FilterRow, FilterRows, FrozenRows, rows_of
from tidings.matching.columnar.slots import Strings
from tidings.matching.columnar.table import MOST_CELLS_A_ROW, PRICE, FrozenTable, make_table
from tidings.model.event import Event
from tidings.model.filter import Filter

# -- delta -------------------------------------------------------------------------------------

LEAST_ROOM = 1 << 14
FIRST_ROWS = 64
HEAP_OF_A_ROW = 32
ROWS_BITS = 12  # a filter has at most 256 conjunctions of at most 8 alternatives


class Delta:
    """Growing rows, and (with Numba) a grid over them."""

    def __init__(self, edges: SlotEdges | None, room: int) -> None:
        self.rows = FilterRows(FIRST_ROWS)
        self.homes: dict[int, int] = {}  # handle -> first row and how many, in one number
        self.removed = 0
        self.linear = 0  # rows that every event looks at
        self.edges = edges
        self.grid: SlotGrid | None = None
        self.version = 0
        if edges is not None and room > LEAST_ROOM:
            self._make_grid(edges, room)  # now, since it takes longer than an `add` may

    def _make_grid(self, edges: SlotEdges, room: int) -> None:
        grid = make_grid(edges, room, 4 * room)
        cell, last = 1, len(grid.sizes) - 1
        for a in range(last):
            for b in range(a + 1, last + 1):
                grid.pairs[a, b] = cell
                cell += int(grid.sizes[a] * grid.sizes[b])
        for slot in np.nonzero((grid.access < 0) & (edges.counts > 0))[0].tolist():
            grid.singles[slot] = cell
            cell += edges.buckets(slot)
        grid.cells = cell
        self.grid = grid
        self.blocks = np.zeros((cell, 4), np.int32)  # start, length, room, -
        # far more than is likely to be used: untouched memory is free, and moving it would
        self.heap = np.empty((HEAP_OF_A_ROW * room, 2), np.int64)
        self.heap_used = np.zeros(1, np.int64)
        self._reach = 0
        self._table = np.zeros(32, np.int64)
        self._address = 0
        self._seen = -1
        from tidings.matching.columnar.row_kernels import insert

        self._insert = insert

    def __len__(self) -> int:
        return len(self.homes)

    @property
    def shape(self) -> tuple[int, int, int, bool]:
        """Changes when a walk must look at its addresses again."""
        rows = self.rows
        return self.version, rows.version, rows.table.questions.version, len(rows) > 0

    def add(self, rows: list[FilterRow], handle: int, text: NDArray[np.uint8]) -> None:
        first = len(self.rows)
        if self.grid is None and self.edges is not None:
            self._make_grid(self.edges, LEAST_ROOM)
        for row in rows:
            number = self.rows.append(row, handle)
            if self.grid is not None:
                self._file(number, text)
        self.homes[handle] = first << ROWS_BITS | len(rows)

    def remove(self, handle: int) -> None:
        home = self.homes.pop(handle)
        first, count = home >> ROWS_BITS, home & (1 << ROWS_BITS) - 1
        for row in range(first, first + count):
            self.rows.owners[row] = -1
            self.removed += 1

    def _file(self, row: int, text: NDArray[np.uint8]) -> None:
        if self._seen != self.rows.version or len(text) > self._reach:
            self._refresh(text)
        while (filed := self._insert(self._address, row)) < 0:
            larger = np.empty((2 * len(self.heap), 2), np.int64)
            larger[: len(self.heap)] = self.heap
            self.heap = larger
            self._refresh(text)
        self.linear += filed == 0

    def _refresh(self, text: NDArray[np.uint8]) -> None:
        """Addresses anew, and slots that the geometry does not know as slots without edges."""
        edges, grid, rows = self.edges, self.grid, self.rows
        assert edges is not None
        assert grid is not None
        slots = len(text)
        self._reach = slots
        wide = extended_geometry(edges, grid, slots)
        may_alone = (wide.singles >= 0).astype(np.uint8)
        arrays = (
            rows.starts, rows.parts, rows.points, rows.rests, text, wide.edges_at, edges.edges,
            wide.shares_at,
            wide.shares, wide.access, grid.lut_at, grid.lut, grid.first_at, grid.first, may_alone, grid.sizes,
            grid.pairs, wide.singles,
            self.blocks, self.heap, self.heap_used,
        )  # fmt: skip
        self._table[: len(arrays)] = [a.ctypes.data for a in arrays]
        self._table[21:24] = (len(grid.sizes), len(self.heap), slots)
        self._address = self._table.ctypes.data
        self._kept: Any = arrays
        self._seen = rows.version
        self.version += 1

    def addresses(self) -> list[tuple[int, int]]:
        """Addresses and values of this delta for a walk, as places of a tier."""
        rows, grid = self.rows, self.grid
        assert grid is not None
        return [
            (layout.GROWING, 1), (layout.STARTS, rows.starts.ctypes.data),
            (layout.PARTS, rows.parts.ctypes.data),
            (layout.POINTS, rows.points.ctypes.data), (layout.RESTS, rows.rests.ctypes.data),
            (layout.OWNERS, rows.owners.ctypes.data), (layout.CHECKS, rows.checks.ctypes.data),
            (layout.LUT_AT, grid.lut_at.ctypes.data), (layout.LUT, grid.lut.ctypes.data),
            (layout.SIZES, grid.sizes.ctypes.data), (layout.PAIRS, grid.pairs.ctypes.data),
            (layout.SINGLES, grid.singles.ctypes.data), (layout.SINGLES_SIZE, len(grid.singles)),
            (layout.CELLS, self.blocks.ctypes.data), (layout.ENTRIES, self.heap.ctypes.data),
            (layout.PLAIN, 0), (layout.NO_SECOND, len(grid.sizes) - 1),
        ]  # fmt: skip

    def keep(self) -> list[Any]:
        """The arrays that those addresses point into."""
        rows, grid = self.rows, self.grid
        return [
            rows.starts,
            rows.parts,
            rows.points,
            rows.rests,
            rows.owners,
            rows.checks,
            grid,
            self.blocks,
            self.heap,
        ]

    @property
    def nbytes(self) -> int:
        size = self.rows.nbytes
        if self.grid is not None:
            size += self.blocks.nbytes + int(self.heap_used[0]) * 16
        return size


# -- merge -------------------------------------------------------------------------------------

ROOM = 1.5  # of the rows, when they are copied to where they can grow
CELLS_IN_STEP = 8192
_BY_ROW = ("owners", "checks", "lasting")
_GROWING = ("starts", "parts", "points", "rests", *_BY_ROW)


def merged_table(
    table: FrozenTable, delta: Delta, text: NDArray[np.uint8]
) -> Generator[None, None, FrozenTable]:
    """The table with the delta's rows. Removals that come meanwhile are taken over at the end."""
    rows, count, more = table.rows, len(table.rows), len(delta.rows)
    stored = yield from _with_room(table, delta)
    yield from _append(stored, rows, delta, table)
    fresh = _views(stored, _lengths(table), _sizes(delta))
    owners = np.concatenate((rows.owners, delta.rows.owners[:more]))  # as of now: counts must not change
    yield
    purged = int((owners < 0).sum())
    unsettled = int((delta.rows.checks[:more] != delta.rows.lasting[:more]).sum())
    yield
    cell_at, entries, linear = yield from _entries(table, fresh, text, owners, count)
    result = replace(table, rows=fresh, cell_at=cell_at, entries=entries, growing=stored, plain=False)
    result.linear, result.merged = table.linear + linear, table.merged + more
    result.purged, result.unsettled = purged, table.unsettled + unsettled
    _take_over(result, rows, delta, count)
    return result


def _take_over(result: FrozenTable, rows: FrozenRows, delta: Delta, count: int) -> None:
    """Final owners: rows that were removed meanwhile are removed here too."""
    fresh = result.rows.owners
    if fresh.base is not rows.owners.base:
        fresh[:count] = rows.owners
    fresh[count:] = delta.rows.owners[: len(fresh) - count]
    result.removed += delta.removed
    live = np.nonzero(fresh[count:] >= 0)[0][::-1]  # backwards: the first row of each handle stays
    handles = fresh[count:][live]
    if len(handles) and int(handles.max()) >= len(result.homes):
        homes = np.full(2 * int(handles.max()) + 1, -1, np.int32)
        homes[: len(result.homes)] = result.homes
        result.homes = homes
    result.homes[handles] = live + count


def _views(stored: dict[str, Any], sizes: dict[str, int], more: dict[str, int]) -> FrozenRows:
    rows = FrozenRows(**{name: stored[name][: sizes[name] + more[name]] for name in _GROWING})
    rows.points_used = sizes["points"] + more["points"]
    return rows


def _sizes(delta: Delta) -> dict[str, int]:
    used = delta.rows.used
    more = dict.fromkeys(_GROWING, len(delta.rows))
    return more | {"parts": used[0], "points": used[1], "rests": used[1]}


def _with_room(table: FrozenTable, delta: Delta) -> Generator[None, None, dict[str, Any]]:
    """The table's row arrays where the delta's fit behind them."""
    more, rows, stored = _sizes(delta), table.rows, dict(table.growing)
    lengths = _lengths(table)
    for name in _GROWING:
        least = lengths[name] + more[name] + 2
        if name in stored and len(stored[name]) >= least:
            continue
        old = getattr(rows, name)
        stored[name] = np.empty(int(ROOM * least), old.dtype)
        length = min(len(old), lengths[name])
        for at in range(0, length, RUN):
            stored[name][at : min(length, at + RUN)] = old[at : min(length, at + RUN)]
            yield
        if name in _BY_ROW and length < lengths[name]:
            stored[name][: lengths[name]] = -1  # no row had a check so far
    return stored


def _lengths(table: FrozenTable) -> dict[str, int]:
    rows = table.rows
    count, parts = len(rows), int(rows.starts[len(rows)])
    return dict.fromkeys(_GROWING, count) | {
        "starts": count + 1, "parts": parts, "points": rows.points_used, "rests": rows.points_used,
    }  # fmt: skip


def _append(
    stored: dict[str, Any], rows: FrozenRows, delta: Delta, table: FrozenTable
) -> Generator[None, None, None]:
    count, more, size = len(rows), len(delta.rows), _lengths(table)
    own, (parts, points) = delta.rows, delta.rows.used
    stored["starts"][count + 1 : count + more + 1] = own.starts[1 : more + 1] + size["parts"]
    for name in ("points", "rests"):
        stored[name][size[name] : size[name] + points] = getattr(own, name)[:points]
    yield
    for at in range(0, parts, RUN):
        some = own.parts[at : min(parts, at + RUN)].copy()
        some["at"][some["count"] > 0] += size["points"]
        stored["parts"][size["parts"] + at : size["parts"] + at + len(some)] = some
        yield
    numbers = np.array([*(table.checks.number(check) for check in own.table.all), -1], np.int32)
    stored["checks"][count : count + more] = numbers[own.checks[:more]]
    stored["lasting"][count : count + more] = numbers[own.lasting[:more]]
    stored["owners"][count : count + more] = own.owners[:more]
    yield


def _entries(
    table: FrozenTable, rows: FrozenRows, text: NDArray[np.uint8], owners: NDArray[np.int32], count: int
) -> Generator[None, None, tuple[Any, Any, int]]:
    """Cells without the dead and with the rows from `count` on; how many rows every event looks at."""
    from tidings.matching.columnar.row_kernels import copy_cells, count_rows, fill_rows, lay_out_cells

    edges, grid = table.edges, table.grid
    assert edges is not None
    assert grid is not None
    wide = extended_geometry(edges, grid, len(text))
    common = (
        rows.starts, rows.parts, rows.points, rows.rests, text, wide.edges_at, edges.edges, wide.shares_at,
        wide.shares, wide.access, grid.lut_at, grid.lut, grid.first_at, grid.first,
    )  # fmt: skip
    firsts, seconds = yield from _choose(common, wide.singles, grid, rows, count)
    filing = (*common, grid.sizes, grid.pairs, wide.singles, firsts, seconds, owners)
    cells, total = len(table.cell_at) - 1, len(rows)
    more, fresh_at = np.zeros(cells, np.int32), np.zeros(cells + 1, np.int32)
    for at in range(count, total, ROWS_IN_STEP):
        count_rows(at, min(total, at + ROWS_IN_STEP), count, *filing, more)
        yield
    for at in range(0, cells, CELLS_IN_STEP):
        upto = min(cells, at + CELLS_IN_STEP)
        lay_out_cells(at, upto, table.cell_at, table.entries, owners, more, fresh_at)
        yield
    entries = np.empty((int(fresh_at[-1]) + 1, 2), np.int64)
    for at in range(0, cells, CELLS_IN_STEP):
        upto = min(cells, at + CELLS_IN_STEP)
        copy_cells(at, upto, table.cell_at, table.entries, owners, fresh_at, entries, more)
        yield
    for at in range(count, total, ROWS_IN_STEP):
        fill_rows(at, min(total, at + ROWS_IN_STEP), count, *filing, more, entries)
        yield
    return fresh_at, entries, int((firsts == NOWHERE).sum())


NOWHERE = 255  # no part of the row is known to the geometry


def _choose(
    common: tuple[Any, ...], singles: NDArray[np.int64], grid: Any, rows: FrozenRows, count: int
) -> Generator[None, None, tuple[Any, Any]]:
    """Under which parts the new rows are filed, among the pairs that the table has cells for."""
    from tidings.matching.columnar.grid_kernels import choose

    more = len(rows) - count
    firsts, seconds = np.empty(more, np.uint8), np.empty(more, np.uint8)
    allowed = (grid.pairs >= 0).astype(np.uint8)
    used, alone = np.zeros_like(allowed), np.zeros(len(singles), np.uint8)
    for at in range(0, more, ROWS_IN_STEP):
        choose(
            at, min(more, at + ROWS_IN_STEP), rows.starts[count:], *common[1:],
            (singles >= 0).astype(np.uint8),
            allowed, PRICE, MOST_CELLS_A_ROW, firsts, seconds, used, alone,
        )  # fmt: skip
        yield
    return firsts, seconds


# -- upkeep ------------------------------------------------------------------------------------

LINEAR_MOST = 2048  # rows that every event must look at, before the table is built anew
DRIFTED = 3.0  # times the candidates that were expected
REPLAYED_IN_STEP = 32
PACKED_IN_STEP = 128


class JournalEntry(NamedTuple):
    handle: int
    filter: Filter | None  # None: removed


def has_aged(table: FrozenTable, delta: Delta, candidates: float) -> bool:
    """Is it time for a new table rather than a merge? When much of it is dead or was merged in, or

    its geometry or its dictionaries do not fit what came: rows without cells, texts without ranks,
    events that meet far more candidates than those that the cells were cut by.
    """
    rows = len(table.rows)
    return (
        2 * table.removed > rows
        or 2 * table.merged + 2 * len(delta.rows) > rows
        or delta.linear + table.linear > LINEAR_MOST
        or table.unsettled > max(LINEAR_MOST, rows // 8)
        or (table.sampled > 0 and candidates > DRIFTED * max(table.expected, 64.0))
    )


def no_rows() -> RowSource:
    numbers, doubles = np.zeros(0, np.int32), np.zeros(0)
    return RowSource(np.zeros(1, np.int32), np.zeros(0, PART), doubles, numbers, numbers, numbers, Checks())


def source_of_table(table: FrozenTable) -> RowSource:
    rows = table.rows
    return RowSource(
        rows.starts, rows.parts, rows.points, rows.rests, rows.owners, rows.lasting, table.checks
    )


def next_table(
    sources: list[RowSource], parts: ConstraintParts, sample: list[Event], *, indexed: bool
) -> Generator[None, None, FrozenTable]:
    """The table of all live rows of the sources."""
    slots = parts.slots
    frozen = yield from freeze(sources, parts.strings)
    seen = (yield from _sampled(sample, parts, frozen.strings)) if indexed else None
    return (yield from make_table(frozen, list(slots.all), slots.is_string(), seen, indexed=indexed))


def _sampled(
    sample: list[Event], parts: ConstraintParts, strings: dict[int, Strings]
) -> Generator[None, None, NDArray[np.float64] | None]:
    """Rows of sampled events, in the positions of the next dictionaries."""
    if len(sample) < 16:
        return None
    slots = parts.slots
    packer = Packer(slots, strings, parts.derived.programs)
    present, absent = slots.links()
    rows = np.empty((len(sample), len(slots)))
    for at in range(0, len(sample), PACKED_IN_STEP):
        for position, event in enumerate(sample[at : at + PACKED_IN_STEP], at):
            row = packer.blank[:]
            packer.pack_all(event, row)
            rows[position] = row[: len(slots)]
        yield
    link_presence(rows, present, absent)
    return rows


def link_presence(rows: NDArray[np.float64], present: NDArray[np.int32], absent: NDArray[np.int32]) -> None:
    """The walk's work for one row: a value of any kind makes its attribute present."""
    for slot in np.nonzero((present >= 0) | (absent >= 0))[0].tolist():
        stored = ~np.isnan(rows[:, slot])
        if present[slot] >= 0:
            rows[stored, present[slot]] = 0.0
        if absent[slot] >= 0:
            rows[stored, absent[slot]] = np.nan


def remove_rows(table: FrozenTable, handle: int) -> bool:
    """Mark the rows of a handle as removed; False when the table has none."""
    homes, owners = table.homes, table.rows.owners
    row = int(homes[handle]) if handle < len(homes) else -1
    if row < 0:
        return False
    homes[handle] = -1
    while row < len(owners) and owners[row] == handle:
        owners[row] = -1
        table.removed += 1
        row += 1
    return True


class DeltaReplay:
    """The next table's own delta, dictionaries and parts; filled from the journal."""

    def __init__(self, table: FrozenTable, parts: ConstraintParts, room: int) -> None:
        self.table = table
        self.slots = parts.slots
        self.strings = dict(table.strings)
        self.parts = ConstraintParts(parts.slots, self.strings, parts.derived)
        self.delta = Delta(table.edges, room)

    def apply(self, changes: Iterable[JournalEntry]) -> None:
        for handle, filter in changes:
            if filter is not None:
                self.delta.add(rows_of(filter, self.parts), handle, self._text())
            elif handle in self.delta.homes:
                self.delta.remove(handle)
            else:
                remove_rows(self.table, handle)

    def _text(self) -> Any:
        return self.slots.text

    def steps(self, journal: list[JournalEntry]) -> Generator[None, None, None]:
        """Replay the journal to its end; it may grow between steps."""
        done = 0
        while done < len(journal):
            self.apply(journal[done : done + REPLAYED_IN_STEP])
            done += REPLAYED_IN_STEP
            if done < len(journal):
                yield

"""The frozen table: rows, their dictionaries, and the pair grid over them.

Nothing in a table changes but `owners`, where a removed filter's rows become -1. A table
is built in small steps and swapped in whole.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.asking import Checks
from tidings.matching.columnar.freeze import ROWS_IN_STEP, RUN, Frozen
from tidings.matching.columnar.geometry import Edges, Grid, find_edges, lay_out, make_grid
from tidings.matching.columnar.rows import FrozenRows
from tidings.matching.columnar.slots import Slot
from tidings.matching.columnar.strings import Strings

PRICE = 1e-5  # of one entry, in candidates an event: more replication costs memory and cache
MOST_CELLS_A_ROW = 1024
CELLS_A_ROW = 6  # cells of all pairs together, for each row
LEAST_CELLS = 1 << 14
LEAST_BOXES = 256  # rectangles before they are filed apart
CODES_OF_A_CELL = 253.0


@dataclass
class Boxes:
    """Rows that are rectangles over the pair of slots that most of them share."""

    slots: tuple[int, int]
    sizes: NDArray[np.int64]  # cells on either axis
    cuts: NDArray[np.float64]  # between the cells of the one axis, then of the other
    frames: NDArray[np.float64]  # where each cell begins, and its codes to the unit
    cell_at: NDArray[np.int32]
    block: NDArray[np.uint8]  # of each cell: four runs of codes, then the rows
    most: int = 0  # entries of the fullest cell


@dataclass
class Table:
    rows: FrozenRows
    slots: list[Slot]
    strings: dict[int, Strings]
    checks: Checks
    edges: Edges | None = None  # None: without Numba there is no grid
    grid: Grid | None = None
    cell_at: NDArray[np.int32] = field(default_factory=lambda: np.zeros(2, np.int32))
    entries: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 2), np.int64))
    boxes: Boxes | None = None
    expected: float = 0.0  # candidates an event, by the sample that it was built from
    sampled: int = 0
    removed: int = 0
    plain: bool = False  # row r belongs to handle r, nothing is checked
    many: bool = False  # some filter has more than one row
    homes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))  # handle -> its first row
    # what came of merges since the freeze
    growing: dict[str, Any] = field(default_factory=dict)  # the arrays of the rows, with room behind them
    merged: int = 0  # rows
    purged: int = 0  # removed rows that have no entries any more
    linear: int = 0  # rows that every event looks at, for want of cells
    unsettled: int = 0  # rows with a check that the next freeze settles
    outdated: bool = False  # read from a file whose entries an older version made

    @property
    def nbytes(self) -> int:
        size = self.rows.nbytes + self.cell_at.nbytes + self.entries.nbytes
        if self.boxes is not None:
            size += self.boxes.cell_at.nbytes + self.boxes.block.nbytes
        size += sum(s.texts.blob.nbytes + s.texts.offsets.nbytes for s in self.strings.values())
        if self.edges is not None and self.grid is not None:
            size += (
                self.edges.edges.nbytes
                + self.edges.shares.nbytes
                + self.grid.lut.nbytes
                + self.grid.pairs.nbytes
            )
        return size


def make_table(
    frozen: Frozen, slots: list[Slot], text: NDArray[np.uint8], sample: Any, *, indexed: bool
) -> Generator[None, None, Table]:
    """The table of frozen rows; `indexed` builds the grid (it needs Numba)."""
    rows = frozen.rows
    table = Table(rows, slots, frozen.strings, frozen.checks)
    owners = rows.owners
    table.homes = homes_of(owners)
    yield
    table.many = bool(len(owners)) and bool((np.diff(owners) == 0).any())
    yield
    table.plain = (
        not table.many and not (rows.checks >= 0).any() and bool((owners == np.arange(len(owners))).all())
    )
    if not indexed:
        return table
    yield
    edges = yield from find_edges(rows, text, sample)
    grid = make_grid(edges, len(rows), max(LEAST_CELLS, CELLS_A_ROW * len(rows)))
    table.edges, table.grid = edges, grid
    table.sampled = 0 if sample is None else len(sample)
    yield
    firsts, seconds = yield from _choose(table, text)
    yield from _place_boxes(table, text, firsts, seconds)
    yield from _place(table, text, firsts, seconds)
    return table


def homes_of(owners: NDArray[np.int32]) -> NDArray[np.int32]:
    """The first row of each handle, of rows sorted by their owner; -1 for those that have none."""
    homes = np.full(int(owners[-1]) + 1 if len(owners) else 0, -1, np.int32)
    first = np.nonzero(np.diff(owners, prepend=-1))[0]
    homes[owners[first]] = first
    return homes


def geometry_arguments(table: Table, text: NDArray[np.uint8]) -> tuple[Any, ...]:
    """The arguments that all kernels of the grid begin with."""
    rows, edges, grid = table.rows, table.edges, table.grid
    assert edges is not None
    assert grid is not None
    return (
        rows.starts, rows.parts, rows.points, rows.rests, text, edges.at, edges.edges, edges.shares_at,
        edges.shares, grid.access, grid.lut_at, grid.lut, grid.first_at, grid.first,
    )  # fmt: skip


def _choose(table: Table, text: NDArray[np.uint8]) -> Generator[None, None, tuple[Any, Any]]:
    from tidings.matching.columnar.grid_kernels import choose

    assert table.edges is not None
    assert table.grid is not None
    count, accesses = len(table.rows), len(table.grid.sizes)
    firsts, seconds = np.empty(count, np.uint8), np.empty(count, np.uint8)
    used, alone = np.zeros((accesses, accesses), np.uint8), np.zeros(len(text), np.uint8)
    common = geometry_arguments(table, text)
    may_alone, allowed = np.ones(len(text), np.uint8), np.ones_like(used)
    for start in range(0, count, ROWS_IN_STEP):
        table.expected += choose(
            start, min(count, start + ROWS_IN_STEP), *common, may_alone, allowed, PRICE, MOST_CELLS_A_ROW,
            firsts, seconds, used, alone,
        )  # fmt: skip
        yield
    lay_out(table.grid, table.edges, used, alone)
    return firsts, seconds


def _place_boxes(
    table: Table, text: NDArray[np.uint8], firsts: NDArray[np.uint8], seconds: NDArray[np.uint8]
) -> Generator[None, None, None]:
    """File rectangles apart, when they are most of the table; their `firsts` say so."""
    from tidings.matching.columnar.box_kernels import count_pairs, mark_boxes, place_boxes

    rows, grid = table.rows, table.grid
    assert grid is not None
    count, accesses = len(rows), len(grid.sizes)
    counts = np.zeros((accesses, accesses), np.int64)
    for start in range(0, count, RUN):
        upto = min(count, start + RUN)
        count_pairs(start, upto, rows.starts, rows.parts, text, grid.access, firsts, seconds, counts)
        yield
    one, two = (int(n) for n in np.unravel_index(int(counts.argmax()), counts.shape))
    if counts[one, two] < max(LEAST_BOXES, count // 2):
        return
    boxes = _frames(table, one, two)
    for start in range(0, count, RUN):
        mark_boxes(
            start, min(count, start + RUN), rows.starts, rows.parts, text, *boxes.slots, boxes.cuts, boxes.sizes,
            MOST_CELLS_A_ROW, firsts,
        )  # fmt: skip
        yield
    arguments = (rows.starts, rows.parts, boxes.slots[0], firsts, boxes.cuts, boxes.frames, boxes.sizes)
    for fill in (False, True):
        for start in range(0, count, ROWS_IN_STEP):
            upto = min(count, start + ROWS_IN_STEP)
            place_boxes(fill, start, upto, *arguments, boxes.cell_at, boxes.block)
            yield
        if not fill:
            boxes.most = int(boxes.cell_at.max())
            np.cumsum(boxes.cell_at, out=boxes.cell_at)
            boxes.block = np.zeros(8 * int(boxes.cell_at[-1]), np.uint8)
            yield
    table.boxes = boxes


def _frames(table: Table, one: int, two: int) -> Boxes:
    """The cells of a pair of slots, each with a scale of its own."""
    edges, grid = table.edges, table.grid
    assert edges is not None
    assert grid is not None
    cuts, frames = [], []
    slots = (int(np.nonzero(grid.access == one)[0][0]), int(np.nonzero(grid.access == two)[0][0]))
    for access, slot in zip((one, two), slots, strict=True):
        own = edges.edges[edges.at[slot] : edges.at[slot + 1]]
        first = grid.first[grid.first_at[access] : grid.first_at[access + 1]]
        cuts.append(own[first[1:-1] - 1])
        walls = np.concatenate((own[:1], cuts[-1], own[-1:]))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            scales = CODES_OF_A_CELL / (walls[1:] - walls[:-1])
        frames.append(np.stack((walls[:-1], np.where(np.isfinite(scales), scales, 0.0)), axis=1))
    sizes = np.array([len(some) for some in frames], np.int64)
    cell_at = np.zeros(int(sizes.prod()) + 1, np.int32)
    flat = np.ascontiguousarray(np.concatenate(frames).ravel())
    return Boxes(slots, sizes, np.concatenate(cuts), flat, cell_at, np.zeros(0, np.uint8))


def _place(
    table: Table, text: NDArray[np.uint8], firsts: NDArray[np.uint8], seconds: NDArray[np.uint8]
) -> Generator[None, None, None]:
    from tidings.matching.columnar.grid_kernels import place

    grid = table.grid
    assert grid is not None
    common = (*geometry_arguments(table, text), grid.sizes, grid.pairs, grid.singles, firsts, seconds)
    cell_at = np.zeros(grid.cells + 2, np.int32)
    count = len(table.rows)
    for start in range(0, count, ROWS_IN_STEP):
        place(False, start, min(count, start + ROWS_IN_STEP), *common, cell_at, table.entries)
        yield
    np.cumsum(cell_at, out=cell_at)
    yield
    table.cell_at = cell_at
    table.entries = np.empty((int(cell_at[-1]) + 1, 2), np.int64)
    for start in range(0, count, ROWS_IN_STEP):
        place(True, start, min(count, start + ROWS_IN_STEP), *common, cell_at, table.entries)
        yield

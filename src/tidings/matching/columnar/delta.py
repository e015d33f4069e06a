"""The delta: filters that came after the table was frozen.

It uses the table's edges and dictionaries with cells of its own, so that an event is encoded
once for both. Each cell is a growing block of one heap of entries. What the table's geometry
does not know (a new attribute) is looked at by every event until the next freeze.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.geometry import Edges, Grid, extended_geometry, make_grid
from tidings.matching.columnar.rows import Row, Rows

DELTA_PRICE = 3e-5
MOST_CELLS_A_ROW = 256
LEAST_ROOM = 1 << 14
FIRST_ROWS = 64
HEAP_OF_A_ROW = 32
ROWS_BITS = 12  # a filter has at most 256 conjunctions of at most 8 alternatives


class Delta:
    """Growing rows, and (with Numba) a grid over them."""

    def __init__(self, edges: Edges | None, room: int) -> None:
        self.rows = Rows(FIRST_ROWS)
        self.homes: dict[int, int] = {}  # handle -> first row and how many, in one number
        self.removed = 0
        self.linear = 0  # rows that every event looks at
        self.edges = edges
        self.grid: Grid | None = None
        self.version = 0
        if edges is not None and room > LEAST_ROOM:
            self._make_grid(edges, room)  # now, since it takes longer than an `add` may

    def _make_grid(self, edges: Edges, room: int) -> None:
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
        # far more than is likely to be used: memory that is not touched costs nothing, and moving it would
        self.heap = np.empty((HEAP_OF_A_ROW * room, 2), np.int64)
        self.heap_used = np.zeros(1, np.int64)
        self._reach = 0
        self._table = np.zeros(32, np.int64)
        self._address = 0
        self._seen = -1
        from tidings.matching.columnar.delta_kernels import insert

        self._insert = insert

    def __len__(self) -> int:
        return len(self.homes)

    @property
    def shape(self) -> tuple[int, int, int, bool]:
        """Changes when a walk must look at its addresses again."""
        rows = self.rows
        return self.version, rows.version, rows.table.questions.version, len(rows) > 0

    def add(self, rows: list[Row], handle: int, text: NDArray[np.uint8]) -> None:
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
            rows.starts, rows.parts, rows.points, rows.rests, text, wide.edges_at, edges.edges, wide.shares_at,
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
        """What a walk needs of this delta, as places of a tier and values."""
        rows, grid = self.rows, self.grid
        assert grid is not None
        return [
            (at.GROWING, 1), (at.STARTS, rows.starts.ctypes.data), (at.PARTS, rows.parts.ctypes.data),
            (at.POINTS, rows.points.ctypes.data), (at.RESTS, rows.rests.ctypes.data),
            (at.OWNERS, rows.owners.ctypes.data), (at.CHECKS, rows.checks.ctypes.data),
            (at.LUT_AT, grid.lut_at.ctypes.data), (at.LUT, grid.lut.ctypes.data),
            (at.SIZES, grid.sizes.ctypes.data), (at.PAIRS, grid.pairs.ctypes.data),
            (at.SINGLES, grid.singles.ctypes.data), (at.SINGLES_SIZE, len(grid.singles)),
            (at.CELLS, self.blocks.ctypes.data), (at.ENTRIES, self.heap.ctypes.data),
            (at.PLAIN, 0), (at.NO_SECOND, len(grid.sizes) - 1),
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

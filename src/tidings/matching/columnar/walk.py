"""The compiled walk's memory: one `Scratch` for each thread that matches.

It holds the event's row, the buffers and the table of addresses, and keeps alive the arrays
that those addresses point into, whatever the matcher swaps in the meantime.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.delta import Delta
from tidings.matching.columnar.slots import NO_CONDITION, Slots
from tidings.matching.columnar.table import Table

RUNS_ROOM = 32768


class Scratch:
    """Buffers and addresses for one thread and one version of the matcher."""

    def __init__(
        self, slots: Slots, table: Table, deltas: list[Delta], counters: NDArray[np.int64], version: int
    ) -> None:
        self.version = version
        count = len(slots)
        rows = len(table.rows) + sum(len(d.rows.owners) for d in deltas) + 64
        self.row = array("d", bytes(8 * (count + 1)))
        self.rest = np.zeros(count + 1, np.int32)
        self.flags = np.zeros(8, np.int64)
        self.out = np.empty(rows, np.int32)
        self.ask = np.empty(3 * rows, np.int32)
        self.table = np.zeros(at.SIZE, np.int64)
        self.text = slots.is_string()
        present, absent = slots.links()
        codes = np.full((2, max(count, NO_CONDITION) + 1), -1, np.int64)
        places = np.empty((2, count + 1), np.int64)
        runs = np.empty((2, RUNS_ROOM), np.int64)
        found, open_ = np.empty(at.FOUND_ROOM, np.int64), np.empty(2 * at.FOUND_ROOM + 8, np.int64)
        spare = np.empty(rows, np.int32)
        edges_at, access = _extended(table, count)
        row = np.frombuffer(self.row)
        assert table.edges is not None
        self._kept: list[Any] = [
            table, list(deltas), [d.keep() for d in deltas], row, present, absent, codes, places, runs, found,
            open_, spare, edges_at, access, counters,
        ]  # fmt: skip
        t = self.table
        t[at.SLOTS], t[at.FOUND_SIZE] = count, at.FOUND_ROOM
        t[at.MANY] = table.many or any(d.many for d in deltas)
        for place, some in (
            (at.ROW, row), (at.REST, self.rest), (at.FLAGS, self.flags), (at.PRESENT, present),
            (at.ABSENT, absent), (at.TEXT, self.text), (at.EDGES_AT, edges_at), (at.EDGES, table.edges.edges),
            (at.ACCESS, access), (at.CODES, codes[0]), (at.SURE, codes[1]), (at.HERE, places[0]),
            (at.BUCKETS, places[1]), (at.RUN_FROM, runs[0]), (at.RUN_TO, runs[1]), (at.FOUND, found),
            (at.OPEN, open_), (at.OUT, self.out), (at.SPARE, spare), (at.ASK, self.ask),
            (at.COUNTERS, counters),
        ):  # fmt: skip
            t[place] = some.ctypes.data
        tiers = [table_addresses(table), *(d.addresses() for d in deltas)]
        t[at.TIERS] = len(tiers)
        for number, tier in enumerate(tiers):
            for place, value in tier:
                t[at.TIER + number * at.TIER_SIZE + place] = value


def _extended(table: Table, slots: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Slots newer than the table have no edges and no cells."""
    edges, grid = table.edges, table.grid
    assert edges is not None
    assert grid is not None
    more = slots - len(grid.access)
    return (
        np.concatenate((edges.at, np.full(more, edges.at[-1], np.int32))),
        np.concatenate((grid.access, np.full(more, -1, np.int32))),
    )


def table_addresses(table: Table) -> list[tuple[int, int]]:
    rows, grid = table.rows, table.grid
    assert grid is not None
    return [
        *_box_addresses(table),
        (at.GROWING, 0), (at.STARTS, rows.starts.ctypes.data), (at.PARTS, rows.parts.ctypes.data),
        (at.POINTS, rows.points.ctypes.data), (at.RESTS, rows.rests.ctypes.data),
        (at.OWNERS, rows.owners.ctypes.data),
        (at.CHECKS, rows.checks.ctypes.data if len(rows.checks) else 0),
        (at.LUT_AT, grid.lut_at.ctypes.data), (at.LUT, grid.lut.ctypes.data),
        (at.SIZES, grid.sizes.ctypes.data), (at.PAIRS, grid.pairs.ctypes.data),
        (at.SINGLES, grid.singles.ctypes.data), (at.SINGLES_SIZE, len(grid.singles)),
        (at.CELLS, table.cell_at.ctypes.data), (at.ENTRIES, table.entries.ctypes.data),
        (at.PLAIN, int(table.plain and not table.removed)), (at.NO_SECOND, len(grid.sizes) - 1),
    ]  # fmt: skip


def _box_addresses(table: Table) -> list[tuple[int, int]]:
    boxes, grid = table.boxes, table.grid
    if boxes is None or grid is None:
        return [(at.BOX_COUNT, 0)]
    return [
        (at.BOX_CELLS, boxes.cell_at.ctypes.data), (at.BOX_ROWS, boxes.rows.ctypes.data),
        (at.BOX_CODES, boxes.codes.ctypes.data), (at.BOX_COUNT, boxes.codes.shape[1]),
        (at.BOX_ONE, boxes.slots[0]), (at.BOX_TWO, boxes.slots[1]),
        (at.FIRST_AT, grid.first_at.ctypes.data), (at.FIRST, grid.first.ctypes.data),
    ]  # fmt: skip

"""The compiled walk's memory: one `Scratch` for each thread that matches.

It holds the event's row, the buffers and the table of addresses, and keeps alive the arrays
that those addresses point into, even if the matcher swaps its tables in the meantime.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.merge import Delta
from tidings.matching.columnar.programs import (
    MARK,
    STACK,
    Checks,
    Program,
    assembled,
    no_text,
    text_of,
)
from tidings.matching.columnar.slots import NO_CONDITION, NUMBER, STRING, Slots, encoded
from tidings.matching.columnar.table import FrozenTable
from tidings.model.event import Event

RUNS_ROOM = 32768
TEXT_ROOM = 4096
TOPIC = "topic"  # the event's own; an attribute cannot have its name


def _nothing(_event: Event, _row: array[float]) -> bool:
    return False


class Scratch:
    """Buffers and addresses for one thread and one version of the matcher."""

    def __init__(
        self,
        slots: Slots,
        table: FrozenTable,
        deltas: list[Delta],
        programs: list[Program],
        counters: NDArray[np.int64],
        handles: int,
        version: int,
    ) -> None:
        self.version = version
        self.pack: Callable[[Event, array[float]], bool] = _nothing  # of this thread's packer
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
        codes = np.full((2, at.BEYOND + max(count, NO_CONDITION) + 1), -1, np.int64)
        positions = np.empty((2, count + 1), np.int64)
        runs = np.empty((2, RUNS_ROOM), np.int64)
        found, open_ = np.empty(at.FOUND_ROOM, np.int64), np.empty(2 * at.FOUND_ROOM + 8, np.int64)
        bits, stack = _bits(handles), np.empty(STACK)
        edges_at, access = _extended(table, count)
        row = np.frombuffer(self.row)
        code, constants = _assembled(programs, slots)
        assert table.edges is not None
        self._kept: list[Any] = [
            table, list(deltas), [d.keep() for d in deltas], row, present, absent, codes, positions, runs,
            found,
            open_, bits, edges_at, access, counters, code, constants, stack,
        ]  # fmt: skip
        t = self.table
        t[at.SLOTS], t[at.FOUND_SIZE] = count, at.FOUND_ROOM
        for position, some in (
            (at.ROW, row), (at.REST, self.rest), (at.FLAGS, self.flags), (at.PRESENT, present),
            (at.ABSENT, absent), (at.TEXT, self.text), (at.EDGES_AT, edges_at), (at.EDGES, table.edges.edges),
            (at.ACCESS, access), (at.CODES, codes[0]), (at.SURE, codes[1]), (at.HERE, positions[0]),
            (at.BUCKETS, positions[1]), (at.RUN_FROM, runs[0]), (at.RUN_TO, runs[1]), (at.FOUND, found),
            (at.OPEN, open_), (at.OUT, self.out), (at.BITS, bits), (at.ASK, self.ask),
            (at.COUNTERS, counters), (at.PROGRAMS, code), (at.CONSTANTS, constants), (at.STACK, stack),
        ):  # fmt: skip
            t[position] = some.ctypes.data
        boxes, room = _box_addresses(table)
        self._kept.append(room)
        tiers = [table_addresses(table) + boxes, *(d.addresses() for d in deltas)]
        t[at.TIERS] = len(tiers)
        for number, tier in enumerate(tiers):
            for position, value in tier:
                t[at.TIER + number * at.TIER_SIZE + position] = value
        self.address = t.ctypes.data
        self._ask_about([table.checks, *(d.rows.table for d in deltas)], slots)

    def _ask_about(self, tiers: list[Checks], slots: Slots) -> None:
        """Addresses of the checks, and room for the texts that they look at."""
        self.asked_texts: list[tuple[int, str]] = []  # slot and attribute, by place
        t = self.table
        for number, checks in enumerate(tiers):
            some, base = checks.questions, at.TIER + number * at.TIER_SIZE
            positions = np.zeros(len(some.attributes) + 1, np.int32)
            for index, attribute in enumerate(some.attributes):
                slot = -1 if attribute.startswith(MARK) else slots.find(attribute, STRING)
                wanted = (slot, attribute)
                if wanted not in self.asked_texts:
                    self.asked_texts.append(wanted)
                positions[index] = self.asked_texts.index(wanted)
            arrays = (some.starts, some.items, some.text, positions)
            self._kept.append(arrays)
            t[base + at.QUESTIONS_AT : base + at.QUESTION_PLACES + 1] = [a.ctypes.data for a in arrays]
        self.text_at = np.zeros(len(self.asked_texts) + 1, np.int64)
        self.text_size = np.full(len(self.asked_texts) + 1, -1, np.int64)
        t[at.TEXT_AT], t[at.TEXT_SIZE] = self.text_at.ctypes.data, self.text_size.ctypes.data
        self._text_paths = [
            (position, slot, attribute, attribute.partition(".")[0], attribute.partition(".")[2])
            for position, (slot, attribute) in enumerate(self.asked_texts)
        ]
        self._make_room(TEXT_ROOM)

    def _make_room(self, size: int) -> None:
        self._text = np.empty(size, np.uint8)
        self._text_bytes = memoryview(self._text)  # type: ignore[arg-type]
        self._text_start = self._text.ctypes.data
        # writing through a memoryview costs half of writing to an array
        self._at, self._size = memoryview(self.text_at), memoryview(self.text_size)  # type: ignore[arg-type]

    def leave_out(self, handles: frozenset[int], requested: int) -> int:
        """Take the checks of these filters out of those that wait in ASK; how many are left."""
        asked = self.ask[: 3 * requested].reshape(-1, 3)
        kept = asked[~np.isin(asked[:, 0], np.fromiter(handles, np.int32, len(handles)))].ravel()
        self.ask[: len(kept)] = kept
        return len(kept) // 3

    def set_texts(self, event: Event) -> None:
        """The event's texts that checks look at, as bytes that the walk can read."""
        row, sizes, used, stored = self.row, self._size, 0, event.view if event.rich else event.body
        for position, slot, attribute, first, below in self._text_paths:
            sizes[position] = no_text(event, attribute) if event.rich else -1
            if slot >= 0 and row[slot] != row[slot]:  # without a slot it may have a text all the same
                continue
            value = event.topic if attribute == TOPIC else stored.get(first)
            if type(value) is dict:
                value = value.get(below)
            if type(value) is not str:
                value = text_of(event, attribute)
                if value is None:
                    continue
            text = encoded(value)
            size = len(text)
            if used + size > len(self._text):
                self._make_room(2 * (used + size))
                self.set_texts(event)
                return
            self._text_bytes[used : used + size] = text
            self._at[position], sizes[position] = self._text_start + used, size
            used += size


def _assembled(programs: list[Program], slots: Slots) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    some = [(program.target, program.steps) for program in programs if program.steps is not None]
    return assembled(some, lambda name: slots.find(name, NUMBER))


def _bits(handles: int) -> NDArray[np.int64]:
    """A bit for each handle, 64 to a word, and a bit for each such word; the first word says how many."""
    words = handles // 64 + 1
    bits = np.zeros(words + words // 64 + 3, np.int64)
    bits[0] = words
    return bits


def _extended(table: FrozenTable, slots: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Slots newer than the table have no edges and no cells."""
    edges, grid = table.edges, table.grid
    assert edges is not None
    assert grid is not None
    more = slots - len(grid.access)
    return (
        np.concatenate((edges.at, np.full(more, edges.at[-1], np.int32))),
        np.concatenate((grid.access, np.full(more, -1, np.int32))),
    )


def table_addresses(table: FrozenTable) -> list[tuple[int, int]]:
    rows, grid = table.rows, table.grid
    assert grid is not None
    return [
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


def _box_addresses(table: FrozenTable) -> tuple[list[tuple[int, int]], Any]:
    """Addresses of the boxes, and room for the verdicts of a cell."""
    boxes = table.boxes
    if boxes is None:
        return [(at.BOX_ACROSS, 0)], None
    room = np.empty(boxes.most + 64, np.uint8)
    return [
        (at.BOX_CELLS, boxes.cell_at.ctypes.data), (at.BOX_BLOCK, boxes.block.ctypes.data),
        (at.BOX_CUTS, boxes.cuts.ctypes.data), (at.BOX_FRAMES, boxes.frames.ctypes.data),
        (at.BOX_VERDICT, room.ctypes.data), (at.BOX_ONE, boxes.slots[0]), (at.BOX_TWO, boxes.slots[1]),
        (at.BOX_ACROSS, int(boxes.sizes[0])), (at.BOX_UP, int(boxes.sizes[1])),
    ], room  # fmt: skip

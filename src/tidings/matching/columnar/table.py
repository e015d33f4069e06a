"""A frozen table as a file: plain arrays behind a header, mapped into memory as they are.

  8 bytes   magic "TIDTABLE"
  4 + 4     version; length of the header
  4 + 4     CRC-32C of the header; of everything after it
  header    msgpack: name, type, shape and place of each array; slots, texts, checks, counts
  arrays    each at a multiple of 64 bytes

Opening maps the file and reads the header alone, which takes milliseconds however large
the table is. The sums over the arrays are checked when asked (`verify=True`, the default for
what came over a network), at about a gigabyte a second. A table with edges needs no rebuild: the
reader matches at once, and from any number of processes over one copy in memory.

The frozen table: rows, their dictionaries, and the pair grid over them.

A table is immutable except for `owners`, where a removed filter's rows become -1. A table
is built in small steps and swapped in whole.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass, field, fields
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec
import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from tidings.errors import CorruptionError, InputError
from tidings.matching.columnar.freeze import (
    ROWS_IN_STEP,
    RUN,
    Frozen,
    SlotEdges,
    SlotGrid,
    find_edges,
    lay_out,
    make_grid,
)
from tidings.matching.columnar.layout import PART
from tidings.matching.columnar.programs import Check, Checks
from tidings.matching.columnar.rows import FrozenRows
from tidings.matching.columnar.slots import Slot, SortedTexts, Strings
from tidings.model.constraint import Constraint
from tidings.model.expression import Expression
from tidings.model.value import Value

# -- table -------------------------------------------------------------------------------------

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
class FrozenTable:
    rows: FrozenRows
    slots: list[Slot]
    strings: dict[int, Strings]
    checks: Checks
    edges: SlotEdges | None = None  # None: without Numba there is no grid
    grid: SlotGrid | None = None
    cell_at: NDArray[np.int32] = field(default_factory=lambda: np.zeros(2, np.int32))
    entries: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 2), np.int64))
    boxes: Boxes | None = None
    expected: float = 0.0  # candidates an event, by the sample that it was built from
    sampled: int = 0
    removed: int = 0
    plain: bool = False  # row r belongs to handle r, without checks
    many: bool = False  # some filter has more than one row
    homes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))  # handle -> its first row
    # what came of merges since the freeze
    growing: dict[str, Any] = field(default_factory=dict)  # the arrays of the rows, with room behind them
    merged: int = 0  # rows
    purged: int = 0  # removed rows that have no entries any more
    linear: int = 0  # rows that every event looks at, for want of cells
    unsettled: int = 0  # rows with a check that the next freeze settles
    outdated: bool = False  # read from a file with entries of an older version

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
) -> Generator[None, None, FrozenTable]:
    """The table of frozen rows; `indexed` builds the grid (it needs Numba)."""
    rows = frozen.rows
    table = FrozenTable(rows, slots, frozen.strings, frozen.checks)
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


def geometry_arguments(table: FrozenTable, text: NDArray[np.uint8]) -> tuple[Any, ...]:
    """The arguments that all kernels of the grid begin with."""
    rows, edges, grid = table.rows, table.edges, table.grid
    assert edges is not None
    assert grid is not None
    return (
        rows.starts, rows.parts, rows.points, rows.rests, text, edges.at, edges.edges, edges.shares_at,
        edges.shares, grid.access, grid.lut_at, grid.lut, grid.first_at, grid.first,
    )  # fmt: skip


def _choose(table: FrozenTable, text: NDArray[np.uint8]) -> Generator[None, None, tuple[Any, Any]]:
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
    table: FrozenTable, text: NDArray[np.uint8], firsts: NDArray[np.uint8], seconds: NDArray[np.uint8]
) -> Generator[None, None, None]:
    """File rectangles apart, when they are most of the table; their `firsts` say so."""
    from tidings.matching.columnar.walk_kernels import count_pairs, mark_boxes, place_boxes

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
            start, min(count, start + RUN), rows.starts, rows.parts, text, *boxes.slots, boxes.cuts,
            boxes.sizes,
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


def _frames(table: FrozenTable, one: int, two: int) -> Boxes:
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
    table: FrozenTable, text: NDArray[np.uint8], firsts: NDArray[np.uint8], seconds: NDArray[np.uint8]
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


# -- files -------------------------------------------------------------------------------------

MAGIC = b"TIDTABLE"
VERSION = 3
ENTRIES_SINCE = 3  # entries of older versions miss numbers beyond 2**53: they are made anew from the rows
OLDEST = 2
BOX_ARRAYS = ("sizes", "cuts", "frames", "cell_at", "block")
ALIGN = 64
_fixed = Struct("<8sIIII")


class ArrayPlace(msgspec.Struct, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # from the end of the header, rounded up to ALIGN


class SavedCheck(msgspec.Struct, array_like=True):
    constraints: tuple[Constraint, ...]
    residuals: tuple[Expression, ...]
    dialect: str
    work: tuple[tuple[Any, ...], ...] = ()  # since tables know of work budgets


class Header(msgspec.Struct):
    arrays: list[ArrayPlace]
    slots: list[tuple[str, str]]
    texts: dict[int, bool]  # slots of text; whether order matters there
    checks: list[bytes]
    derived: list[bytes]  # expressions of the derived attributes, in the order of their names
    handles: int  # handles given out, removed ones included
    many: bool
    cells: int
    expected: float
    sampled: int
    boxes: tuple[int, int] | None = None  # the slots of the rectangles that are filed apart
    plain: bool = False  # row r belongs to handle r, without checks
    version: str = ""  # the writer's name for this table; the reader gets it back


def save(
    table: FrozenTable, path: str | os.PathLike[str], *, handles: int, derived: list[bytes], version: str = ""
) -> None:
    """Write the table beside `path` and move it there, so that a reader sees all of it or none."""
    arrays = _arrays(table)
    locations, offset = [], 0
    for name, array in arrays.items():
        dtype = "part" if array.dtype == PART else array.dtype.str
        locations.append(ArrayPlace(name, dtype, array.shape, offset))
        offset = _aligned(offset + array.nbytes)
    header = msgspec.msgpack.encode(
        Header(
            locations, [(s.attribute, s.kind) for s in table.slots],
            {s: t.ordered for s, t in table.strings.items()},
            [_encoded(check) for check in table.checks.all], derived, handles, table.many,
            table.grid.cells if table.grid is not None else 0, table.expected, table.sampled,
            None if table.boxes is None else table.boxes.slots, table.plain and not table.removed, version,
        )
    )  # fmt: skip
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    with draft.open("wb") as file:
        file.seek(_aligned(_fixed.size + len(header)))
        total = _write(file, arrays, locations)
        file.seek(0)
        file.write(_fixed.pack(MAGIC, VERSION, len(header), crc32c(header), total) + header)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)


def _write(file: Any, arrays: dict[str, Any], locations: list[ArrayPlace]) -> int:
    start, total = file.tell(), 0
    for location in locations:
        gap = start + location.offset - file.tell()
        for some in (bytes(gap), np.ascontiguousarray(arrays[location.name]).reshape(-1).view(np.uint8)):
            file.write(some)
            total = crc32c(memoryview(some), total)  # type: ignore[arg-type]
    return int(total)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN) * ALIGN


def _encoded(check: Check) -> bytes:
    return msgspec.msgpack.encode(SavedCheck(*check))


def _arrays(table: FrozenTable) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        f"rows.{name}": getattr(table.rows, name)
        for name in ("starts", "parts", "points", "rests", "owners", "checks")
    }
    for slot, strings in table.strings.items():
        arrays[f"text.{slot}.blob"], arrays[f"text.{slot}.offsets"] = (
            strings.texts.blob,
            strings.texts.offsets,
        )
    for part, holder in (("edges", table.edges), ("grid", table.grid)):
        if holder is not None:
            for field in fields(holder):
                if field.name != "cells":
                    arrays[f"{part}.{field.name}"] = getattr(holder, field.name)
    if table.grid is not None:
        arrays["cell_at"], arrays["entries"] = table.cell_at, table.entries
    if table.boxes is not None:
        for name in BOX_ARRAYS:
            arrays[f"boxes.{name}"] = getattr(table.boxes, name)
    return arrays


def load(path: str | os.PathLike[str], *, verify: bool = True) -> tuple[FrozenTable, Header]:
    """Map a table. `verify=False` leaves the sums over the arrays unchecked."""
    target = Path(path)
    try:
        # a private mapping: no process writes, but read-only arrays would have every kernel compiled again
        whole = np.memmap(target, np.uint8, "c")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot map the table {target}: {error}") from None
    header, version, start, total = _read_header(whole, target)
    if verify and crc32c(whole[start:].data, 0) != total:
        raise CorruptionError(f"the arrays of {target} fail their checksum", hint="write the table again")
    table = _table(header, whole, start, target)
    table.outdated = version < ENTRIES_SINCE
    return table, header


def _read_header(whole: Any, path: Path) -> tuple[Header, int, int, int]:
    broken = CorruptionError(f"{path} is no matching table, or its header is torn", hint="write it again")
    if len(whole) < _fixed.size:
        raise broken
    magic, version, length, checksum, total = _fixed.unpack(bytes(whole[: _fixed.size]))
    if magic != MAGIC:
        raise broken
    if not OLDEST <= version <= VERSION:
        raise InputError(
            f"{path} is a table of version {version}; this reads versions {OLDEST} to {VERSION}",
            hint="write the table again with this version of Tidings",
        )
    encoded = bytes(whole[_fixed.size : _fixed.size + length])
    if len(encoded) != length or crc32c(encoded) != checksum:
        raise broken
    return msgspec.msgpack.decode(encoded, type=Header), version, _aligned(_fixed.size + length), total


def _table(header: Header, whole: Any, start: int, path: Path) -> FrozenTable:
    found: dict[str, Any] = {}
    for location in header.arrays:
        dtype = PART if location.dtype == "part" else np.dtype(location.dtype)
        size = int(np.prod(location.shape)) * dtype.itemsize
        at = start + location.offset
        if at + size > len(whole):
            raise CorruptionError(f"{path} ends before its arrays do", hint="write the table again")
        found[location.name] = np.frombuffer(whole[at : at + size], dtype).reshape(location.shape)
    names = ("starts", "parts", "points", "rests", "owners", "checks")
    rows = FrozenRows(**{name: found[f"rows.{name}"] for name in names}, lasting=found["rows.checks"])
    rows.owners, rows.points_used = rows.owners.copy(), len(rows.points)  # owners alone change
    table = FrozenTable(
        rows, [Slot(*s) for s in header.slots],
        {
            slot: Strings(SortedTexts(found[f"text.{slot}.blob"], found[f"text.{slot}.offsets"]),
                ordered=ordered)
            for slot, ordered in header.texts.items()
        },
        Checks(_decoded(check) for check in header.checks),
    )  # fmt: skip
    table.many, table.plain = header.many, header.plain
    table.expected, table.sampled = header.expected, header.sampled
    table.homes = homes_of(rows.owners)
    if "entries" in found:
        table.edges = SlotEdges(**{f.name: found[f"edges.{f.name}"] for f in fields(SlotEdges)})
        table.grid = SlotGrid(
            cells=header.cells,
            **{f.name: found[f"grid.{f.name}"] for f in fields(SlotGrid) if f.name != "cells"},
        )
        table.cell_at, table.entries = found["cell_at"], found["entries"]
    if header.boxes is not None:
        table.boxes = Boxes(header.boxes, *(found[f"boxes.{name}"] for name in BOX_ARRAYS))
        table.boxes.most = int(np.diff(table.boxes.cell_at).max())
    return table


def _decoded(encoded: bytes) -> Check:
    saved = msgspec.msgpack.decode(encoded, type=SavedCheck)
    return Check(saved.constraints, saved.residuals, saved.dialect, saved.work)


__all__ = ["Header", "Value", "load", "save"]

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
"""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec
import numpy as np
from crc32c import crc32c

from tidings.errors import CorruptionError, InputError
from tidings.matching.columnar.asking import Check, Checks
from tidings.matching.columnar.geometry import Edges, Grid
from tidings.matching.columnar.rows import PART, FrozenRows
from tidings.matching.columnar.slots import Slot
from tidings.matching.columnar.strings import SortedTexts, Strings
from tidings.matching.columnar.table import Boxes, Table, homes_of
from tidings.model.constraint import Constraint
from tidings.model.expression import Expression
from tidings.model.value import Value

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
    work: tuple[tuple[str, int], ...] = ()  # since tables know of work budgets


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
    plain: bool = False  # row r belongs to handle r, nothing is checked
    version: str = ""  # whatever the writer calls this table; the reader gets it back


def save(
    table: Table, path: str | os.PathLike[str], *, handles: int, derived: list[bytes], version: str = ""
) -> None:
    """Write the table beside `path` and move it there, so that a reader sees all of it or none."""
    arrays = _arrays(table)
    places, offset = [], 0
    for name, array in arrays.items():
        dtype = "part" if array.dtype == PART else array.dtype.str
        places.append(ArrayPlace(name, dtype, array.shape, offset))
        offset = _aligned(offset + array.nbytes)
    header = msgspec.msgpack.encode(
        Header(
            places, [(s.attribute, s.kind) for s in table.slots], {s: t.ordered for s, t in table.strings.items()},
            [_encoded(check) for check in table.checks.all], derived, handles, table.many,
            table.grid.cells if table.grid is not None else 0, table.expected, table.sampled,
            None if table.boxes is None else table.boxes.slots, table.plain and not table.removed, version,
        )
    )  # fmt: skip
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    with draft.open("wb") as file:
        file.seek(_aligned(_fixed.size + len(header)))
        total = _write(file, arrays, places)
        file.seek(0)
        file.write(_fixed.pack(MAGIC, VERSION, len(header), crc32c(header), total) + header)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)


def _write(file: Any, arrays: dict[str, Any], places: list[ArrayPlace]) -> int:
    start, total = file.tell(), 0
    for place in places:
        gap = start + place.offset - file.tell()
        for some in (bytes(gap), np.ascontiguousarray(arrays[place.name]).reshape(-1).view(np.uint8)):
            file.write(some)
            total = crc32c(memoryview(some), total)  # type: ignore[arg-type]
    return int(total)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN) * ALIGN


def _encoded(check: Check) -> bytes:
    return msgspec.msgpack.encode(SavedCheck(*check))


def _arrays(table: Table) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        f"rows.{name}": getattr(table.rows, name)
        for name in ("starts", "parts", "points", "rests", "owners", "checks")
    }
    for slot, held in table.strings.items():
        arrays[f"text.{slot}.blob"], arrays[f"text.{slot}.offsets"] = held.texts.blob, held.texts.offsets
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


def load(path: str | os.PathLike[str], *, verify: bool = True) -> tuple[Table, Header]:
    """Map a table. `verify=False` leaves the sums over the arrays unchecked."""
    target = Path(path)
    try:
        # a private mapping: nobody writes, but read-only arrays would have every kernel compiled again
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


def _table(header: Header, whole: Any, start: int, path: Path) -> Table:
    found: dict[str, Any] = {}
    for place in header.arrays:
        dtype = PART if place.dtype == "part" else np.dtype(place.dtype)
        size = int(np.prod(place.shape)) * dtype.itemsize
        at = start + place.offset
        if at + size > len(whole):
            raise CorruptionError(f"{path} ends before its arrays do", hint="write the table again")
        found[place.name] = np.frombuffer(whole[at : at + size], dtype).reshape(place.shape)
    names = ("starts", "parts", "points", "rests", "owners", "checks")
    rows = FrozenRows(**{name: found[f"rows.{name}"] for name in names}, lasting=found["rows.checks"])
    rows.owners, rows.points_used = rows.owners.copy(), len(rows.points)  # owners alone change
    table = Table(
        rows, [Slot(*s) for s in header.slots],
        {
            slot: Strings(SortedTexts(found[f"text.{slot}.blob"], found[f"text.{slot}.offsets"]), ordered=ordered)
            for slot, ordered in header.texts.items()
        },
        Checks(_decoded(check) for check in header.checks),
    )  # fmt: skip
    table.many, table.plain = header.many, header.plain
    table.expected, table.sampled = header.expected, header.sampled
    table.homes = homes_of(rows.owners)
    if "entries" in found:
        table.edges = Edges(**{f.name: found[f"edges.{f.name}"] for f in fields(Edges)})
        table.grid = Grid(
            cells=header.cells, **{f.name: found[f"grid.{f.name}"] for f in fields(Grid) if f.name != "cells"}
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

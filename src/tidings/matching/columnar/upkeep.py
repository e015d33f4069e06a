"""Upkeep: table and delta become the next table, in small steps, while both still serve.

Changes that come meanwhile are noted in a journal and replayed on the next table before
the swap; so the newer delta need not be translated from old dictionaries to new ones.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.asking import Checks
from tidings.matching.columnar.delta import Delta
from tidings.matching.columnar.freeze import Source, freeze
from tidings.matching.columnar.pack import Packer
from tidings.matching.columnar.parts import Parts
from tidings.matching.columnar.rows import PART, rows_of
from tidings.matching.columnar.strings import Strings
from tidings.matching.columnar.table import Table, make_table
from tidings.model.event import Event
from tidings.model.filter import Filter

LINEAR_MOST = 2048  # rows that every event must look at, before the table is built anew
DRIFTED = 3.0  # times the candidates that were expected
REPLAYED_IN_STEP = 32
PACKED_IN_STEP = 128


class Change(NamedTuple):
    handle: int
    filter: Filter | None  # None: removed


def has_aged(table: Table, delta: Delta, candidates: float) -> bool:
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


def no_rows() -> Source:
    numbers, doubles = np.zeros(0, np.int32), np.zeros(0)
    return Source(np.zeros(1, np.int32), np.zeros(0, PART), doubles, numbers, numbers, numbers, Checks())


def source_of_table(table: Table) -> Source:
    rows = table.rows
    return Source(rows.starts, rows.parts, rows.points, rows.rests, rows.owners, rows.lasting, table.checks)


def next_table(
    sources: list[Source], parts: Parts, sample: list[Event], *, indexed: bool
) -> Generator[None, None, Table]:
    """The table of all live rows of the sources."""
    slots = parts.slots
    frozen = yield from freeze(sources, parts.strings)
    seen = (yield from _sampled(sample, parts, frozen.strings)) if indexed else None
    return (yield from make_table(frozen, list(slots.all), slots.is_string(), seen, indexed=indexed))


def _sampled(
    sample: list[Event], parts: Parts, strings: dict[int, Strings]
) -> Generator[None, None, NDArray[np.float64] | None]:
    """Rows of sampled events, in the positions of the next dictionaries."""
    if len(sample) < 16:
        return None
    slots = parts.slots
    packer = Packer(slots, strings, parts.derived.programs)
    present, absent = slots.links()
    rows = np.empty((len(sample), len(slots)))
    for at in range(0, len(sample), PACKED_IN_STEP):
        for place, event in enumerate(sample[at : at + PACKED_IN_STEP], at):
            row = packer.blank[:]
            packer.pack_all(event, row)
            rows[place] = row[: len(slots)]
        yield
    link_presence(rows, present, absent)
    return rows


def link_presence(rows: NDArray[np.float64], present: NDArray[np.int32], absent: NDArray[np.int32]) -> None:
    """What the walk does for one row: a value of any kind makes its attribute present."""
    for slot in np.nonzero((present >= 0) | (absent >= 0))[0].tolist():
        held = ~np.isnan(rows[:, slot])
        if present[slot] >= 0:
            rows[held, present[slot]] = 0.0
        if absent[slot] >= 0:
            rows[held, absent[slot]] = np.nan


def remove_rows(table: Table, handle: int) -> bool:
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


class Replay:
    """The next table's own delta, dictionaries and parts; filled from the journal."""

    def __init__(self, table: Table, parts: Parts, room: int) -> None:
        self.table = table
        self.slots = parts.slots
        self.strings = dict(table.strings)
        self.parts = Parts(parts.slots, self.strings, parts.derived)
        self.delta = Delta(table.edges, room)

    def apply(self, changes: Iterable[Change]) -> None:
        for handle, filter in changes:
            if filter is not None:
                self.delta.add(rows_of(filter, self.parts), handle, self._text())
            elif handle in self.delta.homes:
                self.delta.remove(handle)
            else:
                remove_rows(self.table, handle)

    def _text(self) -> Any:
        return self.slots.text

    def steps(self, journal: list[Change]) -> Generator[None, None, None]:
        """Replay until nothing is left; the journal may grow between steps."""
        done = 0
        while done < len(journal):
            self.apply(journal[done : done + REPLAYED_IN_STEP])
            done += REPLAYED_IN_STEP
            if done < len(journal):
                yield

"""Merging: a delta's rows join the table under the table's own edges, cells and dictionaries.

A merge costs what the delta holds and one pass over the entries, where a freeze computes everything
anew. Rows keep their numbers: those of the delta are appended, and dead ones stay until the next
freeze, though their entries go. Since edges and dictionaries stay, the newer delta stays valid.
A freeze is better when the events or the texts have moved away from the table, or when much is dead.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.delta import Delta
from tidings.matching.columnar.freeze import ROWS_IN_STEP, RUN
from tidings.matching.columnar.geometry import extended_geometry
from tidings.matching.columnar.rows import FrozenRows
from tidings.matching.columnar.table import MOST_CELLS_A_ROW, PRICE, Table

ROOM = 1.5  # of the rows, when they are copied to where they can grow
CELLS_IN_STEP = 8192
_BY_ROW = ("owners", "checks", "lasting")
_GROWING = ("starts", "parts", "points", "rests", *_BY_ROW)


def merged_table(table: Table, delta: Delta, text: NDArray[np.uint8]) -> Generator[None, None, Table]:
    """The table with the delta's rows. Removals that come meanwhile are taken over at the end."""
    rows, count, more = table.rows, len(table.rows), len(delta.rows)
    held = yield from _with_room(table, delta)
    yield from _append(held, rows, delta, table)
    fresh = _views(held, _lengths(table), _sizes(delta))
    owners = np.concatenate((rows.owners, delta.rows.owners[:more]))  # as of now: counts must not change
    yield
    purged = int((owners < 0).sum())
    unsettled = int((delta.rows.checks[:more] != delta.rows.lasting[:more]).sum())
    yield
    cell_at, entries, linear = yield from _entries(table, fresh, text, owners, count)
    result = replace(table, rows=fresh, cell_at=cell_at, entries=entries, growing=held, plain=False)
    result.linear, result.merged = table.linear + linear, table.merged + more
    result.purged, result.unsettled = purged, table.unsettled + unsettled
    _take_over(result, rows, delta, count)
    return result


def _take_over(result: Table, rows: FrozenRows, delta: Delta, count: int) -> None:
    """Owners as they are at last: whatever was removed meanwhile is removed."""
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


def _views(held: dict[str, Any], sizes: dict[str, int], more: dict[str, int]) -> FrozenRows:
    rows = FrozenRows(**{name: held[name][: sizes[name] + more[name]] for name in _GROWING})
    rows.points_used = sizes["points"] + more["points"]
    return rows


def _sizes(delta: Delta) -> dict[str, int]:
    used = delta.rows.used
    more = dict.fromkeys(_GROWING, len(delta.rows))
    return more | {"parts": used[0], "points": used[1], "rests": used[1]}


def _with_room(table: Table, delta: Delta) -> Generator[None, None, dict[str, Any]]:
    """The table's row arrays where the delta's fit behind them."""
    more, rows, held = _sizes(delta), table.rows, dict(table.growing)
    lengths = _lengths(table)
    for name in _GROWING:
        least = lengths[name] + more[name] + 2
        if name in held and len(held[name]) >= least:
            continue
        old = getattr(rows, name)
        held[name] = np.empty(int(ROOM * least), old.dtype)
        length = min(len(old), lengths[name])
        for at in range(0, length, RUN):
            held[name][at : min(length, at + RUN)] = old[at : min(length, at + RUN)]
            yield
        if name in _BY_ROW and length < lengths[name]:
            held[name][: lengths[name]] = -1  # no row had a check so far
    return held


def _lengths(table: Table) -> dict[str, int]:
    rows = table.rows
    count, parts = len(rows), int(rows.starts[len(rows)])
    return dict.fromkeys(_GROWING, count) | {
        "starts": count + 1, "parts": parts, "points": rows.points_used, "rests": rows.points_used,
    }  # fmt: skip


def _append(
    held: dict[str, Any], rows: FrozenRows, delta: Delta, table: Table
) -> Generator[None, None, None]:
    count, more, size = len(rows), len(delta.rows), _lengths(table)
    own, (parts, points) = delta.rows, delta.rows.used
    held["starts"][count + 1 : count + more + 1] = own.starts[1 : more + 1] + size["parts"]
    for name in ("points", "rests"):
        held[name][size[name] : size[name] + points] = getattr(own, name)[:points]
    yield
    for at in range(0, parts, RUN):
        some = own.parts[at : min(parts, at + RUN)].copy()
        some["at"][some["count"] > 0] += size["points"]
        held["parts"][size["parts"] + at : size["parts"] + at + len(some)] = some
        yield
    numbers = np.array([*(table.checks.number(check) for check in own.table.all), -1], np.int32)
    held["checks"][count : count + more] = numbers[own.checks[:more]]
    held["lasting"][count : count + more] = numbers[own.lasting[:more]]
    held["owners"][count : count + more] = own.owners[:more]
    yield


def _entries(
    table: Table, rows: FrozenRows, text: NDArray[np.uint8], owners: NDArray[np.int32], count: int
) -> Generator[None, None, tuple[Any, Any, int]]:
    """Cells without the dead and with the rows from `count` on; how many rows every event looks at."""
    from tidings.matching.columnar.merge_kernels import copy_cells, count_rows, fill_rows, lay_out_cells

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
            at, min(more, at + ROWS_IN_STEP), rows.starts[count:], *common[1:], (singles >= 0).astype(np.uint8),
            allowed, PRICE, MOST_CELLS_A_ROW, firsts, seconds, used, alone,
        )  # fmt: skip
        yield
    return firsts, seconds

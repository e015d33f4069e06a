# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Kernels that merge a delta's rows into the cells of a table. Imported only with Numba."""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar.grid_kernels import compiled, file_row

MOST_ENTRIES = 4096


@compiled
def count_rows(
    r0, r1, first_row, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
    access, lut_at, lut, first_at, first, sizes, pairs, singles, firsts, seconds, owners, more,
):  # fmt: skip
    """Add the entries of the live rows r0..r1 to `more`, by cell."""
    cells_a, full_a = np.empty(MOST_ENTRIES, np.int64), np.empty(MOST_ENTRIES, np.bool_)
    cells_b, full_b = np.empty(MOST_ENTRIES, np.int64), np.empty(MOST_ENTRIES, np.bool_)
    where, words0, words1 = (
        np.empty(MOST_ENTRIES, np.int64),
        np.empty(MOST_ENTRIES, np.int64),
        np.empty(MOST_ENTRIES, np.int64),
    )
    for r in range(r0, r1):
        if owners[r] < 0:
            continue
        n = file_row(
            r, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
            access, lut_at, lut, first_at, first, sizes, pairs, singles,
            np.int64(firsts[r - first_row]), np.int64(seconds[r - first_row]),
            cells_a, full_a, cells_b, full_b, where, words0, words1,
        )  # fmt: skip
        for i in range(n):
            more[where[i]] += 1


@compiled
def fill_rows(
    r0, r1, first_row, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
    access, lut_at, lut, first_at, first, sizes, pairs, singles, firsts, seconds, owners, next_at, entries,
):  # fmt: skip
    """Write the entries of the live rows r0..r1 where `next_at` says, by cell."""
    cells_a, full_a = np.empty(MOST_ENTRIES, np.int64), np.empty(MOST_ENTRIES, np.bool_)
    cells_b, full_b = np.empty(MOST_ENTRIES, np.int64), np.empty(MOST_ENTRIES, np.bool_)
    where, words0, words1 = (
        np.empty(MOST_ENTRIES, np.int64),
        np.empty(MOST_ENTRIES, np.int64),
        np.empty(MOST_ENTRIES, np.int64),
    )
    for r in range(r0, r1):
        if owners[r] < 0:
            continue
        n = file_row(
            r, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
            access, lut_at, lut, first_at, first, sizes, pairs, singles,
            np.int64(firsts[r - first_row]), np.int64(seconds[r - first_row]),
            cells_a, full_a, cells_b, full_b, where, words0, words1,
        )  # fmt: skip
        for i in range(n):
            q = next_at[where[i]]
            next_at[where[i]] = q + 1
            entries[q, 0] = words0[i]
            entries[q, 1] = words1[i]


@compiled
def lay_out_cells(c0, c1, cell_at, entries, owners, more, fresh_at):
    """Where the cells c0..c1 begin, once the entries of dead rows are gone and `more` have come."""
    for c in range(c0, c1):
        live = 0
        for q in range(cell_at[c], cell_at[c + 1]):
            live += 1 if owners[entries[q, 1] & 0x7FFFFFFF] >= 0 else 0
        fresh_at[c + 1] = fresh_at[c] + live + more[c]


@compiled
def copy_cells(c0, c1, cell_at, entries, owners, fresh_at, fresh, next_at):
    """Copy the live entries of the cells c0..c1; `next_at` says where each goes on."""
    for c in range(c0, c1):
        n = fresh_at[c]
        for q in range(cell_at[c], cell_at[c + 1]):
            if owners[entries[q, 1] & 0x7FFFFFFF] >= 0:
                fresh[n, 0] = entries[q, 0]
                fresh[n, 1] = entries[q, 1]
                n += 1
        next_at[c] = n

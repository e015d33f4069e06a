# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Rows that are boxes: two ranges, on the pair of slots that most such rows share.

Their entries are eight bytes instead of sixteen: the row, and four codes of one byte, taken from
the beginning of the entry's cell. Codes lie in four arrays, so that a cell is filtered with
vector instructions; rows come out in order.
"""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.grid_kernels import BY_BUCKET, IS_BOX, compiled, conditions, is_simple
from tidings.matching.columnar.kernels_base import doubles, holds, ints, longs, records, shorts, small


@compiled
def count_pairs(r0, r1, starts, parts, text, access, firsts, seconds, counts):
    """How many rows of two simple parts are filed under each pair."""
    for r in range(r0, r1):
        p = starts[r]
        if starts[r + 1] - p == 2 and seconds[r] < BY_BUCKET and firsts[r] < BY_BUCKET:
            a, b = parts[p + firsts[r]], parts[p + seconds[r]]
            if is_simple(a, text[a.slot]) and is_simple(b, text[b.slot]):
                counts[access[a.slot], access[b.slot]] += 1


@compiled
def place_boxes(
    fill, r0, r1, starts, parts, text, edges_at, edges, shares_at, shares, access, lut_at, lut,
    first_at, first, sizes, one, two, firsts, seconds, cell_at, rows, codes,
):  # fmt: skip
    """Count the boxes of the pair (one, two) in each cell, or (`fill`) write them."""
    low, high, order = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    for r in range(r0, r1):
        p = starts[r]
        if starts[r + 1] - p != 2 or (not fill and (seconds[r] >= BY_BUCKET or firsts[r] >= BY_BUCKET)):
            continue
        i = 0 if access[parts[p].slot] == one else 1
        j = 1 - i
        a, b = parts[p + i], parts[p + j]
        if fill:
            if firsts[r] != IS_BOX:
                continue
        elif (
            access[a.slot] != one
            or access[b.slot] != two
            or not (is_simple(a, text[a.slot]) and is_simple(b, text[b.slot]))
        ):
            continue
        else:
            firsts[r] = IS_BOX
        conditions(p, 2, i, j, parts, text, edges_at, edges, shares_at, shares, low, high, order)
        last_a, last_b = edges_at[a.slot + 1] - edges_at[a.slot], edges_at[b.slot + 1] - edges_at[b.slot]
        a0, a1 = max(0, (low[i] - 1) >> 1), min(last_a, (high[i] - 2) >> 1)
        b0, b1 = max(0, (low[j] - 1) >> 1), min(last_b, (high[j] - 2) >> 1)
        for x in range(np.int64(lut[lut_at[one] + a0]), np.int64(lut[lut_at[one] + a1]) + 1):
            fx = 2 * first[first_at[one] + x]
            for y in range(np.int64(lut[lut_at[two] + b0]), np.int64(lut[lut_at[two] + b1]) + 1):
                c = x * sizes[two] + y
                if not fill:
                    cell_at[c + 2] += 1
                    continue
                fy = 2 * first[first_at[two] + y]
                q = cell_at[c + 1]
                cell_at[c + 1] = q + 1
                rows[q] = r
                codes[0, q] = min(255, max(0, low[i] - fx))
                codes[1, q] = min(255, max(0, high[i] - fx))
                codes[2, q] = min(255, max(0, low[j] - fy))
                codes[3, q] = min(255, max(0, high[j] - fy))


@compiled
def filter_cell(m, low_x, high_x, low_y, high_y, x, y, verdict):
    """0: outside, 1: in doubt, 2: inside. Four arrays of bytes, no branch."""
    for k in range(m):
        loose = (low_x[k] <= x) & (x <= high_x[k]) & (low_y[k] <= y) & (y <= high_y[k])
        strict = (low_x[k] < x) & (x < high_x[k]) & (low_y[k] < y) & (y < high_y[k])
        verdict[k] = np.uint8(loose) + np.uint8(strict)


@compiled
def walk_boxes(t, tier, row, rest, out, m):
    """Boxes that match, written to out[m:] in order."""
    access, codes, sure = ints(t[at.ACCESS]), longs(t[at.CODES]), longs(t[at.SURE])
    one, two = t[tier + at.BOX_ONE], t[tier + at.BOX_TWO]
    if codes[one] < 0 or codes[two] < 0:
        return m
    lut_at, lut = ints(t[tier + at.LUT_AT]), shorts(t[tier + at.LUT])
    first_at, first, sizes = ints(t[tier + at.FIRST_AT]), ints(t[tier + at.FIRST]), longs(t[tier + at.SIZES])
    a, b = access[one], access[two]
    x = np.int64(lut[lut_at[a] + ((codes[one] - 2) >> 1)])
    y = np.int64(lut[lut_at[b] + ((codes[two] - 2) >> 1)])
    qx = np.uint8(codes[one] - 2 * first[first_at[a] + x])
    qy = np.uint8(codes[two] - 2 * first[first_at[b] + y])
    certain = sure[one] >= 0 and sure[two] >= 0
    cells, rows = ints(t[tier + at.BOX_CELLS]), ints(t[tier + at.BOX_ROWS])
    starts, parts = ints(t[tier + at.STARTS]), records(t[tier + at.PARTS])
    points, rests = doubles(t[tier + at.POINTS]), ints(t[tier + at.RESTS])
    verdict, base, count = small(t[at.FOUND]), t[tier + at.BOX_CODES], t[tier + at.BOX_COUNT]
    c = x * sizes[b] + y
    start, stop, checked = np.int64(cells[c]), np.int64(cells[c + 1]), 0
    counters = longs(t[at.COUNTERS])
    counters[at.CANDIDATES] += stop - start
    while start < stop:
        n = min(stop - start, 8 * t[at.FOUND_SIZE])
        filter_cell(
            n, small(base + start), small(base + count + start), small(base + 2 * count + start),
            small(base + 3 * count + start), qx, qy, verdict,
        )  # fmt: skip
        for k in range(n):
            v = verdict[k]
            r = rows[start + k]
            out[m] = r
            if v == 1 or (v == 2 and not certain):
                checked += 1
                if holds(starts[r], starts[r + 1], row, rest, parts, points, rests):
                    m += 1
            else:
                m += np.int64(v >> 1)
        start += n
    counters[at.EXACT_CHECKS] += checked
    return m

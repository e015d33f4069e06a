# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Rows that are boxes: two ranges, on the pair of slots that most such rows share.

An entry is eight bytes: four codes of one byte, and the row. A code says where in its cell a
bound lies, from 1 to 254 in equal steps; 0 is a bound below the cell and 255 one above. A value's
code is compared with them: strictly between holds, strictly outside fails, and a tie is checked
exactly. A cell is one block, its codes in four runs and then its rows, so that it is filtered with
vector instructions and read in one stream; rows come out in order.
"""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.grid_kernels import (
    BY_BUCKET,
    IS_BOX,
    bucket_of,
    compiled,
    is_simple,
    unbounded_above,
    unbounded_below,
)
from tidings.matching.columnar.kernels_base import doubles, holds, ints, longs, prefetch, records, small

BELOW, FIRST_CODE, LAST_CODE, ABOVE = 0, 1, 254, 255
AHEAD = 4  # events of a batch whose cells are asked for before they are needed


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
def code_of(frames, cell, value):
    """Where in its cell a value lies. It never falls while the value rises, whatever is rounded."""
    step = (value - frames[2 * cell]) * frames[2 * cell + 1]
    if not step > 0.0:
        return FIRST_CODE
    return np.int64(step) + FIRST_CODE if step < LAST_CODE - 1 else LAST_CODE


@compiled
def codes_of(part, cell, first, last, frames):
    """The codes of the bounds of a part in one of its cells."""
    low = BELOW if cell > first or unbounded_below(part) else code_of(frames, cell, part.lo)
    high = ABOVE if cell < last or unbounded_above(part) else code_of(frames, cell, part.hi)
    return low, high


@compiled
def cells_of(a, b, cuts, sizes):
    """The first and last cells of two parts on their axes."""
    across, upto = sizes[0] - 1, sizes[0] + sizes[1] - 2
    return (
        bucket_of(cuts, 0, across, a.lo), bucket_of(cuts, 0, across, a.hi),
        bucket_of(cuts, across, upto, b.lo), bucket_of(cuts, across, upto, b.hi),
    )  # fmt: skip


@compiled
def mark_boxes(r0, r1, starts, parts, text, one, two, cuts, sizes, cap, firsts):
    """Say of the rows r0..r1 which are boxes over the two slots, unless they cover too many cells."""
    for r in range(r0, r1):
        p = starts[r]
        if starts[r + 1] - p != 2 or firsts[r] >= BY_BUCKET:
            continue
        i = 0 if parts[p].slot == one else 1
        a, b = parts[p + i], parts[p + 1 - i]
        if a.slot == one and b.slot == two and is_simple(a, text[one]) and is_simple(b, text[two]):
            a0, a1, b0, b1 = cells_of(a, b, cuts, sizes)
            if (a1 - a0 + 1) * (b1 - b0 + 1) <= cap:
                firsts[r] = IS_BOX


@compiled
def place_boxes(fill, r0, r1, starts, parts, slot, firsts, cuts, frames, sizes, cell_at, block):
    """Count the boxes in each cell, or (`fill`) write them."""
    across = sizes[0]
    for r in range(r0, r1):
        if firsts[r] != IS_BOX:
            continue
        p = starts[r]
        i = 0 if parts[p].slot == slot else 1
        a, b = parts[p + i], parts[p + 1 - i]
        a0, a1, b0, b1 = cells_of(a, b, cuts, sizes)
        for x in range(a0, a1 + 1):
            low_x, high_x = codes_of(a, x, a0, a1, frames)
            for y in range(b0, b1 + 1):
                c = x * sizes[1] + y
                if not fill:
                    cell_at[c + 1] += 1
                    continue
                low_y, high_y = codes_of(b, across + y, across + b0, across + b1, frames)
                start, n = np.int64(cell_at[c]), np.int64(cell_at[c + 1] - cell_at[c])
                # until the cell is full, its last four bytes count what is in it
                rows = block[8 * start + 4 * n : 8 * (start + n)].view(np.int32)
                k = np.int64(rows[n - 1])
                base = 8 * start + k
                block[base], block[base + n] = low_x, high_x
                block[base + 2 * n], block[base + 3 * n] = low_y, high_y
                rows[n - 1] = k + 1
                rows[k] = r


@compiled
def filter_cell(n, block, x, y, verdict):
    """0: no; 1: in doubt; 2: yes."""
    for k in range(n):
        low_x, high_x, low_y, high_y = block[k], block[n + k], block[2 * n + k], block[3 * n + k]
        loose = (low_x <= x) & (x <= high_x) & (low_y <= y) & (y <= high_y)
        strict = (low_x < x) & (x < high_x) & (low_y < y) & (y < high_y)
        verdict[k] = np.uint8(loose) + np.uint8(strict)


@compiled
def cell_of(t, tier, x, y):
    """The cells of two values on their axes."""
    cuts, across, up = doubles(t[tier + at.BOX_CUTS]), t[tier + at.BOX_ACROSS], t[tier + at.BOX_UP]
    return bucket_of(cuts, 0, across - 1, x), bucket_of(cuts, across - 1, across + up - 2, y)


@compiled
def walk_cell(t, tier, column, line, row, rest, out, m):
    """Boxes of one cell that match, written to out[m:] in order."""
    frames, across = doubles(t[tier + at.BOX_FRAMES]), t[tier + at.BOX_ACROSS]
    x = np.uint8(code_of(frames, column, row[t[tier + at.BOX_ONE]]))
    y = np.uint8(code_of(frames, across + line, row[t[tier + at.BOX_TWO]]))
    cells = ints(t[tier + at.BOX_CELLS])
    c = column * t[tier + at.BOX_UP] + line
    start = np.int64(cells[c])
    n = np.int64(cells[c + 1]) - start
    block, rows = small(t[tier + at.BOX_BLOCK] + 8 * start), ints(t[tier + at.BOX_BLOCK] + 8 * start + 4 * n)
    starts, parts = ints(t[tier + at.STARTS]), records(t[tier + at.PARTS])
    points, rests = doubles(t[tier + at.POINTS]), ints(t[tier + at.RESTS])
    verdict = small(t[tier + at.BOX_VERDICT])
    filter_cell(n, block, x, y, verdict)
    checked = 0
    for k in range(n):
        v = verdict[k]
        r = rows[k]
        out[m] = r
        if v == 1:
            checked += 1
            m += 1 if holds(starts[r], starts[r + 1], row, rest, parts, points, rests) else 0
        else:
            m += np.int64(v >> 1)
    counters = longs(t[at.COUNTERS])
    counters[at.CANDIDATES] += n
    counters[at.EXACT_CHECKS] += checked
    return m


@compiled
def walk_boxes(t, tier, row, rest, out, m):
    """Boxes that match, written to out[m:] in order."""
    x, y = row[t[tier + at.BOX_ONE]], row[t[tier + at.BOX_TWO]]
    if x != x or y != y:
        return m
    column, line = cell_of(t, tier, x, y)
    return walk_cell(t, tier, column, line, row, rest, out, m)


@compiled
def match_box_rows(t, rows, rest, first, out, offsets, used, most):
    """Many events against a table of nothing but boxes. Stops early when room runs out; the next event."""
    tier = at.TIER
    one, two, up = t[tier + at.BOX_ONE], t[tier + at.BOX_TWO], t[tier + at.BOX_UP]
    cells, counters = ints(t[tier + at.BOX_CELLS]), longs(t[at.COUNTERS])
    places = np.empty((AHEAD, 2), np.int64)
    n, asked = used, first
    for i in range(first, rows.shape[0]):
        while asked < min(rows.shape[0], i + AHEAD):
            place = places[asked % AHEAD]
            place[0], place[1] = cell_of(t, tier, rows[asked, one], rows[asked, two])
            start = t[tier + at.BOX_BLOCK] + 8 * np.int64(cells[place[0] * up + place[1]])
            for line in range(4):
                prefetch(start + 64 * line)
            asked += 1
        if n + most > out.shape[0]:
            return i, n
        row = rows[i]
        before = n
        if row[one] == row[one] and row[two] == row[two]:
            n = walk_cell(t, tier, places[i % AHEAD, 0], places[i % AHEAD, 1], row, rest, out, n)
        counters[at.EVENTS] += 1
        counters[at.MATCHES] += n - before
        offsets[i + 1] = n
    return rows.shape[0], n

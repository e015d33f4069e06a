# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Kernels of the delta. Imported only with Numba."""

from __future__ import annotations

import numpy as np
from numba import carray

from tidings.matching.columnar.delta import DELTA_PRICE, MOST_CELLS_A_ROW
from tidings.matching.columnar.grid_kernels import choose, compiled, file_row
from tidings.matching.columnar.kernels_base import ANY, _pointer, doubles, ints, longs, records, shorts, small


@compiled
def insert(address, row):
    """File one row; its entries outside cell 0, or -1 when the heap has no room for them."""
    u = longs(address)
    starts, parts, points, rests = ints(u[0]), records(u[1]), doubles(u[2]), ints(u[3])
    text, edges_at, edges = small(u[4]), ints(u[5]), doubles(u[6])
    shares_at, shares, access = ints(u[7]), doubles(u[8]), ints(u[9])
    lut_at, lut, first_at, first, may_alone = (
        ints(u[10]),
        shorts(u[11]),
        ints(u[12]),
        ints(u[13]),
        small(u[14]),
    )
    count = u[21]
    sizes = carray(_pointer(u[15]), (count,), np.int64)
    pairs = carray(_pointer(u[16]), (count, count), np.int64)
    singles = longs(u[17])
    blocks = carray(_pointer(u[18]), (ANY, 4), np.int32)
    heap = carray(_pointer(u[19]), (ANY, 2), np.int64)
    used_up = longs(u[20])
    ones, twos = np.empty(1, np.uint8), np.empty(1, np.uint8)
    used, alone = np.zeros((count, count), np.uint8), np.zeros(u[23], np.uint8)
    allowed = np.ones((count, count), np.uint8)
    choose(
        0, 1, starts[row:], parts, points, rests, text, edges_at, edges, shares_at, shares,
        access, lut_at, lut, first_at, first, may_alone, allowed, DELTA_PRICE, MOST_CELLS_A_ROW, ones, twos, used, alone,
    )  # fmt: skip
    where, words0, words1 = np.empty(4096, np.int64), np.empty(4096, np.int64), np.empty(4096, np.int64)
    n = file_row(
        row, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
        access, lut_at, lut, first_at, first, sizes, pairs, singles, np.int64(ones[0]), np.int64(twos[0]),
        np.empty(4096, np.int64), np.empty(4096, np.bool_), np.empty(4096, np.int64), np.empty(4096, np.bool_),
        where, words0, words1,
    )  # fmt: skip
    needed = 0
    for i in range(n):
        if blocks[where[i], 1] == blocks[where[i], 2]:
            needed += max(4, 2 * blocks[where[i], 2])
    if used_up[0] + needed > u[22]:
        return -1
    for i in range(n):
        c = where[i]
        length = blocks[c, 1]
        if length == blocks[c, 2]:
            fresh, old = used_up[0], blocks[c, 0]
            room = max(4, 2 * length)
            used_up[0] = fresh + room
            for q in range(length):
                heap[fresh + q, 0] = heap[old + q, 0]
                heap[fresh + q, 1] = heap[old + q, 1]
            blocks[c, 0] = fresh
            blocks[c, 2] = room
        q = blocks[c, 0] + length
        heap[q, 0] = words0[i]
        heap[q, 1] = words1[i]
        blocks[c, 1] = length + 1
    return 0 if ones[0] == 255 else n

"""Kernels that file rows in the grid. Free functions over arrays; imported only with Numba.

Each row is filed under the pair of its slots that events are expected to hit least, in
every cell that both parts cover; or under one slot (by cell, or finer by bucket); or, when it
has no part at all, in cell 0, which every event visits.

An entry is two words: three conditions as 12-bit codes, the row, and a bit that says that
no other condition is left to check:
  lo0 12 | hi0 12 | lo1 12 | hi1 12 | slot0 8 | slot1 8
  row 31 | slot2 8 | lo2 12 | hi2 12 | complete 1
The code of a value in bucket b is 2b + 2. A bound that falls on an edge is odd, one inside a
bucket even, so that equality means doubt: strictly inside holds, strictly outside fails.

A row that is filed by the bucket of one slot has a finer code for it: where in the bucket the bound
lies. Slot s below 100 has such codes as slot 150 + s; slots from 150 on have no codes in entries.

Arrays from addresses, and the exact check of a row. Imported only with Numba.

Kernels over sorted texts. Imported only with Numba.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tidings.matching.columnar.jit import cached
from tidings.matching.columnar.layout import EXACT_DOUBLES, PART

# -- grid kernels ------------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


NO_SECOND = 255  # access by one slot, by cell
BY_BUCKET = 254  # access by one slot, by bucket
IS_BOX = 253  # in place of a row's first part: it is filed among the boxes
MOST_PARTS = 64  # looked at for access and for conditions in the entry; the rest is checked exactly
OPEN_LOW, OPEN_HIGH = 0, 4095
FINE_SLOTS, FINE = 100, 150
FINE_STEPS = 4088.0

compiled = cached(njit(cache=True, nogil=True, boundscheck=False))


@compiled
def bucket_of(edges, start, stop, value):
    """Number of edges[start:stop] that are at most `value`."""
    n = stop - start
    if n == 0:
        return 0
    base = start
    while n > 1:
        half = n >> 1
        base += half if edges[base + half] <= value else 0
        n -= half
    return base - start + (1 if edges[base] <= value else 0)


@compiled
def fine_code(edges, start, stop, b, text, value):
    """Position of a value within bucket b, and whether neighbouring texts have codes of their own.

    It never falls while the value rises. The outermost buckets hold no bound, so any code will do.
    """
    if b == 0 or b == stop - start:
        return 2, False
    low, size = edges[start + b - 1], edges[start + b] - edges[start + b - 1]
    if text and size <= FINE_STEPS:
        return np.int64(value - low) + 2, True
    step = (value - low) * (FINE_STEPS / size)
    if not step > 0.0:
        return 2, False
    return (np.int64(step) if step < FINE_STEPS else np.int64(FINE_STEPS)) + 2, False


@compiled
def fine_span(part, text, edges, start, stop, b):
    """The fine codes of a simple part in one of its buckets."""
    b0, d0, b1, d1 = span(part, text, edges, start, stop)
    low, high = OPEN_LOW, OPEN_HIGH
    if b == b0 and not d0:
        low, apart = fine_code(edges, start, stop, b, text, part.lo)
        low -= 1 if apart and np.int64(part.lo) % 2 == 0 else 0
    if b == b1 and not d1:
        high, apart = fine_code(edges, start, stop, b, text, part.hi)
        high += 1 if apart and np.int64(part.hi) % 2 == 0 else 0
    return low, high


@compiled
def unbounded_below(part):
    """Does every value satisfy the lower bound? Not minus infinity, when the bound leaves it out."""
    return part.lo == -np.inf and part.lo_rest <= 0


@compiled
def unbounded_above(part):
    return part.hi == np.inf and part.hi_rest >= 0


@compiled
def span(part, text, edges, start, stop):
    """Buckets that a part covers, and whether it holds in all of the first and of the last one.

    An event is filed by the nearest double of its value. The pair (double, rest) is ordered by the
    double first, so a value within the bounds has a double within them, and the bound's own bucket is
    the furthest that it can lie in. Only below 2**53, where no value has a rest, does an open bound
    begin at the next double: beyond, integers lie between the two.
    """
    last = stop - start
    lo, hi, lo_rest, hi_rest = part.lo, part.hi, part.lo_rest, part.hi_rest
    b0, d0, b1, d1 = 0, True, last, True
    if not unbounded_below(part):
        if text:
            b0 = bucket_of(edges, start, stop, lo)
            d0 = b0 > 0 and edges[start + b0 - 1] == lo
        elif lo_rest > 0 and -EXACT_DOUBLES < lo < EXACT_DOUBLES:
            edge = np.nextafter(lo, np.inf)
            b0 = bucket_of(edges, start, stop, edge)
            d0 = b0 > 0 and edges[start + b0 - 1] == edge
        else:
            b0 = bucket_of(edges, start, stop, lo)
            d0 = lo_rest <= 0 and b0 > 0 and edges[start + b0 - 1] == lo
    if not unbounded_above(part):
        if text:
            b1 = bucket_of(edges, start, stop, hi)
            d1 = b1 < last and edges[start + b1] == hi + (2.0 if np.int64(hi) % 2 == 0 else 1.0)
        elif hi_rest < 0 and -EXACT_DOUBLES < hi < EXACT_DOUBLES:
            b1 = bucket_of(edges, start, stop, np.nextafter(hi, -np.inf))
            d1 = b1 < last and edges[start + b1] == hi
        else:
            b1 = bucket_of(edges, start, stop, hi)
            d1 = (
                hi_rest >= 0 and hi != -np.inf and b1 < last and edges[start + b1] == np.nextafter(hi, np.inf)
            )
    if b1 < b0:
        b1, d0, d1 = b0, False, False
    return b0, d0, b1, d1


@compiled
def is_simple(part, text):
    """Can codes decide the part? Not a set, nor a bound that is no double."""
    if part.count != 0:
        return False
    return text or (-1 <= part.lo_rest <= 1 and -1 <= part.hi_rest <= 1)


@compiled
def point_bucket(value, rest, text, edges, start, stop):
    """The bucket of a point of a set, and whether the bucket holds that point only."""
    b = bucket_of(edges, start, stop, value)
    after = value + 2.0 if text else np.nextafter(value, np.inf)
    alone = (
        rest == 0
        and b > 0
        and edges[start + b - 1] == value
        and b < stop - start
        and edges[start + b] == after
    )
    return b, alone


@compiled
def measure(
    p, parts, points, rests, text, edges_at, edges, shares_at, shares, access, lut_at, lut, first_at, first
):
    """(cells, share of events by cell, buckets, share by bucket) of one part."""
    part = parts[p]
    s = part.slot
    start, stop, at = edges_at[s], edges_at[s + 1], shares_at[s]
    a = access[s]
    if part.count == 0 or part.count >= 0x8000:
        b0, _, b1, _ = span(part, text[s], edges, start, stop)
        fine = shares[at + b1 + 1] - shares[at + b0]
        if a < 0:
            return 1 << 30, 1.0, b1 - b0 + 1, fine
        j0, j1 = lut[lut_at[a] + b0], lut[lut_at[a] + b1]
        wide = shares[at + first[first_at[a] + j1 + 1]] - shares[at + first[first_at[a] + j0]]
        return np.int64(j1) - np.int64(j0) + 1, wide, b1 - b0 + 1, fine
    cells, buckets, wide, fine, last_cell, last_bucket = 0, 0, 0.0, 0.0, -1, -1
    for q in range(part.at, part.at + part.count):
        b, _ = point_bucket(points[q], rests[q], text[s], edges, start, stop)
        if b != last_bucket:
            last_bucket = b
            buckets += 1
            fine += shares[at + b + 1] - shares[at + b]
            if a >= 0:
                j = np.int64(lut[lut_at[a] + b])
                if j != last_cell:
                    last_cell = j
                    cells += 1
                    wide += shares[at + first[first_at[a] + j + 1]] - shares[at + first[first_at[a] + j]]
    if a < 0:
        return 1 << 30, 1.0, buckets, fine
    return cells, wide, buckets, fine


@compiled
def choose(
    r0, r1, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
    access, lut_at, lut, first_at, first, may_alone, allowed, price, cap, firsts, seconds, used, alone,
):  # fmt: skip
    """For rows r0..r1: under which one or two of their parts they are filed; the expected candidates."""
    cells, wide = np.empty(MOST_PARTS, np.int64), np.empty(MOST_PARTS, np.float64)
    expected = 0.0
    none = used.shape[0] - 1
    for r in range(r0, r1):
        p0 = starts[r]
        m = min(starts[r + 1] - p0, MOST_PARTS)
        best, one, two, hits = 1e300, 255, NO_SECOND, 1.0
        for i in range(m):
            cells[i], wide[i], buckets, fine = measure(
                p0 + i, parts, points, rests, text, edges_at, edges, shares_at, shares,
                access, lut_at, lut, first_at, first,
            )  # fmt: skip
            over = 1.0 if buckets > cap else 0.0
            if may_alone[parts[p0 + i].slot] and fine + price * buckets + over < best:
                best, one, two, hits = fine + price * buckets + over, i, BY_BUCKET, fine
            a = access[parts[p0 + i].slot]
            if cells[i] <= cap and wide[i] + price * cells[i] < best and allowed[a, none]:
                best, one, two, hits = wide[i] + price * cells[i], i, NO_SECOND, wide[i]
            for j in range(i):
                b = access[parts[p0 + j].slot]
                if cells[i] * cells[j] <= cap and a != b and allowed[min(a, b), max(a, b)]:
                    cost = wide[i] * wide[j] + price * cells[i] * cells[j]
                    if cost < best:
                        best, one, two, hits = cost, j, i, wide[i] * wide[j]
        expected += hits
        if two < BY_BUCKET and access[parts[p0 + one].slot] > access[parts[p0 + two].slot]:
            one, two = two, one
        firsts[r], seconds[r] = one, two
        if one != 255:
            if two == BY_BUCKET:
                alone[parts[p0 + one].slot] = 1
            elif two == NO_SECOND:
                used[access[parts[p0 + one].slot], none] = 1
            else:
                used[access[parts[p0 + one].slot], access[parts[p0 + two].slot]] = 1
    return expected


@compiled
def spread(
    p,
    by_bucket,
    parts,
    points,
    rests,
    text,
    edges_at,
    edges,
    access,
    lut_at,
    lut,
    first_at,
    first,
    cells,
    full,
):
    """The cells (or buckets) of one part, and which of them it holds all through."""
    part = parts[p]
    s = part.slot
    start, stop = edges_at[s], edges_at[s + 1]
    a = access[s]
    n = 0
    if part.count == 0 or part.count >= 0x8000:
        b0, d0, b1, d1 = span(part, text[s], edges, start, stop)
        w0, w1 = b0 if d0 else b0 + 1, b1 if d1 else b1 - 1
        plain = is_simple(part, text[s])
        if by_bucket:
            for b in range(b0, b1 + 1):
                cells[n], full[n] = b, plain and w0 <= b and b <= w1
                n += 1
        else:
            for j in range(np.int64(lut[lut_at[a] + b0]), np.int64(lut[lut_at[a] + b1]) + 1):
                cells[n] = j
                full[n] = plain and first[first_at[a] + j] >= w0 and first[first_at[a] + j + 1] - 1 <= w1
                n += 1
        return n
    last = -1
    for q in range(part.at, part.at + part.count):
        b, alone = point_bucket(points[q], rests[q], text[s], edges, start, stop)
        j = b if by_bucket else np.int64(lut[lut_at[a] + b])
        if j != last:
            last = j
            cells[n] = j
            full[n] = alone and (by_bucket or first[first_at[a] + j + 1] - first[first_at[a] + j] == 1)
            n += 1
        else:
            full[n - 1] = False
    return n


@compiled
def conditions(p0, m, one, two, parts, text, edges_at, edges, shares_at, shares, low, high, order):
    """Codes of the parts of a row, and their order: the one that fails most events first."""
    weight = np.empty(MOST_PARTS, np.float64)
    for i in range(m):
        part = parts[p0 + i]
        s = part.slot
        b0, d0, b1, d1 = span(part, text[s], edges, edges_at[s], edges_at[s + 1])
        low[i] = OPEN_LOW if unbounded_below(part) else 2 * b0 + 2 - (1 if d0 else 0)
        high[i] = OPEN_HIGH if unbounded_above(part) else 2 * b1 + 2 + (1 if d1 else 0)
        w = shares[shares_at[s] + b1 + 1] - shares[shares_at[s] + b0]
        if i in (one, two):
            w = 0.4 + 0.5 * w  # inside its own cell it says little
        k = i
        while k > 0 and weight[k - 1] > w:
            weight[k], order[k] = weight[k - 1], order[k - 1]
            k -= 1
        weight[k], order[k] = w, i


@compiled
def words(r, p0, m, complete, full_one, full_two, one, two, fine, parts, text, low, high, order):
    """The two words of an entry: three conditions of those that its cell does not settle.

    `fine` says that `low` and `high` of part `one` are its fine codes.
    """
    w0, w1, taken = np.int64(0), np.int64(r), 0
    for k in range(m):
        i = order[k]
        if (i == one and full_one) or (i == two and full_two):
            continue
        part = parts[p0 + i]
        if not is_simple(part, text[part.slot]):
            complete = False
        if taken == 3 or part.slot >= FINE:
            complete = False
            continue
        c0, c1, s = low[i], high[i], np.int64(part.slot)
        if i == one and fine:
            s += FINE
        if taken == 0:
            w0 |= c0 | (c1 << 12) | (s << 48)
        elif taken == 1:
            w0 |= (c0 << 24) | (c1 << 36) | (s << 56)
        else:
            w1 |= (s << 31) | (c0 << 39) | (c1 << 51)
        taken += 1
    if taken < 1:
        w0 |= (np.int64(OPEN_HIGH) << 12) | (np.int64(255) << 48)
    if taken < 2:
        w0 |= (np.int64(OPEN_HIGH) << 36) | (np.int64(255) << 56)
    if taken < 3:
        w1 |= (np.int64(255) << 31) | (np.int64(OPEN_HIGH) << 51)
    if complete:
        w1 |= np.int64(1) << 63
    return w0, w1


@compiled
def file_row(
    r, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
    access, lut_at, lut, first_at, first, sizes, pairs, singles, one, two,
    cells_a, full_a, cells_b, full_b, where, words0, words1,
):  # fmt: skip
    """The entries of one row: their cells and their words; how many."""
    if one == IS_BOX:
        return 0
    p0 = starts[r]
    total = starts[r + 1] - p0
    m = min(total, MOST_PARTS)
    low, high = np.empty(MOST_PARTS, np.int64), np.empty(MOST_PARTS, np.int64)
    order = np.empty(MOST_PARTS, np.int64)
    conditions(p0, m, one, two, parts, text, edges_at, edges, shares_at, shares, low, high, order)
    na, nb, base, stride = 1, 1, 0, 1
    cells_a[0], full_a[0], cells_b[0], full_b[0] = 0, False, 0, False
    if one != 255:
        by_bucket = two == BY_BUCKET
        na = spread(
            p0 + one, by_bucket, parts, points, rests, text, edges_at, edges,
            access, lut_at, lut, first_at, first, cells_a, full_a,
        )  # fmt: skip
        a = access[parts[p0 + one].slot]
        if by_bucket:
            base = singles[parts[p0 + one].slot]
        elif two == NO_SECOND:
            base = pairs[a, sizes.shape[0] - 1]
        else:
            b = access[parts[p0 + two].slot]
            nb = spread(
                p0 + two, False, parts, points, rests, text, edges_at, edges,
                access, lut_at, lut, first_at, first, cells_b, full_b,
            )  # fmt: skip
            base, stride = pairs[a, b], sizes[b]
    n, fine = 0, False
    if one != 255 and two == BY_BUCKET:
        s = parts[p0 + one].slot
        fine = s < FINE_SLOTS and is_simple(parts[p0 + one], text[s])
    for x in range(na):
        if fine:
            s = parts[p0 + one].slot
            low[one], high[one] = fine_span(
                parts[p0 + one], text[s], edges, edges_at[s], edges_at[s + 1], cells_a[x]
            )
        for y in range(nb):
            words0[n], words1[n] = words(
                r,
                p0,
                m,
                total <= MOST_PARTS,
                full_a[x],
                full_b[y],
                one,
                two,
                fine,
                parts,
                text,
                low,
                high,
                order,
            )
            where[n] = base + cells_a[x] * stride + cells_b[y]
            n += 1
    return n


@compiled
def place(
    fill, r0, r1, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
    access, lut_at, lut, first_at, first, sizes, pairs, singles, firsts, seconds, cell_at, entries,
):  # fmt: skip
    """Count the entries of rows r0..r1 in each cell, or (`fill`) write them.

    Counts go two places up; once summed, filling moves each start to its end, so that
    entries of cell c finally stand at cell_at[c]:cell_at[c + 1].
    """
    cells_a, full_a = np.empty(4096, np.int64), np.empty(4096, np.bool_)
    cells_b, full_b = np.empty(4096, np.int64), np.empty(4096, np.bool_)
    where, words0, words1 = np.empty(4096, np.int64), np.empty(4096, np.int64), np.empty(4096, np.int64)
    for r in range(r0, r1):
        n = file_row(
            r, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
            access, lut_at, lut, first_at, first, sizes, pairs, singles, np.int64(firsts[r]),
            np.int64(seconds[r]),
            cells_a, full_a, cells_b, full_b, where, words0, words1,
        )  # fmt: skip
        for i in range(n):
            c = where[i]
            if fill:
                q = cell_at[c + 1]
                cell_at[c + 1] = q + 1
                entries[q, 0] = words0[i]
                entries[q, 1] = words1[i]
            else:
                cell_at[c + 2] += 1


# -- kernels base ------------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


ANY = 1 << 40  # lengths are not checked here; the code that fills the table of addresses knows them


@intrinsic
def _pointer(_context, _address):
    def generate(context, builder, _signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def prefetch(_context, _address):
    """Ask for a line of memory before it is needed. The address need not be valid."""

    def generate(context, builder, _signature, args):
        position = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [position.type, *[ir.IntType(32)] * 3])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [position, *(ir.Constant(ir.IntType(32), n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@compiled
def doubles(address):
    return carray(_pointer(address), (ANY,), np.float64)


@compiled
def longs(address):
    return carray(_pointer(address), (ANY,), np.int64)


@compiled
def ints(address):
    return carray(_pointer(address), (ANY,), np.int32)


@compiled
def shorts(address):
    return carray(_pointer(address), (ANY,), np.uint16)


@compiled
def small(address):
    return carray(_pointer(address), (ANY,), np.uint8)


@compiled
def records(address):
    return carray(_pointer(address), (ANY,), PART)


@compiled
def holds(start, stop, row, rest, parts, points, rests):
    """Do all parts of a row hold, exactly?"""
    for p in range(start, stop):
        part = parts[p]
        s = part.slot
        v = row[s]
        if not (part.lo <= v and v <= part.hi):
            return False
        if v == part.lo and rest[s] < part.lo_rest:
            return False
        if v == part.hi and rest[s] > part.hi_rest:
            return False
        if part.count != 0:
            hit = False
            for q in range(part.at, part.at + (part.count & 0x7FFF)):
                if points[q] == v and rests[q] == rest[s]:
                    hit = True
            if hit == (part.count >= 0x8000):
                return False
    return True


# -- text kernels ------------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


@compiled
def rank_of(where, key, size):
    """Number of sorted texts that are less than `key`; negative (minus one more) when it is one of them."""
    blob, offsets, low, high = small(where[0]), longs(where[1]), 0, where[2]
    while low < high:
        middle = (low + high) >> 1
        start, stop = offsets[middle], offsets[middle + 1]
        common = min(size, stop - start)
        k = 0
        while k < common and blob[start + k] == key[k]:
            k += 1
        if k == common:
            if size == stop - start:
                return -middle - 1
            less = size > stop - start
        else:
            less = blob[start + k] < key[k]
        if less:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def text_rank(where, key):
    """The same for a `bytes`."""
    return rank_of(where, key, len(key))


@compiled
def text_places(where, addresses, sizes, positions):
    """Positions of many texts: even when the text is one of the sorted ones, odd in the gap between."""
    for i in range(addresses.shape[0]):
        rank = rank_of(where, small(addresses[i]), sizes[i])
        positions[i] = 2.0 * (-rank - 1) if rank < 0 else 2.0 * rank - 1.0

"""Sorted handles, each once. Imported only with Numba.

The machine of derived attributes. Imported only with Numba.

Kernels that answer checks from the bytes of the event's texts. Imported only with Numba.

Columns into rows, without holding the interpreter. Imported only with Numba.

Kernels of the delta. Imported only with Numba.

Kernels that merge a delta's rows into the cells of a table. Imported only with Numba.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from tidings.matching.columnar import layout as at
from tidings.matching.columnar import programs as p
from tidings.matching.columnar import programs as questions
from tidings.matching.columnar.grid_kernels import (
    ANY,
    _pointer,
    choose,
    compiled,
    doubles,
    file_row,
    ints,
    longs,
    records,
    shorts,
    small,
)
from tidings.matching.columnar.layout import DELTA_PRICE, MOST_CELLS_A_ROW

# -- sort kernels ------------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


@compiled
def distinct(out, n):
    """Sorted handles, each once, in place; how many."""
    k = min(n, 1)
    for i in range(1, n):
        if out[i] != out[i - 1]:
            out[k] = out[i]
            k += 1
    return k


@intrinsic
def lowest_bit(_context, _word):
    """The number of the lowest bit that is set."""

    def generate(_context, builder, _signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@compiled
def sort_by_bits(out, n, bits):
    """Ascending and each once: set a bit for each, and read them off. How many.

    `bits` begins with its number of words for handles; after them, one bit says which of these are set.
    All is zero again at the end.
    """
    words = bits[0]
    for i in range(n):
        h = out[i]
        bits[1 + (h >> 6)] |= np.int64(1) << (h & 63)
        bits[1 + words + (h >> 12)] |= np.int64(1) << ((h >> 6) & 63)
    n = 0
    for block in range((words >> 6) + 1):
        some = bits[1 + words + block]
        if some == 0:
            continue
        bits[1 + words + block] = 0
        while some != 0:
            position = (block << 6) + lowest_bit(some)
            some &= some - 1
            word = bits[1 + position]
            bits[1 + position] = 0
            while word != 0:
                out[n] = (position << 6) + lowest_bit(word)
                n += 1
                word &= word - 1
    return n


@compiled
def sort_handles(out, bits, n):
    """Ascending and each once; how many. Few are sorted by insertion, many by their bits."""
    for i in range(1, n):
        if out[i] <= out[i - 1]:
            break
    else:
        return n
    if n <= 40:
        for i in range(1, n):
            h = out[i]
            k = i
            while k > 0 and out[k - 1] > h:
                out[k] = out[k - 1]
                k -= 1
            out[k] = h
        return distinct(out, n)
    return sort_by_bits(out, n, bits)


# -- program kernels ---------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


@compiled
def link(t, row):
    """A value of any kind makes its attribute present."""
    present, absent = ints(t[at.PRESENT]), ints(t[at.ABSENT])
    for s in range(t[at.SLOTS]):
        if row[s] == row[s]:
            if present[s] >= 0:
                row[present[s]] = 0.0
            if absent[s] >= 0:
                row[absent[s]] = np.nan


@compiled
def compared(step, one, other):
    if one != one or other != other:
        return np.nan
    if step == p.LESS:
        return 1.0 if one < other else 0.0
    if step == p.AT_MOST:
        return 1.0 if one <= other else 0.0
    if step == p.GREATER:
        return 1.0 if one > other else 0.0
    if step == p.AT_LEAST:
        return 1.0 if one >= other else 0.0
    if step == p.EQUAL:
        return 1.0 if one == other else 0.0
    return 1.0 if one != other else 0.0


@compiled
def computed(step, one, other):
    """One step of arithmetic."""
    if step == p.ADD:
        return one + other
    if step == p.SUBTRACT:
        return one - other
    if step == p.MULTIPLY:
        return one * other
    if step == p.DIVIDE:
        return one / other if other != 0.0 else np.nan
    if step == p.REMAINDER:
        return np.fmod(one, other) if other != 0.0 else np.nan
    return compared(step, one, other)


@compiled
def derive(t, row):
    """Compute the derived attributes of a row; False when Python must."""
    code, constants, stack = longs(t[at.PROGRAMS]), doubles(t[at.CONSTANTS]), doubles(t[at.STACK])
    present = ints(t[at.PRESENT])
    position = 1
    for _ in range(code[0]):
        target, steps = code[position], code[position + 1]
        position += 2
        top = -1
        for _ in range(steps):
            step, operand = code[position], code[position + 1]
            position += 2
            if step == p.PLAIN:
                if row[operand] != row[operand] and row[present[operand]] == row[present[operand]]:
                    return False
                continue
            if step == p.PUSH:
                top += 1
                stack[top] = row[operand]
            elif step == p.CONSTANT:
                top += 1
                stack[top] = constants[operand]
            elif step == p.NEGATE:
                stack[top] = -stack[top]
            elif step == p.ABSOLUTE:
                stack[top] = abs(stack[top])
            elif step == p.FLOOR:
                stack[top] = np.floor(stack[top])
            elif step == p.CEILING:
                stack[top] = np.ceil(stack[top])
            else:
                top -= 1
                stack[top] = computed(step, stack[top], stack[top + 1])
            if abs(stack[top]) >= at.EXACT_DOUBLES:
                return False
        row[target] = stack[0]
    return True


@compiled
def derive_rows(t, rows, failed):
    """The same for many rows; `failed` lists those that Python must compute, and how many."""
    n = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        link(t, row)
        if not derive(t, row):
            failed[n] = i
            n += 1
    return n


# -- question kernels --------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


NO, YES, PYTHON = 0, 1, 2
MOST_WORK = 1 << 16  # bytes of text times bytes of pattern: beyond, the linear engine is asked
SLASH, PLUS, HASH = 47, 43, 35


@compiled
def next_character(text, i, size):
    """Start of the character after the one at i."""
    i += 1
    while i < size and (text[i] & 0xC0) == 0x80:
        i += 1
    return i


@compiled
def like(text, size, pattern, length):
    """Does the whole text fit? A `%` takes as little as it can, and more when what follows fails."""
    i, k, mark, back = 0, 0, -1, 0
    while i < size:
        if k < length and pattern[k] == questions.ANY_TEXT:
            mark, back = k, i
            k += 1
        elif k < length and pattern[k] == questions.ANY_CHARACTER:
            i = next_character(text, i, size)
            k += 1
        elif k < length and pattern[k] == text[i]:
            i += 1
            k += 1
        elif mark >= 0:
            back = next_character(text, back, size)
            i, k = back, mark + 1
        else:
            return False
    while k < length and pattern[k] == questions.ANY_TEXT:
        k += 1
    return k == length


@compiled
def topic(text, size, pattern, length):
    """Does the topic fall under the pattern?"""
    if length == 1 and pattern[0] == HASH:
        return True
    if length == 0:
        return size == 0
    if (size == 1 and text[0] == SLASH) or (length == 1 and pattern[0] == SLASH):
        return size == length and text[0] == pattern[0]
    i, k = 0, 0
    while True:
        # at the beginning of a level of both
        if pattern[k] == HASH and k + 1 == length:
            return True
        if pattern[k] == PLUS and (k + 1 == length or pattern[k + 1] == SLASH):
            k += 1
            while i < size and text[i] != SLASH:
                i += 1
        else:
            while k < length and pattern[k] != SLASH and i < size and text[i] == pattern[k]:
                i += 1
                k += 1
            if (k < length and pattern[k] != SLASH) or (i < size and text[i] != SLASH):
                return False
        if i == size or k == length:
            # a final # stands for the topic itself too
            return i == size and (
                k == length or (k + 2 == length and pattern[k] == SLASH and pattern[k + 1] == HASH)
            )
        i += 1
        k += 1
        if k == length:
            return False


@compiled
def order(one, size, other, length):
    """Negative, zero or positive: which of two texts comes first."""
    common = min(size, length)
    for i in range(common):
        if one[i] != other[i]:
            return np.int64(one[i]) - np.int64(other[i])
    return size - length


@compiled
def fits(kind, flags, text, size, one, one_size, two, two_size):
    if kind == questions.LIKE:
        return like(text, size, one, one_size) != ((flags & questions.NEGATED) != 0)
    if kind == questions.TOPIC:
        return topic(text, size, one, one_size) != ((flags & questions.NEGATED) != 0)
    if kind == questions.BEGINS:
        return size >= one_size and order(text, one_size, one, one_size) == 0
    if flags & questions.HAS_LOW:
        least = order(text, size, one, one_size)
        if least < 0 or (least == 0 and flags & questions.LOW_OPEN):
            return False
    if flags & questions.HAS_HIGH:
        most = order(text, size, two, two_size)
        if most > 0 or (most == 0 and flags & questions.HIGH_OPEN):
            return False
    return True


@compiled
def passes(t, tier, check):
    """NO, YES, or PYTHON when only Python can say."""
    starts, items = ints(t[tier + at.QUESTIONS_AT]), ints(t[tier + at.QUESTIONS])
    text_at, text_size = longs(t[at.TEXT_AT]), longs(t[at.TEXT_SIZE])
    positions, blob = ints(t[tier + at.QUESTION_PLACES]), t[tier + at.QUESTION_TEXT]
    answer = YES
    for item in range(starts[check], starts[check + 1]):
        base = item * questions.WIDTH
        kind = items[base + questions.KIND]
        if kind == questions.ASK_PYTHON:
            answer = PYTHON
            continue
        position = positions[items[base + questions.ATTRIBUTE]]
        size, length = text_size[position], np.int64(items[base + questions.ONE_SIZE])
        if kind == questions.WORK:
            if size > length or size == questions.A_LIST:
                answer = PYTHON
            continue
        if size < 0:
            return NO
        if kind == questions.LIKE and size * length > MOST_WORK:
            answer = PYTHON
        elif not fits(
            kind, items[base + questions.FLAGS], small(text_at[position]), size,
            small(blob + items[base + questions.ONE_AT]), length,
            small(blob + items[base + questions.TWO_AT]), np.int64(items[base + questions.TWO_SIZE]),
        ):  # fmt: skip
            return NO
    return answer


@compiled
def answer(address, found, requested):
    """Settle what waits in ASK: handles to OUT, sorted; how many, and above 32 bits what Python must say."""
    t = longs(address)
    out, ask, m, kept = ints(t[at.OUT]), ints(t[at.ASK]), found, 0
    for i in range(requested):
        verdict = passes(t, ask[3 * i + 2], ask[3 * i + 1])
        if verdict == YES:
            out[m] = ask[3 * i]
            m += 1
        elif verdict == PYTHON:
            for k in range(3):
                ask[3 * kept + k] = ask[3 * i + k]
            kept += 1
    m = sort_handles(out, longs(t[at.BITS]), m)
    return np.int64(m) | (np.int64(kept) << 32)


@compiled
def answer_rows(t, ask, addresses, sizes, verdicts):
    """The same for (event, handle, check, tier) of many events; texts by place and event."""
    text_at, text_size = longs(t[at.TEXT_AT]), longs(t[at.TEXT_SIZE])
    last = -1
    for i in range(ask.shape[0]):
        event = ask[i, 0]
        if event != last:
            last = event
            for k in range(addresses.shape[0]):
                text_at[k], text_size[k] = addresses[k, event], sizes[k, event]
        verdicts[i] = passes(t, ask[i, 3], ask[i, 2])


@compiled
def merge_rows(t, offsets, out, ask, verdicts, fresh_offsets, fresh):
    """Handles found and handles with a passed check, event by event, each once; how many in all."""
    n, waiting = 0, 0
    for i in range(offsets.shape[0] - 1):
        first = n
        for k in range(offsets[i], offsets[i + 1]):
            fresh[n] = out[k]
            n += 1
        before = waiting
        while waiting < ask.shape[0] and ask[waiting, 0] == i:
            if verdicts[waiting] == YES:
                fresh[n] = ask[waiting, 1]
                n += 1
            waiting += 1
        if waiting > before:
            mine = fresh[first:n]
            n = first + sort_handles(mine, longs(t[at.BITS]), n - first)
        fresh_offsets[i + 1] = n
    return n


# -- batch kernels -----------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


@compiled
def scatter(matrix, position, valid, values):
    """Write the valid values of a column to one place of each row; NaN is no value."""
    for i in range(matrix.shape[0]):
        if valid[i] and values[i] == values[i]:
            matrix[i, position] = values[i]


@compiled
def scatter_coded(matrix, position, valid, codes, values):
    """The same for a column of codes into a few values."""
    for i in range(matrix.shape[0]):
        if valid[i]:
            matrix[i, position] = values[codes[i]]


# -- delta kernels -----------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


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
        access, lut_at, lut, first_at, first, may_alone, allowed, DELTA_PRICE, MOST_CELLS_A_ROW, ones, twos,
        used, alone,
    )  # fmt: skip
    where, words0, words1 = np.empty(4096, np.int64), np.empty(4096, np.int64), np.empty(4096, np.int64)
    n = file_row(
        row, starts, parts, points, rests, text, edges_at, edges, shares_at, shares,
        access, lut_at, lut, first_at, first, sizes, pairs, singles, np.int64(ones[0]), np.int64(twos[0]),
        np.empty(4096, np.int64), np.empty(4096, np.bool_), np.empty(4096, np.int64),
        np.empty(4096, np.bool_),
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


# -- merge kernels -----------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


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
    """Starts of the cells c0..c1, once the entries of dead rows are gone and `more` have come."""
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

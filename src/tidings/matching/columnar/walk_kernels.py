"""Rows that are boxes: two ranges, on the pair of slots that most such rows share.

An entry is eight bytes: four codes of one byte, and the row. A code says where in its cell a
bound lies, from 1 to 254 in equal steps; 0 is a bound below the cell and 255 one above. A value's
code is compared with them: strictly between holds, strictly outside fails, and a tie is checked
exactly. A cell is one block, its codes in four runs and then its rows, so that it is filtered with
vector instructions and read in one stream; rows come out in order.

The compiled walk: one event in, rows out. Imported only with Numba.

Encode the event's slots, look up one cell for each pair of them, filter the entries without
branches, check exactly the few that are in doubt, then turn rows into sorted handles.
"""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.grid_kernels import (
    BY_BUCKET,
    FINE,
    FINE_SLOTS,
    IS_BOX,
    bucket_of,
    compiled,
    doubles,
    fine_code,
    holds,
    ints,
    is_simple,
    longs,
    prefetch,
    records,
    shorts,
    small,
    unbounded_above,
    unbounded_below,
)
from tidings.matching.columnar.layout import PART
from tidings.matching.columnar.row_kernels import derive, link, sort_handles

# -- box kernels -------------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


BELOW, FIRST_CODE, LAST_CODE, ABOVE = 0, 1, 254, 255
AHEAD = 4  # events of a batch with cells that are prefetched


@compiled
def count_pairs(r0, r1, starts, parts, text, access, firsts, seconds, counts):
    """Number of rows of two simple parts filed under each pair."""
    for r in range(r0, r1):
        p = starts[r]
        if starts[r + 1] - p == 2 and seconds[r] < BY_BUCKET and firsts[r] < BY_BUCKET:
            a, b = parts[p + firsts[r]], parts[p + seconds[r]]
            if is_simple(a, text[a.slot]) and is_simple(b, text[b.slot]):
                counts[access[a.slot], access[b.slot]] += 1


@compiled
def code_of(frames, cell, value):
    """Position of a value within its cell. It never falls while the value rises, in spite of rounding."""
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
def is_of_this_walk(t, start, stop, row, parts):
    """Each row is looked for by one of the walks of an event (see `walk`): where a number straddles an edge,
    the upper side takes the rows with an open bound at the double below."""
    flags = longs(t[at.FLAGS])
    count, above = flags[at.STRADDLES], flags[at.ABOVE]
    if count == 0:
        return True
    slots, found = longs(t[at.RUN_FROM] + 8 * at.STRADDLING_AT), 0
    for p in range(start, stop):
        part = parts[p]
        if part.lo_rest > 0:
            for i in range(count):
                if part.slot == slots[i]:
                    v = row[slots[i]]
                    below = np.nextafter(v, -np.inf) if (above >> i) & 1 else v
                    found |= 1 << i if part.lo == below else 0
    return found == above


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
    checked, straddles = 0, longs(t[at.FLAGS])[at.STRADDLES] > 0
    for k in range(n):
        v = verdict[k]
        r = rows[k]
        out[m] = r
        if v == 1 or (straddles and v == 2):
            checked += 1
            good = holds(starts[r], starts[r + 1], row, rest, parts, points, rests)
            m += 1 if good and is_of_this_walk(t, starts[r], starts[r + 1], row, parts) else 0
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
    """Many events against a table of boxes only. Stops early when room runs out; returns the next event."""
    tier = at.TIER
    one, two, up = t[tier + at.BOX_ONE], t[tier + at.BOX_TWO], t[tier + at.BOX_UP]
    cells, counters = ints(t[tier + at.BOX_CELLS]), longs(t[at.COUNTERS])
    positions = np.empty((AHEAD, 2), np.int64)
    n, requested = used, first
    for i in range(first, rows.shape[0]):
        while requested < min(rows.shape[0], i + AHEAD):
            position = positions[requested % AHEAD]
            position[0], position[1] = cell_of(t, tier, rows[requested, one], rows[requested, two])
            start = t[tier + at.BOX_BLOCK] + 8 * np.int64(cells[position[0] * up + position[1]])
            for line in range(4):
                prefetch(start + 64 * line)
            requested += 1
        if n + most > out.shape[0]:
            return i, n
        row = rows[i]
        before = n
        if row[one] == row[one] and row[two] == row[two]:
            n = walk_cell(t, tier, positions[i % AHEAD, 0], positions[i % AHEAD, 1], row, rest, out, n)
        counters[at.EVENTS] += 1
        counters[at.MATCHES] += n - before
        offsets[i + 1] = n
    return rows.shape[0], n


# -- kernels -----------------------------------------------------------------------------------

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)


PART_SIZE = PART.itemsize
LINE = 64  # bytes of memory that come together
MOST_AHEAD = 32  # entries of a run that are asked for before they are needed


@compiled
def code_place(s):
    """Place of the code of a slot: entries name places below 256, of which some are fine codes'."""
    return s if s < FINE else s + at.BEYOND


@compiled
def encode(t, row, rest, has_rest):
    """Codes of all slots; the access slots that the event holds. -1: a number needs its rest.

    A caller that gives rests has computed the derived attributes, too. A number between two neighbouring
    doubles straddles if these are in different buckets; otherwise its bucket is that of both.
    """
    slots = t[at.SLOTS]
    text = small(t[at.TEXT])
    edges_at, edges = ints(t[at.EDGES_AT]), doubles(t[at.EDGES])
    codes, sure = longs(t[at.CODES]), longs(t[at.SURE])
    here, buckets = longs(t[at.HERE]), longs(t[at.BUCKETS])
    straddling, straddles = longs(t[at.RUN_FROM] + 8 * at.STRADDLING_AT), 0
    link(t, row)
    if has_rest == 0 and not derive(t, row):
        return at.NEEDS_REST
    n = 0
    for s in range(slots):
        v = row[s]
        position = code_place(s)
        if v != v:
            codes[position] = -1
            sure[position] = -1
            continue
        doubt = False
        if text[s]:
            doubt = (np.int64(v) & 1) == 1
        elif v >= at.EXACT_DOUBLES or v <= -at.EXACT_DOUBLES:
            if has_rest == 0 and np.isfinite(v):
                return at.NEEDS_REST
            doubt = rest[s] != 0
        b = bucket_of(edges, edges_at[s], edges_at[s + 1], v)
        if has_rest != 0 and rest[s] & 1 and not text[s]:
            other = np.nextafter(v, np.inf if rest[s] > 0 else -np.inf)
            below = min(abs(v), abs(other)) < at.EXACT_DOUBLES  # beyond, no bound is filed at the next double
            if below and bucket_of(edges, edges_at[s], edges_at[s + 1], other) != b:
                doubt = True
                straddling[straddles] = s
                straddles += 1
        codes[position] = 2 * b + 2
        sure[position] = -1 if doubt else 2 * b + 2
        if s < FINE_SLOTS:
            codes[FINE + s], _ = fine_code(edges, edges_at[s], edges_at[s + 1], b, text[s], v)
            sure[FINE + s] = -1 if doubt else codes[FINE + s]
        here[n] = s
        buckets[n] = b
        n += 1
    codes[255] = 2
    sure[255] = 2
    longs(t[at.FLAGS])[at.STRADDLES] = straddles
    return n


@compiled
def runs(t, tier, n):
    """The runs of entries that the event must look at in one tier."""
    access, here, buckets, sure = (
        ints(t[at.ACCESS]),
        longs(t[at.HERE]),
        longs(t[at.BUCKETS]),
        longs(t[at.SURE]),
    )
    lut_at, lut, sizes = ints(t[tier + at.LUT_AT]), shorts(t[tier + at.LUT]), longs(t[tier + at.SIZES])
    pairs, singles = longs(t[tier + at.PAIRS]), longs(t[tier + at.SINGLES])
    cells = ints(t[tier + at.CELLS])
    run_from, run_to = longs(t[at.RUN_FROM]), longs(t[at.RUN_TO])
    none, known, growing = t[tier + at.NO_SECOND], t[tier + at.SINGLES_SIZE], t[tier + at.GROWING]
    doubt_of, position = longs(t[at.RUN_FROM] + 8 * 16384), longs(t[at.RUN_FROM] + 8 * 20480)
    number = longs(t[at.RUN_FROM] + 8 * 24576)
    m = 0
    k = 0
    run_from[m] = 0  # cell 0: rows that every event looks at
    m += 1
    for i in range(n):
        s = here[i]
        if s >= known:
            continue
        doubt = at.DOUBT if sure[code_place(s)] < 0 else 0
        if singles[s] >= 0:
            run_from[m] = (singles[s] + buckets[i]) | doubt
            m += 1
        a = access[s]
        if a >= 0:
            number[k], position[k], doubt_of[k] = a, np.int64(lut[lut_at[a] + buckets[i]]), doubt
            k += 1
    for i in range(k):
        row = number[i] * (none + 1)
        if pairs[row + none] >= 0:
            run_from[m] = (pairs[row + none] + position[i]) | doubt_of[i]
            m += 1
        for j in range(i + 1, k):
            base = pairs[row + number[j]]
            if base >= 0:
                run_from[m] = (
                    (base + position[i] * sizes[number[j]] + position[j]) | doubt_of[i] | doubt_of[j]
                )
                m += 1
    # starts and ends in a second pass, so that their cache misses overlap
    width, first, base = 16 if growing else 4, t[tier + at.CELLS], t[tier + at.ENTRIES]
    for i in range(m):
        prefetch(first + width * (run_from[i] & (at.DOUBT - 1)))
    kept = 0
    for i in range(m):
        c = run_from[i] & (at.DOUBT - 1)
        if growing:
            start = np.int64(cells[4 * c])
            stop = start + cells[4 * c + 1]
        else:
            start, stop = np.int64(cells[c]), np.int64(cells[c + 1])
        run_from[kept], run_to[kept] = start | (run_from[i] & at.DOUBT), stop
        for line in range(base + 16 * start, base + 16 * min(stop, start + MOST_AHEAD), LINE):
            prefetch(line)
        kept += 1 if stop > start else 0
    return kept


@compiled
def scan(start, stop, doubt, entries, codes, found, n):
    """Entries with conditions that may hold; no branch."""
    for q in range(start, stop):
        w = entries[2 * q]
        x = entries[2 * q + 1]
        a, b, c = codes[(w >> 48) & 255], codes[(w >> 56) & 255], codes[(x >> 31) & 255]
        t = (
            (a - (w & 4095)) | (((w >> 12) & 4095) - a)
            | (b - ((w >> 24) & 4095)) | (((w >> 36) & 4095) - b)
            | (c - ((x >> 39) & 4095)) | (((x >> 51) & 4095) - c)
        )  # fmt: skip
        found[n] = q | doubt
        n += 1 if t >= 0 else 0
    return n


@compiled
def settle(t, tier, n, row, rest, out, m):
    """Of the entries found, the rows that match; those in doubt are checked exactly."""
    found, open_, sure = longs(t[at.FOUND]), longs(t[at.OPEN]), longs(t[at.SURE])
    entries, starts, parts = (
        longs(t[tier + at.ENTRIES]),
        ints(t[tier + at.STARTS]),
        records(t[tier + at.PARTS]),
    )
    points, rests = doubles(t[tier + at.POINTS]), ints(t[tier + at.RESTS])
    first_part = t[tier + at.STARTS]
    owned, checked = 0 if t[tier + at.PLAIN] else t[tier + at.OWNERS], t[tier + at.CHECKS]
    k = 0
    for i in range(n):
        q = found[i]
        doubt = q & at.DOUBT
        q &= at.DOUBT - 1
        w = entries[2 * q]
        x = entries[2 * q + 1]
        a, b, c = sure[(w >> 48) & 255], sure[(w >> 56) & 255], sure[(x >> 31) & 255]
        inside = (
            (a - (w & 4095) - 1) | (((w >> 12) & 4095) - a - 1)
            | (b - ((w >> 24) & 4095) - 1) | (((w >> 36) & 4095) - b - 1)
            | (c - ((x >> 39) & 4095) - 1) | (((x >> 51) & 4095) - c - 1)
        )  # fmt: skip
        certain = (inside >= 0) & (x < 0) & (doubt == 0)
        r = x & 0x7FFFFFFF
        out[m] = r
        m += 1 if certain else 0
        open_[k] = r
        prefetch(first_part + 4 * r)
        if owned != 0:  # `to_handles` will look at these
            prefetch(owned + 4 * r)
            if checked != 0:
                prefetch(checked + 4 * r)
        k += 0 if certain else 1
    # offsets first, then the records, then the checks: the cache misses overlap
    base = t[tier + at.PARTS]
    for i in range(k):
        open_[k + i] = starts[open_[i]]
        first = base + PART_SIZE * open_[k + i]
        prefetch(first)
        prefetch(first + LINE)
        prefetch(first + 2 * LINE)
    for i in range(k):
        out[m] = open_[i]
        start, stop = open_[k + i], starts[open_[i] + 1]
        good = holds(start, stop, row, rest, parts, points, rests)
        m += 1 if good and is_of_this_walk(t, start, stop, row, parts) else 0
    longs(t[at.COUNTERS])[at.EXACT_CHECKS] += k
    return m


@compiled
def walk_tier(t, tier, n, row, rest, out, m):
    """Rows of one tier that match, written to out[m:]."""
    found, codes = longs(t[at.FOUND]), longs(t[at.CODES])
    entries, run_from, run_to = longs(t[tier + at.ENTRIES]), longs(t[at.RUN_FROM]), longs(t[at.RUN_TO])
    if t[tier + at.BOX_ACROSS] > 0:
        m = walk_boxes(t, tier, row, rest, out, m)
    count = runs(t, tier, n)
    always = at.DOUBT if longs(t[at.FLAGS])[at.STRADDLES] > 0 else 0
    k, candidates, survivors = 0, 0, 0
    for i in range(count):
        start, doubt = run_from[i] & (at.DOUBT - 1), (run_from[i] & at.DOUBT) | always
        stop = run_to[i]
        candidates += stop - start
        while start < stop:
            upto = min(stop, start + t[at.FOUND_SIZE] - k)
            k = scan(start, upto, doubt, entries, codes, found, k)
            start = upto
            if k + 1 >= t[at.FOUND_SIZE]:
                m = settle(t, tier, k, row, rest, out, m)
                survivors += k
                k = 0
    m = settle(t, tier, k, row, rest, out, m)
    counters = longs(t[at.COUNTERS])
    counters[at.CANDIDATES] += candidates
    counters[at.SURVIVORS] += survivors + k
    return m


@compiled
def to_handles(t, tier, out, first, last):
    """Rows out[first:last] as handles of what is still there; rows with a check go to ASK."""
    if t[tier + at.PLAIN]:
        return last
    owners = ints(t[tier + at.OWNERS])
    ask, flags = ints(t[at.ASK]), longs(t[at.FLAGS])
    checked = t[tier + at.CHECKS] != 0
    checks = ints(t[tier + at.CHECKS])
    m = first
    requested = flags[at.ASKED]
    for i in range(first, last):
        r = out[i]
        h = owners[r]
        if h < 0:
            continue
        if checked and checks[r] >= 0:
            ask[3 * requested] = h
            ask[3 * requested + 1] = checks[r]
            ask[3 * requested + 2] = np.int32(tier)
            requested += 1
        else:
            out[m] = h
            m += 1
    flags[at.ASKED] = requested
    return m


@compiled
def take_sides(t, row, rest, above):
    """Put each straddling number on the side that a bit of `above` says: the double below it, or above."""
    slots = longs(t[at.RUN_FROM] + 8 * at.STRADDLING_AT)
    for i in range(longs(t[at.FLAGS])[at.STRADDLES]):
        s, wanted = slots[i], (above >> i) & 1
        if (rest[s] < 0) != (wanted == 1):
            row[s] = np.nextafter(row[s], np.inf if wanted == 1 else -np.inf)
            rest[s] = -rest[s]
    longs(t[at.FLAGS])[at.ABOVE] = above


@compiled
def walk(t, row, rest, has_rest):
    """Handles of one event in OUT; how many (and, above 32 bits, how many in ASK), or NEEDS_REST.

    They are sorted, unless checks are open: the caller that settles them adds handles, and sorts them all.
    A number between two neighbouring doubles compares with every bound as (the lower one, 1) and as (the
    upper one, -1). With an edge between the two, each side alone finds some rows: there is a walk for each.
    """
    flags, counters = longs(t[at.FLAGS]), longs(t[at.COUNTERS])
    flags[at.ASKED] = 0
    n = encode(t, row, rest, has_rest)
    if n < 0:
        return np.int64(at.NEEDS_REST)
    counters[at.EVENTS] += 1
    out = ints(t[at.OUT])
    m, straddles = 0, flags[at.STRADDLES]
    for above in range(1 << straddles):
        if straddles > 0:
            take_sides(t, row, rest, above)
            n = encode(t, row, rest, has_rest)
        for i in range(t[at.TIERS]):
            tier = at.TIER + i * at.TIER_SIZE
            last = walk_tier(t, tier, n, row, rest, out, m)
            m = to_handles(t, tier, out, m, last)
    if flags[at.ASKED] == 0:
        m = sort_handles(out, longs(t[at.BITS]), m)
    counters[at.MATCHES] += m
    return np.int64(m) | (flags[at.ASKED] << 32)


@compiled
def match_one(address):
    """Entry point: all arguments are behind the address of one table of addresses."""
    t = longs(address)
    return walk(t, doubles(t[at.ROW]), ints(t[at.REST]), longs(t[at.FLAGS])[at.HAS_REST])


@compiled
def match_rows(t, rows, rests, first, out, offsets, used, ask, requested):
    """Many events: CSR offsets and handles. Stops early when room runs out; the next event."""
    one, flags, own_ask = ints(t[at.OUT]), longs(t[at.FLAGS]), ints(t[at.ASK])
    slots = t[at.SLOTS]
    zero = ints(t[at.REST])
    n, waiting = used, requested
    for i in range(first, rows.shape[0]):
        row = rows[i]
        rest = rests[i] if rests.shape[0] > 0 else zero[:slots]
        m = walk(t, row, rest, 1) & 0xFFFFFFFF
        if n + m > out.shape[0] or waiting + flags[at.ASKED] > ask.shape[0]:
            return i, n, waiting
        for k in range(m):
            out[n + k] = one[k]
        n += m
        for k in range(flags[at.ASKED]):
            ask[waiting, 0] = i
            ask[waiting, 1] = own_ask[3 * k]
            ask[waiting, 2] = own_ask[3 * k + 1]
            ask[waiting, 3] = own_ask[3 * k + 2]
            waiting += 1
        offsets[i + 1] = n
    return rows.shape[0], n, waiting

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""The compiled walk: one event in, rows out. Imported only with Numba.

Encode the event's slots, look up one cell for each pair of them, filter the entries without
branches, check exactly the few that are in doubt, then turn rows into sorted handles.
"""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar import layout as at
from tidings.matching.columnar.box_kernels import walk_boxes
from tidings.matching.columnar.grid_kernels import FINE, FINE_SLOTS, bucket_of, compiled, fine_code
from tidings.matching.columnar.kernels_base import (
    doubles,
    holds,
    ints,
    longs,
    prefetch,
    records,
    shorts,
    small,
)
from tidings.matching.columnar.program_kernels import derive, link
from tidings.matching.columnar.rows import PART
from tidings.matching.columnar.sort_kernels import sort_handles

PART_SIZE = PART.itemsize
LINE = 64  # bytes of memory that come together
MOST_AHEAD = 32  # entries of a run that are asked for before they are needed


@compiled
def code_place(s):
    """Where the code of a slot stands: entries name places below 256, of which some are fine codes'."""
    return s if s < FINE else s + at.BEYOND


@compiled
def encode(t, row, rest, has_rest):
    """Codes of all slots; the access slots that the event holds. -1: a number needs its rest.

    Whoever gives rests has computed the derived attributes, too.
    """
    slots = t[at.SLOTS]
    text = small(t[at.TEXT])
    edges_at, edges = ints(t[at.EDGES_AT]), doubles(t[at.EDGES])
    codes, sure = longs(t[at.CODES]), longs(t[at.SURE])
    here, buckets = longs(t[at.HERE]), longs(t[at.BUCKETS])
    link(t, row)
    if has_rest == 0 and not derive(t, row):
        return at.NEEDS_REST
    n = 0
    for s in range(slots):
        v = row[s]
        place = code_place(s)
        if v != v:
            codes[place] = -1
            sure[place] = -1
            continue
        doubt = False
        if text[s]:
            doubt = (np.int64(v) & 1) == 1
        elif v >= at.EXACT_DOUBLES or v <= -at.EXACT_DOUBLES:
            if has_rest == 0 and np.isfinite(v):
                return at.NEEDS_REST
            doubt = rest[s] != 0
        b = bucket_of(edges, edges_at[s], edges_at[s + 1], v)
        codes[place] = 2 * b + 2
        sure[place] = -1 if doubt else 2 * b + 2
        if s < FINE_SLOTS:
            codes[FINE + s], _ = fine_code(edges, edges_at[s], edges_at[s + 1], b, text[s], v)
            sure[FINE + s] = -1 if doubt else codes[FINE + s]
        here[n] = s
        buckets[n] = b
        n += 1
    codes[255] = 2
    sure[255] = 2
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
    doubt_of, place = longs(t[at.RUN_FROM] + 8 * 16384), longs(t[at.RUN_FROM] + 8 * 20480)
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
            number[k], place[k], doubt_of[k] = a, np.int64(lut[lut_at[a] + buckets[i]]), doubt
            k += 1
    for i in range(k):
        row = number[i] * (none + 1)
        if pairs[row + none] >= 0:
            run_from[m] = (pairs[row + none] + place[i]) | doubt_of[i]
            m += 1
        for j in range(i + 1, k):
            base = pairs[row + number[j]]
            if base >= 0:
                run_from[m] = (base + place[i] * sizes[number[j]] + place[j]) | doubt_of[i] | doubt_of[j]
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
    """Entries whose conditions may hold; no branch."""
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
        m += 1 if holds(open_[k + i], starts[open_[i] + 1], row, rest, parts, points, rests) else 0
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
    k, candidates, survivors = 0, 0, 0
    for i in range(count):
        start, doubt = run_from[i] & (at.DOUBT - 1), run_from[i] & at.DOUBT
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
    asked = flags[at.ASKED]
    for i in range(first, last):
        r = out[i]
        h = owners[r]
        if h < 0:
            continue
        if checked and checks[r] >= 0:
            ask[3 * asked] = h
            ask[3 * asked + 1] = checks[r]
            ask[3 * asked + 2] = np.int32(tier)
            asked += 1
        else:
            out[m] = h
            m += 1
    flags[at.ASKED] = asked
    return m


@compiled
def walk(t, row, rest, has_rest):
    """Handles of one event in OUT; how many (and, above 32 bits, how many in ASK), or NEEDS_REST.

    They are sorted, unless something is asked: whoever settles that adds handles, and sorts them all.
    """
    flags, counters = longs(t[at.FLAGS]), longs(t[at.COUNTERS])
    flags[at.ASKED] = 0
    n = encode(t, row, rest, has_rest)
    if n < 0:
        return np.int64(at.NEEDS_REST)
    counters[at.EVENTS] += 1
    out = ints(t[at.OUT])
    m = 0
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
    """The thin door: everything is behind the address of one table of addresses."""
    t = longs(address)
    return walk(t, doubles(t[at.ROW]), ints(t[at.REST]), longs(t[at.FLAGS])[at.HAS_REST])


@compiled
def match_rows(t, rows, rests, first, out, offsets, used, ask, asked):
    """Many events: CSR offsets and handles. Stops early when room runs out; the next event."""
    one, flags, own_ask = ints(t[at.OUT]), longs(t[at.FLAGS]), ints(t[at.ASK])
    slots = t[at.SLOTS]
    zero = ints(t[at.REST])
    n, waiting = used, asked
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

"""The table of addresses that a compiled walk takes as its one argument.

Handing thirty arrays to a compiled function costs more than the walk itself, so it gets
one array of integers: addresses of the arrays, and a few sizes. These are its places.

Memory that is free goes back to the system.

Each new table replaces one nearly as large, and the C library keeps what was freed: without asking, a broker
of a hundred thousand subscriptions would hold half as much again as it uses.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

# -- layout ------------------------------------------------------------------------------------

# the event, and scratch memory of one thread
SLOTS, ROW, REST, FLAGS = 0, 1, 2, 3
PRESENT, ABSENT, TEXT, EDGES_AT, EDGES, ACCESS = 4, 5, 6, 7, 8, 9
CODES, SURE, HERE, BUCKETS = 10, 11, 12, 13
RUN_FROM, RUN_TO, FOUND, FOUND_SIZE, OPEN = 14, 15, 16, 17, 18
OUT, BITS, ASK, COUNTERS = 19, 20, 21, 22
TIERS = 24
PROGRAMS, CONSTANTS, STACK = 25, 26, 27  # derived attributes
TEXT_AT, TEXT_SIZE = 28, 29  # the event's texts that checks look at: addresses, lengths

# each tier: the frozen table, then its deltas
TIER, TIER_SIZE = 32, 32
GROWING, STARTS, PARTS, POINTS, RESTS, OWNERS, CHECKS = 0, 1, 2, 3, 4, 5, 6
LUT_AT, LUT, SIZES, PAIRS, SINGLES, SINGLES_SIZE = 7, 8, 9, 10, 11, 12
CELLS, ENTRIES, PLAIN, NO_SECOND = 13, 14, 15, 16
BOX_CELLS, BOX_BLOCK, BOX_CUTS, BOX_FRAMES, BOX_VERDICT = 17, 18, 19, 20, 21
BOX_ONE, BOX_TWO, BOX_ACROSS, BOX_UP = 22, 23, 24, 25  # BOX_ACROSS is 0 when there are none
QUESTIONS_AT, QUESTIONS, QUESTION_TEXT, QUESTION_PLACES = 26, 27, 28, 29
SIZE = TIER + 3 * TIER_SIZE

# FLAGS: what the event and the answer need beside the handles
HAS_REST, ASKED, STRADDLES, ABOVE = 0, 1, 2, 3
MOST_BETWEEN = 5  # numbers of an event that may lie between neighbouring doubles: two walks for each of them
STRADDLING_AT = 28672  # in RUN_FROM: the slots of such numbers that have an edge beside them
# COUNTERS: what the walk met, for `stats`
EVENTS, CANDIDATES, SURVIVORS, EXACT_CHECKS, MATCHES = 0, 1, 2, 3, 4
COUNTERS_ROOM = 32
FOUND_ROOM = 1 << 16
BEYOND = 256  # codes of slots that entries cannot name stand so much further on
DOUBT = 1 << 40  # beside the number of an entry: its cell was found through a doubtful value
EXACT_DOUBLES = 9007199254740992.0  # beyond, an integer may be no double
NEEDS_REST = -1  # the walk's answer when such a number came without its rest

# a part of a row: one record
PART = np.dtype(
    [("lo", "<f8"), ("hi", "<f8"), ("lo_rest", "<i4"), ("hi_rest", "<i4"), ("at", "<i4"), ("slot", "<u2"),
        ("count", "<u2")]
)  # fmt: skip
DELTA_PRICE = 3e-5
MOST_CELLS_A_ROW = 256


# -- room --------------------------------------------------------------------------------------


@cache
def _trim() -> Any:
    """The C library's own way to do this; None where it has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def give_back() -> bool:
    """Hand free memory back to the system; False where that cannot be asked for."""
    trim = _trim()
    if trim is None:
        return False
    trim(0)
    return True

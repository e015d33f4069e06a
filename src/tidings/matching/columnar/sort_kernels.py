# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Sorted handles, each once. Imported only with Numba."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tidings.matching.columnar.grid_kernels import compiled


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
            place = (block << 6) + lowest_bit(some)
            some &= some - 1
            word = bits[1 + place]
            bits[1 + place] = 0
            while word != 0:
                out[n] = (place << 6) + lowest_bit(word)
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

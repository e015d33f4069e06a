# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Kernels over sorted texts. Imported only with Numba."""

from __future__ import annotations

from tidings.matching.columnar.grid_kernels import compiled
from tidings.matching.columnar.kernels_base import longs, small


@compiled
def rank_of(where, key, size):
    """How many of the sorted texts are less than `key`; negative (minus one more) when it is one of them."""
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
def text_places(where, addresses, sizes, places):
    """Positions of many texts: even when the text is one of the sorted ones, odd in the gap between."""
    for i in range(addresses.shape[0]):
        rank = rank_of(where, small(addresses[i]), sizes[i])
        places[i] = 2.0 * (-rank - 1) if rank < 0 else 2.0 * rank - 1.0

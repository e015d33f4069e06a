# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Sorted handles, each once. Imported only with Numba."""

from __future__ import annotations

import numpy as np

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


@compiled
def sort_handles(out, spare, n):
    """Ascending: two runs are merged, few are sorted by insertion, many by radix of eight bits."""
    top, runs_, cut = 0, 1, n
    for i in range(1, n):
        if out[i] < out[i - 1]:
            runs_ += 1
            cut = min(cut, i)
    if runs_ == 1:
        return
    if runs_ == 2 and n > 40:
        for i in range(cut, n):
            spare[i] = out[i]
        left, right, place = cut - 1, n - 1, n - 1
        while right >= cut:
            if left >= 0 and out[left] > spare[right]:
                out[place] = out[left]
                left -= 1
            else:
                out[place] = spare[right]
                right -= 1
            place -= 1
        return
    if n <= 40:
        for i in range(1, n):
            h = out[i]
            k = i
            while k > 0 and out[k - 1] > h:
                out[k] = out[k - 1]
                k -= 1
            out[k] = h
        return
    for i in range(n):
        top = max(top, out[i])
    shift = 0
    counts = np.empty(256, np.int64)
    flipped = False
    while (top >> shift) > 0:
        source, target = (spare, out) if flipped else (out, spare)
        counts[:] = 0
        for i in range(n):
            counts[(source[i] >> shift) & 255] += 1
        total = 0
        for i in range(256):
            c = counts[i]
            counts[i] = total
            total += c
        for i in range(n):
            b = (source[i] >> shift) & 255
            target[counts[b]] = source[i]
            counts[b] += 1
        shift += 8
        flipped = not flipped
    if flipped:
        for i in range(n):
            out[i] = spare[i]

# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""Kernels that answer checks from the bytes of the event's texts. Imported only with Numba."""

from __future__ import annotations

import numpy as np

from tidings.matching.columnar import layout as at
from tidings.matching.columnar import questions as q
from tidings.matching.columnar.grid_kernels import compiled
from tidings.matching.columnar.kernels_base import ints, longs, small
from tidings.matching.columnar.sort_kernels import sort_handles

NO, YES, PYTHON = 0, 1, 2
MOST_WORK = 1 << 16  # bytes of text times bytes of pattern: beyond, the linear engine is asked
SLASH, PLUS, HASH = 47, 43, 35


@compiled
def next_character(text, i, size):
    """Where the character after the one at i begins."""
    i += 1
    while i < size and (text[i] & 0xC0) == 0x80:
        i += 1
    return i


@compiled
def like(text, size, pattern, length):
    """Does the whole text fit? A `%` takes as little as it can, and more when what follows fails."""
    i, k, mark, back = 0, 0, -1, 0
    while i < size:
        if k < length and pattern[k] == q.ANY_TEXT:
            mark, back = k, i
            k += 1
        elif k < length and pattern[k] == q.ANY_CHARACTER:
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
    while k < length and pattern[k] == q.ANY_TEXT:
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
    if kind == q.LIKE:
        return like(text, size, one, one_size) != ((flags & q.NEGATED) != 0)
    if kind == q.TOPIC:
        return topic(text, size, one, one_size) != ((flags & q.NEGATED) != 0)
    if kind == q.BEGINS:
        return size >= one_size and order(text, one_size, one, one_size) == 0
    if flags & q.HAS_LOW:
        least = order(text, size, one, one_size)
        if least < 0 or (least == 0 and flags & q.LOW_OPEN):
            return False
    if flags & q.HAS_HIGH:
        most = order(text, size, two, two_size)
        if most > 0 or (most == 0 and flags & q.HIGH_OPEN):
            return False
    return True


@compiled
def passes(t, tier, check):
    """NO, YES, or PYTHON when only Python can say."""
    starts, items = ints(t[tier + at.QUESTIONS_AT]), ints(t[tier + at.QUESTIONS])
    text_at, text_size = longs(t[at.TEXT_AT]), longs(t[at.TEXT_SIZE])
    places, blob = ints(t[tier + at.QUESTION_PLACES]), t[tier + at.QUESTION_TEXT]
    answer = YES
    for item in range(starts[check], starts[check + 1]):
        base = item * q.WIDTH
        kind = items[base + q.KIND]
        if kind == q.ASK_PYTHON:
            answer = PYTHON
            continue
        place = places[items[base + q.ATTRIBUTE]]
        size, length = text_size[place], np.int64(items[base + q.ONE_SIZE])
        if kind == q.WORK:
            if size > length:
                answer = PYTHON
            continue
        if size < 0:
            return NO
        if kind == q.LIKE and size * length > MOST_WORK:
            answer = PYTHON
        elif not fits(
            kind, items[base + q.FLAGS], small(text_at[place]), size, small(blob + items[base + q.ONE_AT]), length,
            small(blob + items[base + q.TWO_AT]), np.int64(items[base + q.TWO_SIZE]),
        ):  # fmt: skip
            return NO
    return answer


@compiled
def answer(address, found, asked):
    """Settle what waits in ASK: handles to OUT, sorted; how many, and above 32 bits what Python must say."""
    t = longs(address)
    out, ask, m, kept = ints(t[at.OUT]), ints(t[at.ASK]), found, 0
    for i in range(asked):
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
    """Handles found and handles whose check passed, event by event, each once; how many in all."""
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

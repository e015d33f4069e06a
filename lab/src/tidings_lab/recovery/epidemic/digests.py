"""Digests of what is lost, exact or as Bloom filters, and what is left of them on their way.

An exact digest shrinks as its entries are answered (E-C2). A Bloom filter cannot, so it carries the
entries that were answered beside it. It is used only where its bytes are fewer. A holder asks it about
every event that it holds of a pattern, hundreds for each that was lost, so it must hardly ever be
wrong: with the usual ten bits for an entry most of what came back would not have been lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from math import ceil
from typing import Any, TypeVar

import msgspec

from tidings_lab.recovery.epidemic.messages import Bloom

BITS = 22  # for each entry: one wrong yes in about 40,000
HASHES = 15
LEAST = 64  # bits

Key = TypeVar("Key", str, int)
Entry = tuple[Any, int]  # source or pattern, and counter


def _places(entry: Entry, size: int) -> list[int]:
    """Independent places: in a small filter two hashes and their sums are too few."""
    hashed = blake2b(repr(entry).encode(), digest_size=4 * HASHES).digest()
    return [int.from_bytes(hashed[at : at + 4], "big") % size for at in range(0, 4 * HASHES, 4)]


def bloom_of(entries: Iterable[Entry]) -> Bloom:
    entries = list(entries)
    size = max(LEAST, 8 * ceil(len(entries) * BITS / 8))
    bits = bytearray(size // 8)
    for entry in entries:
        for position in _places(entry, size):
            bits[position // 8] |= 1 << (position % 8)
    return Bloom(bytes(bits), HASHES, len(entries))


def is_in(bloom: Bloom, entry: Entry) -> bool:
    """Perhaps. An empty filter, or one of another make, holds no entry."""
    size = 8 * len(bloom.bits)
    if not size or bloom.hashes != HASHES or entry in bloom.given:
        return False
    return all(bloom.bits[position // 8] >> (position % 8) & 1 for position in _places(entry, size))


def smaller(lost: dict[Key, tuple[int, ...]]) -> Bloom | None:
    """The Bloom filter of a digest, when it has fewer bytes."""
    entries = [(key, counter) for key, counters in lost.items() for counter in counters]
    if len(entries) * BITS / 8 >= len(msgspec.msgpack.encode(lost)):
        return None
    bloom = bloom_of(entries)
    return bloom if len(msgspec.msgpack.encode(bloom)) < len(msgspec.msgpack.encode(lost)) else None


def without(lost: dict[Key, tuple[int, ...]], given: set[Entry]) -> dict[Key, tuple[int, ...]]:
    """Rest of a digest when these were answered."""
    left = {key: tuple(c for c in counters if (key, c) not in given) for key, counters in lost.items()}
    return {key: counters for key, counters in left.items() if counters}


def with_given(bloom: Bloom, given: set[Entry]) -> Bloom | None:
    """The filter with these answered; None when none is left."""
    delivered = (*bloom.given, *sorted(given, key=repr))
    if len(delivered) >= bloom.count:
        return None
    return Bloom(bloom.bits, bloom.hashes, bloom.count, delivered)

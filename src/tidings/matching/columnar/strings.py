"""Text as ordered positions.

A frozen, sorted dictionary holds every text that a constraint of its slot names: text number k
stands at position 2k, and whatever falls between two of them at the odd position between. So
equality, order and prefixes are exact even for a value that was never seen before.

A dictionary never renumbers. Texts that come later (*extras*) share the odd position of
their gap and get an id beside it: equality stays exact, order within one gap is left
to a check. The next frozen table gives them ranks.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE_SIZE = 1 << 16
SMALL = 32  # texts that a search in Python is good enough for
ID_MIN, ID_MAX = -(2**31), 2**31 - 1


def successor(prefix: str) -> str | None:
    """The least text above all texts that begin with `prefix`; None when there is none."""
    while prefix and prefix[-1] == "\U0010ffff":
        prefix = prefix[:-1]
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else None


def encoded(text: str) -> bytes:
    """UTF-8 sorts as code points do."""
    return text.encode("utf-8", "surrogatepass")


def has_kernels() -> bool:
    """Does this process use compiled kernels?"""
    return "tidings.matching.columnar.kernels" in sys.modules


def _rank_kernel() -> Any:
    """The compiled search, in a process that has compiled kernels already."""
    if not has_kernels():
        return None
    from tidings.matching.columnar.text_kernels import text_rank

    return text_rank


class SortedTexts(Sequence[bytes]):
    """Sorted texts in one block of bytes: a view, so that a mapped file serves as it is."""

    def __init__(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.blob = blob
        self.offsets = offsets
        self._bytes = memoryview(blob)  # type: ignore[arg-type]
        self._kernel: Any = None
        self.where = np.array([blob.ctypes.data, offsets.ctypes.data, len(offsets) - 1], np.int64)

    def rank(self, key: bytes) -> tuple[int, bool]:
        """How many texts are less than the key, and whether it is one of them."""
        if self._kernel is None and len(self.offsets) > SMALL:
            self._kernel = _rank_kernel()
        if self._kernel is not None:
            found = self._kernel(self.where, key)
            return (found, False) if found >= 0 else (-found - 1, True)
        place = bisect_left(self, key)
        return place, place < len(self) and self[place] == key

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> SortedTexts:
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(t) for t in texts], out=offsets[1:])
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        return bytes(self._bytes[self.offsets[index] : self.offsets[index + 1]])


EMPTY = SortedTexts.of([])


def places_of(texts: SortedTexts, addresses: NDArray[np.int64], sizes: NDArray[np.int64]) -> Any:
    """Positions of many texts that lie in memory as UTF-8; None without compiled kernels."""
    if _rank_kernel() is None:
        return None
    from tidings.matching.columnar.text_kernels import text_places

    places = np.empty(len(addresses))
    text_places(texts.where, addresses, sizes, places)
    return places


class Strings:
    """The positions of one slot: the frozen texts, and the extras that came later."""

    def __init__(self, texts: SortedTexts = EMPTY, *, ordered: bool = True) -> None:
        self.texts = texts
        self.ordered = ordered  # False: only equalities, so a gap need not be known
        self.known: dict[str, float] = {}  # a cache of positions, for the packing of events
        self.extra_ids: dict[str, int] = {}
        self.extras: list[str] = [""]  # by id; ids begin at 1
        self.extra_gaps: list[float] = [-1.0]

    def position(self, text: str) -> float:
        """Where the text stands among the frozen ones: even when it is one of them."""
        found = self.known.get(text)
        if found is None:
            rank, hit = self.texts.rank(encoded(text))
            found = 2.0 * rank if hit else 2.0 * rank - 1.0
            if len(self.known) >= CACHE_SIZE:
                self.known.clear()
            self.known[text] = found
        return found

    def find(self, text: str) -> tuple[float, int]:
        """Position and id (0: none) of a value of an event."""
        number = self.extra_ids.get(text)
        if number is not None:
            return self.extra_gaps[number], number
        return self.position(text), 0

    def add(self, text: str) -> tuple[float, int]:
        """Position and id of a text of a constraint; a new one becomes an extra."""
        known = self.known.get(text)  # extras are never in there
        if known is not None and not known % 2:
            return known, 0
        number = self.extra_ids.get(text)
        if number is not None:
            return self.extra_gaps[number], number
        place = self.position(text)
        if place % 2 == 0:
            return place, 0
        number = self.extra_ids[text] = len(self.extras)
        self.extras.append(text)
        self.extra_gaps.append(place)
        self.known.pop(text, None)  # the cache serves texts without an id alone
        return place, number

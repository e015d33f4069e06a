"""Slots: one attribute and one kind of value.

Values of different kinds never compare, so each kind of an attribute has a slot of its own,
and within a slot all values are numbers in one order. Two more kinds of slot make presence
and absence ordinary conditions: `PRESENT` holds 0 when the attribute has any value, `ABSENT`
holds 0 when it has none. A type's ancestor is a slot too (`MEMBER`, and `STRANGER` for
`IS NOT A`). An empty slot is NaN, which fails every comparison.

Slots are numbered as they come and never renumbered. Slot 255 stays empty: in the compact
entries of the grid it stands for "no condition".

Text as ordered positions.

A frozen, sorted dictionary holds every text that a constraint of its slot names: text number k
stands at position 2k, and any value between two of them at the odd position between. So
equality, order and prefixes are exact even for a value that was never seen before.

A dictionary never renumbers. Texts that come later (*extras*) share the odd position of
their gap and get an id beside it: equality stays exact, order within one gap is left
to a check. The next frozen table gives them ranks.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# -- slots -------------------------------------------------------------------------------------

NUMBER, STRING, TIME, BOOL = "n", "s", "t", "b"
PRESENT, ABSENT = "+", "-"
MEMBER, STRANGER = "i:", "-i:"
DERIVED = "d"  # the value of a residual's expression, computed once an event

MAX_SLOTS = 4096
NO_CONDITION = 255  # the slot that compact entries name for "no test"


class Slot(NamedTuple):
    attribute: str
    kind: str


class Slots:
    """The register of slots of one matcher."""

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self.version = 0  # grows with each new slot
        self._text = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self.all)

    def find(self, attribute: str, kind: str) -> int:
        """The slot's number, or -1 when there is none."""
        return self._numbers.get((attribute, kind), -1)

    def number(self, attribute: str, kind: str) -> int:
        """The slot's number, made when new; -1 when there are too many slots."""
        number = self._numbers.get((attribute, kind))
        return self._make(Slot(attribute, kind)) if number is None else number

    def _make(self, slot: Slot) -> int:
        if len(self.all) + 4 > MAX_SLOTS:
            return -1
        if len(self.all) == NO_CONDITION:
            self.all.append(Slot("", ""))
        number = self._numbers[slot] = len(self.all)
        self.all.append(slot)
        self.version += 1
        if slot.kind == ABSENT:
            self.number(slot.attribute, PRESENT)  # so that a value of any kind can be told of
        elif slot.kind.startswith(STRANGER):
            self.number(slot.attribute, MEMBER + slot.kind[len(STRANGER) :])
        return number

    def take(self, slots: list[Slot]) -> None:
        """Begin with the slots of a saved table."""
        for slot in slots:
            if slot.kind:
                self._numbers[slot] = len(self.all)
            self.all.append(slot)
        self.version += 1

    def links(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """For each slot, the PRESENT and the ABSENT slot that a value in it sets and clears (-1: none)."""
        present = np.full(len(self.all), -1, np.int32)
        absent = np.full(len(self.all), -1, np.int32)
        for number, (attribute, kind) in enumerate(self.all):
            if kind.startswith(MEMBER):
                absent[number] = self.find(attribute, STRANGER + kind[len(MEMBER) :])
            elif kind in (NUMBER, STRING, TIME, BOOL, PRESENT):
                present[number] = self.find(attribute, PRESENT)
                absent[number] = self.find(attribute, ABSENT)
        return present, absent

    def blank(self) -> NDArray[np.float64]:
        """The row of an event without attributes: everything is absent."""
        row = np.full(len(self.all), np.nan)
        for number, (_, kind) in enumerate(self.all):
            if kind == ABSENT or kind.startswith(STRANGER):
                row[number] = 0.0
        return row

    def is_string(self) -> NDArray[np.uint8]:
        return np.array([kind == STRING for _, kind in self.all], np.uint8)

    @property
    def text(self) -> NDArray[np.uint8]:
        """`is_string`, made once for each new slot."""
        if len(self._text) != len(self.all):
            self._text = self.is_string()
        return self._text


# -- strings -----------------------------------------------------------------------------------

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
    from tidings.matching.columnar.grid_kernels import text_rank

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
        """Number of texts less than the key, and whether it is one of them."""
        if self._kernel is None and len(self.offsets) > SMALL:
            self._kernel = _rank_kernel()
        if self._kernel is not None:
            found = self._kernel(self.where, key)
            return (found, False) if found >= 0 else (-found - 1, True)
        position = bisect_left(self, key)
        return position, position < len(self) and self[position] == key

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
    from tidings.matching.columnar.grid_kernels import text_places

    positions = np.empty(len(addresses))
    text_places(texts.where, addresses, sizes, positions)
    return positions


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
        """Position of the text among the frozen ones: even when it is one of them."""
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
        position = self.position(text)
        if position % 2 == 0:
            return position, 0
        number = self.extra_ids[text] = len(self.extras)
        self.extras.append(text)
        self.extra_gaps.append(position)
        self.known.pop(text, None)  # the cache serves texts without an id alone
        return position, number

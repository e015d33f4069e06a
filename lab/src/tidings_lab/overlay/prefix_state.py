"""Routing state of a node of the prefix overlay, and the next hop that follows from it (Rowstron & Druschel
2001, as Virgillito 2003, 2.5.2 uses it).

Rules
- A node's id is a hash of its name, a key's id a hash of the key: 64 bits on a ring, read as digits of
  `digit_bits`. The node whose id is nearest to a key's on the ring is responsible for it; of two at one
  distance, the smaller id.
- The *leaf set* are the `leaves` / 2 nodes that follow on the ring on each side. The *table* has, for each
  length of prefix shared with us and each next digit, one node. The *neighbourhood* are the nearest by
  measured distance.
- A hop goes to the nearest leaf when the key lies among the leaves, else to the table's node, which shares a
  longer prefix with it, else to a known node that is nearer to it than we are.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

ID_BITS = 64
RING = 1 << ID_BITS


@lru_cache(maxsize=1 << 17)
def id_of(text: str) -> int:
    """The place of a name or key on the ring, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=ID_BITS // 8).digest())


def between(a: int, b: int) -> int:
    """Distance of two ids on the ring."""
    apart = (a - b) % RING
    return min(apart, RING - apart)


class PrefixTables:
    """The three sets of one node. It only remembers; the overlay decides which nodes to ask."""

    __slots__ = ("_half", "_near_count", "addresses", "bits", "down", "me", "name", "near", "table", "up")

    def __init__(self, name: str, *, leaves: int = 16, near: int = 16, digit_bits: int = 4) -> None:
        self.name = name
        self.me = id_of(name)
        self.bits = digit_bits
        self.up: list[tuple[int, str]] = []  # leaves with larger ids: how far, who; nearest first
        self.down: list[tuple[int, str]] = []  # with smaller ids
        self.table: dict[int, str] = {}  # by cell, see `cell_of`
        self.near: dict[str, float] = {}  # the neighbourhood: seconds to each
        self.addresses: dict[str, str] = {}  # of every node in one of the sets; empty where the driver knows
        self._half = leaves // 2
        self._near_count = near

    # -- looking -------------------------------------------------------------------------------

    def row_of(self, id: int) -> int:
        """Number of leading digits that an id shares with ours."""
        return (ID_BITS - (self.me ^ id).bit_length()) // self.bits

    def cell_of(self, id: int) -> int:
        """The cell of the table for an id: its row, and the digit that follows."""
        row = self.row_of(id)
        digit = (id >> (ID_BITS - self.bits * (row + 1))) & ((1 << self.bits) - 1)
        return (row << self.bits) | digit

    def row(self, row: int) -> list[str]:
        return [name for cell, name in self.table.items() if cell >> self.bits == row]

    def leaves(self) -> list[str]:
        """Every node of the leaf set, once, in a fixed order."""
        return list(dict.fromkeys(name for _, name in (*self.up, *self.down)))

    def is_leaf(self, name: str) -> bool:
        id = id_of(name)
        return ((id - self.me) % RING, name) in self.up or ((self.me - id) % RING, name) in self.down

    def beside(self) -> list[str]:
        """The nodes just before and after us."""
        return list(dict.fromkeys(side[0][1] for side in (self.down, self.up) if side))

    def everybody(self) -> Iterator[str]:
        return iter(self.addresses)

    @property
    def knows_all(self) -> bool:
        """Do the leaves go round the whole ring?"""
        if len(self.up) < self._half or len(self.down) < self._half:
            return True
        return self.up[-1][0] + self.down[-1][0] >= RING

    def among_leaves(self, id: int) -> bool:
        return (
            self.knows_all
            or (id - self.me) % RING <= self.up[-1][0]
            or (self.me - id) % RING <= self.down[-1][0]
        )

    def hop(self, id: int, without: str = "") -> str | None:
        """Next hop for this id; None: we are responsible, as far as we know."""
        if self.among_leaves(id):
            return self._nearest((name for _, name in (*self.up, *self.down)), id, without)
        found = self.table.get(self.cell_of(id))
        if found is not None and found != without:
            return found
        row = self.row_of(id)
        alike = (
            name for name in self.addresses if (ID_BITS - (id_of(name) ^ id).bit_length()) // self.bits >= row
        )
        return self._nearest(alike, id, without) or self._nearest(self.addresses, id, without)

    def _nearest(self, names: Iterable[str], id: int, without: str) -> str | None:
        """The nearest to an id of these and us; None: that is us."""
        best, least = None, (between(self.me, id), self.me)
        for name in names:
            other = id_of(name)
            if name != without and (between(other, id), other) < least:
                best, least = name, (between(other, id), other)
        return best

    # -- changing ------------------------------------------------------------------------------

    def add(self, name: str, address: str) -> bool:
        """Take a node in where there is room for it.

        True: it is in the leaf set or the table now and was not.
        """
        id = id_of(name)
        new = self._add_leaf(self.up, (id - self.me) % RING, name)
        new = self._add_leaf(self.down, (self.me - id) % RING, name) or new
        if self.table.setdefault(self.cell_of(id), name) == name:
            new = new or name not in self.addresses
        if new or name in self.addresses:
            self.addresses[name] = address or self.addresses.get(name, "")
        if new:
            self._forget_strangers()
        return new

    def _add_leaf(self, side: list[tuple[int, str]], far: int, name: str) -> bool:
        if (len(side) >= self._half and far >= side[-1][0]) or (far, name) in side:
            return False
        insort(side, (far, name))
        if len(side) > self._half:
            side.pop()
        return True

    def rival(self, name: str) -> str | None:
        """Holder of the cell of the table that this node could have."""
        holder = self.table.get(self.cell_of(id_of(name)))
        return None if holder == name else holder

    def prefer(self, name: str, address: str) -> None:
        """This node takes its cell from the present holder."""
        self.table[self.cell_of(id_of(name))] = name
        self.addresses[name] = address or self.addresses.get(name, "")
        self._forget_strangers()

    def measured(self, name: str, address: str, seconds: float) -> None:
        """A node's distance is known: it may be one of the neighbourhood."""
        self.near[name] = seconds
        if len(self.near) > self._near_count:
            del self.near[max(self.near, key=lambda other: (self.near[other], other))]
        if name in self.near:
            self.addresses[name] = address or self.addresses.get(name, "")
        self._forget_strangers()

    def remove(self, name: str) -> bool:
        """Forget a node. True: it was in the leaf set or the table."""
        before = len(self.up) + len(self.down) + len(self.table)
        self.up = [leaf for leaf in self.up if leaf[1] != name]
        self.down = [leaf for leaf in self.down if leaf[1] != name]
        if self.rival(name) is None:
            self.table.pop(self.cell_of(id_of(name)), None)
        self.near.pop(name, None)
        self.addresses.pop(name, None)
        lost = len(self.up) + len(self.down) + len(self.table) < before
        for other in self.addresses if lost else ():  # who is known otherwise may be the next leaf
            id = id_of(other)
            self._add_leaf(self.up, (id - self.me) % RING, other)
            self._add_leaf(self.down, (self.me - id) % RING, other)
        return lost

    def _forget_strangers(self) -> None:
        """Forget a node that was pushed out of every set."""
        if len(self.addresses) > 2 * self._half + len(self.table) + len(self.near):
            kept = {*self.leaves(), *self.table.values(), *self.near}
            self.addresses = {name: address for name, address in self.addresses.items() if name in kept}

    def check(self) -> None:
        assert [self.up, self.down] == [sorted(self.up), sorted(self.down)], "leaves out of order"
        assert self.name not in self.addresses, "a node knows others, not itself"
        stored = {*self.leaves(), *self.table.values(), *self.near}
        assert stored <= self.addresses.keys(), f"without an address: {stored - self.addresses.keys()}"
        for cell, name in self.table.items():
            assert self.cell_of(id_of(name)) == cell, f"{name} is in a cell of others"

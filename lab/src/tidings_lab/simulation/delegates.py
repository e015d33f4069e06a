"""A tree of delegates in rounds: PMcast and hpcast (Eugster and Guerraoui 2002), one tree for both.

Processes are leaves of a tree of ranges; each subtree is represented by its first processes, the delegates.
An event is gossiped among the delegates below the root, then, a round later, among those one level further
down, and at last inside the lowest groups. hpcast gossips to all of them. PMcast knows who is interested and
leaves out subtrees, and processes of lowest groups, that are not; a delegate receives what its subtree wants,
so it may get what it does not want itself. The paper that compares with it gives no parameters of its tree
(DAM-11).
"""

from __future__ import annotations

import math

import numpy as np

from tidings_lab.membership.delegate_tree import DelegateTree
from tidings_lab.simulation.rounds import GossipPlan, Hierarchy, Section, above, arena_of, scattered
from tidings_lab.simulation.rounds_parts import ACROSS, PUBLISHER, Ints

Range = tuple[int, int]


def delegate_tree(
    hierarchy: Hierarchy,
    *,
    interest: bool = True,
    arity: int = 10,
    depth: int = 0,
    delegates: int = 3,
    c: float = 5.0,
    published: int = -1,
) -> GossipPlan:
    """PMcast, or hpcast with `interest=False`. Without a depth, lowest groups have 10 processes or more."""
    positions = scattered(hierarchy)
    published = published % len(hierarchy)
    wanted = above(hierarchy, published)
    wants = np.isin(positions, wanted) if interest else np.ones(positions.size, np.bool_)
    tree = _DelegateArrays(DelegateTree.of(positions.size, arity, depth, delegates), c, wants)
    return GossipPlan(
        algorithm="PMcast" if interest else "hpcast", arena=tree.arena(), published=published,
        groups=_sizes(hierarchy), entries=(tree.entries(),) * len(hierarchy), wanted=tuple(wanted),
        most_delay=tree.tree.depth - 1, places=positions,
    )  # fmt: skip


def _sizes(hierarchy: Hierarchy) -> tuple[Range, ...]:
    ends = np.cumsum([group.size for group in hierarchy]).tolist()
    return tuple(zip([0, *ends[:-1]], ends, strict=True))


class _DelegateArrays:
    """The tree's pools as arrays."""

    def __init__(self, tree: DelegateTree, c: float, wants: object) -> None:
        self.tree, self.c = tree, c
        self.wants: Ints = np.asarray(wants)
        self.members: list[int] = []
        self.pools: dict[Range, Range] = {}  # by level and number: where in `members`, how many

    def pool(self, level: int, number: int) -> Range:
        found = self.pools.get((level, number))
        if found is None:
            who = self.tree.pool(level, number, self._wanting)
            found = self.pools[(level, number)] = (len(self.members), len(who))
            self.members += who
        return found

    def _wanting(self, begin: int, end: int) -> list[int]:
        return [begin + int(at) for at in np.flatnonzero(self.wants[begin:end])]

    def _section(self, level: int, number: int, delay: int) -> Section:
        start, size = self.pool(level, number)
        return Section(start=start, size=size, fan=self._fan(size), delay=delay, direct=False)

    def _fan(self, size: int) -> int:
        """The sender may stand outside: a pool of one is sent to as well."""
        return min(size, math.floor(math.log(size) + self.c)) if size else 0

    def sections(self, leaf: int, *, is_delegate: bool) -> list[Section]:
        """Of a lowest group's delegates, or of its other processes: from the top down, a round apart."""
        tree = self.tree
        found = [
            self._section(level, leaf // tree.arity ** (tree.depth - 1 - level), delay)
            for delay, level in enumerate(tree.levels(leaf, is_delegate=is_delegate))
        ]
        start, size = self.pool(0, 0)
        enter = Section(
            start=start, size=size, fan=self._fan(size), kind=ACROSS, role=PUBLISHER, direct=False
        )
        return [*found, enter]

    def arena(self) -> object:
        starts, sections, tree = [], [], self.tree
        for leaf in range(tree.arity ** (tree.depth - 1)):
            begin, end = tree.subtree(tree.depth - 1, leaf)
            cut = min(end, begin + tree.delegates) if tree.depth > 1 else begin
            for at, upto, is_delegate in ((begin, cut, True), (cut, end, False)):
                if upto > at:
                    starts.append(at)
                    sections.append(self.sections(leaf, is_delegate=is_delegate))
        return arena_of([*starts, tree.count], sections, self.members)

    def entries(self) -> int:
        """A process knows the delegates on each level of its way up, and its lowest group."""
        tree = self.tree
        lowest = int(tree.count // tree.arity ** (tree.depth - 1))
        return (tree.depth - 1) * tree.arity * tree.delegates + lowest

"""A tree of delegates in rounds: PMcast and hpcast (Eugster and Guerraoui 2002), one tree for both.

Processes are leaves of a tree of ranges; each subtree is represented by its first processes, the delegates. An
event is gossiped among the delegates below the root, then, a round later, among those one level further down,
and at last inside the lowest groups. hpcast gossips to all of them. PMcast knows who is interested and leaves out
subtrees, and processes of lowest groups, that are not; a delegate receives what its subtree wants, so it may
get what it does not want itself. The paper that compares with it gives no parameters of its tree (DAM-11).
"""

from __future__ import annotations

import math

import numpy as np

from tidings.errors import SettingsError
from tidings.simulation.rounds import Hierarchy, Plan, Section, above, arena_of, scattered
from tidings.simulation.rounds_parts import ACROSS, PUBLISHER, Ints

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
) -> Plan:
    """PMcast, or hpcast with `interest=False`. Without a depth, lowest groups have 10 processes or more."""
    places = scattered(hierarchy)
    published = published % len(hierarchy)
    wanted = above(hierarchy, published)
    wants = np.isin(places, wanted) if interest else np.ones(places.size, np.bool_)
    depth = depth or 1 + max(0, math.floor(math.log(max(1, places.size / 10), arity) + 1e-9))
    if arity ** (depth - 1) * max(1, delegates) > places.size:
        raise SettingsError(
            f"a tree of depth {depth} and arity {arity} with {delegates} delegates each has no room in "
            f"{places.size} processes",
            hint="take fewer levels, branches or delegates",
        )
    tree = _Tree(places.size, arity, depth, delegates, c, wants)
    return Plan(
        algorithm="PMcast" if interest else "hpcast", arena=tree.arena(), published=published,
        groups=_sizes(hierarchy), entries=(tree.entries(),) * len(hierarchy), wanted=tuple(wanted),
        most_delay=depth - 1, places=places,
    )  # fmt: skip


def _sizes(hierarchy: Hierarchy) -> tuple[Range, ...]:
    ends = np.cumsum([group.size for group in hierarchy]).tolist()
    return tuple(zip([0, *ends[:-1]], ends, strict=True))


class _Tree:
    def __init__(self, count: int, arity: int, depth: int, delegates: int, c: float, wants: object) -> None:
        self.count, self.arity, self.depth, self.delegates, self.c = count, arity, depth, delegates, c
        self.wants: Ints = np.asarray(wants)
        self.members: list[int] = []
        self.pools: dict[tuple[int, int], Range] = {}  # by level and number: where in `members`, how many

    def subtree(self, level: int, number: int) -> Range:
        parts = self.arity**level
        return self.count * number // parts, self.count * (number + 1) // parts

    def pool(self, level: int, number: int) -> Range:
        """Those who gossip with one another below this subtree: delegates of its branches, or its members."""
        found = self.pools.get((level, number))
        if found is None:
            who = self._who(level, number)
            found = self.pools[(level, number)] = (len(self.members), len(who))
            self.members += who
        return found

    def _who(self, level: int, number: int) -> list[int]:
        if level == self.depth - 1:
            begin, end = self.subtree(level, number)
            return [process for process in range(begin, end) if self.wants[process]]
        who: list[int] = []
        for branch in range(number * self.arity, (number + 1) * self.arity):
            begin, end = self.subtree(level + 1, branch)
            if self.wants[begin:end].any():
                who += range(begin, min(end, begin + self.delegates))
        return who

    def _section(self, level: int, number: int, delay: int) -> Section:
        start, size = self.pool(level, number)
        return Section(start=start, size=size, fan=self._fan(size), delay=delay, direct=False)

    def _fan(self, size: int) -> int:
        """Whoever sends may stand outside: a pool of one is sent to as well."""
        return min(size, math.floor(math.log(size) + self.c)) if size else 0

    def sections(self, leaf: int, *, is_delegate: bool) -> list[Section]:
        """Of a lowest group's delegates, or of its other processes: from the top down, a round apart."""
        top = self.depth - 1
        if is_delegate:  # of this group, and of every subtree that begins with it
            top -= 1
            while top > 0 and leaf % self.arity ** (self.depth - 1 - top) == 0:
                top -= 1
        top = max(0, top)
        levels = range(top, self.depth)
        found = [
            self._section(level, leaf // self.arity ** (self.depth - 1 - level), level - top)
            for level in levels
        ]
        start, size = self.pool(0, 0)
        enter = Section(
            start=start, size=size, fan=self._fan(size), kind=ACROSS, role=PUBLISHER, direct=False
        )
        return [*found, enter]

    def arena(self) -> object:
        starts, sections = [], []
        for leaf in range(self.arity ** (self.depth - 1)):
            begin, end = self.subtree(self.depth - 1, leaf)
            cut = min(end, begin + self.delegates) if self.depth > 1 else begin
            for at, upto, is_delegate in ((begin, cut, True), (cut, end, False)):
                if upto > at:
                    starts.append(at)
                    sections.append(self.sections(leaf, is_delegate=is_delegate))
        return arena_of([*starts, self.count], sections, self.members)

    def entries(self) -> int:
        """A process knows the delegates on each level of its way up, and its lowest group."""
        lowest = int(self.count // self.arity ** (self.depth - 1))
        return (self.depth - 1) * self.arity * self.delegates + lowest

"""A tree of delegates (Eugster and Guerraoui 2002): the gossip partners on each level.

Processes are numbered and are the leaves of a tree of ranges: the whole is the subtree 0 of level 0, and each
subtree has `arity` branches, down to lowest groups on level `depth` - 1. The first `delegates` processes of a
subtree stand for it. On each level the delegates of a subtree's branches gossip with one another; in a lowest
group all do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from tidings.errors import SettingsError

Range = tuple[int, int]


def depth_for(count: int, arity: int) -> int:
    """Depth at which lowest groups have ten processes or more."""
    return 1 + max(0, math.floor(math.log(max(1, count / 10), arity) + 1e-9))


class DelegateTree(msgspec.Struct, frozen=True):
    count: int
    arity: int = 10
    depth: int = 0  # 0: by the count
    delegates: int = 3

    @classmethod
    def of(cls, count: int, arity: int = 10, depth: int = 0, delegates: int = 3) -> DelegateTree:
        depth = depth or depth_for(count, arity)
        if depth > 1 and arity ** (depth - 1) * max(1, delegates) > count:
            raise SettingsError(
                f"a tree of depth {depth} and arity {arity} with {delegates} delegates each has no room in "
                f"{count} processes",
                hint="take fewer levels, branches or delegates",
            )
        return cls(count, arity, depth, delegates)

    def subtree(self, level: int, number: int) -> Range:
        parts = self.arity**level
        return self.count * number // parts, self.count * (number + 1) // parts

    def number(self, process: int, level: int) -> int:
        """The subtree of that level that a process is in."""
        return int(((process + 1) * self.arity**level - 1) // self.count)

    def pool(self, level: int, number: int, wants: Callable[[int, int], list[int]]) -> list[int]:
        """Processes that gossip with one another below this subtree; `wants` picks the interested
        of a range."""
        if level == self.depth - 1:
            return wants(*self.subtree(level, number))
        who: list[int] = []
        for branch in range(number * self.arity, (number + 1) * self.arity):
            begin, end = self.subtree(level + 1, branch)
            if wants(begin, end):
                who += range(begin, min(end, begin + self.delegates))
        return who

    def levels(self, leaf: int, *, is_delegate: bool) -> range:
        """On which a process of this lowest group gossips, from the top down."""
        top = self.depth - 1
        if is_delegate:  # of this group, and of every subtree that begins with it
            top -= 1
            while top > 0 and leaf % self.arity ** (self.depth - 1 - top) == 0:
                top -= 1
        return range(max(0, top), self.depth)

    def levels_of(self, process: int) -> range:
        leaf = self.number(process, self.depth - 1)
        begin, _ = self.subtree(self.depth - 1, leaf)
        return self.levels(leaf, is_delegate=self.depth > 1 and process < begin + self.delegates)

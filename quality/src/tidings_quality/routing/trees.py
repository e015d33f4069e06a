"""Diffusion trees: each node sends an event on to no more children than its capability.

Rules
- The root has room for as many children as its capability, every other node for as many as its own.
- Those who can send to more stand nearer to the root (of equals, the earlier name), so the tree is as flat as
  capabilities allow. A capability below 1 counts as 1: a chain is always possible.
- A branch is a node with what is below it; a message to a node carries the branches below that node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec


class Branch(msgspec.Struct, frozen=True, array_like=True):
    """A node of a diffusion tree, and what it has to send on."""

    name: str
    below: tuple[Branch, ...] = ()


def build_tree(
    root_capability: int, consumers: Iterable[str], capability: Callable[[str], int]
) -> tuple[Branch, ...]:
    """The branches below the root: every consumer once."""
    order = sorted(consumers, key=lambda name: (-capability(name), name))
    children: dict[str | None, list[str]] = {None: [], **{name: [] for name in order}}
    rooms: deque[tuple[str | None, int]] = deque([(None, max(1, root_capability))])
    for name in order:
        above, room = rooms[0]
        children[above].append(name)
        if room == 1:
            rooms.popleft()
        else:
            rooms[0] = (above, room - 1)
        rooms.append((name, max(1, capability(name))))
    made: dict[str, Branch] = {}
    for name in reversed(order):  # descendants stand later in the order
        made[name] = Branch(name, tuple(made[child] for child in children[name]))
    return tuple(made[name] for name in children[None])


def names_in(branches: Sequence[Branch]) -> Iterator[str]:
    """Every node of some branches, level by level: others' trees may be deeper than a stack."""
    waiting = deque(branches)
    while waiting:
        branch = waiting.popleft()
        yield branch.name
        waiting.extend(branch.below)


def depth_of(branches: Sequence[Branch]) -> int:
    """Steps from the root to the farthest node."""
    return max((1 + depth_of(branch.below) for branch in branches), default=0)

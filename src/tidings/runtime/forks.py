"""Buses in a process that was forked.

A child has a copy of its parent's bus: the same socket, and the same numbers for the next events. An event
that it published had the identity of the parent's next one, which the broker then took for a repetition. So
the buses of a process end in its children, silently: what they hold belongs to the parent.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

FORKED = "the bus belongs to the process that this one was forked from; open another one here"


class EndsInChild(Protocol):
    def forked(self) -> None:
        """This process is a child of the one that made it."""

    def __hash__(self) -> int: ...


_made: WeakSet[EndsInChild] = WeakSet()


def ends_in_children(made: EndsInChild) -> None:
    """Have it told in each process that is forked from this one."""
    _made.add(made)


def _tell_all() -> None:
    for made in list(_made):
        made.forked()
    _made.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_all)

"""Compiled kernels for brokers that serve: prepared beside the event loop, never on it.

On a fresh machine the first of them would compile for some ten seconds in the middle of a subscribe.
"""

from __future__ import annotations

from tidings.matching.columnar.warm import BACKGROUND
from tidings.matching.engine import MatchingEngine
from tidings.protocol.node import Node


def prepare_in_background(node: Node) -> None:
    """Have every matcher of this node wait for its kernels without delaying callers."""
    for strategy in node.slots.values():
        for matcher in strategy.matchers():
            if isinstance(matcher, MatchingEngine):
                matcher.kernels = BACKGROUND

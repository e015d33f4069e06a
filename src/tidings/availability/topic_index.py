"""Index of the available events of a log by topic, so that a new subscription reads those that can match.

Rules
- An event is in the index as long as its log entry is, if it had a lifetime: later subscriptions may receive
  it.
- `find` returns the offsets under topic patterns, in the order of the log. It costs the topics that match
  and the levels on the way to them, never all topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidings.model.constraint import Equals, OneOf, TopicIs
from tidings.model.filter import Filter
from tidings.model.topic import ROOT

_OFFSETS = ""  # no level of a topic is empty: under this name a node keeps its offsets
TOPIC = "topic"

Node = dict[str, Any]  # by level: the node below it


class TopicIndex:
    """Offsets by topic."""

    def __init__(self) -> None:
        self._root: Node = {}

    def add(self, topic: str, offset: int) -> None:
        node = self._root
        for level in _levels(topic):
            below = node.get(level)
            if below is None:
                below = node[level] = {}
            node = below
        node.setdefault(_OFFSETS, {})[offset] = None

    def remove(self, topic: str, offset: int) -> None:
        path, node = [], self._root
        for level in _levels(topic):
            below = node.get(level)
            if below is None:
                return
            path.append((node, level))
            node = below
        offsets = node.get(_OFFSETS, {})
        offsets.pop(offset, None)
        if not offsets:
            node.pop(_OFFSETS, None)
        for above, level in reversed(path):
            if above[level]:
                return
            del above[level]

    def find(self, patterns: Iterable[str]) -> list[int]:
        """The offsets of topics that fall under one of these patterns, ascending."""
        found: set[int] = set()
        for pattern in patterns:
            _collect(self._root, _levels(pattern), 0, found)
        return sorted(found)


def patterns_of(filter: Filter) -> tuple[str, ...] | None:
    """Topic patterns under which every event of the filter falls; None: it may accept any topic, or none."""
    patterns: list[str] = []
    for conjunction in filter.conjunctions:
        for constraint in conjunction.constraints:
            if constraint.attribute != TOPIC:
                continue
            if isinstance(constraint, TopicIs) and not constraint.negated and constraint.pattern != "#":
                patterns.append(constraint.pattern)
                break
            if isinstance(constraint, Equals) and type(constraint.value) is str:
                patterns.append(constraint.value)
                break
            if isinstance(constraint, OneOf):
                patterns += [value for value in constraint.values if type(value) is str]
                break
        else:
            return None
    return tuple(patterns)


def _levels(topic: str) -> list[str]:
    return [ROOT] if topic == ROOT else topic.split("/")


def _collect(node: Node, levels: list[str], position: int, found: set[int]) -> None:
    if position == len(levels):
        found.update(node.get(_OFFSETS, ()))
        return
    level = levels[position]
    if level == "#":
        _collect_all(node, found)
    elif level == "+":
        for name, below in node.items():
            if name != _OFFSETS and name != ROOT:
                _collect(below, levels, position + 1, found)
    elif level in node:
        _collect(node[level], levels, position + 1, found)


def _collect_all(node: Node, found: set[int]) -> None:
    for name, below in node.items():
        if name == _OFFSETS:
            found.update(below)
        else:
            _collect_all(below, found)

"""A testing network, the second classical family (Virgillito 2003, sections 2.4.2 and 2.5.3).

The tree of Gryphon: every level tests one attribute, in one fixed order; a conjunction is a
path from the root, and filters that begin alike share it. Levels at which a path does not
care are left out of it (a node's branches may test any later attribute), which is the tree
with its don't-care branches folded. An event follows every branch that its values satisfy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidings.language.evaluate import residual_test
from tidings.matching.matcher import Matches
from tidings.matching.naive import Handles, one_by_one
from tidings.model.constraint import Constraint, Equals
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import kind_of


class _Node:
    """Branches by attribute: by value for equalities, by test for everything else."""

    __slots__ = ("ends", "tests", "values")

    def __init__(self) -> None:
        self.values: dict[str, dict[tuple[Any, Any], _Node]] = {}
        self.tests: dict[str, dict[Constraint, _Node]] = {}
        self.ends: dict[tuple[int, int], list[Callable[[Event], bool]]] = {}

    @property
    def is_bare(self) -> bool:
        return not (self.values or self.tests or self.ends)


class TreeMatcher:
    """Attributes are ordered as they first appear, so that early filters shape the tree."""

    def __init__(self) -> None:
        self._handles = Handles()
        self._root = _Node()
        self._order: dict[str, int] = {}
        self._filters: dict[int, Filter] = {}
        self._nodes = 1

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        self._filters[handle] = filter
        for number, conjunction in enumerate(filter.conjunctions):
            node = self._root
            for constraint in self._path(conjunction):
                node = self._child(node, constraint)
            node.ends[handle, number] = [residual_test(r, filter.dialect) for r in conjunction.residuals]
        return handle

    def _path(self, conjunction: Conjunction) -> list[Constraint]:
        for constraint in conjunction.constraints:
            self._order.setdefault(constraint.attribute, len(self._order))
        return sorted(dict.fromkeys(conjunction.constraints), key=lambda c: self._order[c.attribute])

    def _branches(self, node: _Node, constraint: Constraint) -> tuple[dict[Any, _Node], Any]:
        if isinstance(constraint, Equals) and kind_of(constraint.value) is not None:
            key = (kind_of(constraint.value), constraint.value)
            return node.values.setdefault(constraint.attribute, {}), key
        return node.tests.setdefault(constraint.attribute, {}), constraint

    def _child(self, node: _Node, constraint: Constraint) -> _Node:
        branches, key = self._branches(node, constraint)
        child = branches.get(key)
        if child is None:
            child = branches[key] = _Node()
            self._nodes += 1
        return child

    def remove(self, handle: int) -> None:
        filter = self._filters.pop(handle)
        self._handles.give_back(handle)
        for number, conjunction in enumerate(filter.conjunctions):
            self._cut(self._root, self._path(conjunction), (handle, number))

    def _cut(self, node: _Node, path: Sequence[Constraint], end: tuple[int, int]) -> None:
        """Take one path out, and with it the nodes that nothing else needs."""
        if not path:
            del node.ends[end]
            return
        branches, key = self._branches(node, path[0])
        child = branches[key]
        self._cut(child, path[1:], end)
        if child.is_bare:
            del branches[key]
            self._nodes -= 1
            for kind in (node.values, node.tests):
                if not kind.get(path[0].attribute, True):
                    del kind[path[0].attribute]

    def match(self, event: Event) -> list[int]:
        found: set[int] = set()
        value_of = event.view.get
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            for (handle, _), residuals in node.ends.items():
                if all(holds(event) for holds in residuals):
                    found.add(handle)
            for name, branches in node.values.items():
                value = value_of(name)
                if value is not None and type(value) is not tuple:
                    child = branches.get((kind_of(value), value))
                    if child is not None:
                        waiting.append(child)
            for name, tests in node.tests.items():
                value = value_of(name)
                waiting += [child for constraint, child in tests.items() if constraint.accepts(value)]
        return sorted(found)

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:  # noqa: ARG002
        return 0

    def stats(self) -> dict[str, Any]:
        return {
            "engine": "tree",
            "filters": len(self._filters),
            "nodes": self._nodes,
            "levels": len(self._order),
        }

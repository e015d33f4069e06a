"""A testing network, the second classical family (Virgillito 2003, sections 2.4.2 and 2.5.3).

The tree of Gryphon: every level tests one attribute, in one fixed order; a conjunction is a
path from the root, and filters that begin alike share it. An event follows every branch that its
values satisfy, and at each level the branch of those who do not care. The optimisations of its papers:
- *Trivial tests* and *delayed branching* (`delayed`, the default): levels at which a path does not care are
  left out of it, so a node's branches may test any later attribute, and a don't-care branch is followed only
  once its next test has passed. Without it each such level is a node, which is always followed.
- *Factoring*: the attributes in `factored` are looked up in a table before anything is tested; the
  rest of a filter is in the tree of its values. Filters that do not care about them are in a tree of
  their own (the papers copy them into every tree: quicker, and larger).
- The *order* of the others: those in `order` first, then as they appear. Attributes that most filters test
  belong first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

from tidings.language.evaluate import budget_test, residual_test
from tidings.language.work import within_budget
from tidings.matching.matcher import Matches
from tidings.matching.naive import Handles, one_by_one
from tidings.model.constraint import Constraint, Equals, Kinds, exact_key
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import kind_of

ANY = None  # the key of those who do not care, in the table of factored values


class TreeNode:
    """Branches by attribute: by value for equalities, by test for everything else."""

    __slots__ = ("ends", "star", "tests", "values")

    def __init__(self) -> None:
        self.values: dict[str, dict[tuple[Any, Any], TreeNode]] = {}
        self.tests: dict[str, dict[tuple[Constraint, Kinds], TreeNode]] = {}
        self.star: TreeNode | None = None  # of those who do not care about this level
        self.ends: dict[tuple[int, int], list[Callable[[Event], bool]]] = {}

    @property
    def is_bare(self) -> bool:
        return not (self.values or self.tests or self.ends or self.star)


class TreeMatcher:
    """Attributes are ordered as they first appear, unless `order` says otherwise."""

    node: type[TreeNode] = TreeNode

    def __init__(
        self, *, order: Sequence[str] = (), factored: Sequence[str] = (), delayed: bool = True
    ) -> None:
        self.factored = tuple(factored)
        self.delayed = delayed
        self.visited = 0  # nodes, by all events so far
        self._handles = Handles()
        self._roots: dict[tuple[Any, ...], TreeNode] = {}  # by the factored values
        self._order: dict[str, int] = {name: position for position, name in enumerate(order)}
        self._filters: dict[int, Filter] = {}
        self._nodes = 0

    # -- filters -----------------------------------------------------------------------------

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        self._filters[handle] = filter
        for number, conjunction in enumerate(filter.conjunctions):
            key, path = self._path(conjunction)
            node = self._roots.get(key)
            if node is None:
                node = self._roots[key] = self._made()
            for constraint in path:
                node = self._child(node, constraint)
            node.ends[handle, number] = [
                *budget_test(filter, conjunction),
                *(residual_test(r, filter.dialect) for r in conjunction.residuals),
            ]
        return handle

    def remove(self, handle: int) -> None:
        filter = self._filters.pop(handle)
        self._handles.give_back(handle)
        for number, conjunction in enumerate(filter.conjunctions):
            key, path = self._path(conjunction)
            self._cut(self._roots[key], path, (handle, number))
            if self._roots[key].is_bare:
                del self._roots[key]
                self._nodes -= 1

    def _path(self, conjunction: Conjunction) -> tuple[tuple[Any, ...], list[Constraint | None]]:
        """The table's key of a conjunction, and its way from the root there; None: it does not care."""
        by_name: dict[str, list[Constraint]] = {}
        for constraint, _ in dict.fromkeys(map(exact_key, conjunction.constraints)):
            by_name.setdefault(constraint.attribute, []).append(constraint)
        key = tuple(_fixed(by_name, name) for name in self.factored)
        for name in by_name:
            self._order.setdefault(name, len(self._order))
        levels = sorted(by_name, key=self._order.__getitem__)
        if self.delayed or not levels:
            return key, [constraint for name in levels for constraint in by_name[name]]
        tested = (name for name in self._order if name in by_name or name not in self.factored)
        names = [name for name in tested if self._order[name] <= self._order[levels[-1]]]
        names.sort(key=self._order.__getitem__)
        return key, [each for name in names for each in by_name.get(name, [None])]

    def _made(self) -> TreeNode:
        self._nodes += 1
        return self.node()

    def _branches(self, node: TreeNode, constraint: Constraint) -> tuple[dict[Any, TreeNode], Any]:
        if isinstance(constraint, Equals) and kind_of(constraint.value) is not None:
            key = (kind_of(constraint.value), constraint.value)
            return node.values.setdefault(constraint.attribute, {}), key
        return node.tests.setdefault(constraint.attribute, {}), exact_key(constraint)

    def _child(self, node: TreeNode, constraint: Constraint | None) -> TreeNode:
        if constraint is None:
            if node.star is None:
                node.star = self._made()
            return node.star
        branches, key = self._branches(node, constraint)
        child = branches.get(key)
        if child is None:
            child = branches[key] = self._made()
        return child

    def _cut(self, node: TreeNode, path: Sequence[Constraint | None], end: tuple[int, int]) -> None:
        """Take one path out, and with it the nodes that no other path needs."""
        if not path:
            del node.ends[end]
            return
        child = self._child(node, path[0])
        self._cut(child, path[1:], end)
        if child.is_bare:
            self._nodes -= 1
            self._unlink(node, path[0])

    def _unlink(self, node: TreeNode, constraint: Constraint | None) -> None:
        if constraint is None:
            node.star = None
            return
        branches, key = self._branches(node, constraint)
        del branches[key]
        for kind in (node.values, node.tests):
            if not kind.get(constraint.attribute, True):
                del kind[constraint.attribute]

    # -- events ------------------------------------------------------------------------------

    def _begin(self, event: Event) -> list[TreeNode]:
        """The trees that an event has to look through."""
        if not self.factored:
            return list(self._roots.values())
        value_of = event.view.get
        keys = [(ANY,) if (key := _key(value_of(name))) is None else (ANY, key) for name in self.factored]
        return [self._roots[key] for key in product(*keys) if key in self._roots]

    def match(self, event: Event) -> list[int]:
        found: set[int] = set()
        value_of = event.view.get
        waiting = self._begin(event)
        while waiting:
            node = waiting.pop()
            self.visited += 1
            for (handle, _), residuals in node.ends.items():
                if all(holds(event) for holds in residuals):
                    found.add(handle)
            waiting += followed(node, value_of)
        return sorted(found)

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:
        return 0

    def stats(self) -> dict[str, Any]:
        return {
            "engine": "tree",
            "filters": len(self._filters),
            "nodes": self._nodes,
            "levels": len(self._order),
        }


def followed(node: TreeNode, value_of: Callable[[str], Any]) -> list[TreeNode]:
    """The branches of a node that an event satisfies."""
    found = [] if node.star is None else [node.star]
    for name, branches in node.values.items():
        key = _key(value_of(name))
        if key is not None:
            child = branches.get(key)
            if child is not None:
                found.append(child)
    for name, tests in node.tests.items():
        value = value_of(name)
        found += [child for (constraint, _), child in tests.items() if within_budget(constraint)(value)]
    return found


def _key(value: Any) -> tuple[Any, Any] | None:
    """Key that a value is looked up by; None: it has none."""
    return None if value is None or type(value) is tuple else (kind_of(value), value)


def _fixed(by_name: dict[str, list[Constraint]], name: str) -> tuple[Any, Any] | None:
    """The one value that the attribute must have; then it need not be tested any more."""
    constraints = by_name.get(name, [])
    if len(constraints) != 1 or not isinstance(constraints[0], Equals):
        return ANY
    key = _key(constraints[0].value)
    if key is not None:
        del by_name[name]
    return key

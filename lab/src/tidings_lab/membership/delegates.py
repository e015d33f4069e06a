"""Membership of a tree of delegates: the peers that gossip with us on each level, `over(level, topic)`.

Rules
- All peers and their order are given and stay: the comparisons of Baehni et al. 2004 take PMcast's tree for
  built.
- So are interests (`wants`, by peer). A peer that is not listed there is taken to want everything. Without
  any, no peer is left out: that is hpcast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidings.model.topic import ROOT
from tidings.protocol.slots import Membership
from tidings.protocol.topic_graph import TopicGraph
from tidings_lab.membership.delegate_tree import DelegateTree

MOST_POOLS = 1000


class DelegateTables(Membership):
    name = "tree of delegates"

    def __init__(
        self, own: str, order: Sequence[str], tree: DelegateTree, graph: TopicGraph,
        wants: Mapping[str, tuple[str, ...]],
    ) -> None:  # fmt: skip
        self._order, self._tree, self._graph, self._wants = tuple(order), tree, graph, wants
        self._place = self._order.index(own)
        self._pools: dict[str, tuple[str, ...]] = {}
        self.topics: dict[str, None] = {}
        self.known = dict.fromkeys(self._order)
        self.supers: dict[str, tuple[str, ...]] = {}

    def view(self, scope: str = "") -> tuple[str, ...]:
        if not scope:
            return self._order
        found = self._pools.get(scope)
        if found is None:
            found = self._pool(*scope.split("^", 1))
            if len(self._pools) < MOST_POOLS:
                self._pools[scope] = found
        return found

    def _pool(self, level: str, topic: str) -> tuple[str, ...]:
        def wanting(begin: int, end: int) -> list[int]:
            return [
                position for position in range(begin, end) if self._is_wanted(self._order[position], topic)
            ]

        number = self._tree.number(self._place, int(level))
        return tuple(self._order[position] for position in self._tree.pool(int(level), number, wanting))

    def _is_wanted(self, name: str, topic: str) -> bool:
        wants = self._wants.get(name)
        return wants is None or any(self._graph.includes(each, topic or ROOT) for each in wants)

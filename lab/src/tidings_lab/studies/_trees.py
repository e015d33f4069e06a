"""Cost of matching by tree and by counting, and savings of link matching (Virgillito 2003, 2.4.2 and 2.5.3).

Filters fix some of `ATTRIBUTES` attributes, the first of them most often, as the papers of Gryphon have it:
attribute k is left open with a chance that grows with k. Costs are CPU seconds of this process, and nodes of
the tree that an event visits, which no other program on the machine can change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

from tidings.language import parse_filter
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter
from tidings.simulation.topology import OverlayGraph, random_tree
from tidings_lab.matching.counting import CountingMatcher
from tidings_lab.matching.link_tree import LinkTree
from tidings_lab.matching.tree import TreeMatcher

ATTRIBUTES, VALUES = 8, 6
EVENTS = 200
TURNS = 3
NAMES = tuple(f"a{number}" for number in range(ATTRIBUTES))
MATCHERS: dict[str, Callable[[], Any]] = {
    "counting": CountingMatcher,
    "tree, plain": lambda: TreeMatcher(order=NAMES, delayed=False),
    "tree, factored": lambda: TreeMatcher(order=NAMES, factored=NAMES[:2], delayed=False),
    "tree, delayed branching": lambda: TreeMatcher(order=NAMES),
    "tree, both": lambda: TreeMatcher(order=NAMES, factored=NAMES[:2]),
}
TREES = tuple(name for name in MATCHERS if name != "counting")


def drawn_filter(rng: Random) -> Filter:
    parts = [
        f"{name} = {rng.randrange(VALUES)}"
        for position, name in enumerate(NAMES)
        if rng.random() > 0.05 + 0.1 * position
    ]
    return parse_filter(" AND ".join(parts) or f"a0 = {rng.randrange(VALUES)}")


def drawn_event(rng: Random, number: int) -> Event:
    return make_event({name: rng.randrange(VALUES) for name in NAMES}, source="s", id=str(number + 1))


def matching_cost(kind: str, subscriptions: int, seed: int) -> dict[str, Any]:
    """CPU microseconds and tree nodes of an event; and what was found, for all to agree on."""
    rng = Random(f"{seed}/trees")
    filters = [drawn_filter(rng) for _ in range(subscriptions)]
    events = [drawn_event(rng, number) for number in range(EVENTS)]
    matcher = MATCHERS[kind]()
    for filter in filters:
        matcher.add(filter)
    matcher.maintain(1 << 30)
    found = sum(len(matcher.match(event)) for event in events)  # warms up what is lazy
    visited = getattr(matcher, "visited", 0) / EVENTS
    best = float("inf")
    for _ in range(TURNS):
        began = time.process_time()
        for event in events:
            matcher.match(event)
        best = min(best, time.process_time() - began)
    return {"microseconds": best / EVENTS * 1e6, "visited": visited, "found": found}


def link_matching_cost(brokers: int, subscriptions: int, seed: int) -> dict[str, Any]:
    """Nodes that link matching visits at all hops of all events, and that full matching at the same hops
    would."""
    rng = Random(f"{seed}/links")
    overlay = random_tree(brokers, rng, fan_out=4)
    placed = [(drawn_filter(rng), rng.choice(overlay.brokers)) for _ in range(subscriptions)]
    network = _TreeNetwork(overlay, placed)
    more = hops = full = reached = due = 0
    for number in range(EVENTS):
        event = drawn_event(rng, number)
        takers = {at for filter, at in placed if network.accepts(filter, event)}
        walked = network.walk(event, rng.choice(overlay.brokers))
        hops += len(walked)
        full += sum(both for _, both in walked.values())
        more += sum(partial > both for partial, both in walked.values())
        reached += len(takers & walked.keys())
        due += len(takers)
    return {
        "partial": network.partial, "full": full, "hops": hops, "hops_with_more": more, "reached": reached,
        "due": due,
    }  # fmt: skip


class _TreeNetwork:
    """At every broker the annotated tree of all subscriptions, and the plain one."""

    def __init__(self, overlay: OverlayGraph, placed: list[tuple[Filter, str]]) -> None:
        self.table = overlay.neighbours()
        self.links = {broker: LinkTree(order=NAMES) for broker in overlay.brokers}
        self.whole = TreeMatcher(order=NAMES)
        for filter, at in placed:
            self.whole.add(filter)
            self._spread(filter, at)

    def _spread(self, filter: Filter, at: str) -> None:
        waiting = [(other, at) for other in self.table[at]]
        while waiting:
            broker, toward = waiting.pop()
            self.links[broker].put(filter, toward)
            waiting += [(other, broker) for other in self.table[broker] if other != toward]

    @property
    def partial(self) -> int:
        return sum(tree.visited for tree in self.links.values())

    @staticmethod
    def accepts(filter: Filter, event: Event) -> bool:
        return all(c.accepts(event.view.get(c.attribute)) for c in filter.conjunctions[0].constraints)

    def walk(self, event: Event, start: str) -> dict[str, tuple[int, int]]:
        """The brokers that an event comes to; what link matching and full matching visit at each."""
        before = self.whole.visited
        self.whole.match(event)
        full = self.whole.visited - before
        found: dict[str, tuple[int, int]] = {}
        waiting = [(start, "")]
        while waiting:
            broker, came_from = waiting.pop()
            tree = self.links[broker]
            before = tree.visited
            onward = tree.links(event, (link for link in self.table[broker] if link != came_from))
            found[broker] = (tree.visited - before, full)
            waiting += [(link, broker) for link in onward]
        return found

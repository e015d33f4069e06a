"""The best tree by associativity: the spanning tree of maximum weight, a bound for every overlay.

A self-organising overlay swaps links within a bound: the sum of the weights of its links, which is
N times the system's associativity, is at most that of this tree (without a bound on the fan-out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Edge = tuple[str, str]


def heaviest_tree(brokers: Sequence[str], weight: Callable[[str, str], float]) -> list[Edge]:
    """Prim's algorithm on the complete graph; of equals, the link to the earlier broker."""
    if not brokers:
        return []
    inside = brokers[0]
    reached = {other: (weight(inside, other), inside) for other in brokers[1:]}
    links: list[Edge] = []
    while reached:
        nearest = max(reached, key=lambda other: reached[other][0])
        links.append((reached.pop(nearest)[1], nearest))
        for other, (known, _) in reached.items():
            found = weight(nearest, other)
            if found > known:
                reached[other] = (found, nearest)
    return links

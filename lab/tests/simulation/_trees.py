"""The trees of a system of rendezvous, as its brokers see them."""

from __future__ import annotations

from tidings_lab.overlay.prefix_state import between, id_of
from tidings_lab.simulation.rendezvous import RendezvousNetwork

Part = tuple[str | None, tuple[str, ...], bool]  # parent, children, has it subscribers?


class Forest:
    def __init__(self, ring: RendezvousNetwork) -> None:
        self._ring = ring
        self._parts: dict[str, dict[str, Part]] = {}
        for name in ring.up():
            for key, part in ring.node(name).slots["routing"].trees().items():
                self._parts.setdefault(key, {})[name] = part

    def names(self) -> list[str]:
        return sorted(self._parts)

    def members(self, key: str) -> set[str]:
        return set(self._parts[key])

    def roots(self, key: str) -> list[str]:
        return [name for name, (parent, _, _) in self._parts[key].items() if parent is None]

    def subscribers(self, key: str) -> set[str]:
        return {name for name, (_, _, subscribed) in self._parts[key].items() if subscribed}

    def children(self, key: str, name: str) -> tuple[str, ...]:
        return self._parts[key][name][1]

    def parent(self, key: str, name: str) -> str | None:
        return self._parts[key][name][0]

    def responsible(self, key: str) -> str:
        """The node whose id is nearest to the key's."""
        return min(self._ring.up(), key=lambda name: (between(id_of(name), id_of(key)), id_of(name)))

    def ways(self, key: str) -> set[str]:
        """The nodes on the overlay's ways from the subscribers to the key."""
        found = set()
        for start in self.subscribers(key):
            at: str | None = start
            while at is not None:
                found.add(at)
                at = self._ring.node(at).slots["overlay"].next_hop(key)
        return found

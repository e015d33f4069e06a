"""An overlay that is given: the links of the configuration, and whether each is up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tidings.protocol.inputs import Input, LinkDown, LinkUp, Probed
from tidings.protocol.slots import Overlay


class StaticOverlay(Overlay):
    """Links that never change; one that breaks comes back by itself.

    `parent` names the link upward in a hierarchy, None at the top and where there is none.
    """

    name = "static"
    joins: ClassVar[bool] = False  # does it take a broker for a neighbour that it was not made with?

    def __init__(self, neighbours: Iterable[str], parent: str | None = None) -> None:
        self.neighbours = tuple(neighbours)
        self.parent = parent
        self._up: set[str] = set()
        self._links: tuple[str, ...] = ()
        self._distance: dict[str, float] = {}

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, LinkUp) and input.peer in self.neighbours:
            self._up.add(input.peer)
            self._review()
        elif isinstance(input, LinkDown):
            self._up.discard(input.peer)
            self._review()
        elif isinstance(input, Probed) and input.distance is not None:
            self._distance[input.peer] = input.distance

    def _review(self) -> None:
        self._links = tuple(peer for peer in self.neighbours if peer in self._up)

    def links(self) -> tuple[str, ...]:
        return self._links

    def peers(self) -> tuple[str, ...]:
        return self.neighbours

    def distance(self, peer: str) -> float | None:
        return self._distance.get(peer)

    def check(self) -> None:
        assert self._up <= set(self.neighbours), "a link that the configuration does not have"

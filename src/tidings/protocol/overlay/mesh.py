"""Full mesh of a group: a link between every two members. Any broker that knows the group may join; a broken
link is dialled again."""

from __future__ import annotations

from typing import ClassVar

from tidings.protocol.effects import OpenLink
from tidings.protocol.inputs import Input, Joined, Parted
from tidings.protocol.overlay.static import StaticOverlay


class MeshOverlay(StaticOverlay):
    name = "mesh"
    joins: ClassVar[bool] = True

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Joined):
            if input.peer not in self.neighbours:
                self.neighbours = (*self.neighbours, input.peer)
            self.ports.emit(OpenLink(input.peer))
        elif isinstance(input, Parted):
            self.neighbours = tuple(peer for peer in self.neighbours if peer != input.peer)
            self._up.discard(input.peer)
            self._review()
        else:
            super().on_input(input, now)

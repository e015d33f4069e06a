"""Number of brokers behind each link, for overlays that weigh the effect of a swap on all of them.

Rules
- A broker tells each neighbour how many brokers there are on its own side of their link (`SubtreeSize`):
  itself, and what its other neighbours told. Links that a swap is still making do not count, so the numbers
  go along a tree.
- They are sent some time after a change: a swap is over by then, and only the links of its path have other
  numbers than before. No neighbour is sent the same number twice.
- A neighbour that has not reported yet counts as one broker.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from tidings.protocol.overlay.swap_messages import SubtreeSize
from tidings.protocol.slots import Ports

PAUSE_SECONDS = 0.5  # from a change until it is told


class SizedOverlay(Protocol):
    """Interface of the overlay, as counting uses it."""

    ports: Ports

    def peers(self) -> tuple[str, ...]: ...

    def firm(self, link: str) -> bool: ...


class SubtreeSizes:
    def __init__(self, here: SizedOverlay) -> None:
        self._here = here
        self._behind: dict[str, int] = {}
        self._announced: dict[str, int] = {}
        self.due: float | None = None

    def hanging(self, path: Container[str]) -> int:
        """Brokers here and behind all links but those on the path."""
        links = (link for link in self._here.peers() if link not in path and self._here.firm(link))
        return 1 + sum(self._behind.get(link, 1) for link in links)

    def changed(self, now: float) -> None:
        """Links came or went."""
        if self.due is None:
            self.due = now + PAUSE_SECONDS

    def lost(self, link: str) -> None:
        """The link is down: what its ends told each other is forgotten."""
        self._behind.pop(link, None)
        self._announced.pop(link, None)

    def receive(self, sender: str, size: SubtreeSize, now: float) -> None:
        self._behind[sender] = size.brokers
        self.changed(now)

    def on_timer(self, now: float) -> None:
        if self.due is None or now < self.due:
            return
        self.due = None
        for link in self._here.peers():
            brokers = self.hanging((link,))
            if self._here.firm(link) and self._announced.get(link) != brokers:
                self._announced[link] = brokers
                self._here.ports.send(link, SubtreeSize(brokers))

"""Failure detection: which members we hear, and which hear us. It is live and not accurate, and decides no
view.

Rules
- A member is trusted while its link is up, it was heard within `suspect_seconds`, and its last beat says that
  it hears us: where a network lets words through one way only, both ends suspect (reciprocity, Mathur et al.
  1995, 3.1).
- Suspicion is immediate. A member that comes back is steady after `steady_seconds`, so that a flapping link
  does not make a view each time.
"""

from __future__ import annotations

import msgspec


class DetectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    beat_seconds: float = 0.5  # between two beats; oftener finds out sooner, and costs messages
    suspect_seconds: float = 2.0  # of silence; shorter suspects the slow
    steady_seconds: float = 1.0  # that a newcomer is trusted before it is let in


class FailureDetector:
    """Beliefs of one process about the others."""

    def __init__(self, name: str, settings: DetectorSettings) -> None:
        self._name = name
        self._settings = settings
        self._up: set[str] = set()
        self._last_seen: dict[str, float] = {}
        self._reached_by: set[str] = set()
        self._since: dict[str, float] = {}  # by peer: trusted without a break

    def link_up(self, peer: str, now: float) -> None:
        self._up.add(peer)
        self._last_seen[peer] = now

    def link_down(self, peer: str) -> None:
        self._up.discard(peer)
        self._reached_by.discard(peer)
        self._since.pop(peer, None)

    def seen(self, peer: str, now: float) -> None:
        if peer in self._up:
            self._last_seen[peer] = now

    def beat(self, peer: str, received_from: tuple[str, ...], now: float) -> None:
        self.seen(peer, now)
        if self._name in received_from and peer in self._up:
            self._reached_by.add(peer)
        else:
            self._reached_by.discard(peer)

    def set_back(self, now: float) -> None:
        """Our clock shows an earlier time than it did."""
        self._last_seen = dict.fromkeys(self._last_seen, now)
        self._since.clear()

    def links(self) -> list[str]:
        return sorted(self._up)

    def reachable(self, now: float) -> tuple[str, ...]:
        """Members that we hear: the content of our beats."""
        oldest = now - self._settings.suspect_seconds
        return tuple(peer for peer in sorted(self._up) if self._last_seen[peer] > oldest)

    def review(self, now: float) -> set[str]:
        """Members that we trust now."""
        trusted = {peer for peer in self.reachable(now) if peer in self._reached_by}
        for peer in list(self._since):
            if peer not in trusted:
                del self._since[peer]
        for peer in trusted:
            self._since.setdefault(peer, now)
        return trusted

    def is_steady(self, peer: str, now: float) -> bool:
        return peer in self._since and now - self._since[peer] >= self._settings.steady_seconds

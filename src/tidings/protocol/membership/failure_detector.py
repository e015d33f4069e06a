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
        self._heard: dict[str, float] = {}
        self._hears_us: set[str] = set()
        self._since: dict[str, float] = {}  # by peer: trusted without a break

    def link_up(self, peer: str, now: float) -> None:
        self._up.add(peer)
        self._heard[peer] = now

    def link_down(self, peer: str) -> None:
        self._up.discard(peer)
        self._hears_us.discard(peer)
        self._since.pop(peer, None)

    def heard(self, peer: str, now: float) -> None:
        if peer in self._up:
            self._heard[peer] = now

    def beat(self, peer: str, hears: tuple[str, ...], now: float) -> None:
        self.heard(peer, now)
        if self._name in hears and peer in self._up:
            self._hears_us.add(peer)
        else:
            self._hears_us.discard(peer)

    def set_back(self, now: float) -> None:
        """Our clock shows an earlier time than it did."""
        self._heard = dict.fromkeys(self._heard, now)
        self._since.clear()

    def links(self) -> list[str]:
        return sorted(self._up)

    def hears(self, now: float) -> tuple[str, ...]:
        """Members that we hear: the content of our beats."""
        oldest = now - self._settings.suspect_seconds
        return tuple(peer for peer in sorted(self._up) if self._heard[peer] > oldest)

    def review(self, now: float) -> set[str]:
        """Members that we trust now."""
        trusted = {peer for peer in self.hears(now) if peer in self._hears_us}
        for peer in list(self._since):
            if peer not in trusted:
                del self._since[peer]
        for peer in trusted:
            self._since.setdefault(peer, now)
        return trusted

    def is_steady(self, peer: str, now: float) -> bool:
        return peer in self._since and now - self._since[peer] >= self._settings.steady_seconds

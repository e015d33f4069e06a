"""Bootstrapping: looking for members of a topic, and of ever wider ones (Baehni et al. 2004, 4.2.2, Figure
3).

Rules
- A search names topics and lives for some steps (TTL). A peer that belongs to one of them, or knows a member,
  answers the seeker; any other peer passes the search on to a few others, once.
- When no member was found in time, the next supertopic is added, up to the root; then the search is repeated,
  more and more slowly.
- A seeker that has found only further supertopics goes on looking for the nearest one, slowly.
"""

from __future__ import annotations

import msgspec


class PeerDiscoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    ttl: int = 4
    fan_out: int = 3  # to how many a search is passed on
    patience: float = 1.0  # seconds until the scope is widened
    slow: float = 16.0  # the longest pause between two searches
    remembered: int = 500  # searches that are not passed on a second time


class TopicSearch(msgspec.Struct):
    scope: str
    wanted: tuple[str, ...]  # nearest first
    width: int = 1
    pause: float = 0.0
    at: float = 0.0  # when to search (again)


class PeerDiscovery:
    """The searches of one peer."""

    def __init__(self, settings: PeerDiscoverySettings) -> None:
        self.settings = settings
        self.open: dict[str, TopicSearch] = {}  # by scope
        self._seen: dict[tuple[str, int], None] = {}
        self.number = 0

    def begin(self, scope: str, wanted: tuple[str, ...], now: float) -> None:
        if scope not in self.open and wanted:
            self.open[scope] = TopicSearch(scope, wanted, pause=self.settings.patience, at=now)

    def end(self, scope: str) -> None:
        self.open.pop(scope, None)

    def due(self, now: float) -> list[tuple[int, tuple[str, ...]]]:
        """The searches to send now, as (number, topics)."""
        found = []
        for search in self.open.values():
            if search.at > now:
                continue
            self.number += 1
            found.append((self.number, search.wanted[: search.width]))
            if search.width < len(search.wanted):
                search.width += 1
            else:
                search.pause = min(self.settings.slow, 2 * search.pause)
            search.at = now + search.pause
        return found

    def is_new(self, seeker: str, number: int) -> bool:
        """Is this a search that we have not passed on yet?"""
        if (seeker, number) in self._seen:
            return False
        self._seen[(seeker, number)] = None
        if len(self._seen) > self.settings.remembered:
            del self._seen[next(iter(self._seen))]
        return True

    def next_deadline(self) -> float | None:
        return min((search.at for search in self.open.values()), default=None)

"""Tables of peers: partial views of a bounded size, and what peers tell one another about members.

Rules
- A member is told as (name, topics, incarnation, age): the age is the time since any peer heard from it, so
  clocks need not agree.
- A view holds at most `limit` members and never ourselves. Shuffles *swap*: what comes takes the places of
  what was sent, and of the partner, who now knows us. So no member is known to many more than others
  (Cyclon's rule), and views stay random samples. Members learned from other messages only fill free places.
- A supertopic table prefers members of the nearest supertopic: with one of these in it, all further ones go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

PeerRecord = tuple[str, tuple[str, ...], int, float]  # name, topics, incarnation, age


class KnownMember(msgspec.Struct):
    """Knowledge about one member."""

    topics: tuple[str, ...]
    incarnation: int
    last_seen: float  # when it was last known to live


class PartialView:
    """A partial view of one scope."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str) -> None:
        if len(self.names) < self.limit:
            self.names[name] = None

    def swap(self, came: Iterable[str], sent: Iterable[str]) -> None:
        """Take in what came: into free places, then into those of what was sent."""
        positions = [name for name in sent if name in self.names]
        for name in came:
            if name in self.names:
                continue
            if len(self.names) >= self.limit:
                if not positions:
                    return
                del self.names[positions.pop(0)]
            self.names[name] = None

    def trim(self, rng: Random) -> None:
        while len(self.names) > self.limit:
            del self.names[rng.choice(list(self.names))]

    def drop(self, name: str) -> bool:
        return self.names.pop(name, self) is None


class SuperTable(PartialView):
    """The z members above a group on the way of one supertopic; `wanted` are the topics, nearest first."""

    def __init__(self, limit: int, wanted: Sequence[str]) -> None:
        super().__init__(limit)
        self.wanted = tuple(wanted)
        self.rank = len(self.wanted)  # of the nearest topic that is in the table

    def rank_of(self, topics: Iterable[str]) -> int:
        return min(
            (self.wanted.index(topic) for topic in topics if topic in self.wanted), default=len(self.wanted)
        )

    @property
    def is_near(self) -> bool:
        """Does it hold members of the direct supertopic?"""
        return bool(self.names) and self.rank == 0

    def offer(self, name: str, topics: Iterable[str], rng: Random) -> None:
        rank = self.rank_of(topics)
        if rank == len(self.wanted) or rank > self.rank:
            return
        if rank < self.rank:
            self.names.clear()
            self.rank = rank
        if name not in self.names:
            if len(self.names) >= self.limit:
                del self.names[rng.choice(list(self.names))]
            self.names[name] = None

    def drop(self, name: str) -> bool:
        was = super().drop(name)
        if not self.names:
            self.rank = len(self.wanted)
        return was

"""The events that a broker holds for others (COS-8).

Found by identity, by any of their (source, pattern, counter) triples, or by pattern. Full, it lets go of
the oldest, of the oldest that is foreign (neither published nor wanted here), or of any, so that
copies do not vanish everywhere at once. What nobody has asked about since it came is in no index yet: where
nothing is lost, keeping an event costs next to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random

from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.epidemic.settings import ANY, FOREIGN
from tidings.protocol.recovery.epidemic.words import Id, Loss, Mark


class Held:
    """One event in the cache."""

    __slots__ = ("envelope", "is_indexed", "mark", "patterns", "place", "since")

    def __init__(self, envelope: Envelope, mark: Mark, patterns: tuple[int, ...], since: float) -> None:
        self.envelope = envelope
        self.mark = mark
        self.patterns = patterns
        self.since = since  # when it was published, as far as we know
        self.place = -1  # in the list to draw from
        self.is_indexed = False


class Cache:
    def __init__(self, size: int, evicts: str, rng: Random) -> None:
        self._size = size
        self._evicts = evicts
        self._rng = rng
        self._held: dict[Id, Held] = {}  # in order of arrival
        self._order: deque[Id] = deque()  # the same; a dict finds its first entry slowly once others are gone
        self._foreign: deque[Id] = deque()  # those of them, for the policy that needs to know
        self._drawn: list[Id] = []  # the same, to draw from
        self._by_loss: dict[Loss, Id] = {}
        self._by_pattern: dict[int, dict[Id, None]] = {}
        self._fresh: list[Held] = []  # in no index yet
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(
        self, envelope: Envelope, mark: Mark, patterns: Iterable[int], since: float, *, is_foreign: bool
    ) -> None:
        id = mark.id
        if id in self._held:
            return
        if len(self._held) >= self._size:
            self._evict()
        held = self._held[id] = Held(envelope, mark, tuple(patterns), since)
        if self._evicts == ANY:
            held.place = len(self._drawn)
            self._drawn.append(id)
        elif is_foreign and self._evicts == FOREIGN:
            self._foreign.append(id)
        else:
            self._order.append(id)
        self._fresh.append(held)
        if len(self._fresh) > 2 * self._size:
            self._fresh = [each for each in self._fresh if self._held.get(each.mark.id) is each]

    def _index(self) -> None:
        """Somebody asks: what came since the last time can be found from now on."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        for held in fresh:
            mark, id = held.mark, held.mark.id
            if self._held.get(id) is not held:
                continue
            held.is_indexed = True
            for tag in mark.tags:
                self._by_loss[mark.source, tag[0], tag[1]] = id
            for pattern in held.patterns:
                self._by_pattern.setdefault(pattern, {})[id] = None

    def _evict(self) -> None:
        self.evicted += 1
        if self._evicts == ANY:
            self.remove(self._rng.choice(self._drawn))
            return
        while True:
            id = (self._foreign or self._order).popleft()
            if id in self._held:  # it may have been removed out of turn
                self.remove(id)
                return

    def remove(self, id: Id) -> None:
        held = self._held.pop(id)
        if held.place >= 0:
            last = self._drawn.pop()
            if last != id:
                self._drawn[held.place] = last
                self._held[last].place = held.place
        if not held.is_indexed:
            return
        source, by_loss = held.mark.source, self._by_loss
        for tag in held.mark.tags:
            by_loss.pop((source, tag[0], tag[1]), None)
        for pattern in held.patterns:
            ids = self._by_pattern[pattern]
            del ids[id]
            if not ids:
                del self._by_pattern[pattern]

    def get(self, id: Id) -> Held | None:
        return self._held.get(id)

    def find(self, loss: Loss) -> Held | None:
        """The event that somebody knows by this triple; the pattern may be none of ours."""
        self._index()
        id = self._by_loss.get(loss)
        return None if id is None else self._held[id]

    def patterns(self) -> list[int]:
        self._index()
        return list(self._by_pattern)

    def matching(self, pattern: int) -> list[Held]:
        """The events of a pattern, in order of arrival."""
        self._index()
        return [self._held[id] for id in self._by_pattern.get(pattern, ())]

    def all(self) -> Iterator[Held]:
        return iter(self._held.values())

    def check(self) -> None:
        assert len(self._held) <= self._size, "the cache is over its bound"
        assert len(self._fresh) <= 2 * self._size
        assert len(self._held) <= len(self._order) + len(self._foreign) + len(self._drawn)
        for loss, id in self._by_loss.items():
            assert loss in self._held[id].mark.losses(), "an index of the cache is stale"
        if self._evicts == ANY:
            assert sorted(self._drawn) == sorted(self._held), "what can be drawn is what is held"

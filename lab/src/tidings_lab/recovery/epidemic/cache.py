"""The events that a broker holds for others (COS-8).

Found by identity, by any of their (source, pattern, counter) triples, or by pattern. Full, it lets go of
the oldest, of the oldest that is foreign (neither published nor wanted here), or of any, so that
copies do not vanish everywhere at once. New events are only put by, and are indexed at the next request:
without losses, keeping an event is nearly free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random

from tidings.protocol.messages import Envelope
from tidings_lab.recovery.epidemic.messages import Id, Loss, Mark, read_mark
from tidings_lab.recovery.epidemic.settings import ANY, FOREIGN, OLDEST


class CachedEvent:
    """One event in the cache."""

    __slots__ = ("envelope", "mark", "patterns", "place", "since")

    def __init__(self, envelope: Envelope, mark: Mark, patterns: tuple[int, ...], since: float) -> None:
        self.envelope = envelope
        self.mark = mark
        self.patterns = patterns
        self.since = since  # when it was published, as far as we know
        self.place = -1  # in the list to draw from


Fresh = tuple[Envelope, float, tuple[int, ...], bool]  # since when, its patterns, and is it foreign


class EventCache:
    def __init__(self, size: int, evicts: str, rng: Random) -> None:
        self._size = size
        self._evicts = evicts
        self._rng = rng
        self._cached: dict[Id, CachedEvent] = {}  # in order of arrival
        self._order: deque[Id] = deque()  # the same; a dict finds its first entry slowly once others are gone
        self._foreign: deque[Id] = deque()  # those of them, for the policy that needs to know
        self._drawn: list[Id] = []  # the same, to draw from
        self._by_loss: dict[Loss, Id] = {}
        self._by_pattern: dict[int, dict[Id, None]] = {}
        # Put by, and not looked at. If the oldest go first, those that more than fill the cache go unseen.
        self._fresh: deque[Fresh] = deque(maxlen=size if evicts == OLDEST else None)
        self.put: Callable[[Fresh], None] = self._fresh.append if evicts == OLDEST else self._put

    def _put(self, fresh: Fresh) -> None:
        self._fresh.append(fresh)
        if len(self._fresh) >= self._size:
            self._sort_in()

    def _sort_in(self) -> None:
        """Index the new events at a request: they can be found from now on."""
        while self._fresh:
            envelope, since, patterns, is_foreign = self._fresh.popleft()
            mark = read_mark(envelope.headers)
            if mark is not None:  # else no request could name it
                self._add(envelope, mark, patterns, since, is_foreign=is_foreign)

    def __len__(self) -> int:
        self._sort_in()
        return len(self._cached)

    def add(
        self, envelope: Envelope, mark: Mark, patterns: Iterable[int], since: float, *, is_foreign: bool
    ) -> None:
        self._sort_in()
        self._add(envelope, mark, tuple(patterns), since, is_foreign=is_foreign)

    def _add(
        self, envelope: Envelope, mark: Mark, patterns: tuple[int, ...], since: float, *, is_foreign: bool
    ) -> None:
        id = mark.id
        if id in self._cached:
            return
        if len(self._cached) >= self._size:
            self._evict()
        cached = self._cached[id] = CachedEvent(envelope, mark, patterns, since)
        if self._evicts == ANY:
            cached.place = len(self._drawn)
            self._drawn.append(id)
        elif is_foreign and self._evicts == FOREIGN:
            self._foreign.append(id)
        else:
            self._order.append(id)
        for tag in mark.tags:
            self._by_loss[mark.source, tag[0], tag[1]] = id
        for pattern in patterns:
            self._by_pattern.setdefault(pattern, {})[id] = None

    def _evict(self) -> None:
        if self._evicts == ANY:
            self._remove(self._rng.choice(self._drawn))
            return
        while True:
            id = (self._foreign or self._order).popleft()
            if id in self._cached:  # it may have been removed out of turn
                self._remove(id)
                return

    def remove(self, id: Id) -> None:
        self._sort_in()
        self._remove(id)

    def _remove(self, id: Id) -> None:
        cached = self._cached.pop(id)
        if cached.place >= 0:
            last = self._drawn.pop()
            if last != id:
                self._drawn[cached.place] = last
                self._cached[last].place = cached.place
        source, by_loss = cached.mark.source, self._by_loss
        for tag in cached.mark.tags:
            by_loss.pop((source, tag[0], tag[1]), None)
        for pattern in cached.patterns:
            ids = self._by_pattern[pattern]
            del ids[id]
            if not ids:
                del self._by_pattern[pattern]

    def get(self, id: Id) -> CachedEvent | None:
        self._sort_in()
        return self._cached.get(id)

    def find(self, loss: Loss) -> CachedEvent | None:
        """The event that a peer knows by this triple; the pattern may be none of ours."""
        self._sort_in()
        id = self._by_loss.get(loss)
        return None if id is None else self._cached[id]

    def patterns(self) -> list[int]:
        self._sort_in()
        return list(self._by_pattern)

    def matching(self, pattern: int) -> list[CachedEvent]:
        """The events of a pattern, in order of arrival."""
        self._sort_in()
        return [self._cached[id] for id in self._by_pattern.get(pattern, ())]

    def all(self) -> Iterator[CachedEvent]:
        self._sort_in()
        return iter(self._cached.values())

    def check(self) -> None:
        assert len(self._cached) <= self._size, "the cache is over its bound"
        assert len(self._fresh) <= self._size
        assert len(self._cached) <= len(self._order) + len(self._foreign) + len(self._drawn)
        for loss, id in self._by_loss.items():
            assert loss in self._cached[id].mark.losses(), "an index of the cache is stale"
        if self._evicts == ANY:
            assert sorted(self._drawn) == sorted(self._cached), "what can be drawn is what is held"

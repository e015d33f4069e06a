"""Heartbeats: a source that falls silent tells its last counters, so that the last loss shows too.

Each pattern's counter is told after some silence, and again with growing pauses, since a heartbeat
can be lost like an event. It goes where the pattern is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from tidings.protocol.effects import Channel
from tidings.protocol.slots import Ports
from tidings_lab.recovery.epidemic.marks import Counters
from tidings_lab.recovery.epidemic.messages import CounterBeat

TIMES = 3  # that each counter is told


class Heartbeats:
    def __init__(
        self,
        ports: Ports,
        counters: Counters,
        links_wanting: Callable[[int], tuple[str, ...]],
        seconds: float,
        routes: bool,
    ) -> None:
        self._ports = ports
        self._links_wanting = links_wanting
        self._counters = counters
        self._seconds = seconds  # 0: never
        self._route = (ports.name,) if routes else ()
        self._announced: dict[
            int, tuple[float, int]
        ] = {}  # by pattern: its last event, how often it was told
        self._heap: list[tuple[float, int]] = []

    @property
    def due(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def published(self, tags: Iterable[Sequence[int]], now: float) -> None:
        if not self._seconds:
            return
        for pattern, _ in tags:
            if pattern not in self._announced:
                heappush(self._heap, (now + self._seconds, pattern))
            self._announced[pattern] = (now, 0)

    def on_timer(self, now: float, channel: Channel) -> None:
        silent: dict[int, int] = {}
        while self._heap and self._heap[0][0] <= now:
            _, pattern = heappop(self._heap)
            last, delivered = self._announced[pattern]
            if now - last < self._seconds * (1 - 1e-9):
                heappush(self._heap, (last + self._seconds, pattern))  # it was not silent
                continue
            silent[pattern] = self._counters.last(pattern)
            if delivered + 1 < TIMES:
                self._announced[pattern] = (last, delivered + 1)
                heappush(self._heap, (now + self._seconds * 2 ** (delivered + 1), pattern))
            else:
                del self._announced[pattern]
        if silent:
            self.pass_on(CounterBeat(self._counters.source, silent, self._route), None, channel)

    def pass_on(self, beat: CounterBeat, came_from: str | None, channel: Channel) -> None:
        """To every link but one, each with the patterns that are wanted over it."""
        by_link: dict[str, dict[int, int]] = {}
        for pattern, counter in beat.counters.items():
            for link in self._links_wanting(pattern):
                if link != came_from:
                    by_link.setdefault(link, {})[pattern] = counter
        for link, counters in by_link.items():
            self._ports.send(link, CounterBeat(beat.source, counters, beat.route), channel)

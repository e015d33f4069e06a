"""Named times: what is to be done when, at most once under each name."""

from __future__ import annotations

from heapq import heappop, heappush

Name = tuple[str, str]  # what to do, and with what


class Timers:
    def __init__(self) -> None:
        self._at: dict[Name, float] = {}
        self._heap: list[tuple[float, Name]] = []  # what `_at` does not say is stale

    def set(self, name: Name, at: float) -> None:
        """Set the time, replacing an earlier one."""
        self._at[name] = at
        heappush(self._heap, (at, name))

    def set_by(self, name: Name, at: float) -> None:
        """At that time, or earlier if that was set before."""
        if at < self._at.get(name, float("inf")):
            self.set(name, at)

    def is_set(self, name: Name) -> bool:
        return name in self._at

    def clear(self, name: Name) -> None:
        self._at.pop(name, None)

    def next(self) -> float | None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Name]:
        """Take the keys that are due, in the order of their times."""
        found: list[Name] = []
        while (at := self.next()) is not None and at <= now:
            name = heappop(self._heap)[1]
            del self._at[name]
            found.append(name)
        return found

    def __len__(self) -> int:
        return len(self._at)

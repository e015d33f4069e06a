"""The oracle: every filter is asked about every event.

It is slow and plainly right. Every other matcher must give the same handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from tidings.language.evaluate import compiled_filter
from tidings.matching.matcher import Matches
from tidings.model.event import Event
from tidings.model.filter import Filter


class Handles:
    """Small integers to give out: those that came back are given again, smallest first."""

    def __init__(self) -> None:
        self._next = 0
        self._returned: list[int] = []

    def take(self) -> int:
        if self._returned:
            return heappop(self._returned)
        self._next += 1
        return self._next - 1

    def give_back(self, handle: int) -> None:
        heappush(self._returned, handle)


class NaiveMatcher:
    """A dictionary of filters and a loop."""

    def __init__(self) -> None:
        self._handles = Handles()
        self._filters: dict[int, Callable[[Event], bool]] = {}

    def add(self, filter: Filter) -> int:
        handle = self._handles.take()
        self._filters[handle] = compiled_filter(filter)
        return handle

    def remove(self, handle: int) -> None:
        del self._filters[handle]
        self._handles.give_back(handle)

    def match(self, event: Event) -> list[int]:
        return sorted(handle for handle, accepts in self._filters.items() if accepts(event))

    def match_batch(self, events: Iterable[Event]) -> Matches:
        return one_by_one(self.match, events)

    def maintain(self, budget: int) -> int:  # noqa: ARG002
        return 0

    def stats(self) -> dict[str, Any]:
        return {"engine": "naive", "filters": len(self._filters)}


def one_by_one(match: Callable[[Event], Sequence[int]], events: Iterable[Event]) -> Matches:
    """A batch for a matcher that knows no better way."""
    offsets: list[int] = [0]
    handles: list[int] = []
    for event in events:
        handles += match(event)
        offsets.append(len(handles))
    return Matches(offsets, handles)

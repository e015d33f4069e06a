"""The matcher that brokers use: plain Python while few, compiled columns when many.

Below `threshold` filters a plain index serves: no NumPy, nothing to compile, the first match
in microseconds. Past it the columnar matcher takes all filters over, under the same handles,
and keeps them. `stats()` says which of the two serves and why.
"""

from __future__ import annotations

from typing import Any

from tidings.matching.matcher import Matches
from tidings.matching.small import SmallMatcher
from tidings.model.event import Event
from tidings.model.filter import NOTHING, Filter

THRESHOLD = 500  # filters; about where the compiled walk begins to win


class MatchingEngine:
    """A matcher that chooses its structure by size."""

    def __init__(self, *, threshold: int = THRESHOLD) -> None:
        self._threshold = threshold
        self._small: SmallMatcher | None = SmallMatcher()
        self._filters: dict[int, Filter] = {}  # while small: to be handed over
        self._large: Any = None

    def add(self, filter: Filter) -> int:
        """Take a filter in; the handle is in effect at once."""
        if self._small is None:
            handle: int = self._large.add(filter)
            return handle
        handle = self._small.add(filter)
        self._filters[handle] = filter
        if len(self._filters) > self._threshold:
            self._grow()
        return handle

    def remove(self, handle: int) -> None:
        """Forget a filter. An unknown handle is a KeyError."""
        if self._small is None:
            self._large.remove(handle)
        else:
            self._small.remove(handle)
            del self._filters[handle]

    def match(self, event: Event) -> Any:
        """Handles of the filters that accept the event, ascending, each once."""
        return self._large.match(event) if self._small is None else self._small.match(event)

    def match_batch(self, events: Any) -> Matches:
        """The same for many events, or for an Arrow record batch."""
        if self._small is None:
            matches: Matches = self._large.match_batch(events)
            return matches
        if hasattr(events, "num_rows"):
            from tidings.matching.columnar.batches import event_of

            events = [event_of(events, number) for number in range(events.num_rows)]
        return self._small.match_batch(events)

    def maintain(self, budget: int) -> int:
        """Do at most about `budget` steps of pending upkeep; the steps that are left (0: none)."""
        if self._small is None:
            left: int = self._large.maintain(budget)
            return left
        return self._small.maintain(budget)

    def stats(self) -> dict[str, Any]:
        """What holds the filters, how large and how full it is."""
        if self._small is None:
            return {**self._large.stats(), "chosen": f"more than {self._threshold} filters came"}
        return {**self._small.stats(), "chosen": f"at most {self._threshold} filters so far"}

    def _grow(self) -> None:
        """Hand all filters over under their handles; gaps become free handles again."""
        large = columnar_matcher()
        held = self._filters
        large.load(held.get(handle, NOTHING) for handle in range(max(held) + 1))
        for handle in range(max(held) + 1):
            if handle not in held:
                large.remove(handle)
        self._large, self._small, self._filters = large, None, {}


def columnar_matcher() -> Any:
    """The compiled columnar matcher; its NumPy twin where Numba is absent."""
    from tidings.matching.columnar.jit import has_numba

    if has_numba():
        from tidings.matching.columnar.matcher import ColumnarMatcher

        return ColumnarMatcher()
    from tidings.matching.columnar.numpy_matcher import NumpyMatcher

    return NumpyMatcher()

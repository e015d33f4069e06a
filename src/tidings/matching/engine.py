"""The matcher that brokers use: plain Python while few, compiled columns when many.

Up to `threshold` filters, or four times as many conjunctions of them, a plain index serves: it needs no NumPy
and no compilation, the first match takes microseconds, and `match` is the plain index's own method. Past it
`maintain` builds the columns in small steps beside the plain index, which goes on serving; then they take all
filters over, under the same handles, and keep them. A caller that never calls `maintain` gets them at once,
at four times the threshold. If a thread prepares the kernels (see `columnar.warm`), it begins at half the
threshold, and the plain index serves until it is done. `stats()` says which of the two serves and why.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeAlias

from tidings.language.meter import WorkMeter
from tidings.language.work import WorkIndex
from tidings.matching.columnar.warm import HERE, Kernels
from tidings.matching.matcher import Matches, lists_of
from tidings.matching.naive import one_by_one
from tidings.matching.small import SmallMatcher, is_filed_by_element
from tidings.model.event import Event
from tidings.model.filter import NOTHING, Filter

THRESHOLD = 500  # filters; about where the compiled walk begins to win
BACKSTOP = 4
CONJUNCTIONS = 4  # of filters that count as one filter: each may be tested for every event
FILTERS_IN_STEP = 32
FEW_EVENTS = 32  # matched one by one; about where a batch begins to win

Change: TypeAlias = tuple[int, Filter | None]  # None: removed


class MatchingEngine:
    """A matcher that chooses its structure by size."""

    match: Callable[[Event], Sequence[int]]
    """Handles of the filters that accept the event, ascending, each once."""

    def __init__(self, *, threshold: int = THRESHOLD, kernels: Kernels = HERE, routes: bool = False) -> None:
        self._threshold = threshold
        self._routed = (
            WorkIndex() if routes else None
        )  # filters that stand for others: over budget, they match
        self.kernels = kernels
        self._meter: WorkMeter | None = None
        self._small: SmallMatcher | None = SmallMatcher()
        self._filters: dict[int, Filter] = {}  # while small: to be handed over
        self._conjunctions = 0  # of those, without filters that are found by an element of a list
        self._listed: set[int] = set()  # handles of such filters: the plain index serves them best
        self._large: Any = None
        self._growing: Generator[None, None, None] | None = None
        self._journal: list[Change] = []  # what changed since the handing over began
        self._use(self._small.match)

    def _use(self, match: Callable[[Event], Sequence[int]]) -> None:
        self._plain = match if self._routed is None else lambda event: self._with_over(match(event), event)
        self.match = self._plain if self._meter is None else self._metered

    def charge(self, meter: WorkMeter | None) -> None:
        """Have this meter charge what filters compute from now on; None: no more."""
        self._meter = meter
        self.match = self._plain if meter is None else self._metered

    def _metered(self, event: Event, without: frozenset[int] | None = None) -> Sequence[int]:
        """Match with the meter where an owner could use up its budget for this event."""
        meter, matcher = self._meter, self._large if self._small is None else self._small
        if meter is not None:
            meter.begin(event)
            matcher.meter = meter if meter.is_needed else None
        try:
            return self._plain(event) if without is None else self._without(event, without)
        finally:
            matcher.meter = None

    def _with_over(self, found: Sequence[int], event: Event) -> Sequence[int]:
        """Beside those that accept the event, those that are over their work budget for it."""
        assert self._routed is not None
        over = self._routed.may_accept(event)
        return sorted({*found, *over}) if over else found

    def add(self, filter: Filter) -> int:
        """Take a filter in; the handle is in effect at once."""
        handle = self._add(filter)
        if self._routed is not None:
            self._routed.add(handle, filter)
        return handle

    def _add(self, filter: Filter) -> int:
        if self._small is None:
            handle: int = self._large.add(filter)
            return handle
        handle = self._small.add(filter)
        self._filters[handle] = filter
        if is_filed_by_element(filter):
            self._listed.add(handle)
        else:
            self._conjunctions += len(filter.conjunctions)
        if self._growing is not None:
            self._journal.append((handle, filter))
        size = self._size
        if size > self._threshold // 2:
            self.kernels.want()
        if size > BACKSTOP * self._threshold and self.kernels.ready:
            while self._small is not None:
                self._step()
        return handle

    @property
    def _size(self) -> int:
        """In filters: many conjunctions count for more than the filters that have them."""
        return max(len(self._filters) - len(self._listed), self._conjunctions // CONJUNCTIONS)

    def remove(self, handle: int) -> None:
        """Forget a filter. An unknown handle is a KeyError."""
        if self._routed is not None:
            self._routed.remove(handle)
        if self._small is None:
            self._large.remove(handle)
            return
        self._small.remove(handle)
        filter = self._filters.pop(handle)
        if handle in self._listed:
            self._listed.discard(handle)
        else:
            self._conjunctions -= len(filter.conjunctions)
        if self._growing is not None:
            self._journal.append((handle, None))

    def match_batch(self, events: Any) -> Matches:
        """The same for many events, or for an Arrow record batch."""
        if self._routed and type(events) is list:  # few filters have a weight
            return one_by_one(self.match, events)
        if self._small is None:
            if type(events) is list and len(events) < FEW_EVENTS:
                return one_by_one(self.match, events)
            matches: Matches = self._large.match_batch(events)
            return matches
        if hasattr(events, "num_rows"):
            from tidings.matching.columnar.batches import event_of

            events = [event_of(events, number) for number in range(events.num_rows)]
        return self._small.match_batch(events)

    def match_each(self, events: list[Event]) -> Iterable[Sequence[int]]:
        """The same for many events, each by itself."""
        if self._meter is not None and any(map(self._meter.needs, events)):
            return map(self.match, events)
        if self._small is not None or self._routed or len(events) < FEW_EVENTS:
            return map(self.match, events)
        return lists_of(self._large.match_batch(events))

    def match_without(self, event: Event, without: frozenset[int]) -> Sequence[int]:
        """The same as `match`, but of these filters no part with a weight is evaluated; the caller asks for
        their parts without one (`lightly_accepts`)."""
        return self._without(event, without) if self._meter is None else self._metered(event, without)

    def _without(self, event: Event, without: frozenset[int]) -> Sequence[int]:
        if self._small is not None:
            return self._small.match(event, without)
        found: Sequence[int] = self._large.match_without(event, without)
        return found

    def maintain(self, budget: int) -> int:
        """Do at most about `budget` steps of pending upkeep; the steps that are left (0: none)."""
        for left in range(budget, 0, -1):
            if self._small is None:
                rest: int = self._large.maintain(left)
                return rest
            if self._growing is None and self._size <= self._threshold:
                return self._small.maintain(left)
            if not self.kernels.ready:
                return 1
            self._step()
        return 1

    def stats(self) -> dict[str, Any]:
        """Statistics: kind of matcher, size and fill."""
        if self._small is None:
            most = f"{self._threshold} filters or {CONJUNCTIONS * self._threshold} conjunctions"
            return {**self._large.stats(), "chosen": f"more than {most} came"}
        return {**self._small.stats(), "chosen": self._why_small()}

    def _why_small(self) -> str:
        if self._growing is not None:
            return "columns are being built beside it"
        if self._size > self._threshold and not self.kernels.ready:
            return "kernels are being prepared beside it"
        return f"at most {self._threshold} filters so far"

    def _step(self) -> None:
        """One step of handing over."""
        if self._growing is None:
            self._growing = self._grow()
        if next(self._growing, self) is self:
            self._growing = None

    def _grow(self) -> Generator[None, None, None]:
        """Hand all filters over under their handles; gaps become free handles again."""
        large = columnar_matcher()
        filters, self._journal = dict(self._filters), []
        yield
        for handle in range(max(filters, default=-1) + 1):
            large.add(filters.get(handle, NOTHING))
            if handle % FILTERS_IN_STEP == 0:
                yield
        for handle in range(max(filters, default=-1) + 1):
            if handle not in filters:
                large.remove(handle)
        large.begin_freeze()
        while large.maintain(1):
            yield
        while self._journal:
            some, self._journal = self._journal[:FILTERS_IN_STEP], self._journal[FILTERS_IN_STEP:]
            _replay(large, some)
            yield
        self._large, self._small, self._filters = large, None, {}
        self._use(lambda event: large.match(event).tolist())


def _replay(large: Any, changes: list[Change]) -> None:
    for handle, filter in changes:
        if filter is None:
            large.remove(handle)
        else:
            given = large.add(filter)
            assert given == handle, "both matchers give out the smallest free handle"


def columnar_matcher() -> Any:
    """The compiled columnar matcher; its NumPy twin where Numba is absent."""
    from tidings.matching.columnar.jit import has_numba

    if has_numba():
        from tidings.matching.columnar.matcher import ColumnarMatcher

        return ColumnarMatcher()
    from tidings.matching.columnar.numpy_matcher import NumpyMatcher

    return NumpyMatcher()

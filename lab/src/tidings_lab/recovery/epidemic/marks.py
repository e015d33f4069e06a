"""Identifiers with a counter for each pattern, and the losses that they reveal (Costa et al. 2003, 4.2).

Rules
- A source counts its events for each pattern that it knows; an event carries the counters of all
  patterns that it matches (COS-4). A source is one life of a broker.
- A subscriber of a pattern takes the first counter that it sees of a source as the beginning (E-C5). A
  counter above the expected one means that those between were lost; an event that comes late, or
  comes back, ends its loss under every pattern.
- When interest in a pattern ends here, or begins again, the expected counters are void.
- A loss is given up after so many tries (E-C6). A gap too wide to be true is taken as a new beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidings_lab.recovery.epidemic.messages import Id, Loss

MOST_COUNTERS = 100_000  # patterns that one source counts
UNWANTED = -1  # no counter is
MOST_UNWANTED = 10_000  # patterns of one source that are known not to be wanted here


class Counters:
    """Counters of a source."""

    def __init__(self, begin: Callable[[], str]) -> None:
        self._begin = begin  # a new name for the source
        self.restart()

    def restart(self) -> None:
        self.source = self._begin()
        self.number = 0
        self._last: dict[int, int] = {}

    def mark(self, patterns: Sequence[int], here: tuple[str, ...] = ()) -> tuple[Any, ...]:
        """The header of the next event, which matches these patterns."""
        last = self._last
        if len(last) > MOST_COUNTERS:
            self.restart()
            last = self._last
        self.number = number = self.number + 1
        mark = [self.source, number, len(patterns)]
        for pattern in patterns:
            last[pattern] = counter = last.get(pattern, 0) + 1
            mark += (pattern, counter)
        return (*mark, *here)

    def last(self, pattern: int) -> int:
        return self._last.get(pattern, 0)


class LostEvent:
    """One lost event, as one pattern knows it."""

    __slots__ = ("asked_at", "tries")

    def __init__(self) -> None:
        self.tries = 0
        self.asked_at = float("-inf")


class LostBuffer:
    """The paper's LostBuffer, and the counters that are expected."""

    def __init__(self, wanted_here: Callable[[int], float | None], *, most: int, give_up: int) -> None:
        self._wanted_here = wanted_here
        self._most = most
        self._give_up = give_up
        # by source, then by pattern: the next counter; UNWANTED where no subscriber here wants it
        self._expected: dict[str, dict[int, int]] = {}
        self._interest: dict[tuple[str, int], float] = {}  # for which interest that is
        self._lost: dict[tuple[str, int], dict[int, LostEvent]] = {}  # by source and pattern, then by counter
        self.count = 0
        self.latest: tuple[str, int] | None = None  # source and pattern of what was noticed last
        self.noticed = 0
        self.given_up = 0
        self.unnoticed = 0  # beyond the bound

    def see(self, source: str, tags: Iterable[Sequence[int]]) -> int:
        """An event with these tags is here; how many losses it reveals."""
        expected = self.expected_of(source)
        found = 0
        for pattern, counter in tags:
            next_one = expected.get(pattern)
            if next_one == counter:
                expected[pattern] = counter + 1  # nearly always
            elif next_one != UNWANTED:
                found += self.unexpected(source, pattern, counter)
        return found

    def expected_of(self, source: str) -> dict[int, int]:
        """By pattern, the next counter of a source: what `see` does with it, others may do where every step
        counts. The same table always."""
        return self._expected.setdefault(source, {})

    def unexpected(self, source: str, pattern: int, counter: int) -> int:
        """A counter that is not the next one; how many losses it reveals."""
        if type(counter) is not int or type(pattern) is not int:
            raise TypeError("a counter is a whole number")
        table = self.expected_of(source)
        since = self._wanted_here(pattern)
        expected = table.get(pattern)
        if since is None:
            if len(table) < MOST_UNWANTED:
                table[pattern] = UNWANTED
            return 0
        if expected is None:
            self._interest[source, pattern] = since
        elif counter < expected:
            self._end((source, pattern), counter)
            return 0
        table[pattern] = counter + 1
        return 0 if expected is None else self._note((source, pattern), expected, counter)

    def receive(self, source: str, counters: Iterable[tuple[int, int]]) -> int:
        """A source says how far it has counted: what it counted last may be lost too."""
        found = 0
        table = self.expected_of(source)
        for pattern, counter in counters:
            expected = table.get(pattern, UNWANTED)
            if expected == UNWANTED or counter < expected:
                continue  # without a beginning losses are unknown
            table[pattern] = counter + 1
            found += self._note((source, pattern), expected, counter + 1)
        return found

    def _note(self, key: tuple[str, int], begin: int, end: int) -> int:
        count = end - begin
        if self.count + count > self._most:
            self.unnoticed += count
            return 0
        self._lost.setdefault(key, {}).update((counter, LostEvent()) for counter in range(begin, end))
        self.count += count
        self.noticed += count
        self.latest = key
        return count

    def _end(self, key: tuple[str, int], counter: int) -> None:
        lost = self._lost.get(key)
        if lost is not None and lost.pop(counter, None) is not None:
            self.count -= 1
            if not lost:
                del self._lost[key]

    def _forget(self, key: tuple[str, int]) -> None:
        self.count -= len(self._lost.pop(key, ()))

    def __contains__(self, loss: Loss) -> bool:
        return loss[2] in self._lost.get(loss[:2], ())

    def expected(self, source: str, pattern: int) -> int | None:
        """The next counter; None: none was seen since a subscriber here wants it."""
        expected = self._expected.get(source, {}).get(pattern, UNWANTED)
        return None if expected == UNWANTED else expected

    def all(self) -> set[Loss]:
        return {(*key, counter) for key, lost in self._lost.items() for counter in lost}

    def take_latest(self) -> tuple[str, int] | None:
        """The last noticed loss, if it is still lost and was not taken before."""
        latest, self.latest = self.latest, None
        return latest if latest in self._lost else None

    def sources(self) -> list[str]:
        """Sources with losses."""
        return list(dict.fromkeys(source for source, _ in self._lost))

    def patterns(self) -> list[int]:
        return list(dict.fromkeys(pattern for _, pattern in self._lost))

    def review(self, pattern: int) -> None:
        """Interest in this pattern has changed here: the expected counters of an ended interest are void."""
        since = self._wanted_here(pattern)
        for source, table in self._expected.items():
            expected = table.get(pattern)
            if expected is None or since == self._interest.get((source, pattern)):
                continue
            del table[pattern]
            self._interest.pop((source, pattern), None)
            self._forget((source, pattern))

    def ask(
        self, now: float, patience: float, most: int, *, source: str | None = None, pattern: int | None = None
    ) -> dict[tuple[str, int], tuple[int, ...]]:
        """Losses to ask for now of a source, or of a pattern: the newest first. A loss that was asked for
        often enough is given up."""
        requested: dict[tuple[str, int], tuple[int, ...]] = {}
        for key in [k for k in self._lost if (source is None or k[0] == source) and pattern in (None, k[1])]:
            due = [(c, lost) for c, lost in self._lost[key].items() if now - lost.asked_at >= patience]
            wanted = []
            for counter, lost in sorted(due, key=lambda each: -each[0])[:most]:
                if lost.tries >= self._give_up:
                    self.given_up += 1
                    self._end(key, counter)
                    continue
                lost.tries += 1
                lost.asked_at = now
                wanted.append(counter)
            if wanted:
                requested[key] = tuple(sorted(wanted))
        return requested

    def check(self) -> None:
        assert self.count == sum(len(lost) for lost in self._lost.values()), "losses are miscounted"
        for key, lost in self._lost.items():
            assert lost, f"nothing is lost of {key}"
            assert max(lost) < self._expected[key[0]][key[1]], f"{key}: what is still expected cannot be lost"


class SourceNumbers(set[int]):
    """A source as a broker knows it: the numbers that were here, and what else is asked for with
    every event."""

    __slots__ = ("expected", "floor", "mark")

    def __init__(self, expected: dict[int, int]) -> None:
        super().__init__()
        self.floor = 0  # everything up to here counts as received
        self.expected = expected  # the next counters, as `LostBuffer` has them
        self.mark: Sequence[Any] = ()  # the header of its last event, for the route that stands in it

    def shrink(self, window: int) -> None:
        kept = sorted(self)[-window:]
        self.floor = kept[0] - 1
        self.intersection_update(kept)


class ReceivedNumbers:
    """Seen events: the last numbers of each source, and everything below them."""

    def __init__(self, window: int, expected_of: Callable[[str], dict[int, int]] | None = None) -> None:
        self._window = window
        self.most = 2 * window
        self._expected_of = expected_of or (lambda _: {})
        self.sources: dict[str, SourceNumbers] = {}

    def source(self, name: str) -> SourceNumbers:
        found = self.sources.get(name)
        if found is None:
            found = self.sources[name] = SourceNumbers(self._expected_of(name))
        return found

    def add(self, id: Id) -> bool:
        """Note it; False when it was noted before."""
        number, source = id[1], self.source(id[0])
        if number in source or number <= source.floor:
            return False
        source.add(number)
        if len(source) > self.most:
            self.shrink(source)
        return True

    def shrink(self, source: SourceNumbers) -> None:
        source.shrink(self._window)

    def knows(self, source: str) -> bool:
        """Was anything of this source here?"""
        found = self.sources.get(source)
        return bool(found) or (found is not None and found.floor > 0)

    def __contains__(self, id: Id) -> bool:
        source = self.sources.get(id[0])
        return source is not None and (id[1] in source or id[1] <= source.floor)

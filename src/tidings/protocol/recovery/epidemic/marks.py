"""Identifiers with a counter for each pattern, and what can be told from them (Costa et al. 2003, 4.2).

Rules
- A source counts its events for each pattern that it knows; an event carries the counters of all
  patterns that it matches (COS-4). A source is one life of a broker.
- Who wants a pattern takes the first counter that it sees of a source as the beginning (E-C5). A
  counter above the expected one means that those between were lost; an event that comes late, or
  comes back, ends its loss under every pattern.
- When nobody here wants a pattern any more, or somebody does again, what was expected is void.
- A loss is given up after so many tries (E-C6). A gap too wide to be true is taken as a new beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidings.protocol.recovery.epidemic.words import Id, Loss

MOST_COUNTERS = 100_000  # patterns that one source counts


class Counters:
    """What a source counts."""

    def __init__(self, begin: Callable[[], str]) -> None:
        self._begin = begin  # a new name for the source
        self.restart()

    def restart(self) -> None:
        self.source = self._begin()
        self.number = 0
        self._last: dict[int, int] = {}

    def next(self, patterns: Iterable[int]) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The number and the tags of the next event."""
        if len(self._last) > MOST_COUNTERS:
            self.restart()
        self.number += 1
        last, tags = self._last, []
        for pattern in patterns:
            last[pattern] = counter = last.get(pattern, 0) + 1
            tags.append((pattern, counter))
        return self.number, tuple(tags)

    def last(self, pattern: int) -> int:
        return self._last.get(pattern, 0)


class Lost:
    """One lost event, as one pattern knows it."""

    __slots__ = ("asked_at", "tries")

    def __init__(self) -> None:
        self.tries = 0
        self.asked_at = float("-inf")


class Losses:
    """The paper's LostBuffer, and the counters that are expected."""

    def __init__(self, wanted_here: Callable[[int], float | None], *, most: int, give_up: int) -> None:
        self._wanted_here = wanted_here
        self._most = most
        self._give_up = give_up
        self._expected: dict[tuple[str, int], tuple[int, float]] = {}  # the next counter; for which interest
        self._lost: dict[tuple[str, int], dict[int, Lost]] = {}  # by source and pattern, then by counter
        self.count = 0
        self.latest: tuple[str, int] | None = None  # source and pattern of what was noticed last
        self.noticed = 0
        self.given_up = 0
        self.unnoticed = 0  # beyond the bound

    def see(self, source: str, tags: Iterable[Sequence[int]]) -> int:
        """An event with these tags is here; how many losses it reveals."""
        found = 0
        for pattern, counter in tags:
            since = self._wanted_here(pattern)
            if since is None:
                continue
            key = (source, pattern)
            expected, interest = self._expected.get(key, (0, -1.0))
            if counter == expected and interest == since:
                self._expected[key] = (counter + 1, since)
            elif interest != since:
                self._forget(key)
                self._expected[key] = (counter + 1, since)
            elif counter > expected:
                self._expected[key] = (counter + 1, since)
                found += self._note(key, expected, counter)
            else:
                self._end(key, counter)
        return found

    def hear(self, source: str, counters: Iterable[tuple[int, int]]) -> int:
        """A source says how far it has counted: what it counted last may be lost too."""
        found = 0
        for pattern, counter in counters:
            since = self._wanted_here(pattern)
            key = (source, pattern)
            expected, interest = self._expected.get(key, (0, -1.0))
            if since is None or interest != since or counter < expected:
                continue  # without a beginning nobody can say what was lost
            self._expected[key] = (counter + 1, since)
            found += self._note(key, expected, counter + 1)
        return found

    def _note(self, key: tuple[str, int], begin: int, end: int) -> int:
        count = end - begin
        if self.count + count > self._most:
            self.unnoticed += count
            return 0
        self._lost.setdefault(key, {}).update((counter, Lost()) for counter in range(begin, end))
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
        """The next counter; None: nothing of it was seen since somebody here wants it."""
        expected, interest = self._expected.get((source, pattern), (0, -1.0))
        return expected if interest == self._wanted_here(pattern) else None

    def all(self) -> set[Loss]:
        return {(*key, counter) for key, lost in self._lost.items() for counter in lost}

    def take_latest(self) -> tuple[str, int] | None:
        """What was noticed last, if it is still lost and nobody took it before."""
        latest, self.latest = self.latest, None
        return latest if latest in self._lost else None

    def sources(self) -> list[str]:
        """Those that something is missing of."""
        return list(dict.fromkeys(source for source, _ in self._lost))

    def patterns(self) -> list[int]:
        return list(dict.fromkeys(pattern for _, pattern in self._lost))

    def review(self) -> None:
        """Drop what nobody here wants any more."""
        for key in list(self._lost):
            if self._wanted_here(key[1]) != self._expected[key][1]:
                self._forget(key)

    def ask(
        self, now: float, patience: float, most: int, *, source: str | None = None, pattern: int | None = None
    ) -> dict[tuple[str, int], tuple[int, ...]]:
        """What to ask for now of a source, or of a pattern: the newest first. What was asked for often enough
        is given up."""
        asked: dict[tuple[str, int], tuple[int, ...]] = {}
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
                asked[key] = tuple(sorted(wanted))
        return asked

    def check(self) -> None:
        assert self.count == sum(len(lost) for lost in self._lost.values()), "losses are miscounted"
        for key, lost in self._lost.items():
            assert lost, f"nothing is lost of {key}"
            assert max(lost) < self._expected[key][0], f"{key}: what is still expected cannot be lost"


class Received:
    """Which events were here: the last numbers of each source, and everything below them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._numbers: dict[str, set[int]] = {}
        self._floor: dict[str, int] = {}  # everything up to here counts as received

    def add(self, id: Id) -> bool:
        """Note it; False when it was noted before."""
        source, number = id
        numbers = self._numbers.get(source)
        if numbers is None:
            numbers = self._numbers[source] = set()
        if number in numbers or number <= self._floor.get(source, 0):
            return False
        numbers.add(number)
        if len(numbers) > 2 * self._window:
            kept = sorted(numbers)[-self._window :]
            self._numbers[source] = set(kept)
            self._floor[source] = kept[0] - 1
        return True

    def knows(self, source: str) -> bool:
        """Was anything of this source here?"""
        return source in self._numbers

    def __contains__(self, id: Id) -> bool:
        source, number = id
        return number in self._numbers.get(source, ()) or number <= self._floor.get(source, 0)

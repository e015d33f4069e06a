"""Which published identities were seen before, so that a publish that is tried again changes nothing.

Two kinds of publishers. Ours number their events: `<incarnation>-<sequence>`, from 1. For them a high-water
mark per incarnation and the gaps below it are enough. Foreign ids say nothing by themselves. As long as the log
holds an event, the log knows its id; from then on each one is remembered for a window (`window.py`).

Rules
- A numbered event is NEW above the mark or in a gap, SEEN when it was taken, and STALE when it lies so far
  below the mark that its gap is no longer remembered: then nobody can tell, and it must be refused with a
  reason. Taking it for seen would lose it in silence; taking it for new could tell it twice.
- A foreign id outside the window is NEW: the window is stated, and a gateway's clients are told of it.
- Everything is bounded: gaps per incarnation, incarnations, foreign ids. Beyond its bound the incarnation that was
  silent for longest goes, and `given_up` counts it when it had not yet run out of time. Beyond theirs, foreign ids
  are refused (`is_full`), but only those of publishers that have used up an equal share of the table.
- Foreign ids are known by the event's identity, which holds its tenant: one tenant's id says nothing of another's.
- `remember` gives the rows to persist, `collect` those to delete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from operator import itemgetter
from typing import TypeVar

import msgspec

from tidings.availability.records import Delete, Entry, Put, Record
from tidings.availability.window import DedupWindow
from tidings.model.event import TENANT_MARK

T = TypeVar("T")

NUMBERED = "identity.numbered"  # table: one row per source and incarnation


class Seen(StrEnum):
    """What is known of an identity."""

    NEW = "new"
    SEEN = "seen"
    STALE = "stale"  # too old to tell


class Bounds(msgspec.Struct, frozen=True):
    """How much is remembered."""

    gaps: int = 256  # runs of missing numbers per incarnation; past it, the oldest run becomes stale
    incarnations: int = 100_000  # more costs about 200 bytes each
    incarnation_seconds: float = 7 * 24 * 3600.0  # of silence, after which an incarnation is forgotten
    foreign_ids: int = 10_000_000  # 8 bytes each, in memory and on the disk
    foreign_seconds: float = 3600.0  # they are remembered so long after the log forgot the event


DEFAULT_BOUNDS = Bounds()
PublisherOf = Callable[[str], str]  # of a source: whose share of the table its ids are in
ONE_PUBLISHER: PublisherOf = lambda source: ""  # noqa: E731 - where publishers have no principals


class Numbers(msgspec.Struct, array_like=True):
    """The numbers of one incarnation: taken are all up to `high` but the gaps. Nothing is known of those up
    to `floor`."""

    last_at: float = 0.0
    high: int = 0
    floor: int = 0
    gaps: list[tuple[int, int]] = []  # runs of missing numbers (first, last), ascending, above `floor`

    def look(self, sequence: int) -> Seen:
        if sequence > self.high or self._gap(sequence) is not None:
            return Seen.NEW
        return Seen.STALE if sequence <= self.floor else Seen.SEEN

    def take(self, sequence: int, now: float, max_gaps: int) -> None:
        """This number was published."""
        self.last_at = now
        if sequence > self.high:
            if sequence > self.high + 1:
                self.gaps.append((self.high + 1, sequence - 1))
            self.high = sequence
        elif (at := self._gap(sequence)) is not None:
            first, last = self.gaps[at]
            parts = ((first, sequence - 1), (sequence + 1, last))
            self.gaps[at : at + 1] = [part for part in parts if part[0] <= part[1]]
        while len(self.gaps) > max_gaps:
            self.floor = self.gaps.pop(0)[1]

    def _gap(self, sequence: int) -> int | None:
        """The index of the run that this number is missing in."""
        at = bisect_right(self.gaps, sequence, key=itemgetter(0)) - 1
        return at if at >= 0 and sequence <= self.gaps[at][1] else None


class Identities:
    """What a broker knows of the events that were published to it."""

    def __init__(self, bounds: Bounds = DEFAULT_BOUNDS, publisher_of: PublisherOf = ONE_PUBLISHER) -> None:
        self._bounds = bounds
        self._numbered: OrderedDict[tuple[str, str], Numbers] = OrderedDict()  # silent for longest first
        self._publisher_of = publisher_of
        self._foreign = DedupWindow(
            bounds.foreign_seconds,
            bounds.foreign_ids,
            lambda key: self._share(_names(key)[0]),
        )
        self.given_up = 0

    def look(self, source: str, id: str, sequence: int | None, now: float) -> Seen:
        """Was this published before? `sequence` is the publisher's own number, or None for a foreign id. The source
        of a foreign id is that of the event's identity, with its tenant."""
        if sequence is not None:
            return self.look_number(source, _incarnation(id, sequence), sequence)
        incarnation, _, number = id.rpartition("-")
        own = source.rpartition(TENANT_MARK)[2]  # incarnations are drawn, so two tenants never share one
        known = self.look_number(own, incarnation, int(number)) if number.isdecimal() else Seen.NEW
        if known is not Seen.NEW:
            return known  # an id of ours that its publisher gives again
        return Seen.SEEN if self._foreign.has(_key(source, id), now) else Seen.NEW

    def look_number(self, source: str, incarnation: str, sequence: int) -> Seen:
        """The same by what the id of a numbered event is made of."""
        numbers = self._numbered.get((source, incarnation))
        return Seen.NEW if numbers is None else numbers.look(sequence)

    def remember(self, source: str, id: str, sequence: int | None, now: float) -> list[Record]:
        """It was accepted now, and no log holds it; the rows to persist."""
        if sequence is not None:
            incarnation = _incarnation(id, sequence)
            self.take(source, incarnation, sequence, now)
            return [self.row(source, incarnation)]
        return self._foreign.add(_key(source, id), now)

    def forgotten(self, entry: Entry, now: float) -> list[Record]:
        """The log forgets this event: a foreign id is remembered from now on. The rows to persist."""
        incarnation, _, number = entry.id.rpartition("-")
        if number.isdecimal() and self.look_number(entry.source, incarnation, int(number)) is not Seen.NEW:
            return []
        return self._foreign.add(_key(*entry.identity), now)

    def is_full(self, source: str) -> bool:
        """Are as many foreign ids remembered as may be, and of the publisher of this source (of an identity) its share?"""
        return self._foreign.is_full(self._share(source))

    def _share(self, source: str) -> str:
        """Whose share of the table the ids of this source are in, by tenant and principal."""
        tenant, mark, own = source.rpartition(TENANT_MARK)
        return tenant + mark + self._publisher_of(own)

    @property
    def foreign(self) -> int:
        return len(self._foreign)

    def take(self, source: str, incarnation: str, sequence: int, now: float) -> None:
        """A numbered event was accepted now; `row` gives what to persist, if anything is."""
        name = (source, incarnation)
        numbers = self._numbered.get(name)
        if numbers is None:
            numbers = self._numbered[name] = Numbers()
        else:
            self._numbered.move_to_end(name)
        numbers.take(sequence, now, self._bounds.gaps)

    def take_next(self, source: str, incarnation: str, sequence: int, now: float, count: int = 1) -> bool:
        """Take this one, and those behind it, when it follows the last one, which is new and the common case;
        False: nothing is done."""
        name = (source, incarnation)
        numbers = self._numbered.get(name)
        if numbers is None or sequence != numbers.high + 1:
            return False
        numbers.high, numbers.last_at = sequence + count - 1, now
        self._numbered.move_to_end(name)
        return True

    def last(self, source: str, incarnation: str) -> int | None:
        """The highest number that was taken; None when none was."""
        numbers = self._numbered.get((source, incarnation))
        return None if numbers is None else numbers.high

    def row(self, source: str, incarnation: str) -> Put:
        numbers = self._numbered[source, incarnation]
        return Put(NUMBERED, _key(source, incarnation), msgspec.msgpack.encode(numbers))

    def figures(self) -> dict[str, int]:
        """Counters for people."""
        return {"identities given up": self.given_up, "identities remembered": len(self._foreign)}

    def rows(self) -> list[Put]:
        """All of it, for another broker that is to know the same."""
        return self._foreign.rows() + [self.row(*name) for name in self._numbered]

    def collect(self, now: float, budget: int) -> list[Record]:
        """Forget at most `budget` identities that are out of time or over a bound; the rows to delete."""
        bounds = self._bounds
        deletes = self._foreign.collect(now, budget)
        while len(deletes) < budget and self._numbered:
            name, numbers = next(iter(self._numbered.items()))
            over_at = numbers.last_at + bounds.incarnation_seconds
            if not self._is_due(now, over_at, len(self._numbered), bounds.incarnations):
                break
            del self._numbered[name]
            deletes.append(Delete(NUMBERED, _key(*name)))
        return deletes

    def next_at(self, now: float) -> float | None:
        """When there will be something to collect; `now` when there is already."""
        bounds = self._bounds
        if len(self._numbered) > bounds.incarnations:
            return now
        ends = [] if (end := self._foreign.next_at()) is None else [end]
        ends += [numbers.last_at + bounds.incarnation_seconds for numbers in _first(self._numbered)]
        return min(ends, default=None)

    @classmethod
    def restore(
        cls,
        tables: Mapping[str, Mapping[str, bytes]],
        bounds: Bounds = DEFAULT_BOUNDS,
        publisher_of: PublisherOf = ONE_PUBLISHER,
    ) -> Identities:
        """From the rows that `remember` gave, after a restart."""
        identities = cls(bounds, publisher_of)
        identities._foreign.restore(tables)
        numbered = {
            _names(key): msgspec.msgpack.decode(row, type=Numbers) for key, row in _rows(tables, NUMBERED)
        }
        identities._numbered.update(sorted(numbered.items(), key=lambda item: (item[1].last_at, item[0])))
        return identities

    def _is_due(self, now: float, over_at: float, count: int, bound: int) -> bool:
        is_over = over_at <= now
        if not is_over and count > bound:
            self.given_up += 1
        return is_over or count > bound


def _incarnation(id: str, sequence: int) -> str:
    return id.removesuffix(f"-{sequence}")


def _key(first: str, second: str) -> str:
    """One text for a pair of any two; no two pairs share one."""
    return f"{len(first)}:{first}{second}"


def _names(key: str) -> tuple[str, str]:
    length, _, rest = key.partition(":")
    return rest[: int(length)], rest[int(length) :]


def _rows(tables: Mapping[str, Mapping[str, bytes]], table: str) -> Iterable[tuple[str, bytes]]:
    return tables.get(table, {}).items()


def _first(ordered: OrderedDict[tuple[str, str], T]) -> list[T]:
    return [next(iter(ordered.values()))] if ordered else []

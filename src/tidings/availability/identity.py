"""Deduplication by event identity: a retried publish has no second effect.

There are two kinds of publishers. Tidings clients number their events: `<incarnation>-<sequence>`, from 1. A
high-water mark per incarnation and the gaps below it are enough for them. Foreign ids have no order. As long
as the log holds an event, the log knows its id; from then on each id is remembered for a window
(`window.py`).

Rules
- A numbered event is NEW above the mark or in a gap, SEEN when it was accepted, and STALE when it lies so far
  below the mark that its gap is no longer remembered: its status cannot be known, so it is refused with a
  reason. Treating it as seen would lose it silently; treating it as new could deliver it twice.
- A foreign id outside the window is NEW: the window is stated, and a gateway's clients are told of it.
- Everything is bounded: gaps per incarnation, incarnations, foreign ids. Incarnations over their bound go at
  once: of the publisher that has most, the one that was silent for longest (`shares.py`), so no publisher
  pushes out the numbers of one within its equal share. Long names and gaps count as further incarnations.
  `given_up` counts those that had not yet run out of time. Foreign ids over their bound are refused
  (`is_full`), but only those of publishers that have used up an equal share of the table.
- Foreign ids are keyed by the event's identity, which holds its tenant: tenants do not share ids.
- `remember` gives the rows to persist, `collect` those to delete, with those of incarnations that went since.
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
from tidings.availability.shares import BoundedShares
from tidings.availability.window import DedupWindow
from tidings.model.event import TENANT_MARK

T = TypeVar("T")

NUMBERED = "identity.numbered"  # table: one row per source and incarnation
WEIGHED = 256  # bytes of source, incarnation and gaps that count as one incarnation more
GAP = 128  # bytes of a gap in memory
# incarnations that one publish gives up at most; a table that was loaded over its bound shrinks slowly
GIVEN_UP = 16


class IdentityStatus(StrEnum):
    """Status of an identity: new, seen or stale."""

    NEW = "new"
    SEEN = "seen"
    STALE = "stale"  # too old to tell


class IdentityBounds(msgspec.Struct, frozen=True):
    """Bounds of the memory for identities."""

    gaps: int = 256  # runs of missing numbers per incarnation; past it, the oldest run becomes stale
    incarnations: int = 100_000  # of all publishers; more costs 600 to 1,000 bytes each
    incarnation_seconds: float = 7 * 24 * 3600.0  # of silence, after which an incarnation is forgotten
    foreign_ids: int = 10_000_000  # 8 bytes each, in memory and on the disk
    foreign_seconds: float = 3600.0  # they are remembered so long after the log forgot the event


DEFAULT_BOUNDS = IdentityBounds()
PublisherOf = Callable[[str], str]  # maps a source to the publisher that owns its ids in the table
ONE_PUBLISHER: PublisherOf = lambda source: ""  # noqa: E731 - where publishers have no principals


class Numbers(msgspec.Struct, array_like=True):
    """The numbers of one incarnation: all up to `high` except the gaps are taken. The status of numbers up
    to `floor` is unknown."""

    last_at: float = 0.0
    high: int = 0
    floor: int = 0
    gaps: list[tuple[int, int]] = []  # runs of missing numbers (first, last), ascending, above `floor`

    def look(self, sequence: int) -> IdentityStatus:
        if sequence > self.high or self._gap(sequence) is not None:
            return IdentityStatus.NEW
        return IdentityStatus.STALE if sequence <= self.floor else IdentityStatus.SEEN

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

    def give_back(self, sequence: int) -> None:
        """This number was taken, and its publish failed: it is new again."""
        if self.look(sequence) is not IdentityStatus.SEEN:
            return
        self.gaps.insert(bisect_right(self.gaps, sequence, key=itemgetter(0)), (sequence, sequence))
        while self.gaps and self.gaps[-1][1] == self.high:
            self.high = self.gaps.pop()[0] - 1

    def _gap(self, sequence: int) -> int | None:
        """The index of the run that this number is missing in."""
        at = bisect_right(self.gaps, sequence, key=itemgetter(0)) - 1
        return at if at >= 0 and sequence <= self.gaps[at][1] else None


class Identities:
    """Identities of the events that were published to one broker."""

    def __init__(
        self, bounds: IdentityBounds = DEFAULT_BOUNDS, publisher_of: PublisherOf = ONE_PUBLISHER
    ) -> None:
        self._bounds = bounds
        self._numbered: OrderedDict[tuple[str, str], Numbers] = OrderedDict()  # silent for longest first
        self._shares = BoundedShares[tuple[str, str]]()  # of those, by publisher
        self._gone: dict[tuple[str, str], None] = {}  # given up, with a row that may still be on the disk
        self._publisher_of = publisher_of
        self._foreign = DedupWindow(
            bounds.foreign_seconds,
            bounds.foreign_ids,
            lambda key: self._share(_names(key)[0]),
        )
        self.given_up = 0
        self._latest: tuple[str, str] | None = (
            None  # the incarnation that published last: its place is the last one
        )

    def look(self, source: str, id: str, sequence: int | None, now: float) -> IdentityStatus:
        """Was this published before? `sequence` is the publisher's own number, or None for a foreign id. The
        source of a foreign id is that of the event's identity, with its tenant."""
        if sequence is not None:
            return self.look_number(source, _incarnation(id, sequence), sequence)
        incarnation, _, number = id.rpartition("-")
        own = source.rpartition(TENANT_MARK)[2]  # incarnations are drawn, so two tenants never share one
        known = self.look_number(own, incarnation, int(number)) if number.isdecimal() else IdentityStatus.NEW
        if known is not IdentityStatus.NEW:
            return known  # an id of ours that its publisher gives again
        return IdentityStatus.SEEN if self._foreign.has(_key(source, id), now) else IdentityStatus.NEW

    def look_number(self, source: str, incarnation: str, sequence: int) -> IdentityStatus:
        """The same by what the id of a numbered event is made of."""
        numbers = self._numbered.get((source, incarnation))
        return IdentityStatus.NEW if numbers is None else numbers.look(sequence)

    def remember(self, source: str, id: str, sequence: int | None, now: float) -> list[Record]:
        """Record an accepted event that no log holds; returns the rows to persist."""
        if sequence is not None:
            incarnation = _incarnation(id, sequence)
            self.take(source, incarnation, sequence, now)
            return [self.row(source, incarnation)]
        return self._foreign.add(_key(source, id), now)

    def forgotten(self, entry: Entry, now: float) -> list[Record]:
        """The log forgets this event: a foreign id is remembered from now on. The rows to persist."""
        incarnation, _, number = entry.id.rpartition("-")
        if (
            number.isdecimal()
            and self.look_number(entry.source, incarnation, int(number)) is not IdentityStatus.NEW
        ):
            return []
        return self._foreign.add(_key(*entry.identity), now)

    def is_full(self, source: str) -> bool:
        """Is the window of foreign ids full, and has the publisher of this source (of an identity) used up
        its share?"""
        return self._foreign.is_full(self._share(source))

    def _share(self, source: str) -> str:
        """Owner of the ids of this source in the table: tenant and principal."""
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
            numbers = Numbers()
            self._add(name, numbers)
            # A deletion that is still to come could follow the row that is written with this publish.
            self._gone.pop(name, None)
        else:
            self._touch(name)
        numbers.take(sequence, now, self._bounds.gaps)
        self._shares.weigh(name, _weight(name, numbers))
        for _ in range(GIVEN_UP):
            if (surplus := self._surplus(name)) is None:
                break
            self._drop(surplus)
            self._gone[surplus] = None
            self.given_up += 1

    def take_next(self, source: str, incarnation: str, sequence: int, now: float, count: int = 1) -> bool:
        """Accept this event and those behind it, if it follows the last accepted one (new, the common case);
        False: no change was made."""
        name = (source, incarnation)
        numbered = self._numbered
        if name not in numbered or sequence != (numbers := numbered[name]).high + 1:
            return False
        numbers.high, numbers.last_at = sequence + count - 1, now
        if name != self._latest:
            self._touch(name)
        return True

    def give_back(self, source: str, incarnation: str, sequence: int | None) -> None:
        """The publish of a number that was taken failed before it had an effect: it may be tried again."""
        name = (source, incarnation)
        if sequence is not None and name in self._numbered:
            self._numbered[name].give_back(sequence)
            self._shares.weigh(name, _weight(name, self._numbered[name]))

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
        """Forget at most `budget` identities that are out of time or over a bound; the rows to delete, with
        those of incarnations that were given up before."""
        gone, self._gone = self._gone, {}
        deletes = self._foreign.collect(now, budget)
        while len(deletes) < budget and (name := self._due(now)) is not None:
            self._drop(name)
            deletes.append(Delete(NUMBERED, _key(*name)))
        return [Delete(NUMBERED, _key(*name)) for name in gone] + deletes

    def _due(self, now: float) -> tuple[str, str] | None:
        """The incarnation to forget now: one that is out of time, else one that is over the bound."""
        name, numbers = next(iter(self._numbered.items()), (None, None))
        if numbers is not None and numbers.last_at + self._bounds.incarnation_seconds <= now:
            return name
        surplus = self._surplus()
        self.given_up += surplus is not None
        return surplus

    def _surplus(self, spared: tuple[str, str] | None = None) -> tuple[str, str] | None:
        """The incarnation to give up because all together are over the bound."""
        is_over = self._shares.weight > self._bounds.incarnations
        return self._shares.surplus(spared) if is_over else None

    def _add(self, name: tuple[str, str], numbers: Numbers) -> None:
        self._numbered[name], self._latest = numbers, name
        self._shares.add(name, self._publisher_of(name[0]), _weight(name, numbers))

    def _touch(self, name: tuple[str, str]) -> None:
        self._latest = name
        self._numbered.move_to_end(name)
        self._shares.touch(name)

    def _drop(self, name: tuple[str, str]) -> None:
        self._latest = None
        del self._numbered[name]
        self._shares.remove(name)

    def collect_at(self, planned: float | None, now: float, soon: float) -> float | None:
        """When to collect, not before `soon`, if it was planned for another time (None: for none)."""
        if planned is None or planned <= now:
            due = self.next_at(now)
            return None if due is None else max(due, soon)
        return min(planned, soon) if self._is_over else planned

    @property
    def _is_over(self) -> bool:
        """Are there rows to delete, or incarnations over their bound?"""
        return bool(self._gone) or self._shares.weight > self._bounds.incarnations

    def next_at(self, now: float) -> float | None:
        """Time of the next collection; `now` when it is already due."""
        bounds = self._bounds
        if self._is_over:
            return now
        ends = [] if (end := self._foreign.next_at()) is None else [end]
        ends += [numbers.last_at + bounds.incarnation_seconds for numbers in _first(self._numbered)]
        return min(ends, default=None)

    @classmethod
    def restore(
        cls,
        tables: Mapping[str, Mapping[str, bytes]],
        bounds: IdentityBounds = DEFAULT_BOUNDS,
        publisher_of: PublisherOf = ONE_PUBLISHER,
    ) -> Identities:
        """From the rows that `remember` gave, after a restart."""
        identities = cls(bounds, publisher_of)
        identities._foreign.restore(tables)
        numbered = {
            _names(key): msgspec.msgpack.decode(row, type=Numbers) for key, row in _rows(tables, NUMBERED)
        }
        for name, numbers in sorted(numbered.items(), key=lambda item: (item[1].last_at, item[0])):
            identities._add(name, numbers)
        return identities


def _incarnation(id: str, sequence: int) -> str:
    return id.removesuffix(f"-{sequence}")


def _key(first: str, second: str) -> str:
    """One text for a pair of any two; no two pairs share one."""
    return f"{len(first)}:{first}{second}"


def _weight(name: tuple[str, str], numbers: Numbers) -> int:
    """Weight of this one in incarnations."""
    return 1 + (_size(name[0]) + _size(name[1]) + GAP * len(numbers.gaps)) // WEIGHED


def _size(text: str) -> int:
    """Bytes that it takes in memory at most."""
    return len(text) if text.isascii() else 4 * len(text)


def _names(key: str) -> tuple[str, str]:
    length, _, rest = key.partition(":")
    return rest[: int(length)], rest[int(length) :]


def _rows(tables: Mapping[str, Mapping[str, bytes]], table: str) -> Iterable[tuple[str, bytes]]:
    return tables.get(table, {}).items()


def _first(ordered: OrderedDict[tuple[str, str], T]) -> list[T]:
    return [next(iter(ordered.values()))] if ordered else []

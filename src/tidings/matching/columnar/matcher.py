"""The columnar matcher: a frozen table, a delta, and upkeep in small steps.

Rules
- `add` files a filter in the delta; it is in effect at once. `remove` marks its rows.
- `maintain(budget)` merges the delta into the table, or freezes both into a new one when the table
  has aged, a step at a time. While it works, the delta being taken over still serves, and a newer
  one takes what comes.
- Answers never depend on when `maintain` runs, nor on the sample of events it learns from.
- Matching may run in many threads at once; adding, removing and upkeep in one at a time,
  while no thread matches.

The file also holds the statistics of a columnar matcher.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush
from itertools import islice
from os import PathLike
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.language.meter import WorkMeter
from tidings.matching.columnar import layout as at
from tidings.matching.columnar import table as files
from tidings.matching.columnar.elements import ElementIndex, entries_of
from tidings.matching.columnar.freeze import RowSource, source_of
from tidings.matching.columnar.layout import give_back
from tidings.matching.columnar.merge import (
    LINEAR_MOST,
    Delta,
    DeltaReplay,
    JournalEntry,
    has_aged,
    merged_table,
    next_table,
    no_rows,
    remove_rows,
    source_of_table,
)
from tidings.matching.columnar.parts import ConstraintParts, Packer
from tidings.matching.columnar.programs import Checks, accepted, merged
from tidings.matching.columnar.rows import FilterRows, rows_of
from tidings.matching.columnar.slots import Slots, Strings
from tidings.matching.columnar.table import FrozenTable
from tidings.matching.matcher import Matches
from tidings.model.event import Event
from tidings.model.expression import Expression
from tidings.model.filter import Filter

# -- describe ----------------------------------------------------------------------------------


def describe(matcher: ColumnarMatcher) -> dict[str, Any]:
    table = matcher.table
    rows = len(table.rows)
    counters = matcher.counters
    met = counters / max(1, int(counters[at.EVENTS]))
    delta_rows = sum(len(delta.rows) for delta in matcher.deltas)
    return {
        "engine": "columnar" if matcher.compiled else "columnar, without Numba",
        "filters": len(matcher),
        "bytes": table.nbytes + sum(delta.nbytes for delta in matcher.deltas),
        "table": {
            "rows": rows,
            "removed": table.removed,
            "bytes": table.nbytes,
            "entries": int(table.cell_at[-1]),
            "cells": 0 if table.grid is None else table.grid.cells,
            "cells_used": int((np.diff(table.cell_at) > 0).sum()),
            "pairs": 0 if table.grid is None else int((table.grid.pairs >= 0).sum()),
            "asked_of_python": int((table.rows.checks >= 0).sum()),
            "events_sampled": table.sampled,
            "texts": sum(len(strings.texts) for strings in table.strings.values()),
        },
        "delta": {
            "rows": delta_rows,
            "removed": sum(delta.removed for delta in matcher.deltas),
            "looked_at_by_every_event": sum(delta.linear for delta in matcher.deltas),
            "bytes": sum(delta.nbytes for delta in matcher.deltas),
        },
        "derived_attributes": matcher.derived_count,
        "an_event_meets": {
            "candidates": round(float(met[at.CANDIDATES]), 1),
            "survivors": round(float(met[at.SURVIVORS]), 1),
            "exact_checks": round(float(met[at.EXACT_CHECKS]), 1),
            "matches": round(float(met[at.MATCHES]), 1),
        },
        "freezing": matcher.freezing,
        "rebuild": _gain(matcher, float(met[at.CANDIDATES]), delta_rows),
    }


def _gain(matcher: ColumnarMatcher, candidates: float, delta_rows: int) -> dict[str, Any]:
    """Gain of a freeze: the delta and the dead rows disappear, and cells follow the events."""
    table = matcher.table
    drifted = candidates / table.expected if table.expected and candidates else 1.0
    return {
        "due": matcher.due,
        "rows_out_of_the_delta": delta_rows,
        "rows_dropped": table.removed,
        "candidates_now": round(candidates, 1),
        "candidates_when_built": round(table.expected, 1),
        "gains": drifted > 1.5 or delta_rows + table.removed > len(table.rows) // 8,
    }


# -- matcher -----------------------------------------------------------------------------------

FIRST_BATCH_ROOM = 1 << 16  # handles of a piece of a batch, before its size is known
SAMPLE_SIZE = 1024  # events kept to learn from
SAMPLE_EVERY = 16  # a power of two
SAMPLE_MASK = SAMPLE_EVERY - 1
DELTA_LEAST = 4096  # rows in the delta before a freeze is due ...
DELTA_SHARE = 8  # ... or one for so many in the table
LEAST_FREED, MOST_FREED = 1 << 13, 300_000  # rows of tables that are asked back; larger ones go by themselves
BACKSTOP = 4  # without `maintain`, `add` itself freezes at so many times the due size

MOST_HANDLES = 0xFFFFFFFF  # above these bits of a walk's answer: rows that Python must be asked about
NONE: frozenset[int] = frozenset()
Handles = NDArray[np.int32]


class ColumnarMatcher:
    """Matches by compiled kernels over frozen arrays."""

    compiled = True

    def __init__(self) -> None:
        self.slots = Slots()
        self.strings: dict[int, Strings] = {}
        self._counted: list[NDArray[np.int64]] = []  # by thread, so that none waits for another's memory
        self.version = 0  # grows whenever a walk must look at its addresses again
        self._parts = ConstraintParts(self.slots, self.strings)
        self.batch_room = FIRST_BATCH_ROOM
        self._alive = bytearray()
        self._handle_room = 4096  # handles that walks have bits for
        self._free: list[int] = []
        self.without = NONE  # filters that the present match leaves out
        self.meter: WorkMeter | None = None  # for the match that is made now
        self.elements = ElementIndex()  # filters that an element of a list finds
        self._sample: list[Event] = []
        self._ticks = 0
        self._work: Generator[None, None, None] | None = None
        self._journal: list[JournalEntry] | None = None
        self._has_freed = False  # an older table, which the allocator may still hold
        self.plain_index: tuple[Any, Any] | None = None  # of a table, for rows that no walk decides
        self._local = threading.local()
        self._walk, self._answer = self._find_walk()
        self.table: FrozenTable = _drained(next_table([no_rows()], self._parts, [], indexed=self.compiled))
        self.deltas: list[Delta] = [Delta(self.table.edges, 0)]

    def _find_walk(self) -> tuple[Callable[..., int], Callable[..., int]]:
        from tidings.matching.columnar.row_kernels import answer
        from tidings.matching.columnar.walk_kernels import match_one

        return match_one, answer

    def __len__(self) -> int:
        return len(self._alive) - len(self._free)

    # -- changes

    def add(self, filter: Filter) -> int:
        """Take a filter in; the handle is in effect at once."""
        entries = entries_of(filter)
        if entries is not None:
            handle = self._take_handle()
            self.elements.add(handle, filter, entries)
            self._match_elements_too()
            return handle
        slots, delta = self.slots.version, self.deltas[-1]
        shape = delta.shape
        rows = rows_of(filter, self._parts)
        handle = self._take_handle()
        delta.add(rows, handle, self.slots.text)
        if shape != delta.shape or slots != self.slots.version:
            self.version += 1
        if self._journal is not None:
            self._journal.append(JournalEntry(handle, filter))
        elif self._work is None and self._overdue():
            self.freeze()
        return handle

    def remove(self, handle: int) -> None:
        """Forget a filter. An unknown handle is a KeyError."""
        if not 0 <= handle < len(self._alive) or not self._alive[handle]:
            raise KeyError(handle)
        self._alive[handle] = 0
        heappush(self._free, handle)
        if handle in self.elements.filters:
            self.elements.remove(handle)
            self._match_elements_too()
            return
        if self._journal is not None:
            self._journal.append(JournalEntry(handle, None))
        for delta in self.deltas:
            if handle in delta.homes:
                delta.remove(handle)
                return
        if self.table.plain:
            self.version += 1
        remove_rows(self.table, handle)
        self.table.plain = False

    def _match_elements_too(self) -> None:
        """Look at elements of lists only while a filter asks for them."""
        cls = type(self)
        if not self.elements:
            self.__dict__.pop("match", None)
            self.__dict__.pop("match_batch", None)
        elif "match" not in self.__dict__:
            self.__dict__["match"] = lambda event: self._and_elements(cls.match(self, event), event)
            self.__dict__["match_batch"] = lambda events: self._batch_and_elements(
                cls.match_batch(self, events), events
            )

    def _and_elements(self, found: Handles, event: Event) -> Handles:
        more = self.elements.match(event, self.without)
        return merged(found, more) if more else found

    def _batch_and_elements(self, matches: Matches, events: Any) -> Matches:
        from tidings.matching.columnar.batches import event_of, is_record_batch

        columnar = is_record_batch(events)
        events = events if columnar or isinstance(events, list) else list(events)
        offsets, parts = [0], []
        for number in range(events.num_rows if columnar else len(events)):
            event = event_of(events, number) if columnar else events[number]
            found = np.asarray(
                matches.handles[matches.offsets[number] : matches.offsets[number + 1]], np.int32
            )
            parts.append(self._and_elements(found, event))
            offsets.append(offsets[-1] + len(parts[-1]))
        together = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        return Matches(np.array(offsets, np.int64), together)  # type: ignore[arg-type]

    def _file_in_table(self) -> None:
        """File the filters on elements as rows, as a saved table has them."""
        for handle, filter in self.elements.filters.items():
            self.deltas[-1].add(rows_of(filter, self._parts), handle, self.slots.text)
        self.elements = ElementIndex()
        self._match_elements_too()
        self.version += 1

    def _take_handle(self) -> int:
        if self._free:
            handle = heappop(self._free)
            self._alive[handle] = 1
            return handle
        self._alive.append(1)
        if len(self._alive) > self._handle_room:
            self._handle_room = 2 * len(self._alive)
            self.version += 1
        return len(self._alive) - 1

    def load(self, filters: Iterable[Filter], *, sample: Iterable[Event] = ()) -> range:
        """Take many filters in at once and freeze; their handles. `sample`: events to learn from."""
        self._finish()
        rows = FilterRows(4096)
        self._sample.extend(islice(sample, SAMPLE_SIZE))
        first = len(self._alive)
        for handle, filter in enumerate(filters, first):
            self._alive.append(1)
            for row in rows_of(filter, self._parts):
                rows.append(row, handle, settled=True)
        _drained(self._freezing([source_of(rows)]))
        return range(first, len(self._alive))

    def save(self, path: str | PathLike[str], *, version: str = "") -> None:
        """Freeze, and write the table as a file that other processes map."""
        self._finish()
        self._file_in_table()
        self.freeze()
        derived = [msgspec.msgpack.encode(expression) for expression in self._parts.derived.expressions]
        files.save(self.table, path, handles=len(self._alive), derived=derived, version=version)

    @classmethod
    def open(cls, path: str | PathLike[str], *, verify: bool = True) -> Self:
        """A matcher over a saved table; changes to it stay in this process."""
        table, header = files.load(path, verify=verify)
        if cls.compiled and table.grid is None:
            raise InputError(
                f"{path} was written without Numba", hint="write it again where Numba is installed"
            )
        made = cls()
        made.slots.take(table.slots)
        made.table, made.strings = table, dict(table.strings)
        made._parts = ConstraintParts(made.slots, made.strings)
        for expression in header.derived:
            made._parts.derived.take(msgspec.msgpack.decode(expression, type=Expression))
        made.deltas = [Delta(table.edges, len(table.rows) // DELTA_SHARE)]
        alive = np.zeros(header.handles, np.uint8)
        alive[table.rows.owners[table.rows.owners >= 0]] = 1
        made._alive, made._free = bytearray(alive.tobytes()), np.nonzero(alive == 0)[0].tolist()
        made.version += 1
        if table.outdated:
            made.freeze()
        return made

    # -- matching

    def match(self, event: Event) -> Handles:
        """Handles of the filters that accept the event, ascending, each once."""
        local = self._local
        try:
            scratch = local.scratch
            if scratch.version != self.version:
                scratch = self._renew()
        except AttributeError:
            scratch = self._renew()
        self._ticks = ticks = self._ticks + 1
        if not ticks & SAMPLE_MASK:
            self._learn(event)
        if not scratch.pack(event, scratch.row):
            return self._match_slowly(event)
        found = self._walk(scratch.address)
        if 0 <= found <= MOST_HANDLES:
            return scratch.out[:found].copy()  # type: ignore[no-any-return]
        return self._match_slowly(event) if found < 0 else self._with_asked(event, scratch, found)

    def match_without(self, event: Event, without: frozenset[int]) -> list[int]:
        """The same, but no pattern or residual of these filters is tested, and they are not found. One thread
        only."""
        self.without = without
        try:
            return [handle for handle in self.match(event).tolist() if handle not in without]
        finally:
            self.without = NONE

    def ready(self) -> tuple[Any, Packer]:
        """This thread's scratch memory and packer, as of now."""
        scratch = getattr(self._local, "scratch", None)
        if scratch is None or scratch.version != self.version:
            scratch = self._renew()
        return scratch, self._local.packer

    def packer(self) -> Packer:
        return Packer(self.slots, self.strings, self._parts.derived.programs, machine=self.compiled)

    def _renew(self) -> Any:
        from tidings.matching.columnar.walk import Scratch

        local = self._local
        if getattr(local, "slots", -1) != self.slots.version or local.strings is not self.strings:
            local.packer = self.packer()
            local.slots, local.strings = self.slots.version, self.strings
        deltas = [delta for delta in self.deltas if len(delta.rows)]
        programs = self._parts.derived.programs
        if not hasattr(local, "counters"):
            local.counters = np.zeros(at.COUNTERS_ROOM, np.int64)
            self._counted.append(local.counters)
        self._handle_room = max(self._handle_room, len(self._alive))
        local.scratch = Scratch(
            self.slots, self.table, deltas, programs, local.counters, self._handle_room, self.version
        )
        local.scratch.pack = local.packer.pack
        return local.scratch

    def _match_slowly(self, event: Event) -> Handles:
        """The same with exact rests of large integers and new texts, and all computed by Python."""
        scratch, packer = self._local.scratch, self._local.packer
        rests = packer.pack_all(event, scratch.row)
        if packer.has_many_between(rests):
            from tidings.matching.columnar.exact import match_row

            row, rest = np.array(scratch.row), np.zeros(len(scratch.row), np.int32)
            for slot, value in rests.items():
                rest[slot] = value
            return match_row(self, row, rest, event)
        for slot, rest in rests.items():
            scratch.rest[slot] = rest
        scratch.flags[at.HAS_REST] = 1
        found = self._walk(scratch.address)
        scratch.flags[at.HAS_REST] = 0
        scratch.rest[:] = 0
        return self._with_asked(event, scratch, found)

    def _with_asked(self, event: Event, scratch: Any, found: int) -> Handles:
        if found > MOST_HANDLES:
            requested = scratch.leave_out(self.without, found >> 32) if self.without else found >> 32
            scratch.set_texts(event)
            found = self._answer(scratch.address, found & MOST_HANDLES, requested)
        requested, found = found >> 32, found & MOST_HANDLES
        if not requested:
            return scratch.out[:found].copy()  # type: ignore[no-any-return]
        handles, numbers, tiers = (
            scratch.ask[: 3 * requested].reshape(-1, 3).T.tolist()
        )  # three lists, not many
        asked = zip(handles, numbers, tiers, strict=True)
        more = accepted(asked, self.checks(), event, self.without, self.meter)
        if not more:
            return scratch.out[:found].copy()  # type: ignore[no-any-return]
        return merged(scratch.out[:found], more)

    def checks(self) -> dict[int, Checks]:
        tiers = [self.table.checks, *(delta.rows.table for delta in self.deltas if len(delta.rows))]
        return {at.TIER + n * at.TIER_SIZE: checks for n, checks in enumerate(tiers)}

    def match_batch(self, events: Any) -> Matches:
        """The same for many events, or for the rows of an Arrow record batch."""
        from tidings.matching.columnar.batches import match_batch

        return match_batch(self, events)

    def learn(self, events: Iterable[Event]) -> None:
        """Events to learn from: the next freeze cuts its cells by them."""
        for event in islice(events, SAMPLE_SIZE):
            self._ticks += SAMPLE_EVERY
            self._learn(event)

    def wants_sample(self) -> bool:
        return len(self._sample) < SAMPLE_SIZE // 2

    def _learn(self, event: Event) -> None:
        if len(self._sample) < SAMPLE_SIZE:
            self._sample.append(event)
        else:
            self._sample[self._ticks // SAMPLE_EVERY % SAMPLE_SIZE] = event

    # -- upkeep

    @property
    def freezing(self) -> bool:
        return self._work is not None

    @property
    def counters(self) -> NDArray[np.int64]:
        """Counters of all walks since the table was frozen."""
        return np.asarray(np.sum([np.zeros(at.COUNTERS_ROOM, np.int64), *self._counted], axis=0))

    @property
    def derived_count(self) -> int:
        return len(self._parts.derived.programs)

    def stats(self) -> dict[str, Any]:
        """Statistics: kind of matcher, size and fill, and the gain of a freeze."""
        return describe(self)

    @property
    def due(self) -> bool:
        """Is upkeep due?"""
        if self._work is not None:
            return True
        if self._wants_first_cut():
            return True
        delta = self.deltas[-1]
        changed = len(delta.rows) + self.table.removed - self.table.purged
        return changed >= max(DELTA_LEAST, len(self.table.rows) // DELTA_SHARE) or delta.linear > LINEAR_MOST

    def _wants_first_cut(self) -> bool:
        """Was the table cut without having seen events, and have enough come since?"""
        table = self.table
        return (
            self.compiled and not table.sampled and len(table.rows) >= DELTA_LEAST and not self.wants_sample()
        )

    def _overdue(self) -> bool:
        size, delta = max(DELTA_LEAST, len(self.table.rows) // DELTA_SHARE), self.deltas[-1]
        return len(delta.rows) > BACKSTOP * size or delta.linear > BACKSTOP * LINEAR_MOST

    def maintain(self, budget: int) -> int:
        """Do at most about `budget` steps of pending upkeep; 0 when none are left."""
        for _ in range(budget):
            if self._work is None:
                if self._has_freed:  # later than the freeze, so that no walk keeps the older table
                    self._has_freed = False
                    give_back()
                    continue
                if not self.due:
                    return max((matcher.maintain(1) for matcher in self.elements.matchers()), default=0)
                self._work = self._begun()
            if next(self._work, self) is self:
                self._work = None
        return 1 if self.due or self._has_freed else 0

    def freeze(self) -> None:
        """All upkeep at once: the whole delta goes into the table, and the table is built anew."""
        self._finish()
        for matcher in self.elements.matchers():
            matcher.freeze()
        _drained(self._freezing([]))

    def begin_freeze(self) -> None:
        """Let the next calls of `maintain` build the table anew, whether that is due or not."""
        self._finish()
        self._work = self._freezing([])

    def begin_merge(self) -> None:
        """Let the next calls of `maintain` merge the delta, whether that is due or not."""
        self._finish()
        self._work = self._merging() if self.compiled else self._freezing([])

    def _finish(self) -> None:
        if self._work is not None:
            _drained(self._work)
            self._work = None

    def _begun(self) -> Generator[None, None, None]:
        """The upkeep that is due: a merge, unless the table itself has aged."""
        met = self.counters
        candidates = float(met[at.CANDIDATES]) / max(1, int(met[at.EVENTS]))
        if not self.compiled or self._wants_first_cut() or has_aged(self.table, self.deltas[-1], candidates):
            return self._freezing([])
        return self._merging()

    def _merging(self) -> Generator[None, None, None]:
        older = self.deltas[-1]
        self.deltas.append(Delta(self.table.edges, len(self.table.rows) // DELTA_SHARE))
        self.version += 1
        table = yield from merged_table(self.table, older, self.slots.text)
        self.table = table
        self.deltas.remove(older)
        self._has_freed = LEAST_FREED <= len(table.rows) <= MOST_FREED
        self.version += 1

    def _freezing(self, extra: list[RowSource]) -> Generator[None, None, None]:
        journal = self._journal = []
        room = len(self.table.rows) // DELTA_SHARE
        sources = [source_of_table(self.table), source_of(self.deltas[-1].rows), *extra]
        self.deltas.append(Delta(self.table.edges, room))
        self.version += 1
        fresh = yield from next_table(sources, self._parts, list(self._sample), indexed=self.compiled)
        replay = DeltaReplay(fresh, self._parts, max(room, len(fresh.rows) // DELTA_SHARE))
        yield from replay.steps(journal)
        self.table, self.deltas = fresh, [replay.delta]
        self.strings, self._parts = replay.strings, replay.parts
        self._journal = None
        self._has_freed = LEAST_FREED <= len(fresh.rows) <= MOST_FREED
        self.version += 1
        for counters in self._counted:
            counters[:] = 0


def _drained(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value

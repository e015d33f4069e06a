"""Freezing: live rows of a table and of its delta become the rows of the next table.

The work is a generator of small steps, so that whoever drives it is never kept waiting.
Texts get new ranks: an even position 2k names text k; an odd one as a lower bound means
"just above text k" and as an upper bound "just below the next", and stays so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.asking import Checks
from tidings.matching.columnar.rows import OUTSIDE, PART, FrozenRows, Rows
from tidings.matching.columnar.strings import ID_MAX, ID_MIN, SortedTexts, Strings, encoded

ROWS_IN_STEP = 512
TEXTS_IN_STEP = 512
RUN = 1 << 15  # numbers that a plain array operation takes at once
Ints = NDArray[np.int64]


@dataclass
class Source:
    """Rows to take over: those whose owner is not negative."""

    starts: NDArray[np.int32]
    parts: NDArray[Any]
    points: NDArray[np.float64]
    rests: NDArray[np.int32]
    owners: NDArray[np.int32]
    checks: NDArray[np.int32]  # lasting checks; empty: none
    asked: Checks


@dataclass
class Frozen:
    rows: FrozenRows
    strings: dict[int, Strings]
    checks: Checks


def source_of(rows: Rows) -> Source:
    """Growing rows as a source."""
    count = len(rows)
    has_checks = bool(rows.table.all)
    return Source(
        rows.starts[: count + 1], rows.parts, rows.points, rows.rests, rows.owners[:count],
        rows.lasting[: count if has_checks else 0], rows.table,
    )  # fmt: skip


def ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> Ints:
    """All indexes of runs, one after another."""
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - lengths), lengths))


def pieces(rows: Ints) -> Iterator[Ints]:
    for at in range(0, len(rows), ROWS_IN_STEP):
        yield rows[at : at + ROWS_IN_STEP]


@dataclass
class _Ranks:
    """Old text numbers to new ones, for all slots in one array each."""

    base_at: Ints  # slot -> where its texts begin in `base`
    extra_at: Ints
    base: Ints
    extra: Ints


def freeze(sources: list[Source], strings: dict[int, Strings]) -> Generator[None, None, Frozen]:
    """The rows of the next table, sorted by owner.

    Everything is as of now: what is removed or added between the steps is the journal's matter.
    """
    strings = dict(strings)
    extras = {slot: len(held.extras) for slot, held in strings.items()}
    for source in sources:
        source.owners = source.owners.copy()
    live = [np.nonzero(s.owners >= 0)[0] for s in sources]
    yield
    ranks = _room_for(strings, extras)
    points = 0
    for source, rows in zip(sources, live, strict=True):
        for some in pieces(rows):
            points += _mark(source, some, ranks, strings)
            yield
    fresh = yield from _merge_texts(strings, extras, ranks)
    checks = Checks()
    made, places = yield from _layout(sources, live, points)
    for number, (source, rows) in enumerate(zip(sources, live, strict=True)):
        for at in range(0, len(rows), ROWS_IN_STEP):
            _take(source, rows[at : at + ROWS_IN_STEP], places[number][at : at + ROWS_IN_STEP], made, ranks)
            yield
        yield from _take_checks(source, rows, places[number], made, checks)
    return Frozen(made, fresh, checks)


def _room_for(strings: dict[int, Strings], extras: dict[int, int]) -> _Ranks:
    slots = max(strings, default=0) + 2
    base_at, extra_at = np.zeros(slots + 1, np.int64), np.zeros(slots + 1, np.int64)
    for slot, held in strings.items():
        base_at[slot + 1] = len(held.texts) + 1
        extra_at[slot + 1] = extras[slot]
    base_at, extra_at = np.cumsum(base_at), np.cumsum(extra_at)
    return _Ranks(
        base_at, extra_at, np.zeros(int(base_at[-1]) + 1, np.int64), np.zeros(int(extra_at[-1]) + 1, np.int64)
    )


def _parts_of(source: Source, rows: Ints) -> Ints:
    starts = source.starts[rows].astype(np.int64)
    return ranges(starts, source.starts[rows + 1] - starts)


def _named(place: NDArray[np.float64], rest: NDArray[np.int32], *, upper: bool) -> tuple[Ints, Ints, Ints]:
    """Which text a bound names: (text number or -1, extra id or 0, step above or below it)."""
    rest = rest.astype(np.int64)
    whole = np.where(np.isfinite(place), place, 0).astype(np.int64)
    if upper:
        wide = rest > (ID_MAX >> 1)
        tag = ID_MAX - rest
        number, step = np.where(wide, tag >> 1, rest), np.where(wide, -(tag & 1), 0)
        text, odd = (whole + 1) >> 1, -(whole & 1)
    else:
        wide = rest < (ID_MIN >> 1)
        tag = rest - ID_MIN
        number, step = np.where(wide, tag >> 1, rest), np.where(wide, tag & 1, 0)
        text, odd = whole >> 1, whole & 1
    return np.where(number > 0, -1, text), number, np.where(number > 0, step, odd)


def _string_parts(parts: Any, strings: dict[int, Strings]) -> Any:
    is_string = np.zeros(int(max(strings, default=0)) + 2, bool)
    is_string[list(strings)] = True
    slots = np.minimum(parts["slot"].astype(np.int64), len(is_string) - 1)
    return parts[is_string[slots]]


def _mark(source: Source, rows: Ints, ranks: _Ranks, strings: dict[int, Strings]) -> int:
    """Note which texts are still named; how many points the rows have."""
    parts = source.parts[_parts_of(source, rows)]
    points = int((parts["count"] & ~np.uint16(OUTSIDE)).sum(dtype=np.int64))
    parts = _string_parts(parts, strings)
    slots = parts["slot"].astype(np.int64)
    for place, rest, upper in ((parts["lo"], parts["lo_rest"], False), (parts["hi"], parts["hi_rest"], True)):
        bounded = np.isfinite(place)
        _mark_named(ranks, slots[bounded], *_named(place[bounded], rest[bounded], upper=upper)[:2])
    many = parts["count"] > 0
    counts = (parts["count"][many] & ~np.uint16(OUTSIDE)).astype(np.int64)
    index = ranges(parts["at"][many].astype(np.int64), counts)
    owners = np.repeat(slots[many], counts)
    numbers = source.rests[index].astype(np.int64)
    texts = np.where(numbers > 0, -1, source.points[index].astype(np.int64) >> 1)
    _mark_named(ranks, owners, texts, numbers)
    return points


def _mark_named(ranks: _Ranks, slots: Ints, texts: Ints, numbers: Ints) -> None:
    known = texts >= 0
    ranks.base[ranks.base_at[slots[known]] + texts[known]] = 1
    extra = numbers > 0
    ranks.extra[ranks.extra_at[slots[extra]] + numbers[extra]] = 1


def _merge_texts(
    strings: dict[int, Strings], known: dict[int, int], ranks: _Ranks
) -> Generator[None, None, dict[int, Strings]]:
    """New dictionaries of the texts that were marked; marks become ranks."""
    fresh = {}
    for slot, held in strings.items():
        base_at, extra_at = int(ranks.base_at[slot]), int(ranks.extra_at[slot])
        texts: list[bytes] = []
        extras = sorted(
            (encoded(text), number)
            for number, text in enumerate(held.extras[: known[slot]])
            if number and ranks.extra[extra_at + number]
        )
        yield
        place, old = 0, np.nonzero(ranks.base[base_at : base_at + len(held.texts)])[0].tolist()
        for at in range(0, len(old), TEXTS_IN_STEP):
            for number in old[at : at + TEXTS_IN_STEP]:
                key = held.texts[number]
                while place < len(extras) and extras[place][0] < key:
                    ranks.extra[extra_at + extras[place][1]] = len(texts)
                    texts.append(extras[place][0])
                    place += 1
                ranks.base[base_at + number] = len(texts)
                texts.append(key)
            yield
        for key, number in extras[place:]:
            ranks.extra[extra_at + number] = len(texts)
            texts.append(key)
        yield
        fresh[slot] = Strings(SortedTexts.of(texts), ordered=held.ordered)
        yield
    return fresh


def _layout(
    sources: list[Source], live: list[Ints], points: int
) -> Generator[None, None, tuple[FrozenRows, list[Ints]]]:
    """Room for the rows, and the new number of each row taken."""
    places = yield from _places([s.owners[rows] for s, rows in zip(sources, live, strict=True)])
    count = sum(len(rows) for rows in live)
    starts, owners = np.zeros(count + 1, np.int32), np.empty(count, np.int32)
    for source, rows, place in zip(sources, live, places, strict=True):
        for at in range(0, len(rows), RUN):
            some, where = rows[at : at + RUN], place[at : at + RUN]
            starts[where + 1] = source.starts[some + 1] - source.starts[some]
            owners[where] = source.owners[some]
            yield
    np.cumsum(starts, out=starts)
    yield
    has_checks = any(len(s.checks) for s in sources)
    checks = np.full(count if has_checks else 0, -1, np.int32)
    made = FrozenRows(
        starts, np.empty(int(starts[-1]), PART), np.empty(points), np.empty(points, np.int32), owners, checks, checks
    )  # fmt: skip
    return made, places


def _places(owners: list[NDArray[np.int32]]) -> Generator[None, None, list[Ints]]:
    """Where each row goes when all are sorted by owner; rows of one owner stay in one source."""
    orders, ordered = [], []
    for some in owners:
        is_sorted = len(some) < 2 or bool((some[1:] >= some[:-1]).all())
        yield
        orders.append(np.arange(len(some)) if is_sorted else np.argsort(some, kind="stable"))
        ordered.append(some if is_sorted else some[orders[-1]])
        yield
    places = []
    for number, (order, some) in enumerate(zip(orders, ordered, strict=True)):
        place = np.empty(len(some), np.int64)
        for at in range(0, len(some), RUN):
            part = some[at : at + RUN]
            rank = np.arange(at, at + len(part))
            for other, theirs in enumerate(ordered):
                if other != number and len(theirs):
                    rank += np.searchsorted(theirs, part)
            place[order[at : at + RUN]] = rank
            yield
        places.append(place)
    return places


def _take(source: Source, rows: Ints, places: Ints, made: FrozenRows, ranks: _Ranks) -> None:
    """Copy rows to their new places with new ranks."""
    parts = source.parts[_parts_of(source, rows)].copy()
    slots = np.minimum(parts["slot"].astype(np.int64), len(ranks.base_at) - 1)
    is_string = np.append(np.diff(ranks.base_at) > 0, False)[slots]
    for bound, rest, upper in (("lo", "lo_rest", False), ("hi", "hi_rest", True)):
        chosen = np.nonzero(is_string & np.isfinite(parts[bound]))[0]
        where = slots[chosen]
        texts, numbers, steps = _named(parts[bound][chosen], parts[rest][chosen], upper=upper)
        ranked = _placed(ranks, where, texts, numbers, steps)
        parts[bound][chosen] = ranked
        parts[rest][chosen] = np.where(np.mod(ranked, 2) == 1, ID_MAX, 0) if upper else 0
    _take_points(source, parts, slots, is_string, made, ranks)
    lengths = source.starts[rows + 1] - source.starts[rows]
    made.parts[ranges(made.starts[places].astype(np.int64), lengths)] = parts


def _placed(ranks: _Ranks, slots: Ints, texts: Ints, numbers: Ints, steps: Ints) -> NDArray[np.float64]:
    base = ranks.base[ranks.base_at[slots] + np.maximum(texts, 0)]
    extra = ranks.extra[ranks.extra_at[slots] + np.where(numbers > 0, numbers, 0)]
    result = 2.0 * np.where(numbers > 0, extra, base) + steps
    return np.asarray(result)


def _take_points(
    source: Source, parts: Any, slots: Ints, is_string: Any, made: FrozenRows, ranks: _Ranks
) -> None:
    """Sets keep their points sorted; their hull is the least and the greatest."""
    many = np.nonzero(parts["count"])[0]
    if not len(many):
        return
    counts = (parts["count"][many] & ~np.uint16(OUTSIDE)).astype(np.int64)
    index = ranges(parts["at"][many].astype(np.int64), counts)
    values, rests = source.points[index], source.rests[index]
    chosen = np.nonzero(np.repeat(is_string[many], counts))[0]
    numbers = rests[chosen].astype(np.int64)
    texts = np.where(numbers > 0, -1, values[chosen].astype(np.int64) >> 1)
    values[chosen] = _placed(
        ranks, np.repeat(slots[many], counts)[chosen], texts, numbers, np.zeros_like(numbers)
    )
    rests[chosen] = 0
    owners = np.repeat(np.arange(len(many)), counts)
    order = np.lexsort((rests, values, owners))
    values, rests = values[order], rests[order]
    at = made.points_used
    made.points_used += len(values)
    made.points[at : at + len(values)], made.rests[at : at + len(values)] = values, rests
    ends = np.cumsum(counts)
    parts["at"][many] = at + ends - counts
    inside = (parts["count"][many] & OUTSIDE) == 0
    for bound, rest, place in (("lo", "lo_rest", ends - counts), ("hi", "hi_rest", ends - 1)):
        parts[bound][many[inside]] = values[place[inside]]
        parts[rest][many[inside]] = rests[place[inside]]


def _take_checks(
    source: Source, rows: Ints, places: Ints, made: FrozenRows, checks: Checks
) -> Generator[None, None, None]:
    if not len(source.checks):
        return
    numbers = source.checks[rows]
    used = np.unique(numbers[numbers >= 0])
    fresh = np.full(len(source.asked.all) + 1, -1, np.int32)
    for at in range(0, len(used), TEXTS_IN_STEP):
        for number in used[at : at + TEXTS_IN_STEP].tolist():
            fresh[number] = checks.number(source.asked.all[number])
        yield
    made.checks[places] = fresh[numbers]

"""Freezing: live rows of a table and of its delta become the rows of the next table.

The work is a generator of small steps, so that its caller never waits long.
Texts get new ranks: an even position 2k names text k; an odd one as a lower bound means
"just above text k" and as an upper bound "just below the next", and stays so.

Geometry: how the values of a slot are cut into buckets.

*Edges* are taken from the constraints' own bounds (the most frequent ones, and quantiles of
the rest), at most 2046 a slot, so that most constraints begin and end on an edge and need
no exact check. *Cells* group neighbouring buckets so that each cell of a slot sees an equal
share of the events; how many there are depends on how wide the slot's constraints are and
on how many rows there are. Shares come from a sample of the events seen; without one every
bucket counts the same.

On string slots edges lie at even positions: a value at an odd position (a text that no
constraint names) is *doubtful*, and is always checked exactly. So is an integer that is no double.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.columnar.layout import PART
from tidings.matching.columnar.programs import Checks
from tidings.matching.columnar.rows import OUTSIDE, FilterRows, FrozenRows
from tidings.matching.columnar.slots import ID_MAX, ID_MIN, SortedTexts, Strings, encoded

# -- freeze ------------------------------------------------------------------------------------

ROWS_IN_STEP = 512
TEXTS_IN_STEP = 512
RUN = 1 << 15  # numbers that a plain array operation takes at once
Ints = NDArray[np.int64]


@dataclass
class RowSource:
    """Rows to copy: those with an owner that is not negative."""

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


def source_of(rows: FilterRows) -> RowSource:
    """Growing rows as a source."""
    count = len(rows)
    has_checks = bool(rows.table.all)
    return RowSource(
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


def freeze(sources: list[RowSource], strings: dict[int, Strings]) -> Generator[None, None, Frozen]:
    """The rows of the next table, sorted by owner.

    Everything is as of now: what is removed or added between the steps is the journal's matter.
    """
    strings = dict(strings)
    extras = {slot: len(string_table.extras) for slot, string_table in strings.items()}
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
    made, positions = yield from _layout(sources, live, points)
    for number, (source, rows) in enumerate(zip(sources, live, strict=True)):
        for at in range(0, len(rows), ROWS_IN_STEP):
            _take(
                source, rows[at : at + ROWS_IN_STEP], positions[number][at : at + ROWS_IN_STEP], made, ranks
            )
            yield
        yield from _take_checks(source, rows, positions[number], made, checks)
    return Frozen(made, fresh, checks)


def _room_for(strings: dict[int, Strings], extras: dict[int, int]) -> _Ranks:
    slots = max(strings, default=0) + 2
    base_at, extra_at = np.zeros(slots + 1, np.int64), np.zeros(slots + 1, np.int64)
    for slot, string_table in strings.items():
        base_at[slot + 1] = len(string_table.texts) + 1
        extra_at[slot + 1] = extras[slot]
    base_at, extra_at = np.cumsum(base_at), np.cumsum(extra_at)
    return _Ranks(
        base_at, extra_at, np.zeros(int(base_at[-1]) + 1, np.int64), np.zeros(int(extra_at[-1]) + 1, np.int64)
    )


def _parts_of(source: RowSource, rows: Ints) -> Ints:
    starts = source.starts[rows].astype(np.int64)
    return ranges(starts, source.starts[rows + 1] - starts)


def _named(position: NDArray[np.float64], rest: NDArray[np.int32], *, upper: bool) -> tuple[Ints, Ints, Ints]:
    """The text that a bound names: (text number or -1, extra id or 0, step above or below it)."""
    rest = rest.astype(np.int64)
    whole = np.where(np.isfinite(position), position, 0).astype(np.int64)
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


def _mark(source: RowSource, rows: Ints, ranks: _Ranks, strings: dict[int, Strings]) -> int:
    """Note which texts are still named; how many points the rows have."""
    parts = source.parts[_parts_of(source, rows)]
    points = int((parts["count"] & ~np.uint16(OUTSIDE)).sum(dtype=np.int64))
    parts = _string_parts(parts, strings)
    slots = parts["slot"].astype(np.int64)
    for position, rest, upper in (
        (parts["lo"], parts["lo_rest"], False),
        (parts["hi"], parts["hi_rest"], True),
    ):
        bounded = np.isfinite(position)
        _mark_named(ranks, slots[bounded], *_named(position[bounded], rest[bounded], upper=upper)[:2])
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
    for slot, string_table in strings.items():
        base_at, extra_at = int(ranks.base_at[slot]), int(ranks.extra_at[slot])
        texts: list[bytes] = []
        extras = sorted(
            (encoded(text), number)
            for number, text in enumerate(string_table.extras[: known[slot]])
            if number and ranks.extra[extra_at + number]
        )
        yield
        position, old = 0, np.nonzero(ranks.base[base_at : base_at + len(string_table.texts)])[0].tolist()
        for at in range(0, len(old), TEXTS_IN_STEP):
            for number in old[at : at + TEXTS_IN_STEP]:
                key = string_table.texts[number]
                while position < len(extras) and extras[position][0] < key:
                    ranks.extra[extra_at + extras[position][1]] = len(texts)
                    texts.append(extras[position][0])
                    position += 1
                ranks.base[base_at + number] = len(texts)
                texts.append(key)
            yield
        for key, number in extras[position:]:
            ranks.extra[extra_at + number] = len(texts)
            texts.append(key)
        yield
        fresh[slot] = Strings(SortedTexts.of(texts), ordered=string_table.ordered)
        yield
    return fresh


def _layout(
    sources: list[RowSource], live: list[Ints], points: int
) -> Generator[None, None, tuple[FrozenRows, list[Ints]]]:
    """Room for the rows, and the new number of each row taken."""
    positions = yield from _places([s.owners[rows] for s, rows in zip(sources, live, strict=True)])
    count = sum(len(rows) for rows in live)
    starts, owners = np.zeros(count + 1, np.int32), np.empty(count, np.int32)
    for source, rows, position in zip(sources, live, positions, strict=True):
        for at in range(0, len(rows), RUN):
            some, where = rows[at : at + RUN], position[at : at + RUN]
            starts[where + 1] = source.starts[some + 1] - source.starts[some]
            owners[where] = source.owners[some]
            yield
    np.cumsum(starts, out=starts)
    yield
    has_checks = any(len(s.checks) for s in sources)
    checks = np.full(count if has_checks else 0, -1, np.int32)
    made = FrozenRows(
        starts, np.empty(int(starts[-1]), PART), np.empty(points), np.empty(points, np.int32), owners, checks,
        checks
    )  # fmt: skip
    return made, positions


def _places(owners: list[NDArray[np.int32]]) -> Generator[None, None, list[Ints]]:
    """Target of each row when all are sorted by owner; rows of one owner stay in one source."""
    orders, ordered = [], []
    for some in owners:
        is_sorted = len(some) < 2 or bool((some[1:] >= some[:-1]).all())
        yield
        orders.append(np.arange(len(some)) if is_sorted else np.argsort(some, kind="stable"))
        ordered.append(some if is_sorted else some[orders[-1]])
        yield
    positions = []
    for number, (order, some) in enumerate(zip(orders, ordered, strict=True)):
        position = np.empty(len(some), np.int64)
        for at in range(0, len(some), RUN):
            part = some[at : at + RUN]
            rank = np.arange(at, at + len(part))
            for other, theirs in enumerate(ordered):
                if other != number and len(theirs):
                    rank += np.searchsorted(theirs, part)
            position[order[at : at + RUN]] = rank
            yield
        positions.append(position)
    return positions


def _take(source: RowSource, rows: Ints, positions: Ints, made: FrozenRows, ranks: _Ranks) -> None:
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
    made.parts[ranges(made.starts[positions].astype(np.int64), lengths)] = parts


def _placed(ranks: _Ranks, slots: Ints, texts: Ints, numbers: Ints, steps: Ints) -> NDArray[np.float64]:
    base = ranks.base[ranks.base_at[slots] + np.maximum(texts, 0)]
    extra = ranks.extra[ranks.extra_at[slots] + np.where(numbers > 0, numbers, 0)]
    result = 2.0 * np.where(numbers > 0, extra, base) + steps
    return np.asarray(result)


def _take_points(
    source: RowSource, parts: Any, slots: Ints, is_string: Any, made: FrozenRows, ranks: _Ranks
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
    for bound, rest, position in (("lo", "lo_rest", ends - counts), ("hi", "hi_rest", ends - 1)):
        parts[bound][many[inside]] = values[position[inside]]
        parts[rest][many[inside]] = rests[position[inside]]


def _take_checks(
    source: RowSource, rows: Ints, positions: Ints, made: FrozenRows, checks: Checks
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
    made.checks[positions] = fresh[numbers]


# -- geometry ----------------------------------------------------------------------------------

MOST_EDGES = 2046
MOST_ACCESS_SLOTS = 56
PARTS_SAMPLED = 65_536
PARTS_IN_STEP = 8192
ASSUMED_PRESENCE = 0.5  # of an attribute, before any event was seen
ANYWHERE = 0.1  # share of the events that may hold any value: a sample is of the past, and values drift
WANTED_COVER = 4.0  # cells that an average constraint of a slot covers

Floats = NDArray[np.float64]


@dataclass
class SlotEdges:
    """Buckets of every slot: those of slot s begin at edges[at[s]:at[s + 1]]."""

    at: NDArray[np.int32]
    edges: Floats
    shares_at: NDArray[np.int32]
    shares: Floats  # cumulative share of events by bucket; one more entry than buckets
    widths: Floats  # mean share of a slot's constraints, given that it is present
    counts: NDArray[np.int64]  # constraints by slot

    def buckets(self, slot: int) -> int:
        return int(self.at[slot + 1] - self.at[slot]) + 1


@dataclass
class SlotGrid:
    """Cells of the access slots, and where the cells of each pair begin."""

    access: NDArray[np.int32]  # slot -> access number, or -1
    lut_at: NDArray[np.int32]  # access number -> where its buckets begin in `lut`
    lut: NDArray[np.uint16]  # bucket -> cell
    first_at: NDArray[np.int32]  # access number -> where its cells begin in `first`
    first: NDArray[np.int32]  # cell -> its first bucket; one more entry than cells
    sizes: NDArray[np.int64]  # access number -> cells; the last is 1 (no second slot)
    pairs: NDArray[np.int64]  # pair of access numbers -> number of its first cell, or -1
    singles: NDArray[np.int64]  # slot -> its first cell by bucket, or -1
    cells: int


@dataclass
class Extended:
    """Geometry over more slots than it was made for: the newer ones have no edges and no cells."""

    edges_at: NDArray[np.int32]
    shares_at: NDArray[np.int32]
    shares: Floats
    access: NDArray[np.int32]
    singles: NDArray[np.int64]


def extended_geometry(edges: SlotEdges, grid: SlotGrid, slots: int) -> Extended:
    known = len(grid.singles)
    more = max(0, slots - known)
    return Extended(
        np.concatenate((edges.at[: known + 1], np.full(more, edges.at[known], np.int32))),
        np.concatenate((edges.shares_at[: known + 1], np.full(more, len(edges.shares), np.int32))),
        np.concatenate((edges.shares, np.array([0.0, 0.5, 0.5]))),
        np.concatenate((grid.access, np.full(more, -1, np.int32))),
        np.concatenate((grid.singles, np.full(more, -1, np.int64))),
    )


def thresholds(parts: Any, points: Floats, strings: NDArray[np.uint8]) -> tuple[NDArray[Any], Floats]:
    """Slots and the values at which a condition begins or ends to hold."""
    slots, found = [], []
    counts = (parts["count"] & ~np.uint16(OUTSIDE)).astype(np.int64)
    for bound, rest, upper in (("lo", "lo_rest", False), ("hi", "hi_rest", True)):
        chosen = np.isfinite(parts[bound]) & (counts == 0)
        value, position = parts[bound][chosen], parts["slot"][chosen]
        text = strings[position] > 0
        slots.append(position)
        found.append(_edges_of(value, parts[rest][chosen], text, upper))
    many = counts > 0
    index = ranges(parts["at"][many].astype(np.int64), counts[many])
    position, value = np.repeat(parts["slot"][many], counts[many]), points[index]
    text = strings[position] > 0
    for upper in (False, True):
        slots.append(position)
        found.append(_edges_of(value, np.zeros(len(value)), text, upper))
    return np.concatenate(slots), np.concatenate(found)


def _edges_of(value: Floats, rest: NDArray[Any], text: NDArray[Any], upper: bool) -> Floats:
    """Values at which bounds begin to hold or (`upper`) cease to."""
    result = value.copy()
    odd = np.mod(value[text], 2) == 1
    result[text] += np.where(odd, 1.0, 2.0 if upper else 0.0)
    further = ~text & (rest >= 0 if upper else rest > 0)
    with np.errstate(over="ignore"):  # the next double after the greatest is infinity, as it should be
        result[further] = np.nextafter(value[further], np.inf)
    return result


def chosen_edges(values: Floats, most: int = MOST_EDGES) -> Floats:
    """At most `most` of the values: the frequent ones, and quantiles of the rest."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= most:
        return distinct
    frequent = np.argsort(-counts, kind="stable")[: most // 2]
    rest = np.delete(np.arange(len(distinct)), frequent)
    spread = rest[np.linspace(0, len(rest) - 1, most - len(frequent)).astype(np.int64)]
    return np.asarray(distinct[np.unique(np.concatenate((frequent, spread)))])


def find_edges(
    rows: FrozenRows, strings: NDArray[np.uint8], sample: Floats | None
) -> Generator[None, None, SlotEdges]:
    """The edges of every slot, and the share of events in every bucket."""
    slots = len(strings)
    parts = _some_parts(rows)
    times = len(rows.parts) / max(1, len(parts))
    yield
    positions, values = [np.zeros(0, np.uint16)], [np.zeros(0)]
    for start in range(0, len(parts), PARTS_IN_STEP):
        position, value = thresholds(parts[start : start + PARTS_IN_STEP], rows.points, strings)
        positions.append(position)
        values.append(value)
        yield
    cuts, value = _grouped_by(np.concatenate(positions), np.concatenate(values), slots)
    part_cuts, parts = _grouped_by(parts["slot"], parts, slots)
    yield
    edges, shares, widths = [], [], np.ones(slots)
    for slot in range(slots):
        edges.append(chosen_edges(value[cuts[slot] : cuts[slot + 1]]))
        shares.append(_shares(edges[slot], sample[:, slot] if sample is not None else None))
        mine = parts[part_cuts[slot] : part_cuts[slot + 1]]
        if len(mine) and len(edges[slot]):
            widths[slot] = _mean_width(mine, edges[slot], shares[slot])
        yield
    at, shares_at = np.zeros(slots + 1, np.int32), np.zeros(slots + 1, np.int32)
    np.cumsum([len(e) for e in edges], out=at[1:])
    np.cumsum([len(s) for s in shares], out=shares_at[1:])
    nothing = [np.zeros(0)]
    counts = (np.diff(part_cuts) * times).astype(np.int64)
    return SlotEdges(
        at, np.concatenate(edges or nothing), shares_at, np.concatenate(shares or nothing), widths, counts
    )


def _some_parts(rows: FrozenRows) -> Any:
    """Parts drawn over all rows; not by a stride, which rows of equal length would fall in step with."""
    if len(rows.parts) <= PARTS_SAMPLED:
        return rows.parts
    rng = np.random.default_rng(len(rows.parts))
    return rows.parts[np.sort(rng.integers(0, len(rows.parts), PARTS_SAMPLED))]


def _grouped_by(slots: NDArray[Any], stored: Any, count: int) -> tuple[NDArray[np.int64], Any]:
    order = np.argsort(slots, kind="stable")
    return np.searchsorted(slots[order], np.arange(count + 1)), stored[order]


def _shares(edges: Floats, seen: Floats | None) -> Floats:
    buckets = len(edges) + 1
    if seen is None or not len(seen):
        mass = np.full(buckets, ASSUMED_PRESENCE / buckets)
    else:
        present = seen[~np.isnan(seen)]
        hits = np.bincount(np.searchsorted(edges, present, side="right"), minlength=buckets)
        spread = (len(present) + 0.5) / buckets
        mass = ((1 - ANYWHERE) * hits + ANYWHERE * spread) / (len(seen) + 1)
    return np.concatenate((np.zeros(1), np.cumsum(mass)))


def _mean_width(parts: Any, edges: Floats, shares: Floats) -> float:
    """The mean share that constraints take of the events that hold the slot."""
    sizes = parts["count"]
    low = np.searchsorted(edges, parts["lo"], side="right")
    high = np.searchsorted(edges, parts["hi"], side="right")
    wide = shares[high + 1] - shares[low]
    some = np.where((sizes > 0) & (sizes < OUTSIDE), sizes * shares[-1] / len(edges), wide)
    return max(float(np.minimum(wide, some).mean()) / max(float(shares[-1]), 1e-9), 1e-4)


def make_grid(edges: SlotEdges, rows: int, budget: int) -> SlotGrid:
    """Cells for the most used slots, about `budget` for all pairs together."""
    slots = len(edges.at) - 1
    cut = np.where(np.diff(edges.at) > 0, edges.counts, 0)  # a slot of one bucket separates no values
    used = np.argsort(-cut, kind="stable")[:MOST_ACCESS_SLOTS]
    used = np.sort(used[cut[used] > 0])
    access = np.full(slots, -1, np.int32)
    access[used] = np.arange(len(used))
    wanted = np.array(
        [min(edges.buckets(s), max(16, int(WANTED_COVER / edges.widths[s]))) for s in used.tolist()], np.int64
    )
    sizes = _fitting(wanted, budget, rows)
    luts, firsts = [], []
    for slot, size in zip(used.tolist(), sizes.tolist(), strict=True):
        lut = _grouped(edges.shares[edges.shares_at[slot] : edges.shares_at[slot + 1]], size)
        luts.append(lut)
        firsts.append(np.concatenate((np.nonzero(np.diff(lut, prepend=-1))[0], [len(lut)])))
    counts = np.array([len(f) - 1 for f in firsts] + [1], np.int64)
    return SlotGrid(
        access=access,
        lut_at=np.cumsum([0, *(len(x) for x in luts)]).astype(np.int32),
        lut=np.concatenate([*luts, np.zeros(1)]).astype(np.uint16),
        first_at=np.cumsum([0, *(len(x) for x in firsts)]).astype(np.int32),
        first=np.concatenate([*firsts, np.zeros(1)]).astype(np.int32),
        sizes=counts,
        pairs=np.full((len(counts), len(counts)), -1, np.int64),
        singles=np.full(slots, -1, np.int64),
        cells=1,
    )


def _fitting(wanted: NDArray[np.int64], budget: int, rows: int) -> NDArray[np.int64]:
    """Cells by slot, cut at one height so that all pairs fit into the budget."""
    low, high = 2, max(4, int(wanted.max(initial=1)))
    while low < high:
        cut = (low + high + 1) // 2
        sizes = np.minimum(wanted, cut).astype(np.float64)
        pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2
        if pairs <= budget and cut <= max(16, rows):
            low = cut
        else:
            high = cut - 1
    return np.asarray(np.minimum(wanted, low))


def _grouped(shares: Floats, size: int) -> NDArray[np.int64]:
    """Buckets to cells of equal share."""
    buckets = len(shares) - 1
    if buckets <= size:
        return np.arange(buckets)
    # half by share of events, half by number of buckets: an unseen region keeps some resolution
    total = float(shares[-1]) or 1.0
    middle = (shares[:-1] + shares[1:]) / (2 * total)
    rank = 0.85 * middle + 0.15 * (np.arange(buckets) + 0.5) / buckets
    return np.asarray(np.unique(np.floor(rank * size).astype(np.int64), return_inverse=True)[1])


def lay_out(grid: SlotGrid, edges: SlotEdges, used: NDArray[Any], single: NDArray[Any]) -> None:
    """Number the cells of the pairs in use (a matrix of flags) and of the slots used alone."""
    cell = 1  # cell 0: rows that every event must look at
    last = len(grid.sizes) - 1
    for a in range(last):
        for b in range(a + 1, last + 1):
            if used[a, b]:
                grid.pairs[a, b] = cell
                cell += int(grid.sizes[a] * grid.sizes[b])
    for slot in np.nonzero(single)[0].tolist():
        grid.singles[slot] = cell
        cell += edges.buckets(slot)
    grid.cells = cell

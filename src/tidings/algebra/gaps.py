"""Where is a region not covered by a union of regions?

Rules
- Along each attribute the bounds of the large regions cut the small one into cells; inside a cell
  no bound lies, so a large region holds all of it or none. A cell keeps, as bits of an integer,
  which regions hold all of it (`full`) and which have some part in it (`touch`; more than `full`
  only where patterns, lineages or residuals are not told apart by cells).
- A choice of one cell for each attribute is a block. If the `full` bits of its cells have no bit in
  common, the block lies in no single region. It is certainly a gap if at most one region touches
  it, because that region does not hold all of it.
- If the regions that hold one cell are a subset of those that hold another, the other cell is dropped.
  The remaining cells are searched depth first; the problem is co-NP complete, so the search has a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tidings.algebra import domain as dm
from tidings.algebra import intervals as iv
from tidings.algebra.domain import ABSENT, ANYTHING, Domain
from tidings.algebra.intervals import Cut, Interval
from tidings.algebra.lineage import ANY_LINEAGE
from tidings.algebra.region import TYPE, Region
from tidings.model.value import Kind, Value

_ALL_PAIRS = 512  # cells of one attribute up to which every pair is compared for needless ones


class GapCell(NamedTuple):
    """A part of one attribute's domain, and the regions that hold all or some of it."""

    full: int
    touch: int
    domain: Domain | None  # None: not a set of plain values (a lineage, a residual)
    certain: bool = True  # surely not empty, and no region missing in `full` holds all of it

    def makes_needless(self, other: GapCell) -> bool:
        return (
            self.full & ~other.full == 0
            and self.touch & ~other.touch == 0
            and (self.certain or not other.certain)
        )


@dataclass(frozen=True)
class Gap:
    """A block that no single region holds."""

    cells: tuple[GapCell, ...]
    certain: bool


@dataclass(frozen=True)
class GapGrid:
    """The cells of a small region under a union of large ones, attribute by attribute."""

    small: Region
    names: tuple[str, ...]
    levels: tuple[tuple[GapCell, ...], ...]
    near: tuple[Region, ...]  # large regions that touch it

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        product = 1
        for level in self.levels:
            product *= len(level)
        return product

    def domains_of(self, gap: Gap) -> dict[str, Domain] | None:
        """The domain of each attribute in the gap; None when plain values cannot say where it lies."""
        domains = dict(self.small.domains)
        for name, cell in zip(self.names, gap.cells, strict=True):
            if cell.domain is None:
                return None
            domains[name] = cell.domain
        return None if self.small.residuals or self.small.lineage != ANY_LINEAGE else domains

    def witness(self, domains: Mapping[str, Domain]) -> dict[str, Value | None] | None:
        """Values in these domains that no large region holds, tried before they are given (None is absent);
        None: none was found."""
        values = {name: dm.some_value(domain) for name, domain in domains.items()}
        if not _holds(self.small, values):
            return None
        holding = next((large for large in self.near if _holds(large, values)), None)
        if holding is None:
            return values
        for name, domain in holding.domains.items():  # one attribute is outside, by a pattern
            for piece in dm.difference(domains.get(name, ANYTHING), domain):
                changed = {**values, name: dm.some_value(piece)} if not dm.decide_empty(piece) else values
                if _holds(self.small, changed) and not any(_holds(large, changed) for large in self.near):
                    return changed
        return None


def _holds(region: Region, values: Mapping[str, Any]) -> bool:
    """May the region hold an event with these values? Residuals and lineages are taken to be met."""
    return all(domain.accepts(values.get(name)) for name, domain in region.domains.items())


def grid_of(small: Region, larges: Sequence[Region]) -> GapGrid:
    """The grid of a region that is not empty; regions that do not touch it are left out."""
    inner = small.tight
    near = [large for large in larges if _touches(inner, large)]
    names = {name for large in near for name in large.domains}
    if any(large.lineage != ANY_LINEAGE for large in near):
        names.add(TYPE)
    levels = [(name, _needed(list(_level(name, inner, near)))) for name in sorted(names)]
    everyone = (1 << len(near)) - 1
    met = sum(1 << i for i, large in enumerate(near) if large.residuals <= inner.residuals)
    if met != everyone:
        levels.append(("", (GapCell(met, everyone, None, certain=False),)))
    levels.sort(key=lambda level: len(level[1]))  # the longest is scanned last
    return GapGrid(inner, tuple(name for name, _ in levels), tuple(cells for _, cells in levels), tuple(near))


def _touches(inner: Region, large: Region) -> bool:
    if inner.lineage.intersection(large.lineage).is_empty:
        return False
    return not any(dm.decide_disjoint(inner.domain(name), domain) for name, domain in large.domains.items())


def _level(name: str, inner: Region, near: list[Region]) -> Iterator[GapCell]:
    cells = _cells(inner.domain(name), [large.domain(name) for large in near])
    if name != TYPE or all(large.lineage == ANY_LINEAGE for large in near):
        return cells
    return (_typed(cell, inner, near) for cell in cells)


def _typed(cell: GapCell, inner: Region, near: list[Region]) -> GapCell:
    """A cell of types, together with the lineages that its types can have."""
    assert cell.domain is not None
    lineage = Region({TYPE: cell.domain}, inner.lineage).tight.lineage
    full, touch = cell.full, cell.touch
    for i, large in enumerate(near):
        if not lineage.within(large.lineage):
            full &= ~(1 << i)
        if lineage.intersection(large.lineage).is_empty:
            touch &= ~(1 << i)
    return GapCell(full, touch, None, cell.certain)


def _cells(small: Domain, larges: list[Domain]) -> Iterator[GapCell]:
    """The cells of one attribute, in order."""
    if small.absent:
        bits = sum(1 << i for i, large in enumerate(larges) if large.absent)
        yield GapCell(bits, bits, ABSENT)
    for kind in Kind:
        for interval, bits in _pieces(kind, small, larges):
            piece = dm.of_kind(kind, (interval,))
            if kind is Kind.STRING:
                yield from _string_cell(piece._replace(patterns=small.patterns), bits, larges)
            else:
                yield GapCell(bits, bits, piece)


def _pieces(kind: Kind, small: Domain, larges: list[Domain]) -> Iterator[tuple[Interval, int]]:
    """The small domain cut at every bound, each piece with the large domains that hold it."""
    toggles: dict[Cut, int] = {}
    for i, large in enumerate(larges):
        for start, end in large.kinds[kind]:
            toggles[start] = toggles.get(start, 0) ^ (1 << i)
            toggles[end] = toggles.get(end, 0) ^ (1 << i)
    cuts = sorted(toggles)
    position = bits = 0
    for low, high in small.kinds[kind]:
        while low < high:
            while position < len(cuts) and cuts[position] <= low:
                bits ^= toggles[cuts[position]]
                position += 1
            stop = min(cuts[position], high) if position < len(cuts) else high
            if iv.holds_value(low, stop):
                yield (low, stop), bits
            low = stop


def _string_cell(piece: Domain, bits: int, larges: list[Domain]) -> Iterator[GapCell]:
    """A piece of strings, where patterns may hold only a part of it."""
    empty = dm.decide_empty(piece)
    if empty:
        return
    full = touch = bits
    known = empty is False
    for i, large in enumerate(larges):
        if bits >> i & 1 and large.patterns:
            within = dm.decide_within(piece, large)
            known = known and within is not None
            if within is not True:
                full &= ~(1 << i)
            if dm.decide_disjoint(piece, large):
                touch &= ~(1 << i)
    yield GapCell(full, touch, piece, certain=known)


def _needed(cells: list[GapCell]) -> tuple[GapCell, ...]:
    """The cells without the needless ones: first against neighbours, then, when few, all pairs."""
    kept: list[GapCell] = []
    for cell in cells:
        if kept and kept[-1].makes_needless(cell):
            continue
        while kept and cell.makes_needless(kept[-1]):
            kept.pop()
        kept.append(cell)
    if len(kept) > _ALL_PAIRS:
        return tuple(kept)
    least: list[GapCell] = []
    for cell in sorted(kept, key=lambda c: (c.full.bit_count(), c.touch.bit_count(), not c.certain)):
        if not any(other.makes_needless(cell) for other in least):
            least.append(cell)
    return tuple(least)


class GapSearch:
    """A depth-first search for a gap, with a budget of steps."""

    def __init__(self, grid: GapGrid, budget: int) -> None:
        self._levels = grid.levels
        self._everyone = (1 << len(grid.near)) - 1
        self._done: set[tuple[int, int, int]] = set()
        self._doubtful: Gap | None = None
        self.steps_left = budget

    @property
    def is_exhausted(self) -> bool:
        return self.steps_left <= 0

    def run(self) -> Gap | None:
        """A gap, a certain one if there is; None: no gap, unless the budget is exhausted."""
        return self._descend(0, self._everyone, self._everyone, ()) or self._doubtful

    def _descend(self, level: int, full: int, touch: int, chosen: tuple[GapCell, ...]) -> Gap | None:
        if full == 0:
            return self._settle(chosen, touch)
        if level == len(self._levels) or (level, full, touch) in self._done:
            return None
        for cell in self._levels[level]:
            self.steps_left -= 1
            if self.steps_left <= 0:
                return None
            found = self._descend(level + 1, full & cell.full, touch & cell.touch, (*chosen, cell))
            if found is not None:
                return found
        self._done.add((level, full, touch))
        return None

    def _settle(self, chosen: tuple[GapCell, ...], touch: int) -> Gap | None:
        """Fill the block up so that few regions touch it; keep a doubtful gap for later."""
        for level in self._levels[len(chosen) :]:
            cell = min(level, key=lambda c: (touch & c.touch).bit_count())
            chosen, touch = (*chosen, cell), touch & cell.touch
        gap = Gap(chosen, touch.bit_count() <= 1 and all(cell.certain for cell in chosen))
        if gap.certain:
            return gap
        self._doubtful = self._doubtful or gap
        return None


def random_gap(grid: GapGrid, trials: int, rng: Random) -> Gap | None:
    """Draw blocks at random until one is a gap, at most `trials` times."""
    everyone = (1 << len(grid.near)) - 1
    for _ in range(trials):
        full = touch = everyone
        chosen = []
        for level in grid.levels:
            cell = level[int(rng.random() * len(level))]
            full &= cell.full
            touch &= cell.touch
            chosen.append(cell)
        if full == 0:
            return Gap(tuple(chosen), touch.bit_count() <= 1 and all(cell.certain for cell in chosen))
    return None

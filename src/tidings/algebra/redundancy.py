"""Filters of a list that others of the list cover, so that all of them can be dropped together.

Rules
- A filter is dropped only while a filter that covers it is kept, so there is no cycle: of equal filters the
  first stays. Whatever a dropped filter accepts, a kept one accepts.
- No kept filter is covered by another kept one, as far as `covers` says.
- Pairs that cannot be are left out: what covers a conjunction constrains no attribute that it leaves free,
  and demands no value that it excludes. Filters of several conjunctions are compared with every other one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidings.algebra import domain as dm
from tidings.algebra.covers import covers
from tidings.algebra.region import TYPE, Region, regions_of
from tidings.algebra.satisfiability import can_match
from tidings.model.event import LINEAGE
from tidings.model.filter import Filter
from tidings.model.value import Kind, kind_of

_Shape = frozenset[str | bytes]  # names that are constrained, and keys of residuals
_Anchor = tuple[str, Kind | None, object]  # an attribute and one value that it must have


def redundant(filters: Sequence[Filter]) -> dict[int, int | None]:
    """The positions of the filters that the rest of the list makes needless, each with the position of a
    filter that stays and covers it; None: it can never match. They can all be dropped together.

    Of equal filters the first stays. So does a filter of which it is not known whether another covers it, and
    one that several cover together only (`covered_by_union`).
    """
    dropped: dict[int, int | None] = {}
    alive: dict[int, Filter] = {}
    first: dict[str, int] = {}
    for position, filter in enumerate(filters):
        kept = first.setdefault(filter.digest, position)
        if kept != position:
            dropped[position] = kept
        elif can_match(filter) is False:
            dropped[position] = None
        else:
            alive[position] = filter
    index = _CoverIndex(alive)
    for position in reversed(alive):
        cover = next((n for n in index.covering(position) if covers(filters[n], filters[position])), None)
        if cover is not None:
            dropped[position] = cover
            index.drop(position)
    return {position: _kept(dropped, position) for position in sorted(dropped)}


def _kept(dropped: dict[int, int | None], position: int) -> int | None:
    """The filter that stays at the end of a chain: covering is transitive."""
    cover: int | None = position
    while cover is not None and cover in dropped:
        cover = dropped[cover]
    return cover


class _CoverIndex:
    """The filters that may cover another one, by what they constrain and by a value that they demand."""

    def __init__(self, filters: dict[int, Filter]) -> None:
        self._regions = {position: regions_of(filter) for position, filter in filters.items()}
        self._dropped: set[int] = set()
        self._several: list[int] = []  # filters of several conjunctions
        self._by_shape: dict[_Shape, dict[_Anchor | None, list[int]]] = {}
        for position, regions in self._regions.items():
            if len(regions) != 1:
                self._several.append(position)
                continue
            found = self._by_shape.setdefault(_shape(regions[0]), {})
            for anchor in _anchors(regions[0]):
                found.setdefault(anchor, []).append(position)

    def drop(self, position: int) -> None:
        self._dropped.add(position)

    def covering(self, position: int) -> Iterator[int]:
        """The other filters that may cover one, those with the fewest constraints first; a filter may come
        twice."""
        regions = self._regions[position]
        first = next((region for region in regions if not region.is_empty), regions[0])
        for other in self._candidates(first):
            if other != position and other not in self._dropped:
                yield other

    def _candidates(self, region: Region) -> Iterator[int]:
        shape, demanded = _shape(region), _demanded(region)
        for wide in sorted(self._by_shape, key=len):
            if wide <= shape:
                found = self._by_shape[wide]
                for anchor in (None, *demanded):
                    yield from found.get(anchor, ())
        yield from self._several


def _shape(region: Region) -> _Shape:
    names = {name for name in region.domains if name != LINEAGE}
    if region.lineage != Region({}).lineage:
        names.add(TYPE)
    return frozenset({*names, *region.residuals})


def _anchors(wide: Region) -> list[_Anchor | None]:
    """The demands of which a region must make one to lie within this one; None: no demand is needed."""
    for name, domain in sorted(wide.domains.items()):
        values = dm.values_of(domain)
        if values:
            return [(name, kind_of(value), value) for value in values]
    return [None]


def _demanded(region: Region) -> list[_Anchor]:
    """For each attribute of finitely many values one of them."""
    finite = ((name, dm.values_of(domain)) for name, domain in region.tight.domains.items())
    return [(name, kind_of(values[0]), values[0]) for name, values in finite if values]

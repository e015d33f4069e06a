"""Cells: a partition of the space of events, for assignment and for partitioning.

Rules
- `resolve(event)` is the cell of an event; `assign(filter)` are the cells in which an event may lie
  that the filter accepts. So whenever an event matches a filter, the two have a cell in common:
  assign ∩ resolve ≠ ∅ (Virgillito's thesis, section 2.4.3 and Figure 2.4).
- Cells are numbered from 0; answers are sorted; the same settings give the same numbers in every
  process.
- An event that lacks the attribute, or has another kind of value there, has its own place: the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from itertools import product
from math import prod
from typing import Any, Protocol

from tidings.algebra import domain as dm
from tidings.algebra import intervals as iv
from tidings.algebra.domain import Domain
from tidings.algebra.intervals import BOTTOM, TOP, Cut
from tidings.algebra.region import Region, regions_of
from tidings.errors import FilterError
from tidings.model.event import LINEAGE, Event
from tidings.model.filter import Filter
from tidings.model.value import Kind, Value, kind_of, sort_key, utc


class Cells(Protocol):
    """A partition of the space of events."""

    @property
    def count(self) -> int:
        """Number of cells."""

    def assign(self, filter: Filter) -> tuple[int, ...]:
        """The cells that a filter must be present in; none for one that is never true."""

    def resolve(self, event: Event) -> tuple[int, ...]:
        """The cells in which an event is looked up."""


@dataclass(frozen=True)
class Axis:
    """One attribute cut at some values of one kind: cell i reaches from cut i-1 up to below cut i."""

    attribute: str
    cuts: tuple[Any, ...]  # of Value, ascending

    def __post_init__(self) -> None:
        kinds = {kind_of(cut) for cut in self.cuts}
        if len(kinds) != 1 or None in kinds or list(self.cuts) != sorted(set(self.cuts)):
            raise FilterError(
                f"the cuts of {self.attribute!r} are {self.cuts}",
                hint="give different values of one kind, ascending",
            )

    @cached_property
    def kind(self) -> Kind:
        kind = kind_of(self.cuts[0])
        assert kind is not None
        return kind

    @property
    def rest(self) -> int:
        """The place of events that lack the attribute or have another kind of value."""
        return len(self.cuts) + 1

    def place(self, value: Any) -> int:
        return bisect_right(self.cuts, value) if kind_of(value) is self.kind else self.rest

    @cached_property
    def _edges(self) -> list[Cut]:
        return [BOTTOM, *(iv.before(cut) for cut in self.cuts), TOP]

    def places(self, domain: Domain) -> list[int]:
        """The places where a value of the domain may lie, in order."""
        found: dict[int, None] = {}
        for start, end in domain.kinds[self.kind]:
            first = bisect_right(self._edges, start) - 1
            found.update(dict.fromkeys(range(first, bisect_left(self._edges, end))))
        positions = [
            position for position in found if not domain.patterns or self._may_hold(position, domain)
        ]
        if domain.absent or any(domain.kinds[kind] for kind in Kind if kind is not self.kind):
            positions.append(self.rest)
        return positions

    def _may_hold(self, position: int, domain: Domain) -> bool:
        here = dm.of_kind(self.kind, ((self._edges[position], self._edges[position + 1]),))
        return dm.decide_disjoint(here, domain) is not True


@dataclass(frozen=True)
class GridCells:
    """A grid over chosen attributes: each axis has its cuts' cells and one place for the rest."""

    axes: tuple[Axis, ...]

    @classmethod
    def regular(cls, ranges: Mapping[str, tuple[float, float, int]]) -> GridCells:
        """`GridCells.regular({"x": (0, 10, 5)})`: five cells of equal width, the outer ones open-ended."""
        return cls(tuple(Axis(name, _even_cuts(name, *given)) for name, given in ranges.items()))

    @classmethod
    def quantiles(cls, samples: Mapping[str, Sequence[Value]], parts: int) -> GridCells:
        """Cells that hold about equally many of the sampled values of each attribute."""
        return cls(tuple(Axis(name, _quantile_cuts(name, values, parts)) for name, values in samples.items()))

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(axis.rest + 1 for axis in self.axes)

    @property
    def count(self) -> int:
        return prod(self._sizes)

    def number(self, positions: Iterable[int]) -> int:
        """The number of a cell from its place along each axis."""
        result = 0
        for position, size in zip(positions, self._sizes, strict=True):
            result = result * size + position
        return result

    def places(self, number: int) -> tuple[int, ...]:
        """A cell's place along each axis."""
        result: list[int] = []
        for size in reversed(self._sizes):
            number, position = divmod(number, size)
            result.append(position)
        return tuple(reversed(result))

    def assign(self, filter: Filter) -> tuple[int, ...]:
        found: set[int] = set()
        for region in regions_of(filter):
            found.update(self._assign(region))
        return tuple(sorted(found))

    def _assign(self, region: Region) -> Iterable[int]:
        if region.is_empty:
            return ()
        tight = region.tight
        return map(self.number, product(*(axis.places(tight.domain(axis.attribute)) for axis in self.axes)))

    def resolve(self, event: Event) -> tuple[int, ...]:
        return (self.resolve_view(event.view),)

    def resolve_view(self, view: Mapping[str, Any]) -> int:
        """The cell of an event given as a flat mapping."""
        return self.number(axis.place(view.get(axis.attribute)) for axis in self.axes)


def _even_cuts(name: str, low: float, high: float, parts: int) -> tuple[float, ...]:
    if parts < 2 or not low < high:
        raise FilterError(
            f"{name!r} is cut from {low} to {high} into {parts}", hint="give low < high and at least 2 parts"
        )
    return tuple(low + (high - low) * part / parts for part in range(1, parts))


def _quantile_cuts(name: str, values: Sequence[Value], parts: int) -> tuple[Value, ...]:
    ordered = sorted(values, key=sort_key)
    if not ordered or parts < 2:
        raise FilterError(
            f"{name!r} is cut into {parts} by {len(ordered)} samples",
            hint="give samples, and 2 parts or more",
        )
    cuts = [ordered[len(ordered) * part // parts] for part in range(1, parts)]
    return tuple(cut for position, cut in enumerate(cuts) if position == 0 or cut != cuts[position - 1])


@dataclass(frozen=True)
class HashCells:
    """Cells by a stable hash of one attribute's value; the last cell is the rest.

    A filter that fixes the attribute to some values goes to their cells, any other one to all.
    """

    attribute: str
    parts: int

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise FilterError(f"{self.parts} hash cells", hint="give 1 or more")

    @property
    def count(self) -> int:
        return self.parts + 1

    @property
    def rest(self) -> int:
        """The cell of events that lack the attribute, or have a value there that compares with nothing."""
        return self.parts

    def assign(self, filter: Filter) -> tuple[int, ...]:
        found: set[int] = set()
        for region in regions_of(filter):
            if not region.is_empty:
                found.update(self._cells_of(region))
        return tuple(sorted(found))

    def _cells_of(self, region: Region) -> Iterable[int]:
        if self.attribute == LINEAGE:
            return range(self.count)
        domain = region.tight.domain(self.attribute)
        values = dm.values_of(domain._replace(absent=False))
        cells = set(range(self.parts)) if values is None else {self._cell(value) for value in values}
        return cells | {self.rest} if domain.absent or domain.kinds[Kind.OTHER] else cells

    def resolve(self, event: Event) -> tuple[int, ...]:
        return (self.resolve_view(event.view),)

    def resolve_view(self, view: Mapping[str, Any]) -> int:
        """The cell of an event given as a flat mapping."""
        value = view.get(self.attribute)
        return self.rest if kind_of(value) is None else self._cell(value)

    def _cell(self, value: Any) -> int:
        return stable_hash(value) % self.parts


def stable_hash(value: Value) -> int:
    """A hash that is the same in every process, and for equal values of one kind."""
    return int.from_bytes(blake2b(_canonical(value), digest_size=8).digest())


def _canonical(value: Value) -> bytes:
    kind = kind_of(value)
    assert kind is not None, "NULL has no hash"
    same: Any = value  # of all that are equal
    if type(same) is Decimal:
        same = float(same) if float(same) == same else Fraction(same)
    if type(same) in (float, Fraction) and same % 1 == 0:
        same = int(same)
    elif isinstance(same, datetime):
        same = utc(same).isoformat()
    return f"{int(kind)}:{same!r}".encode()

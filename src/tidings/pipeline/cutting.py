"""Cutting the space of events into cells: which attributes, and where.

The cells are those of filter-driven assignment (`algebra.cells`): `assign` says in which cells a
subscription must be present, `resolve` in which one an event lies, and the two always meet.

- An axis is good when the fullest cell gets little: subscriptions that do not constrain it are in
  every cell. All attributes that a sample constrains are tried, alone and the best ones in pairs.
- Cuts are quantiles of the values of sampled events, so that cells get about equally many events;
  of a stream, of the values that filters name.
- `cell_sql` is `resolve` as Spark SQL, exact for large integers and doubles too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import ceil
from typing import Any

from tidings.algebra.cells import Axis, GridCells
from tidings.errors import FilterError, InputError
from tidings.language.spark import to_spark_sql
from tidings.model.constraint import Constraint, Equals, OneOf, Prefix, Range
from tidings.model.event import Event
from tidings.model.expression import Attribute, Compare, Literal
from tidings.model.filter import Filter
from tidings.model.value import Kind, kind_of

TRIED = 6  # attributes that are tried as axes, the most constrained first
PAIRED = 3  # the best of them, tried in pairs
LEAST_CELLS, MOST_CELLS = 4, 256
KIND_OF_SLOT = {"n": Kind.NUMBER, "s": Kind.STRING, "t": Kind.TIME}


def choose_cells(
    filters: Sequence[Filter], sample: Sequence[Event], columns: Mapping[str, str], wanted: int
) -> tuple[GridCells, str]:
    """The cells for these subscriptions, and a sentence about them. `columns`: attribute -> kind."""
    wanted = max(LEAST_CELLS, min(MOST_CELLS, wanted))
    values = {
        name: list(values_of(name, kind, filters, sample)) for name, kind in _candidates(filters, columns)
    }
    values = {name: some for name, some in values.items() if len(set(some)) > 1}
    if not values:
        raise InputError(
            "no attribute can cut these subscriptions into cells: none is constrained and has a column",
            hint="give every executor more memory and use strategy='everywhere'",
        )
    single = {(name,): _grid({name: some}, wanted) for name, some in values.items()}
    ranked = sorted(single, key=lambda names: fullest(single[names], filters))
    side = ceil(wanted**0.5)
    best = [names[0] for names in ranked[:PAIRED]]
    tried = single | {
        pair: _grid({name: values[name] for name in pair}, side) for pair in combinations(best, 2)
    }
    names = min(tried, key=lambda names: (fullest(tried[names], filters), names))
    cells = tried[names]
    share = fullest(cells, filters) / max(1, len(filters))
    return cells, f"cut along {' and '.join(names)} into {cells.count} cells; the fullest gets {share:.0%}"


def _grid(values: Mapping[str, list[Any]], parts: int) -> GridCells:
    try:
        return GridCells.quantiles(values, parts)
    except FilterError as error:
        raise InputError(f"the sampled values cannot cut cells: {error}") from None


def _candidates(filters: Iterable[Filter], columns: Mapping[str, str]) -> list[tuple[str, str]]:
    counts = Counter(
        name
        for filter in filters
        for name in {c.attribute for part in filter.conjunctions for c in part.constraints}
        if columns.get(name) in KIND_OF_SLOT
    )
    return [(name, columns[name]) for name, _ in counts.most_common(TRIED)]


def values_of(name: str, kind: str, filters: Sequence[Filter], sample: Sequence[Event]) -> Iterator[Any]:
    """Values of an attribute: those of events, else those that filters name."""
    wanted = KIND_OF_SLOT[kind]
    seen = [value for event in sample if kind_of(value := event.view.get(name)) is wanted]
    if len(set(seen)) > 1:
        yield from seen
        return
    for filter in filters:
        for part in filter.conjunctions:
            for constraint in part.constraints:
                if constraint.attribute == name:
                    yield from (v for v in named_values(constraint) if kind_of(v) is wanted)


def named_values(constraint: Constraint) -> tuple[Any, ...]:
    match constraint:
        case Equals():
            return (constraint.value,)
        case OneOf():
            return constraint.values
        case Range():
            return (constraint.low, constraint.high)
        case Prefix():
            return (constraint.prefix,)
    return ()


def fullest(cells: GridCells, filters: Iterable[Filter]) -> int:
    """Number of subscriptions in the fullest cell."""
    counts = Counter(cell for filter in filters for cell in cells.assign(filter))
    return max(counts.values(), default=0)


def cell_sql(cells: GridCells, columns: Mapping[str, tuple[str, str]]) -> str:
    """The cell of a row. `columns`: attribute -> name and Spark type of the column that holds it."""
    number = "0"
    for axis in cells.axes:
        number = f"({number} * {axis.rest + 1} + {_place_sql(axis, columns.get(axis.attribute))})"
    return number


def _place_sql(axis: Axis, column: tuple[str, str] | None) -> str:
    if column is None:
        return str(axis.rest)
    name, kind = column

    def at_least(cut: Any) -> str:
        return to_spark_sql(Compare(">=", Attribute(name), Literal(cut)), {name: kind})

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        return f"IF({at_least(axis.cuts[middle])}, {search(middle + 1, high)}, {search(low, middle)})"

    # what compares with no cut at all is NULL, NaN, or of another kind
    known = f"({at_least(axis.cuts[0])}) IS NOT NULL"
    return f"IF({known}, {search(0, len(axis.cuts))}, {axis.rest})"

"""assign ∩ resolve ≠ ∅ whenever an event matches (VIR2-5), for every kind of partition."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._algebra_oracle import (
    SHORT_STRINGS,
    T0,
    TICK,
    accepts,
    choices,
    constraints_of,
    filters,
    pattern_constraints,
    simple_constraints,
    typed_choices,
    typed_constraints,
    values_for,
)

from tidings.algebra import Axis, GridCells, HashCells
from tidings.model.constraint import OneOf
from tidings.model.event import make_event
from tidings.model.filter import Filter

ANY = st.one_of(simple_constraints("a"), simple_constraints("b"), pattern_constraints("a", regexps=True))
CUTS: list[tuple[Any, ...]] = [
    (0, 1, 1.5),
    (-1,),
    ("", "a", "ab"),
    ("b",),
    (T0, T0 + TICK),
    (True,),
    (False, True),
]
GRIDS = st.builds(
    lambda one, other: GridCells((Axis("a", one), Axis("b", other))),
    st.sampled_from(CUTS),
    st.sampled_from(CUTS),
)
HASHES = st.builds(HashCells, st.sampled_from(["a", "b"]), st.integers(1, 5))


@settings(max_examples=250, deadline=None)
@given(st.one_of(GRIDS, HASHES), filters(ANY, conjunctions=2))
def test_vir2_5_a_matching_event_is_resolved_where_the_filter_is_assigned(
    cells: GridCells | HashCells, filter: Filter
) -> None:
    assigned = cells.assign(filter)
    assert list(assigned) == sorted(set(assigned))
    assert all(0 <= cell < cells.count for cell in assigned)
    for choice in choices((filter,), SHORT_STRINGS[:40]):
        if accepts(filter, choice):
            assert cells.resolve_view(choice) in assigned, choice


EVERY_KIND: list[Any] = [
    {"a": value}
    for value in (
        None, True, 5, 2**70, -(2**63) - 1, 0.5, math.nan, math.inf, "a", b"a", Decimal("NaN"),
        Decimal("-Infinity"), Decimal("1E+400"), Decimal("1E-400"), Decimal("9007199254740992.5"),
        UUID(int=1), time(8), timedelta(1), date(2026, 1, 1), datetime(2026, 1, 1), T0, [], ["a"],
        [[1], {"a": 1}], {"b": 1},
    )
]  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.one_of(GRIDS, HASHES), filters(simple_constraints("a"), conjunctions=2))
def test_vir2_5_holds_for_events_with_every_kind_of_value(
    cells: GridCells | HashCells, filter: Filter
) -> None:
    assigned = cells.assign(filter)
    constants = [value for value in values_for(constraints_of([filter])) if type(value) in (int, float)]
    decimals = [{"a": Decimal(value)} for value in constants]
    for body in [*EVERY_KIND, *decimals]:
        event = make_event(body, source="s", id="1")
        if accepts(filter, dict(event.view)):
            assert cells.resolve(event)[0] in assigned, body


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 5), filters(typed_constraints(), conjunctions=2))
def test_vir2_5_holds_for_cells_of_types(parts: int, filter: Filter) -> None:
    hashed, cut = HashCells("type", parts), GridCells((Axis("type", ("AA", "C")),))
    by_hash, by_cut = hashed.assign(filter), cut.assign(filter)
    for choice in typed_choices():
        if accepts(filter, choice):
            assert hashed.resolve_view(choice) in by_hash
            assert cut.resolve_view(choice) in by_cut


@settings(max_examples=120, deadline=None)
@given(GRIDS, filters(simple_constraints("a"), size=2))
def test_a_grid_assigns_no_cell_in_vain(cells: GridCells, filter: Filter) -> None:
    """Every assigned place along `a` has an event there: `b` is free, so all its places follow."""
    found = {
        cells.axes[0].place(choice.get("a")) for choice in _more(cells, filter) if accepts(filter, choice)
    }
    assigned = {cells.places(number)[0] for number in cells.assign(filter)}
    assert assigned == found


def _more(cells: GridCells, filter: Filter) -> list[dict[str, Any]]:

    cuts = OneOf("a", cells.axes[0].cuts)
    return [{"a": value} for value in values_for([*constraints_of([filter]), cuts])]

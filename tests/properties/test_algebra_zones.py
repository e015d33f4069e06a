"""Zone volumes against counting on an integer grid, and increments against starting afresh."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.algebra import Association, Space, Zone, associativity
from tidings.algebra import volume as vol

SIDE = 6


def boxes(dimension: int, most: int = 7) -> st.SearchStrategy[list[np.ndarray]]:
    side = st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)).map(sorted)
    box = st.lists(side, min_size=dimension, max_size=dimension).map(
        lambda sides: np.array(sides, dtype=float).T
    )
    return st.lists(box, max_size=most)


def space(dimension: int) -> Space:
    return Space.of({f"x{i}": (0, SIDE) for i in range(dimension)})


def unit_cells(found: list[np.ndarray], dimension: int) -> set[tuple[int, ...]]:
    """The dumb oracle: which unit cubes are inside some box."""
    cells: set[tuple[int, ...]] = set()
    for box in found:
        cells.update(product(*(range(int(box[0][i]), int(box[1][i])) for i in range(dimension))))
    return cells


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
@pytest.mark.parametrize("grid_cells", [vol.GRID_CELLS, 4])
def test_volumes_are_those_of_counting(
    dimension: int, grid_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vol, "GRID_CELLS", grid_cells)  # 4: nearly everything goes by cutting space in two

    @settings(max_examples=40, deadline=None)
    @given(boxes(dimension), boxes(dimension))
    def check(one: list[np.ndarray], other: list[np.ndarray]) -> None:
        first, second = Zone.of(space(dimension), one), Zone.of(space(dimension), other)
        mine, theirs = unit_cells(one, dimension), unit_cells(other, dimension)
        assert first.volume == len(mine)
        assert first.intersection_volume(second) == len(mine & theirs)
        assert first.union_volume(second) == first.union(second).volume == len(mine | theirs)
        assert associativity(first, second) == (len(mine & theirs) / len(mine) if mine else 0.0)
        assert first.covers(second) is (theirs <= mine)

    check()


@settings(max_examples=80, deadline=None)
@given(boxes(2), boxes(2), st.randoms(use_true_random=False))
def test_adding_and_removing_boxes_is_the_same_as_starting_afresh(
    start: list[np.ndarray], coming: list[np.ndarray], rng: object
) -> None:
    zone, stored = Zone.of(space(2), start), list(start)
    for box in coming:
        grown = len(unit_cells([*stored, box], 2)) - len(unit_cells(stored, 2))
        assert zone.growth(box) == grown
        zone, stored = zone.add(box), [*stored, box]
        assert zone.volume == len(unit_cells(stored, 2))
    rng.shuffle(stored)  # type: ignore[attr-defined]
    while stored:
        zone = zone.remove(stored.pop())
        assert zone.volume == len(unit_cells(stored, 2)) == Zone.of(space(2), stored).volume
    assert len(zone) == 0


@settings(max_examples=100, deadline=None)
@given(boxes(2), boxes(2), boxes(2))
def test_an_association_follows_both_zones(
    one: list[np.ndarray], other: list[np.ndarray], new: list[np.ndarray]
) -> None:
    kept = Association.of(Zone.of(space(2), one), Zone.of(space(2), other))
    for position, box in enumerate(new):
        kept = kept.grow(box) if position % 2 else kept.grow_other(box)
    for position, box in enumerate(new):
        if position % 2:
            kept = kept.shrink(box)
    fresh = Association.of(kept.zone, kept.other)
    assert math.isclose(kept.common, fresh.common, abs_tol=1e-9)
    assert math.isclose(kept.weight, fresh.weight, abs_tol=1e-9)

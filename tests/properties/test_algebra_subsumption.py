"""Coverage by a union: exact answers against the oracle, sampled answers against their stated bound."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._algebra_oracle import accepts, choices, filters, simple_constraints

from tidings.algebra import covered_by_union, decide_covers
from tidings.model.constraint import Range
from tidings.model.filter import Conjunction, Filter

ANY = st.one_of(simple_constraints("a"), simple_constraints("b"), simple_constraints("c"))


@settings(max_examples=150, deadline=None)
@given(filters(ANY, conjunctions=2), st.lists(filters(ANY, conjunctions=2, size=2), max_size=4))
def test_the_exact_verdict_is_that_of_the_oracle(narrow: Filter, others: list[Filter]) -> None:
    verdict = covered_by_union(narrow, others)
    missed = [
        choice
        for choice in choices([narrow, *others])
        if accepts(narrow, choice) and not any(accepts(other, choice) for other in others)
    ]
    assert verdict.exact
    assert verdict.covered is not bool(missed)
    if not verdict.covered:
        assert verdict.witness is not None
        assert accepts(narrow, dict(verdict.witness))
        assert not any(accepts(other, dict(verdict.witness)) for other in others)


@settings(max_examples=150, deadline=None)
@given(filters(ANY), st.lists(filters(ANY, size=2), max_size=4), st.integers(0, 2**32))
def test_a_sampled_no_is_exact_and_a_sampled_yes_within_its_bound(
    narrow: Filter, others: list[Filter], seed: int
) -> None:
    truth = covered_by_union(narrow, others)
    drawn = covered_by_union(narrow, others, rng=random.Random(seed), budget=0, error=1e-9)
    assert drawn.covered is truth.covered  # wrong once in 10^9
    assert drawn.exact or drawn.error_bound <= 1e-9


def box(*sides: tuple[float, float]) -> Filter:
    ranges = tuple(Range(name, *side) for name, side in zip("uvwxyz", sides, strict=False))
    return Filter("box", (Conjunction(ranges),))


def checkerboard(side: int, hole: tuple[int, int, int] | None) -> list[Filter]:
    """Unit boxes that tile a cube, but for one hole."""
    positions = [
        (i, j, k) for i in range(side) for j in range(side) for k in range(side) if (i, j, k) != hole
    ]
    return [box(*((at, at + 1) for at in position)) for position in positions]


def test_one_missing_tile_in_a_cube_is_found() -> None:
    cube = box((0, 6), (0, 6), (0, 6))
    assert covered_by_union(cube, checkerboard(6, None)).covered
    verdict = covered_by_union(cube, checkerboard(6, (3, 4, 2)))
    assert (verdict.covered, verdict.exact) == (False, True)
    assert verdict.witness is not None
    assert [int(value) for value in verdict.witness.values()] == [3, 4, 2]  # type: ignore[arg-type]


def test_wrong_yeses_are_no_more_frequent_than_stated() -> None:
    """One gap among many blocks, an accepted error of 0.3: about 0.3 of the draws may miss it."""
    cube, tiles = box((0, 3), (0, 3), (0, 3)), checkerboard(3, (1, 1, 1))
    verdicts = [
        covered_by_union(cube, tiles, rng=random.Random(seed), budget=0, error=0.3) for seed in range(300)
    ]
    assert all(not verdict.exact and verdict.error_bound <= 0.3 for verdict in verdicts if verdict.covered)
    wrong = sum(verdict.covered for verdict in verdicts) / len(verdicts)
    assert wrong <= 0.3 + 4 * (0.3 * 0.7 / 300) ** 0.5
    assert wrong > 0.05  # the test would see a bound that is far too small


@settings(max_examples=100, deadline=None)
@given(filters(ANY), filters(ANY, conjunctions=4, size=2))
def test_it_agrees_with_covers(narrow: Filter, wide: Filter) -> None:
    assert covered_by_union(narrow, [wide]).covered is decide_covers(wide, narrow)

"""Coverage by a union: witnesses, budgets, and what is said when it cannot be shown."""

from __future__ import annotations

import random

import pytest

from tidings.algebra import covered_by_union
from tidings.algebra.subsumption import trials_for, wrong_yes
from tidings.language import parse_filter


def test_two_halves_cover_a_whole_that_neither_covers() -> None:
    whole = parse_filter("x BETWEEN 0 AND 9 AND name = 'IBM'")
    halves = [parse_filter("x < 5"), parse_filter("x >= 5 AND name LIKE 'I%'")]
    assert covered_by_union(whole, halves).covered
    assert not covered_by_union(whole, halves[:1]).covered


def test_a_witness_lies_outside_all() -> None:
    verdict = covered_by_union(
        parse_filter("x BETWEEN 0 AND 9"), [parse_filter("x < 5"), parse_filter("x > 5")]
    )
    assert (verdict.covered, verdict.exact, verdict.witness) == (False, True, {"x": 5})
    verdict = covered_by_union(parse_filter("TRUE"), [parse_filter("EXISTS a"), parse_filter("b > 1")])
    assert verdict.witness is not None
    assert verdict.witness["a"] is None


def test_what_is_never_true_is_covered_by_nothing() -> None:
    assert covered_by_union(parse_filter("FALSE"), []).covered
    assert not covered_by_union(parse_filter("TRUE"), []).covered


def test_patterns_that_meet_in_a_cell_are_not_guessed_at() -> None:
    verdict = covered_by_union(
        parse_filter("EXISTS name AND name >= ''"),
        [parse_filter("name LIKE '%a%'"), parse_filter("name NOT LIKE '%a%'")],
    )
    assert (verdict.covered, verdict.exact) == (False, False)


def test_without_random_numbers_the_budget_ends_the_search() -> None:
    whole = parse_filter("x BETWEEN 0 AND 9")
    halves = [parse_filter("x < 5"), parse_filter("x >= 5")]
    verdict = covered_by_union(whole, halves, budget=1)
    assert (verdict.covered, verdict.exact, verdict.witness) == (False, False, None)
    verdict = covered_by_union(whole, halves, budget=1, rng=random.Random(1))
    assert (verdict.covered, verdict.exact) == (True, False)
    assert 0 < verdict.error_bound <= 1e-6


def test_a_yes_is_not_said_when_its_bound_is_too_large() -> None:
    whole = parse_filter("x BETWEEN 0 AND 9")
    halves = [parse_filter("x < 5"), parse_filter("x >= 5")]
    verdict = covered_by_union(whole, halves, budget=1, rng=random.Random(1), max_trials=2)
    assert (verdict.covered, verdict.exact) == (False, False)


@pytest.mark.parametrize("blocks", [1, 2, 1000, 10**12])
def test_trials_reach_the_error_asked_for(blocks: int) -> None:
    assert wrong_yes(blocks, trials_for(blocks, 1e-3)) <= 1e-3 * (1 + 1e-6)

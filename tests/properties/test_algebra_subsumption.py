"""Coverage by a union: exact answers against the oracle, sampled answers against their stated bound."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._algebra_oracle import accepts, choices, filters, simple_constraints

from tidings import language
from tidings.algebra import covered_by_union, decide_covers
from tidings.language import parse_filter
from tidings.model.constraint import Range
from tidings.model.event import make_event
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


TEXTS = ("", "a", "b", "ab", "ba", "aab", "q", "m", "x", "08:30:00", "bb", "é")
CONDITIONS = (
    "x NOT LIKE '%a%'", "x LIKE '%a%'", "x NOT LIKE '_'", "x LIKE '_'", "x NOT LIKE 'a%b'", "x LIKE 'a%b'",
    "x != 'q'", "x = 'q'", "x >= 'b'", "x >= '08:30:00'", "x BETWEEN 'a' AND 'b'", "x NOT LIKE 'a%'",
    "x REGEXP '[a-c]'", "x NOT LIKE '__'", "s > 5", "s <= 5", "EXISTS x", "x IS NULL", "y = 1",
    "NOT EXISTS y",
    "x LIKE '%b'", "x NOT LIKE '%b'",
)  # fmt: skip
PARTS = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2)
TEXT_FILTERS = st.builds(
    lambda parts, joint: parse_filter(joint.join(parts)), PARTS, st.sampled_from((" AND ", " OR "))
)
VALUES = [
    {name: value for name, value in (("x", x), ("s", s), ("y", y)) if value is not None}
    for x in (*TEXTS, None, 1) for s in (None, 5, 6) for y in (None, 1)
]  # fmt: skip


def _is_accepted(filter: Filter, body: dict[str, Any]) -> bool:
    return language.accepts(filter, make_event(body, source="s", id="1"))


@settings(max_examples=300)
@given(TEXT_FILTERS, st.lists(TEXT_FILTERS, min_size=1, max_size=3))
def test_a_witness_of_texts_is_accepted_by_the_filter_alone(narrow: Filter, others: list[Filter]) -> None:
    """Patterns hold a part of a cell, so that its plainest text may be one that another filter accepts."""
    verdict = covered_by_union(narrow, others)
    if verdict.witness is not None:
        witness = {name: value for name, value in verdict.witness.items() if value is not None}
        assert verdict.exact
        assert _is_accepted(narrow, witness)
        assert not any(_is_accepted(other, witness) for other in others)
    if verdict.covered:
        for body in VALUES:
            assert not _is_accepted(narrow, body) or any(_is_accepted(other, body) for other in others)


@pytest.mark.parametrize(
    ("narrow", "others"),
    [
        ("x != 'q'", ["x NOT LIKE '%a%'"]), ("s > 5 OR x != 'q'", ["x NOT LIKE '%a%'", "y IS NOT NULL"]),
        ("x >= '08:30:00'", ["x NOT LIKE '_'"]), ("EXISTS x AND x >= '0'", ["x NOT LIKE '_' OR EXISTS y"]),
        ("x LIKE '%a%'", ["x = 'a'"]),
    ],
)  # fmt: skip
def test_an_exact_no_beside_a_pattern_has_a_witness(narrow: str, others: list[str]) -> None:
    parts = [parse_filter(other) for other in others]
    verdict = covered_by_union(parse_filter(narrow), parts)
    assert (verdict.covered, verdict.exact) == (False, True)
    assert verdict.witness is not None
    witness = {name: value for name, value in verdict.witness.items() if value is not None}
    assert _is_accepted(parse_filter(narrow), witness)
    assert not any(_is_accepted(part, witness) for part in parts)

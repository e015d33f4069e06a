"""Filters that others of a list cover: sound to drop together, equal ones once, few comparisons."""

from __future__ import annotations

import pytest

from tidings.algebra import covered_by_union, redundancy, redundant
from tidings.language import parse_filter
from tidings.model.filter import Filter


def of(*texts: str) -> dict[int, int | None]:
    return redundant([parse_filter(text) for text in texts])


def test_covered_filters_name_one_that_stays() -> None:
    assert of("x > 5", "x > 6", "x > 7 AND y = 1", "y = 1") == {1: 0, 2: 0}
    assert of("x > 7", "x > 6", "x > 5") == {0: 2, 1: 2}
    assert of("s = 'a' AND x > 1", "s IN ('a', 'b')", "s LIKE 'a%'") == {0: 2}


def test_of_equal_filters_the_first_stays() -> None:
    assert of("x > 5 AND y = 1", "y = 1 AND x > 5", "x > 5 AND y = 1") == {1: 0, 2: 0}
    assert of("x >= 1 AND x <= 1", "x = 1", "x = 1.0") == {1: 0, 2: 0}  # equal, though written differently


def test_of_filters_that_cover_each_other_one_stays() -> None:
    some = [parse_filter(text) for text in ("x < 5 OR x >= 5", "x < 6 OR x >= 6", "x <= 7 OR x > 7")]
    assert len({filter.digest for filter in some}) == 3
    assert redundant(some) in ({1: 0, 2: 0}, {0: 1, 2: 1}, {0: 2, 1: 2})


def test_one_that_can_never_match_needs_no_other() -> None:
    assert of("price > price", "x > 5", "price > price", "5 < x < 9") == {0: None, 2: None, 3: None}


def test_computed_conditions_are_covered_by_equal_ones() -> None:
    assert of("x + 1 > 2", "x + 1 > 2 AND y = 1", "x + 1 > 3") == {1: 0}


def test_disjunctions_cover_and_are_covered() -> None:
    assert of("x < 5 OR x > 3", "x BETWEEN 0 AND 9", "x = 1 OR x = 4") == {1: 0, 2: 0}
    assert of("type IS A A", "type = 'A'", "EXISTS type") == {0: 2, 1: 2}


def test_a_union_alone_covers_none() -> None:
    texts = ["x BETWEEN 0 AND 6", "x BETWEEN 4 AND 9", "x BETWEEN 3 AND 8"]
    filters = [parse_filter(text) for text in texts]
    assert covered_by_union(filters[2], filters[:2]).covered
    assert redundant(filters) == {}


def test_few_pairs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    real = redundancy.covers

    def counted(wide: Filter, narrow: Filter) -> bool:
        nonlocal asked
        asked += 1
        return real(wide, narrow)

    monkeypatch.setattr(redundancy, "covers", counted)
    some = [f"symbol = 's{n}' AND price > {n % 7}" for n in range(300)]
    some += [f"symbol = 's{n}'" for n in range(0, 300, 2)] + [f"topic = 'a/{n}/#'" for n in range(50)]
    assert len(of(*some)) == 150
    assert asked <= 3_500, "of 250,000 pairs"

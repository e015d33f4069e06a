"""Merging: what is perfect, what is not, and how much it then lets in."""

from __future__ import annotations

import math

import pytest

from tidings.algebra import Space, covers, equivalent, merge, merge_all, perfect_merge
from tidings.errors import FilterError
from tidings.language import parse_filter

SPACE = Space.of({"x": (0, 10), "y": (0, 10)})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("x = 1", "x = 2", "x IN (1, 2)"),
        ("x < 5", "x BETWEEN 5 AND 9", "x <= 9"),
        ("name = 'IBM' AND x < 5", "name = 'HP' AND x < 5", "name IN ('HP', 'IBM') AND x < 5"),
        ("x < 5", "x < 9 ", "x < 9"),
        ("x < 5", "x < 3 AND y = 1", "x < 5"),
        ("x < 5", "x > 5", "x != 5"),
        ("x = 1", "x = TRUE", "x IN (TRUE, 1)"),
        ("flag", "NOT flag", "flag IN (FALSE, TRUE)"),
        ("x + y > 3 AND z = 1", "x + y > 3 AND z = 2", "x + y > 3 AND z IN (1, 2)"),
        ("name LIKE 'a%'", "name LIKE 'b%'", "name >= 'a' AND name < 'c'"),
        ("FALSE", "x < 5", "x < 5"),
        ("x < 2 OR y < 2", "x BETWEEN 2 AND 4 OR y BETWEEN 2 AND 8", "x <= 4 OR y <= 8"),
        ("type IS A 'Cat'", "type = 'Cat' AND x > 1", "type IS A 'Cat'"),
    ],
)
def test_perfect_merges(one: str, other: str, expected: str) -> None:
    merged = merge(parse_filter(one), parse_filter(other))
    assert (merged.exact, merged.error) == (True, 1.0)
    assert equivalent(merged.filter, parse_filter(expected))
    assert equivalent(merged.filter, parse_filter(merged.filter.text))


@pytest.mark.parametrize(
    ("one", "other", "hull"),
    [
        ("x < 2 AND y < 2", "x > 5 AND y < 4", "x != 99 AND y < 4"),
        ("x BETWEEN 1 AND 2", "x BETWEEN 4 AND 5", "x BETWEEN 1 AND 5"),
        ("x < 5 AND y < 5", "x < 9 AND z = 1", "x < 9"),
        ("x < 2", "x IS NULL", "TRUE"),
        ("x < 2", "x = 'a'", "EXISTS x"),
        ("x < 2", "x >= 2", "EXISTS x"),
        ("name LIKE '%a'", "name LIKE '%b'", "name LIKE '%'"),
        (
            "type IS A 'A' AND type IS A 'B' AND x = 1",
            "type IS A 'A' AND x = 2 AND y = 1",
            "type IS A 'A' AND x IN (1, 2)",
        ),
        ("x + y > 3", "x < 2", "TRUE"),
    ],
)
def test_other_merges_are_a_superset(one: str, other: str, hull: str) -> None:
    first, second = parse_filter(one), parse_filter(other)
    merged = merge(first, second)
    assert (merged.exact, merged.error) == (False, math.inf)
    assert covers(merged.filter, first)
    assert covers(merged.filter, second)
    assert covers(parse_filter(hull), first)
    assert covers(merged.filter, parse_filter(hull))
    assert perfect_merge(first, second) is None


def test_the_error_is_a_ratio_of_volumes() -> None:
    one, other = parse_filter("x < 2 AND y < 2"), parse_filter("x BETWEEN 2 AND 4 AND y < 4")
    merged = merge(one, other, space=SPACE)
    assert not merged.exact
    assert merged.error == pytest.approx((4 * 4) / (2 * 2 + 2 * 4))
    named = [parse_filter(f"name = 'IBM' AND {part.text}") for part in (one, other)]
    assert merge(*named, space=SPACE).error == pytest.approx(merged.error)


def test_the_error_is_not_bounded_when_the_space_does_not_show_it() -> None:
    one, other = parse_filter("x < 2 AND name = 'a'"), parse_filter("x > 5 AND name = 'b'")
    assert merge(one, other, space=SPACE).error == math.inf
    assert (
        merge(parse_filter("x = 1 AND y = 2"), parse_filter("x = 2 AND y = 1"), space=SPACE).error == math.inf
    )


def test_merge_all_takes_the_cheapest_steps_first() -> None:
    texts = [
        "x < 1 AND y < 1",
        "x BETWEEN 1 AND 2 AND y < 1",
        "x <= 2 AND y BETWEEN 1 AND 2",
        "x > 8 AND y > 8",
        "x = 9 AND y = 9",
    ]
    merges = merge_all([parse_filter(text) for text in texts], 2, space=SPACE)
    assert [(found.sources, found.exact) for found in merges] == [((0, 1, 2), True), ((3, 4), True)]
    assert equivalent(merges[0].filter, parse_filter("x <= 2 AND y <= 2"))
    (one,) = merge_all([parse_filter(text) for text in texts], 1, space=SPACE)
    assert one.sources == (0, 1, 2, 3, 4)
    assert one.error == pytest.approx(100 / 8)


def test_merge_all_goes_on_past_its_target_while_it_costs_nothing() -> None:
    merges = merge_all([parse_filter(f"x = {n}") for n in range(6)], 4)
    assert [found.filter.text for found in merges] == ["x IN (0, 1, 2, 3, 4, 5)"]


def test_dialects_do_not_mix() -> None:
    with pytest.raises(FilterError, match="cesql and tidings"):
        merge(parse_filter("x = 1"), parse_filter("x = 1", dialect="cesql"))
    with pytest.raises(FilterError, match="into 0"):
        merge_all([], 0)


def test_cesql_filters_keep_their_texts() -> None:
    merged = merge(parse_filter("x = 1", dialect="cesql"), parse_filter("y = 2", dialect="cesql"))
    assert merged.filter.dialect == "cesql"
    assert covers(merged.filter, parse_filter("x = 1", dialect="cesql"))

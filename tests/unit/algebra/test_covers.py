"""Filters as text: what covers what, what overlaps, and what the intersection says."""

from __future__ import annotations

from importlib import import_module

import pytest

from tidings.algebra import (
    covers,
    decide_covers,
    decide_equivalent,
    decide_overlaps,
    equivalent,
    intersect,
    overlaps,
)
from tidings.errors import FilterError, FilterLimitError
from tidings.language import parse_filter
from tidings.model.constraint import Range
from tidings.model.filter import Conjunction, Filter


def levels(count: int) -> str:
    """The pattern of all topics of so many levels; a topic has 32 at most."""
    return "/".join("+" * count)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("StockName = 'IBM'", "StockName = 'IBM' AND change < -3"),
        ("StockName LIKE 'M%'", "StockName = 'MSFT' AND change >= 1"),
        ("change < 0", "change < -3"),
        ("TRUE", "price > 5"),
        ("price > 5", "FALSE"),
        ("price > 5", "price > 7 AND price < 3"),
        ("x < 5 OR x > 3", "x BETWEEN 0 AND 9"),
        ("(x < 5 AND y < 5) OR (x >= 5 AND y < 5)", "y < 2 AND EXISTS x AND x < 100"),
        ("flag OR NOT flag", "flag IN (TRUE, FALSE)"),
        ("a IS NULL OR EXISTS a", "TRUE"),
        ("topic MATCHES 'a/#'", "topic = 'a/b' OR topic = 'a'"),
        ("type IS A 'Animal'", "type = 'Animal'"),
        ("type IS A 'Cat' OR type IS NOT A 'Cat'", "type IS A 'Cat' AND x > 1"),
        ("x + y > 3", "x + y > 3 AND z = 1"),
        ("name LIKE 'a%' OR name NOT LIKE 'a%'", "name LIKE '%z'"),
    ],
)
def test_covers(wide: str, narrow: str) -> None:
    assert covers(parse_filter(wide), parse_filter(narrow))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("StockName = 'IBM' AND change < -3", "StockName = 'IBM'"),
        ("a = 1", "a = TRUE"),
        ("a != 5", "a IS NULL"),
        ("a != 5", "EXISTS a"),
        ("a < 5 OR a >= 5", "EXISTS a"),
        ("(x < 5 AND y < 5) OR (x >= 5 AND y >= 5)", "x < 9 AND y < 9"),
        ("type IS A 'Cat'", "type IS A 'Animal'"),
        ("FALSE", "TRUE"),
        ("name LIKE '%b'", "name LIKE 'a%'"),
    ],
)
def test_does_not_cover(wide: str, narrow: str) -> None:
    assert decide_covers(parse_filter(wide), parse_filter(narrow)) is False


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x + y > 3", "x + y > 4"),
        ("x > 1", "x + 1 > 2"),
        ("x > 3", "x > 1 AND y * 2 = z"),
        ("FALSE", "x * x < 0"),
        ("name REGEXP '[0-9]$'", "name REGEXP '^x[0-9]+$'"),
    ],
)
def test_not_known(wide: str, narrow: str) -> None:
    assert decide_covers(parse_filter(wide), parse_filter(narrow)) is None
    assert not covers(parse_filter(wide), parse_filter(narrow))


def test_residuals_are_told_apart_by_the_types_of_their_numbers() -> None:
    assert covers(parse_filter("x / 2 = y"), parse_filter("x / 2 = y"))
    assert not covers(parse_filter("x / 2 = y"), parse_filter("x / 2.0 = y"))


def test_residuals_of_different_dialects_are_different() -> None:
    tidings, cesql = parse_filter("LENGTH(a) > 3"), parse_filter("LENGTH(a) > 3", dialect="cesql")
    assert decide_covers(tidings, cesql) is None
    assert covers(cesql, cesql)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("x < 5", "x > 3", True),
        ("x < 3", "x > 3", False),
        ("x = 1", "x = TRUE", False),
        ("x = 1", "y = 1", True),
        ("x < 3 OR y = 1", "x > 3 AND y = 2", False),
        ("topic MATCHES 'a/+'", "topic MATCHES '+/b'", True),
        ("topic MATCHES 'a/+'", "topic MATCHES 'b/#'", False),
        ("x + 1 > 2", "x < 5", None),
        ("x + 1 > 2 AND x > 5", "x < 5", False),
    ],
)
def test_overlaps(one: str, other: str, expected: bool | None) -> None:
    first, second = parse_filter(one), parse_filter(other)
    assert decide_overlaps(first, second) is expected
    assert overlaps(first, second) is (expected is not False)


def test_equivalent() -> None:
    assert equivalent(parse_filter("x < 5 OR x = 5"), parse_filter("x <= 5"))
    assert not equivalent(parse_filter("x < 5"), parse_filter("x <= 5"))
    assert not equivalent(parse_filter("x <= 5"), parse_filter("x < 5"))
    assert decide_equivalent(parse_filter("x < 5"), parse_filter("x <= 5")) is False
    assert decide_equivalent(parse_filter("x + 1 > y"), parse_filter("x >= y")) is None


def test_intersection_is_simplified_and_keeps_both_texts() -> None:
    both = intersect(parse_filter("x > 1"), parse_filter("x < 9 OR y = 2"))
    assert both.text == "(x > 1) AND (x < 9 OR y = 2)"
    assert Conjunction((Range("x", 1, 9, True, True),)) in both.conjunctions
    assert equivalent(both, parse_filter(both.text))


def test_intersection_of_strangers_is_never_true() -> None:
    assert intersect(parse_filter("x > 9"), parse_filter("x < 1")).is_never_true


def test_intersection_of_two_dialects_is_refused() -> None:
    with pytest.raises(FilterError, match="dialect"):
        intersect(parse_filter("x = 1"), parse_filter("x = 1", dialect="cesql"))


def test_intersection_has_a_limit() -> None:
    wide = Filter("many", tuple(Conjunction((Range("x", n, n + 0.5),)) for n in range(100)))
    with pytest.raises(FilterLimitError, match="4096"):
        intersect(wide, wide)


def test_the_search_of_a_union_gives_up_at_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("tidings.algebra.covers"), "UNION_BUDGET", 1)
    wide, narrow = parse_filter("x < 5 OR x > 3"), parse_filter("x BETWEEN 0 AND 9")
    assert decide_covers(wide, narrow) is None


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("EXISTS id", "a = 1"),
        ("source != ''", "a = 1"),
        ("a = 1", "id = ''"),
        ("a = 1", "source = 5"),
        ("a = 1", "time > 'x'"),
        ("topic LIKE '%'", "EXISTS topic"),
        ("a = 1", "topic LIKE '%+%'"),
        ("a = 1", "topic LIKE '#'"),
        ("a = 1", "topic = 'a//b'"),
        ("type IS NULL OR type LIKE '%'", "TRUE"),
        ("id < 'b' OR id >= 'b'", "a = 1"),
        ("a = 1", "a > 5 AND LENGTH(a) > 2"),
        ("a = 1", "`time.x` = 1"),  # make_event refuses every name below one of the event's own
        ("a = 1", "EXISTS `type.x` AND b = 1"),
        ("`id.x` IS NULL", "a = 1"),
        ("`id.x` IS NULL OR b = 1", "a = 1"),
        (f"topic MATCHES '{levels(32)}'",
            f"topic MATCHES '{levels(31)}/#' AND topic NOT MATCHES '{levels(31)}'"),
        (f"topic MATCHES '{levels(31)}' OR topic MATCHES '{levels(32)}'", f"topic MATCHES '{levels(31)}/#'"),
        ("a = 1", f"topic MATCHES '{levels(31)}/#' AND topic NOT MATCHES '{levels(31)}' AND topic NOT "
            f"MATCHES '{levels(32)}'"),
    ],
)  # fmt: skip
def test_no_is_never_said_where_no_event_shows_it(wide: str, narrow: str) -> None:
    """Each of these covers: what is left over is no event that a publisher can make."""
    assert decide_covers(parse_filter(wide), parse_filter(narrow)) is not False


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("price > 10", "price > 5"), ("EXISTS topic", "a = 1"),
        ("topic MATCHES 'a/+'", "topic MATCHES 'a/#'"),
        ("id = 'a'", "EXISTS id"), ("time > TIMESTAMP '2026-01-01T00:00:00Z'", "EXISTS time"),
        ("type = 'A'", "type IS A B"),
        ("EXISTS `time.x`", "a = 1"), ("`timer.x` = 1", "a = 1"), ("a = 1", "`timer.x` = 1"),
        (f"topic MATCHES '{levels(31)}'", f"topic MATCHES '{levels(31)}/#'"),
        ("a = 1", f"topic MATCHES '{levels(31)}/#'"),
        ("topic = 'a'", "topic != 'b'"), ("x > 9007199254740992", "x >= 9007199254740992"),
    ],
)  # fmt: skip
def test_no_is_said_where_an_event_shows_it(wide: str, narrow: str) -> None:
    assert decide_covers(parse_filter(wide), parse_filter(narrow)) is False

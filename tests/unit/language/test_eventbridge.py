"""EventBridge-style patterns: read, written, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import FilterError, FilterLimitError
from tidings.language import accepts, parse_filter
from tidings.language.eventbridge import from_pattern, to_pattern
from tidings.model.body import HAS_LIST
from tidings.model.constraint import Exists
from tidings.model.event import make_event
from tidings.model.filter import Filter


def plain(filter: Filter) -> Filter:
    """The part of a pattern's filter for events without a list."""
    return Filter("", tuple(c for c in filter.conjunctions if Exists(HAS_LIST) not in c.constraints))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ({"a": ["x"]}, "a = 'x'"),
        ({"a": ["x", "y", 5, True]}, "a IN ('x', 'y', 5, TRUE)"),
        ({"a": [None]}, "a IS NULL"),
        ({"a": [None, "x"]}, "a = 'x' OR a IS NULL"),
        ({"a": ["x"], "b": [1]}, "a = 'x' AND b = 1"),
        ({"detail": {"state": {"now": ["on"]}}}, "detail.state.now = 'on'"),
        ({"a.b": ["x"]}, "a.b = 'x'"),
        ({"a": [{"prefix": "x%"}]}, r"a LIKE 'x\%%'"),
        ({"a": [{"prefix": {"equals-ignore-case": "Ab"}}]}, "LOWER(a) LIKE 'ab%'"),
        ({"a": [{"suffix": ".png"}]}, "a LIKE '%.png'"),
        ({"a": [{"suffix": {"equals-ignore-case": ".PNG"}}]}, "LOWER(a) LIKE '%.png'"),
        ({"a": [{"equals-ignore-case": "AbC"}]}, "LOWER(a) = 'abc'"),
        ({"a": [{"wildcard": "a*b"}]}, "a LIKE 'a%b'"),
        ({"a": [{"wildcard": "a\\*b*"}]}, "a LIKE 'a*b%'"),
        ({"a": [{"wildcard": "50%*_"}]}, r"a LIKE '50\%%\_'"),
        ({"a": [{"wildcard": "C:\\\\*"}]}, r"a REGEXP '^(?s:C:\\\\.*)$'"),
        ({"a": [{"numeric": ["=", 5]}]}, "a = 5"),
        ({"a": [{"numeric": [">", 0, "<=", 5.5]}]}, "a > 0 AND a <= 5.5"),
        ({"a": [{"exists": True}]}, "EXISTS a"),
        ({"a": [{"exists": False}]}, "a IS NULL"),
        ({"a": [{"anything-but": "x"}]}, "a != 'x'"),
        ({"a": [{"anything-but": ["x", "y"]}]}, "a NOT IN ('x', 'y')"),
        ({"a": [{"anything-but": ["x", 5]}]}, "a != 'x' OR a != 5"),
        ({"a": [{"anything-but": {"prefix": "x"}}]}, "a NOT LIKE 'x%'"),
        ({"a": [{"anything-but": {"suffix": "x"}}]}, "a NOT LIKE '%x'"),
        ({"a": [{"anything-but": {"wildcard": "*x*"}}]}, "a NOT LIKE '%x%'"),
        ({"a": [{"anything-but": {"prefix": ["x", "y"]}}]}, "a NOT LIKE 'x%' AND a NOT LIKE 'y%'"),
        ({"a": [{"anything-but": {"equals-ignore-case": "X"}}]}, "LOWER(a) != 'x'"),
        ({"$or": [{"a": [1]}, {"b": [2], "c": [3]}]}, "a = 1 OR (b = 2 AND c = 3)"),
        ({"d": {"$or": [{"a": [1]}, {"b": [2]}]}, "e": [3]}, "(d.a = 1 OR d.b = 2) AND e = 3"),
    ],
)
def test_patterns_are_read(pattern: dict[str, Any], text: str) -> None:
    filter = from_pattern(pattern)
    assert plain(filter).digest == parse_filter(text).digest
    assert from_pattern(json.dumps(pattern)).digest == filter.digest
    assert from_pattern(json.dumps(pattern).encode()).digest == filter.digest


@pytest.mark.parametrize(
    ("pattern", "body", "fits"),
    [
        ({"tags": ["red"]}, {"tags": ["big", "red"]}, True), ({"tags": ["red"]}, {"tags": "red"}, True),
        ({"tags": ["red"]}, {"tags": ["big"]}, False), ({"tags": ["red"]}, {"tags": []}, False),
        ({"tags": ["red"], "n": [5]}, {"tags": ["red"], "n": 5}, True), ({"tags": ["red"], "n": [5]},
        {"tags": ["red"], "n": [6]}, False),
        ({"n": [{"numeric": [">", 3, "<", 5]}]}, {"n": [1, 4]}, True), ({"n": [{"numeric": [">", 3,
        "<", 5]}]}, {"n": [1, 9]}, False),
        ({"t": [{"prefix": "r"}]}, {"t": ["b", "red"]}, True), ({"t": [{"anything-but": ["a"]}]},
        {"t": ["a", "b"]}, True),
        ({"t": [{"exists": True}]}, {"t": [1]}, True), ({"t": [{"exists": False}]}, {"u": [1]}, True),
        # the members of one object fit one object of a list
        ({"l": {"sku": ["a"], "n": [1]}}, {"l": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]}, True),
        ({"l": {"sku": ["a"], "n": [2]}}, {"l": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]}, False),
        ({"l": {"sku": ["a"], "n": [2]}}, {"l": {"sku": ["a", "c"], "n": [1, 2]}}, True),
        ({"$or": [{"a": [1]}, {"b": [2]}]}, {"b": [2]}, True), ({"l": {"m": {"n": [7]}}},
        {"l": [{"m": [{"n": 7}]}]}, True),
    ],
)  # fmt: skip
def test_patterns_fit_arrays(pattern: dict[str, Any], body: dict[str, Any], fits: bool) -> None:
    assert accepts(from_pattern(pattern), make_event(body, source="s", id="1")) is fits


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ({}, "at least one member"),
        ([], "at least one member"),
        ({"a": []}, "a list of values"),
        ({"a": "x"}, "a list of values"),
        ({"a": [["x"]]}, "an object with one member"),
        ({"a": [{}]}, "an object with one member"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "an object with one member"),
        ({"d": {"a": [{"numerc": [">", 5]}]}}, r"'d.a'.*'numerc'.*did you mean numeric\?"),
        ({"a": [{"cidr": "10.0.0.0/24"}]}, "the comparison 'cidr'"),
        ({"a": [{"prefix": 5}]}, "prefix does not take that"),
        ({"a": [{"suffix": {"prefix": "x"}}]}, "suffix does not take that"),
        ({"a": [{"wildcard": 5}]}, "wildcard does not take that"),
        ({"a": [{"equals-ignore-case": 5}]}, "does not take that"),
        ({"a": [{"numeric": [">"]}]}, "numeric does not take that"),
        ({"a": [{"numeric": [">", "5"]}]}, "numeric does not take that"),
        ({"a": [{"numeric": ["~", 5]}]}, "numeric does not take that"),
        ({"a": [{"exists": "yes"}]}, "exists does not take that"),
        ({"a": [{"anything-but": []}]}, "anything-but does not take that"),
        ({"a": [{"anything-but": [None]}]}, "anything-but does not take that"),
        ({"a": [{"anything-but": {"numeric": 5}}]}, "anything-but does not take that"),
        ({"a": [{"anything-but": {"prefix": 5}}]}, "anything-but does not take that"),
        ({"$or": []}, "a list of patterns"),
        ({"$or": {"a": [1]}}, "a list of patterns"),
        ("{", "no JSON"),
    ],
)
def test_mistakes_are_named(pattern: Any, words: str) -> None:
    with pytest.raises(FilterError, match=words):
        from_pattern(pattern)


def test_budgets_hold_for_patterns_too() -> None:
    deep: dict[str, Any] = {"a": [1]}
    for _ in range(50):
        deep = {"a": deep}
    for pattern in (deep, json.dumps(deep)):
        with pytest.raises(FilterLimitError, match="limit `depth`"):
            from_pattern(pattern)
    with pytest.raises(FilterError):
        from_pattern('{"a":' * 3000)
    with pytest.raises(FilterLimitError, match="limit `text`"):
        from_pattern(b" " * 20_000)
    with pytest.raises(FilterLimitError, match="limit `conjunctions`"):
        from_pattern({f"a{n}": [{"prefix": "x"}, {"suffix": "y"}] for n in range(20)})


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a = 'x' AND b IN (1, 2)", {"a": ["x"], "b": [1, 2]}),
        ("d.a != 5 AND d.b LIKE 'x%'", {"d": {"a": [{"anything-but": [5]}], "b": [{"prefix": "x"}]}}),
        ("a > 1 AND a <= 5", {"a": [{"numeric": [">", 1, "<=", 5]}]}),
        ("a LIKE '%x' AND b LIKE 'a*%b' AND c NOT LIKE 'x%'",
         {"a": [{"suffix": "x"}], "b": [{"wildcard": "a\\**b"}], "c": [{"anything-but": {"prefix": "x"}}]}),
        ("EXISTS a AND b IS NULL", {"a": [{"exists": True}], "b": [{"exists": False}]}),
        ("LOWER(a) = 'x' AND LOWER(b) LIKE 'x%'",
         {"a": [{"equals-ignore-case": "x"}], "b": [{"prefix": {"equals-ignore-case": "x"}}]}),
        ("a = 1 OR b = 2", {"$or": [{"a": [1]}, {"b": [2]}]}),
        ("(a = 1 OR a LIKE 'x%') AND b = 2", {"a": [1, {"prefix": "x"}], "b": [2]}),
    ],
)  # fmt: skip
def test_filters_are_written(text: str, pattern: dict[str, Any]) -> None:
    filter = parse_filter(text)
    assert to_pattern(filter) == pattern
    assert plain(from_pattern(pattern)).digest == filter.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a REGEXP 'x'", "cannot say a REGEXP 'x'"),
        ("a LIKE 'x_'", "cannot say a LIKE 'x_'"),
        ("a > 'x'", "cannot say a > 'x'"),
        ("a = TIMESTAMP '2026-01-01T00:00:00Z'", "cannot say a = TIMESTAMP"),
        ("topic MATCHES 'a/#'", "cannot say topic MATCHES"),
        ("type IS A T", "cannot say type IS A"),
        ("a + b > 3", r"cannot say a \+ b > 3"),
        ("LOWER(a) = 5", "cannot say LOWER"),
        ("a > 5 AND a != 7", "one place for 'a'"),
        ("a = 1 AND a.b = 2", "both 'a' and 'a.b'"),
        ("`$or` = 1", "cannot name the attribute"),
        ("FALSE", "always or never"),
        ("TRUE", "always or never"),
    ],
)
def test_what_a_pattern_cannot_say_is_named(text: str, words: str) -> None:
    with pytest.raises(FilterError, match=words):
        to_pattern(parse_filter(text))


def test_a_cesql_filter_has_no_pattern() -> None:
    with pytest.raises(FilterError, match="dialect cesql"):
        to_pattern(parse_filter("a = 1", dialect="cesql"))


WORDS = st.text("ab*\\%_", max_size=4)
RULES = st.one_of(
    WORDS, st.integers(-2, 2), st.booleans(), st.none(),
    WORDS.map(lambda w: {"prefix": w}), WORDS.map(lambda w: {"suffix": w}),
    WORDS.map(lambda w: {"wildcard": w}),
    st.integers(-2, 2).map(lambda n: {"numeric": [">", n]}), st.booleans().map(lambda b: {"exists": b}),
    st.lists(st.one_of(WORDS, st.integers(-2, 2)), min_size=1, max_size=2).map(lambda v: {"anything-but": v}),
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from("ab"), st.lists(RULES, min_size=1, max_size=3), min_size=1),
    st.dictionaries(st.sampled_from("ab"), st.one_of(WORDS, st.integers(-2, 2), st.booleans())),
)
def test_what_is_written_accepts_what_was_read(pattern: dict[str, Any], attributes: dict[str, Any]) -> None:
    filter = from_pattern(pattern)
    try:
        written = to_pattern(filter)
    except FilterError:
        return  # it says why, and never writes something else
    event = make_event(attributes, source="s", id="1")
    assert accepts(from_pattern(written), event) is accepts(filter, event)

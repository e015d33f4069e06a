"""Budgets: each is named, and none is found out by running out of something."""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest

from tidings.errors import FilterLimitError
from tidings.language import Limits, accepts, normalise, parse, parse_filter
from tidings.language.work import WorkIndex, is_over
from tidings.model import pattern as pattern_module
from tidings.model.event import make_event
from tidings.model.expression import And, Attribute, Compare, Literal, Not, RegexpTest, Xor


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("a = '" + "x" * 20_000 + "'", "text"),
        ("a = '" + "é" * 9_000 + "'", "text"),
        ("(" * 100 + "a" + ")" * 100, "depth"),
        ("(" * 8000, "depth"),
        ("NOT " * 4000 + "a", "depth"),
        ("-" * 16_000 + "a", "depth"),
        ("F(" * 5000, "depth"),
        ("a" + " + 1" * 40 + " > 0", "depth"),
        ("a" + " IS NULL" * 40, "depth"),
        ("a" + " IN (1)" * 1000, "depth"),
        (" AND ".join(f"a{n} = {n}" for n in range(257)), "constraints"),
        (" OR ".join("a" for _ in range(257)), "constraints"),
        ("a NOT IN (" + ", ".join(f"b{n}" for n in range(256)) + ")", "constraints"),
        (" AND ".join(f"(a{n} OR b{n})" for n in range(9)), "conjunctions"),
        (" AND ".join(f"(a{n} OR b{n})" for n in range(100)), "conjunctions"),
        (" XOR ".join(f"a{n}" for n in range(250)), "conjunctions"),
        (" AND ".join(f"a{n} NOT BETWEEN 1 AND 2" for n in range(200)), "conjunctions"),
        (
            " AND ".join([*(f"(a{n} OR b{n})" for n in range(8)), *(f"c{n} > d{n}" for n in range(200))]),
            "steps",
        ),
        (" OR ".join(f"a REGEXP '{chr(92)}pL{{4}}{n}'" for n in range(9)), "patterns"),
        ("a REGEXP '" + r"\pL" * 40 + "'", "patterns"),
    ],
)
def test_each_budget_has_an_error_that_names_it(text: str, limit: str) -> None:
    with pytest.raises(FilterLimitError, match=f"limit `{limit}`"):
        parse_filter(text)


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"a{n} = {n}" for n in range(256)),
        " AND ".join(f"(a{n} OR b{n})" for n in range(8)),
        " OR ".join(f"a{n} AND b{n}" for n in range(128)),
        "a IN (" + ", ".join(map(str, range(2900))) + ")",
        " OR ".join(f"a = {n}" for n in range(256)),
        "NOT (" * 15 + "a = 1" + ")" * 15,
        "a" + " + 1" * 30 + " > 0",
    ],
)
def test_what_is_within_the_budgets_is_read(text: str) -> None:
    assert parse_filter(text).conjunctions


def test_the_budgets_are_settings() -> None:
    small = Limits(text=20, depth=2, constraints=2, conjunctions=2)
    assert parse_filter("a = 1 AND b = 2", limits=small)
    for text, limit in [
        ("a = 'twenty characters'", "text"),
        ("NOT (NOT (a > 1))", "depth"),
        ("a AND b AND c", "constraints"),
        ("a=1 AND b=2 AND c=3", "constraints"),
    ]:
        with pytest.raises(FilterLimitError, match=f"limit `{limit}`"):
            parse_filter(text, limits=small)
    with pytest.raises(FilterLimitError, match="limit `conjunctions`"):
        parse_filter("(a OR b) AND (c OR d)", limits=Limits(conjunctions=3))


def test_an_exploding_filter_costs_neither_time_nor_memory() -> None:
    worst = [
        " AND ".join(f"(a{n} OR b{n})" for n in range(120)),
        " XOR ".join(f"(a{n} AND b{n})" for n in range(120)),
        "(" * 30 + "a" + " XOR FALSE)" * 30,
        "(" * 30 + "a" + " XOR (b IS NULL))" * 30,
        " OR ".join("(" + " OR ".join(f"a{i}{j}" for j in range(9)) + ") AND b" for i in range(20)),
    ]
    tracemalloc.start()
    outcomes = [is_refused(text) for text in worst]  # without the limits this would not end
    assert outcomes == [True, True, False, False, False]
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def is_refused(text: str) -> bool:
    try:
        parse_filter(text)
    except FilterLimitError:
        return True
    return False


def test_expressions_made_by_code_are_measured_too() -> None:
    leaf = Compare("=", Attribute("a"), Literal(1))
    deep = leaf
    for _ in range(50_000):
        deep = Not(deep)  # type: ignore[assignment]
    with pytest.raises(FilterLimitError, match="limit `depth`"):
        normalise(deep, text="")
    wide = leaf
    for _ in range(50_000):
        wide = And(wide, leaf)  # type: ignore[assignment]
    with pytest.raises(FilterLimitError, match="limit `constraints`"):
        normalise(wide, text="")
    odd = leaf
    for _ in range(250):
        odd = Xor(odd, leaf)  # type: ignore[assignment]
    assert normalise(odd, text="").conjunctions  # one attribute: it stays small


def test_reading_is_linear_in_the_text() -> None:
    """A text of sixteen times the length takes about sixteen times as many steps; squared would be 256."""
    shapes = ["a IN ({})", "CONCAT({})", "a = '{}'"]
    limits = Limits(text=1 << 30)
    for shape in shapes:
        short, long = (steps(shape.format(", ".join(["1"] * count)), limits) for count in (500, 8_000))
        assert long < 20 * short


def steps(text: str, limits: Limits) -> int:
    """Lines that run while a text is parsed: a measure of work that no other load on the machine changes."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal counted
        counted += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        parse(text, limits=limits)
    finally:
        sys.settrace(before)
    return counted


def test_a_long_and_of_plain_conditions_is_within_the_steps() -> None:
    found = parse_filter(" AND ".join(f"a{n} > b{n}" for n in range(256)))
    assert len(found.conjunctions[0].residuals) == 256


def test_expressions_over_the_pattern_budget_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = pattern_module._compile

    def compile(text: str) -> Any:
        compiled.append(text)
        return real(text)

    monkeypatch.setattr(pattern_module, "_compile", compile)
    with pytest.raises(FilterLimitError, match="limit `patterns`"):
        parse_filter(" OR ".join(rf"a REGEXP '\pL{{10}}never{n}'" for n in range(100)))
    assert sum(map(pattern_module.compiled_weight, compiled)) <= Limits().patterns
    with pytest.raises(FilterLimitError, match="limit `patterns`"):  # an expression without a text
        normalise(RegexpTest(Attribute("a"), r"\pL{99}other"), text="")
    assert not any("other" in text for text in compiled)


def test_the_same_expression_twice_counts_once() -> None:
    one, other = r"REGEXP '\pL{20}'", r"REGEXP '\pL{20}x'"
    assert len(parse_filter(f"a {one} OR b {one}").conjunctions) == 2
    assert parse_filter(f"b {other}").conjunctions, "each alone is within the limit"
    with pytest.raises(FilterLimitError, match="limit `patterns`"):
        parse_filter(f"a {one} OR b {other}")


def test_compiled_programs_are_bounded_in_bytes() -> None:
    programs = pattern_module._Programs(1 << 20)
    for number in range(200):
        assert programs.get(f"cached{number}").search(f"cached{number}")
    assert programs.bytes <= 1 << 20
    assert 1 <= len(programs) < 200


def test_a_stored_filter_over_the_pattern_budget_is_unknown_and_routes_as_a_match() -> None:
    wide = Limits(text=1 << 20, patterns=1 << 30)
    stored = parse_filter(" OR ".join(rf"a REGEXP '\pL{{20}}s{n}'" for n in range(14)), limits=wide)
    event = make_event({"a": "x"}, source="s", id="1")
    assert is_over(stored, event)
    assert not accepts(stored, event)
    index = WorkIndex()
    index.add(1, stored)
    assert index.over(event) == [1]

"""Explanations say what held, what did not, and why."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tidings.language import parse_filter
from tidings.matching.explain import MOST_CHARACTERS, WIDEST, explain, explain_briefly
from tidings.model.event import Event, make_event


def event(**attributes: Any) -> Event:
    return make_event(attributes, source="desk", id="7", topic="stock/us", type=("Trade", "Event"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("price < 3", "out of range"), ("price = 3", "not equal"), ("price IN (1, 2)", "none of the values"),
        ("price NOT IN (5, 6)", "one of the values"), ("nobody > 1", "absent"),
        ("price = 'x'", "other kind: a number, not a string"),
        ("name > 1", "other kind: a string, not a number"),
        ("price LIKE 'I_M'", "other kind: a number, not a string"),
        ("name LIKE 'J_M'", "no match"), ("name NOT LIKE 'I_M'", "a match"), ("name REGEXP '^J'", "no match"),
        ("topic = 'x/+'", "no match"), ("price IS NULL", "present"),
        ("type IS A Quote", "not in the lineage"),
        ("type IS NOT A Event", "in the lineage"),
        ("price IN ('x', TRUE)", "other kind: a number, not a boolean or a string"),
    ],
)  # fmt: skip
def test_the_reason_of_a_constraint_that_does_not_hold(text: str, reason: str) -> None:
    explanation = explain(event(price=5, name="IBM"), parse_filter(text))
    assert not explanation.accepted
    (conjunction,) = explanation.conjunctions
    (trace,) = conjunction.constraints
    assert (trace.held, trace.reason) == (False, reason)


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("price > limit", None, "unknown"),
        ("price + 1 < 3", False, "false"),
        ("COALESCE(price, 1)", 5, "not a boolean"),
    ],
)
def test_the_value_of_a_residual(text: str, value: Any, reason: str) -> None:
    (conjunction,) = explain(event(price=5), parse_filter(text)).conjunctions
    (trace,) = conjunction.residuals
    assert (trace.value, trace.held, trace.reason) == (value, False, reason)


def test_a_residual_of_cesql_shows_its_errors() -> None:
    (conjunction,) = explain(event(), parse_filter("hop < 5 OR 1 / 0 = 1", dialect="cesql")).conjunctions
    assert conjunction.residuals[0].reason == "missingAttribute"
    (conjunction,) = explain(event(hop="4"), parse_filter("hop < 5", dialect="cesql")).conjunctions
    assert conjunction.held
    assert conjunction.residuals[0].reason is None


def test_each_way_is_shown_in_the_text() -> None:
    filter = parse_filter("(name = 'IBM' AND price < 3) OR name LIKE 'I%' AND price > limit")
    text = str(explain(event(price=5, name="IBM"), filter)).splitlines()
    assert text == [
        f"{filter.text} does not accept event 7 of desk",
        "  no  one of 2 ways",
        "    yes name LIKE 'I%': 'IBM'",
        "    no  price > limit: unknown",
        "  no  one of 2 ways",
        "    yes name = 'IBM': 'IBM'",
        "    no  price < 3: 5 (out of range)",
    ]


def test_one_way_and_odd_values() -> None:
    stored = make_event(
        {"x": math.inf, "t": datetime(2026, 1, 1, tzinfo=UTC), "long": "y" * 200}, source="s", id="1"
    )
    text = str(explain(stored, parse_filter("x > 1 AND EXISTS t AND EXISTS long AND NOT EXISTS z")))
    assert "yes x > 1: inf" in text
    assert "yes EXISTS t: TIMESTAMP '2026-01-01T00:00:00Z'" in text
    assert "..." in text
    assert "yes z IS NULL: nothing" in text
    assert "type IS A Trade: Trade < Event" in str(explain(event(), parse_filter("type IS A Trade"))).replace(
        "'", ""
    )


def test_always_and_never() -> None:
    assert "yes always true" in str(explain(event(), parse_filter("TRUE")))
    assert "this filter is never true" in str(explain(event(), parse_filter("FALSE")))


def test_it_can_be_written_as_json() -> None:
    data = msgspec.to_builtins(explain(event(price=5), parse_filter("price > 3")))
    assert data["accepted"] is True
    assert data["conjunctions"][0]["constraints"][0] == {
        "attribute": "price", "wanted": "price > 3", "value": 5, "held": True, "reason": None,
    }  # fmt: skip


def test_a_brief_explanation_is_bounded_and_has_the_same_verdict() -> None:
    long = event(x="a" * 500_000, many=[0] * 5_000, n=10**2000)
    texts = [
        " OR ".join(f"x = 'b{number}'" for number in range(250)),
        " OR ".join(f"many IS NULL OR n = {number}" for number in range(120)),
        "name IS NULL AND (" + " OR ".join(f"CONCAT(x, x) = '{number}'" for number in range(60)) + ")",
        "n NOT IN (" + ",".join(map(str, range(3_000))) + ") AND ("
        + " OR ".join(f"a{number} IS NULL" for number in range(64)) + ")",
        " AND ".join(f"(a{number} = 1 OR b{number} = 2)" for number in range(8)),
    ]  # fmt: skip
    for text in texts:
        filter = parse_filter(text)
        brief, whole = explain_briefly(long, filter), explain(long, filter)
        assert (brief.accepted, brief.over_budget) == (whole.accepted, whole.over_budget)
        assert len(msgspec.json.encode(brief)) < 3 * MOST_CHARACTERS
        assert len(str(brief)) < 2 * MOST_CHARACTERS
        told = sum(len(way.constraints) + len(way.residuals) for way in brief.conjunctions)
        conditions = sum(len(way.constraints) + len(way.residuals) for way in whole.conjunctions)
        assert told + brief.left_out == conditions
        for way in brief.conjunctions:
            assert all(
                len(str(part.value)) <= WIDEST and len(part.wanted) <= WIDEST for part in way.constraints
            )


def test_a_short_explanation_is_the_same_when_brief() -> None:
    text = "price < 3 AND LENGTH(name) > 5 OR price IN (5, 6) AND tags IS NOT NULL"
    filter = parse_filter(text)
    asked = event(price=5, name="IBM", tags=["a", "b"])
    assert explain_briefly(asked, filter) == explain(asked, filter)


def test_an_explanation_shows_lists() -> None:
    asked = event(numbers=[1, 2], words=["a"], mixed=[{"a": 1}, None])
    text = str(explain(asked, parse_filter("numbers = 3 OR words IS NULL OR mixed = 'x'")))
    assert "numbers = 3: (1, 2)" in text
    assert "words IS NULL: a" in text
    assert "mixed = 'x': 2 elements" in text

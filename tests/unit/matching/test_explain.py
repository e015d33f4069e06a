"""Explanations say what held, what did not, and why."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tidings.language import parse_filter
from tidings.matching.explain import explain
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

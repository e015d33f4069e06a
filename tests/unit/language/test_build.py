"""Filters built in code mean what their text means."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import Any

import pytest

from tidings.errors import FilterError, FilterLimitError
from tidings.language import Limits, accepts, parse_filter
from tidings.language.build import Condition, as_filter, attr, call, is_a, topic
from tidings.model.event import make_event

a, b = attr("a"), attr("b")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (a == 1, "a = 1"),
        (a != "x", "a != 'x'"),
        (attr("change") < -3, "change < -3"),
        (a <= 1.5, "a <= 1.5"),
        (a > b, "a > b"),
        (a >= datetime(2026, 1, 1, tzinfo=UTC), "a >= TIMESTAMP '2026-01-01T00:00:00Z'"),
        (a > 1, "a > 1"),
        (a.in_(1, 2), "a IN (1, 2)"),
        (a.in_(["x", b]), "a IN ('x', b)"),
        (a.in_({5}), "a IN (5)"),
        (a.in_("abc"), "a IN ('abc')"),
        (a.not_in(1, 2), "a NOT IN (1, 2)"),
        (a.between(1, 5), "a BETWEEN 1 AND 5"),
        (a.like("x_%"), "a LIKE 'x_%'"),
        (a.startswith("50%"), r"a LIKE '50\\%%'"),
        (a.endswith(".png"), "a LIKE '%.png'"),
        (a.contains("x_y"), r"a LIKE '%x\\_y%'"),
        (a.regexp("^x+$"), "a REGEXP '^x+$'"),
        (a.matches("x/#"), "a MATCHES 'x/#'"),
        (a.exists(), "EXISTS a"),
        (a.is_null(), "a IS NULL"),
        (a.is_not_null(), "a IS NOT NULL"),
        (topic("x/#"), "topic MATCHES 'x/#'"),
        (is_a("Trade"), "type IS A 'Trade'"),
        (a + b * 2 > 5, "a + b * 2 > 5"),
        ((a + b) * 2 > 5, "(a + b) * 2 > 5"),
        (10 - a / 2 % 3 < -b, "10 - a / 2 % 3 < (-b)"),
        (2 * a + 1 == 1 + a, "2 * a + 1 = 1 + a"),
        (1 / a == 5 % a, "1 / a = 5 % a"),
        (call("length", a) > 3, "LENGTH(a) > 3"),
        (a & b, "a AND b"),
        (~a, "NOT a"),
        ((a == 1) & (b == 2) | ~(a > 5), "(a = 1 AND b = 2) OR NOT (a > 5)"),
        (a ^ b, "a XOR b"),
        (attr("odd name") == 1, "`odd name` = 1"),
    ],
)
def test_a_condition_and_its_text_are_one_filter(condition: Condition, text: str) -> None:
    assert str(condition) == text
    assert condition.filter().text == text
    assert condition.filter().digest == parse_filter(text).digest


@pytest.mark.parametrize("text", ["plain", "back\\", "%", "_", "\\%", "\\\\", "a\\_", ""])
def test_starts_ends_and_contains_mean_the_text_itself(text: str) -> None:
    for value in (
        "plain",
        "back\\",
        "x\\%y",
        "back\\slash",
        "%",
        "_",
        "\\",
        "\\\\x",
        "a\\_b",
        "a\\xb",
        "",
        "b]",
        "back]",
    ):
        event = make_event({"a": value}, source="s", id="1")
        assert accepts(a.startswith(text).filter(), event) is value.startswith(text)
        assert accepts(a.endswith(text).filter(), event) is value.endswith(text)
        assert accepts(a.contains(text).filter(), event) is (text in value)
        for condition in (a.startswith(text), a.endswith(text), a.contains(text)):
            assert parse_filter(str(condition)).digest == condition.filter().digest


def test_python_s_own_and_or_not_are_refused_with_advice() -> None:
    for use in (
        lambda: a > 1 and b > 2,
        lambda: a > 1 or b > 2,
        lambda: not a,
        lambda: 1 < a < 5,
        lambda: bool(a == 1),
    ):
        with pytest.raises(FilterError, match="join conditions with &"):
            use()


@pytest.mark.parametrize(
    "value", [None, math.nan, math.inf, b"x", object(), datetime(2026, 1, 1), 2**63, "\ud800"]
)
def test_values_that_no_attribute_can_have(value: Any) -> None:
    with pytest.raises(FilterError):
        a == value  # noqa: B015


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: attr(""), "name"),
        (lambda: a.in_(), "at least one value"),
        (lambda: a.in_([]), "at least one value"),
        (lambda: a.like(5), "no text"),
        (lambda: a.regexp("(("), "RE2"),
        (lambda: topic("a/#/b"), "# before its end"),
        (lambda: (a > 1) & 5, "no condition"),
        (lambda: (a > 1) & (b | "b > 2"), "no condition"),
        (lambda: call("NOPE", a).filter(), "no function NOPE"),
        (lambda: as_filter(5), "cannot be made of int"),  # type: ignore[arg-type]
    ],
)
def test_mistakes(make: Any, words: str) -> None:
    with pytest.raises(FilterError, match=words):
        make()


def test_as_filter_takes_all_three() -> None:
    text, condition = "a = 1", a == 1
    filter = parse_filter(text)
    assert as_filter(filter) is filter
    assert as_filter(text).digest == as_filter(condition).digest == filter.digest
    assert as_filter("a = 1", dialect="cesql").dialect == "cesql"


def test_budgets_hold_for_conditions_too() -> None:
    many = reduce(and_, [attr(f"a{n}") > n for n in range(3000)])
    with pytest.raises(FilterLimitError, match="limit `text`"):
        many.filter()
    with pytest.raises(FilterLimitError, match="limit `constraints`"):
        many.filter(limits=Limits(text=1 << 20))
    assert (
        len(as_filter(many, limits=Limits(text=1 << 20, constraints=3000)).conjunctions[0].constraints)
        == 3000
    )


def test_conditions_show_themselves() -> None:
    assert repr(a > 1) == "<condition a > 1>"
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)

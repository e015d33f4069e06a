"""Conditions on lists, decimals, dates and names of the envelope: three-valued, printed, in normal form."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tidings.algebra import covers
from tidings.algebra.covers import decide_covers
from tidings.errors import FilterError
from tidings.language import parse_filter
from tidings.language.evaluate import accepts, evaluate
from tidings.language.parser import parse
from tidings.language.printer import print_expression, print_filter
from tidings.model.event import make_event

ORDER: dict[str, Any] = {
    "id": 7, "type": "order", "tags": ["red", "big"], "none": [], "blank": [None], "mixed": ["a", 1, None],
    "scalar": "red",
    "price": Decimal("0.1"), "wide": 2**70, "day": date(2026, 3, 1), "local": datetime(2026, 3, 1, 12),
    "opens": time(8, 30),
    "key": UUID(int=1), "raw": b"x", "grid": [[1, 2], [], [3]],
    "lines": [
        {"sku": "a", "price": Decimal("100.10"), "parts": [{"n": 1}, {"n": 2}]},
        {"sku": "b", "price": 5, "parts": []},
    ],
    "orders": [{}, {"lines": [{"price": 3}]}], "data": {"topic": "inner"},
}  # fmt: skip
EVENT = make_event(ORDER, source="s", id="e", time=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'red' IN tags", True), ("'blue' IN tags", False), ("'blue' NOT IN tags", True), ("5 IN tags", None),
        ("'red' IN scalar", True), ("'red' IN missing", None), ("'red' NOT IN missing", None),
        ("1 IN none", False),
        ("1 IN blank", None), ("1 IN mixed", True), ("2 IN mixed", None), ("scalar IN tags", True),
        ("tags = 'red'", None),
        ("tags IS NULL", False), ("EXISTS tags", True), ("EXISTS none", True), ("EXISTS raw", True),
        ("raw = 'x'", None),
        ("LENGTH(tags) = 2", True), ("LENGTH(none)", 0), ("LENGTH(scalar)", 3), ("LENGTH(missing)", None),
        ("LENGTH(raw)", None),
        ("ANY(lines.price > 100)", True), ("ALL(lines.price > 100)", False), ("ALL(lines.price > 4)", True),
        ("ANY(lines.sku = 'b' AND lines.price > 100)", False),
        ("ANY(lines.sku = 'a' AND lines.price > 100)", True),
        ("ANY(none = 1)", False), ("ALL(none = 1)", True), ("ALL(missing = 1)", None),
        ("ANY(missing IS NULL)", True),
        ("ANY(blank IS NULL)", True), ("ALL(blank IS NOT NULL)", False), ("ANY(tags LIKE 'r%')", True),
        ("ALL(tags LIKE '%')", True),
        ("ANY(lines.parts.n = 2)", True), ("ALL(lines.parts.n > 0)", True), ("ALL(lines.parts.n > 1)", False),
        ("ANY(orders.lines.price = 3)", True), ("ALL(orders.lines.price = 3)", None), ("3 IN grid", True),
        ("ALL(grid < 4)", True),
        ("ANY(ANY(lines.parts.n = 2) AND lines.sku = 'a')", True), ("ANY(scalar = 'red')", True),
        ("ALL(scalar = 'blue')", False),
        ("NOT ANY(lines.price > 1000)", True), ("ANY(NOT lines.price > 100)", True),
        ("ANY(LENGTH(tags) = 3)", True),
        ("data.id = 7", True), ("id = 'e'", True), ("data.type = 'order'", True), ("type = 'order'", None),
        ("data.topic = 'inner'", True), ("price = DECIMAL('0.1')", True), ("price = 0.1", False),
        ("price < 0.1", True),
        ("price = DECIMAL('0.10')", True), ("price IN (DECIMAL('0.1'), 5)", True),
        ("DECIMAL('x') IS NULL", True),
        ("ANY(lines.price = DECIMAL('100.1'))", True), ("price * 2 = 0.2", True), ("-price = -0.1", True),
        ("ABS(price) = 0.1", True),
        ("wide > 9223372036854775807", True), ("wide + 1 > 0", None), ("price BETWEEN 0 AND 1", True),
        ("INT(price)", 0),
        ("day = TIMESTAMP '2026-03-01T00:00:00Z'", True),
        ("local < TIMESTAMP '2026-03-01T12:00:00.000001Z'", True),
        ("opens >= '08:00'", True), ("key LIKE '00000000-%'", True), ("STRING(price) = '0.1'", True),
        ("DECIMAL(price) > 0", True),
    ],
)  # fmt: skip
def test_what_an_expression_says_of_an_event(text: str, value: Any) -> None:
    expression = parse(text)
    assert evaluate(expression, EVENT.view) == value
    assert type(evaluate(expression, EVENT.view)) is type(value)
    assert parse(print_expression(expression)) == expression
    if not isinstance(value, int) or isinstance(value, bool):
        filter = parse_filter(text)
        assert accepts(filter, EVENT) is (value is True)
        assert accepts(parse_filter(f"NOT ({text})"), EVENT) is (value is False)
        assert parse_filter(print_filter(filter)).digest == filter.digest


def test_a_membership_is_printed_as_one() -> None:
    assert print_expression(parse("ANY(tags = 'red')")) == "'red' IN tags"
    assert print_expression(parse("'red' NOT IN tags")) == "NOT ('red' IN tags)"
    assert print_filter(parse_filter("NOT 'red' IN tags")) == "ALL(NOT (tags = 'red'))"


@pytest.mark.parametrize("text", ["ANY(1 = 1)", "ANY()", "ALL(tags", "ANY(a, b)", "'x' IN 5"])
def test_a_condition_on_no_list_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter(text)


def test_names_any_and_all_remain_names() -> None:
    event = make_event({"any": 1, "all": 2}, source="s", id="1")
    assert accepts(parse_filter("any = 1 AND all = 2 AND 1 IN any"), event)


@pytest.mark.parametrize(
    ("wide", "narrow", "verdict"),
    [
        ("'a' IN tags", "'a' IN tags AND x = 1", True), ("'a' IN tags", "'b' IN tags", None),
        ("EXISTS tags", "'a' IN tags", True),
        ("'a' IN tags", "EXISTS tags", None), ("x > 0.1", "x = DECIMAL('0.1')", None), ("x < 3",
        "x = DECIMAL('2.5')", True),
        # A list exists and is of no other kind; a decimal lies between two neighbouring doubles.
        ("x < 0 OR x >= 0 OR x LIKE '%' OR x = TRUE OR x = FALSE OR x >= TIMESTAMP '0001-01-01T00:00:00Z'",
        "EXISTS x", False),
        ("x = 1", "x > 9007199254740992 AND x < 9007199254740993", False),
        ("FALSE", "x > 0.1 AND x < 0.10000000000000002", False),
    ],
)  # fmt: skip
def test_covers_is_sound_with_lists_and_decimals(wide: str, narrow: str, verdict: bool | None) -> None:
    assert decide_covers(parse_filter(wide), parse_filter(narrow)) is verdict
    assert covers(parse_filter(wide), parse_filter(narrow)) is (verdict is True)


def test_a_list_counts_for_the_work_budget() -> None:
    event = make_event({"tags": ["x" * 10] * 30_000}, source="s", id="1")
    assert not accepts(parse_filter("'x' IN tags OR ANY(tags LIKE '%x%')"), event)
    assert accepts(parse_filter("'x' IN tags OR ANY(tags LIKE 'x%')"), event)  # looks at no more than its x
    assert accepts(parse_filter("EXISTS tags"), event)

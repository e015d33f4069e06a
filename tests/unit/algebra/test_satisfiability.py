"""Whether a filter can ever match: exact where events show it, no only where none can, else not known."""

from __future__ import annotations

import pytest

from tidings.algebra import can_match, decide_overlaps, intersect, overlaps
from tidings.algebra.domain import NOTHING, Domain
from tidings.algebra.intervals import FULL
from tidings.algebra.region import Region
from tidings.algebra.terms import RETURNS, TAKES, contradicts
from tidings.language import parse_filter
from tidings.language.functions import ANY, BOOLEAN, FUNCTIONS, INTEGER, NUMBER, STRING, TIME
from tidings.model.constraint import NotOneOf, Range
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import Kind

KINDS = {
    STRING: Kind.STRING, INTEGER: Kind.NUMBER, NUMBER: Kind.NUMBER, BOOLEAN: Kind.BOOL, TIME: Kind.TIME,
    ANY: None,
}  # fmt: skip

NEVER = [
    "topic = 'a/#' AND topic = 'b/#'",
    "time > '2026-01-01'",
    "id = 5",
    "topic > 3 OR type > 3",
    "5 < price < 10",
    "first-name = 'IBM'",
    "price > price",
    "price != price",
    "price * qty > price * qty",
    "LENGTH(symbol) < 0",
    "LENGTH(symbol) > 2 AND symbol = 5",
    "ABS(x) = -1",
    "price * qty > 10 AND price * qty < 5",
    "price * qty = 3 AND price * qty IN (4, 5)",
    "price * qty NOT IN (3) AND price * qty = 3",
    "a + b BETWEEN 5 AND 3",
    "LOWER(name) LIKE 'a%' AND LOWER(name) LIKE 'b%'",
    "a < b AND b < a",
    "a < b AND NOT a < b",
    "a <= b AND b <= a AND a != b",
    "a BETWEEN b AND c AND a < b",
    "a < b AND a > 10 AND b < 5",
    "a = b AND a > 1 AND b LIKE 'x%'",
    "a + 1 > 2 AND a = 'x'",
    "BOOL(a) AND NOT BOOL(a)",
    "(a > b) > TRUE",
]
CAN = [
    "price > 5",
    "price > 5 AND price < 5.000000000000001",  # a decimal lies between the two doubles
    "topic = 'a/+' AND topic = '+/b'",
    "topic LIKE 'stocks/%'",
    "topic LIKE '%/ibm'",
    "topic > 'a'",
    "topic NOT MATCHES 'a/#'",
    "time > TIMESTAMP '2026-01-01T00:00:00Z'",
    "time IS NULL AND topic IS NULL AND type IS NULL",
    "type IS A X AND type = 'Y'",
    "price > price OR price > 5",
]
UNKNOWN = [
    "price * qty > 10",
    "price * qty >= 5 AND price * qty <= 5",
    "a < b AND b < c AND c < a",
    "ABS(x) = 0",
    "ANY(lines.price > lines.price)",
    "name REGEXP 'a{3}'  AND name REGEXP '^b'",
    "id IS NULL",  # a row of a table may lack it, no event does
    "`time.x` = 1",
    "topic LIKE 'a+%'",
    "a = a",
    "a >= b AND b >= a",
    "a % 2 = 1 AND a % 3 = 0",
    "LENGTH(tags) > 2 AND tags NOT IN ('x') OR LENGTH(tags) > 2 AND 'red' IN tags",
]


@pytest.mark.parametrize(("texts", "expected"), [(NEVER, False), (CAN, True), (UNKNOWN, None)])
def test_each_filter_has_one_answer(texts: list[str], expected: bool | None) -> None:
    for text in texts:
        filter = parse_filter(text)
        assert can_match(filter) is expected, text
        assert decide_overlaps(filter, filter) is expected, text
        assert overlaps(filter, filter) is (expected is not False), text


def test_nothing_and_everything() -> None:
    assert can_match(parse_filter("FALSE")) is False
    assert can_match(parse_filter("TRUE")) is True


def test_cesql_casts_so_its_computed_conditions_are_not_read() -> None:
    assert can_match(parse_filter("time > '2026-01-01'", dialect="cesql")) is None
    assert can_match(parse_filter("price > price", dialect="cesql")) is None


def test_contradictions_between_two_filters_are_found() -> None:
    one, other = parse_filter("price * qty > 10"), parse_filter("price * qty < 5 OR price * qty = 7")
    assert decide_overlaps(one, other) is False
    assert can_match(intersect(one, other)) is False
    assert decide_overlaps(one, parse_filter("price * qty < 11")) is None


def test_equal_terms_of_another_kind_of_constant_are_different_terms() -> None:
    assert can_match(parse_filter("a * 2 > 10 AND a * 2.0 < 5")) is None
    assert can_match(parse_filter("a + b > 10 AND b + a < 5")) is None


def test_a_list_has_a_length_and_is_null_to_other_functions() -> None:
    some_list = Region({"tags": Domain(False, (*NOTHING.kinds[:4], FULL))})
    (conjunction,) = parse_filter("LENGTH(tags) > 2").conjunctions
    assert not contradicts(some_list.domains, conjunction.residuals)
    (conjunction,) = parse_filter("UPPER(tags) = 'A'").conjunctions
    assert contradicts(some_list.domains, conjunction.residuals)


def test_made_constraints_without_a_value() -> None:
    for constraint in (Range("a", 5, 3), Range("a", 5, 5, True, False), NotOneOf("a", (1, "x"))):
        assert can_match(Filter("made", (Conjunction((constraint,)),))) is False


def test_past_the_budget_the_answer_is_not_known() -> None:
    text = " OR ".join(f"(a > a AND b = '{'x' * 60}{n}')" for n in range(100))
    assert can_match(parse_filter(text)) is False
    long = parse_filter(f"a > a AND CONCAT(b, '{'x' * 10_000}') = 'y'").conjunctions
    assert can_match(Filter("made", long * 10)) is False
    assert can_match(Filter("made", long * 50)) is None


def test_values_inside_values_are_computed_once() -> None:
    nested = "a"
    for _ in range(25):
        nested = f"(({nested}) BETWEEN b AND c)"
    assert can_match(parse_filter(f"{nested} = x")) is not True


def test_each_function_returns_what_the_algebra_takes_it_to_return() -> None:
    assert RETURNS.keys() <= FUNCTIONS.keys()
    for name, function in FUNCTIONS.items():
        assert RETURNS.get(name) is KINDS[function.returns], name
        if name in TAKES:
            kinds = {KINDS[kind] for kind in (*function.takes, *([function.rest] if function.rest else []))}
            assert kinds == {TAKES[name]}, name

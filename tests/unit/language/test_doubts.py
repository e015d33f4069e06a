"""Doubts about filters that parse: what can never be true, and what was surely not meant."""

from __future__ import annotations

import asyncio
import logging

import pytest

import tidings
from tidings.algebra import can_match
from tidings.errors import ImpossibleFilterError
from tidings.language import parse_filter
from tidings.language.doubts import doubts_of
from tidings.model.value import Kind

DOUBTFUL = [
    ("5 < price < 10", "chain", 4, "with AND between them"),
    ("first-name = 'IBM'", "name", 0, "`first-name`"),
    ("a = 1 AND time > '2026-01-01'", "kinds", 10, "TIMESTAMP '2026-01-01T00:00:00Z'"),
    ("time LIKE '2026%'", "kinds", 0, "TIMESTAMP(text)"),
    ("TIMESTAMP(at) > '2026-01-01'", "kinds", 10, "TIMESTAMP '2026-01-01T00:00:00Z'"),
    ("id = 5", "kinds", 0, "a text stands in quotes"),
    ("LENGTH(name) = 'x'", "kinds", 7, "different kinds"),
    ("LENGTH(name) > '10'", "kinds", 7, "write 10 without quotes"),
    ("StockName = IBM", "attribute", 12, "write 'IBM'"),
    ("StockName IN (IBM, 'SUN')", "attribute", 14, "write 'IBM'"),
    ("topic = 'a.b.>'", "wildcard", 0, "topic MATCHES 'a/b/#'"),
    ("topic = 'a/*/b'", "wildcard", 0, "topic MATCHES 'a/+/b'"),
    ("topic MATCHES 'a/**'", "wildcard", 0, "topic MATCHES 'a/#'"),
    ("topic LIKE 'a/#'", "wildcard", 0, "topic MATCHES 'a/#'"),
    ("a = 1 AND a = 2", "never", None, "exclude each other"),
]
PLAIN = [
    "StockName = 'IBM' AND change < -3", "bid >= ask", "bid = ask", "(a > 1) = TRUE", "(a > 1) = flag",
    "topic = 'a/#'",
    "time > TIMESTAMP '2026-01-01T00:00:00Z'", "TIMESTAMP(at) > time", "a - b > 3", "`first-name` = 'IBM'",
    "topic LIKE 'a*b%'", "id > 'a'", "type IS A Trade", "x = 5 OR x = 'five'", "topic = 'a*/b'",
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "offset", "hint"), DOUBTFUL)
def test_a_doubt_says_where_and_what_to_write(text: str, code: str, offset: int | None, hint: str) -> None:
    doubt = doubts_of(parse_filter(text))[0]
    assert (doubt.code, doubt.offset) == (code, offset)
    assert hint in str(doubt)


def test_an_attribute_is_judged_where_its_kind_is_known() -> None:
    filter = parse_filter("total > '100.5' AND other > '100'")
    (doubt,) = doubts_of(filter, kinds={"total": Kind.NUMBER})
    assert (doubt.code, doubt.offset) == ("kinds", 0)
    assert doubt.message == "total is a number and is compared with a string: never true"
    assert doubt.hint == "write 100.5 without quotes, or DECIMAL('100.5') where the values are decimals"


@pytest.mark.parametrize("text", PLAIN)
def test_plain_filters_raise_no_doubt(text: str) -> None:
    assert doubts_of(parse_filter(text)) == []


def test_known_attributes_decide_what_a_bare_word_is() -> None:
    filter = parse_filter("StockName = IBM AND bid = ask")
    assert [warning.code for warning in doubts_of(filter, known={"StockName", "bid", "IBM", "ask"})] == []
    assert "ask is read" in str(doubts_of(filter, known={"StockName", "bid", "IBM"})[0])


def test_what_the_algebra_shows_to_be_impossible_is_doubtful() -> None:
    filter = parse_filter("price > price")
    assert doubts_of(filter) == []
    assert [doubt.code for doubt in doubts_of(filter, can_match=can_match(filter))] == ["never"]
    chain = parse_filter("5 < price < 10")
    assert [doubt.code for doubt in doubts_of(chain, can_match=can_match(chain))] == ["chain"]


def test_cesql_casts_and_has_no_doubts() -> None:
    assert doubts_of(parse_filter("time > '2026-01-01'", dialect="cesql")) == []


def test_subscribe_warns_and_refuses_when_it_is_strict(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with tidings.connect() as bus:
            with caplog.at_level(logging.WARNING, "tidings.filters"):
                await bus.subscribe("time > '2026-01-01'")
                await bus.subscribe(topic="a.b.>")
                await bus.subscribe("price > price")
                await bus.subscribe("price > 5")
            with pytest.raises(ImpossibleFilterError, match="truth value"):
                await bus.subscribe("5 < price < 10", strict=True)
            with pytest.raises(ImpossibleFilterError, match="never be true"):
                await bus.subscribe("price > price", strict=True)

    asyncio.run(run())
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "subscription \"time > '2026-01-01'\"",
        "subscription \"topic MATCHES 'a.b.>'\"",
        "subscription 'price > price'",
    ]

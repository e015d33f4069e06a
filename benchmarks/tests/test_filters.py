"""The benchmark of reading filters: its rows, and the peers' words for our filters."""

from __future__ import annotations

import pytest

from tidings.language import accepts, parse_filter
from tidings.language.limits import DEFAULT_LIMITS
from tidings.language.simple import plain
from tidings.model.event import make_event
from tidings_bench.filters import in_rule_engine, loading, reading, run
from tidings_bench.workloads import Market, filters

COLUMNS = {"work", "size", "engine", "figure", "unit", "ratio_to_best_peer"}
TEXT = (
    "name LIKE 'te%' AND price BETWEEN 1.5 AND 20 AND sector = 'x' AND symbol IN ('a', 'b') AND volume "
    "> 5 AND EXISTS tag"
)


def test_rows_have_the_columns_of_the_contract() -> None:
    pytest.importorskip("rule_engine")
    rows = reading(size=50) + loading(60)
    assert all(set(row) == COLUMNS for row in rows)
    assert [(row["engine"], row["unit"]) for row in rows][:2] == [
        ("tidings", "filters/s"),
        ("rule-engine", "filters/s"),
    ]
    ours, peer = rows[0], rows[1]
    assert ours["figure"] > 0
    assert peer["ratio_to_best_peer"] == 1.0
    assert [row["size"] for row in rows if row["work"] == "W2 filters loaded"] == [60, 60]


def test_a_seed_draws_other_filters() -> None:
    assert run(seed=1, quick=True) is not None
    one, other = (next(filters(Market(name), 1, text=True)).text for name in ("W2", "W2 1"))
    assert one != other


def test_every_w2_filter_goes_the_short_way_and_is_read_as_it_was_made() -> None:
    for made in filters(Market(), 300, text=True):
        assert plain(made.text, DEFAULT_LIMITS) == made.conjunctions
        assert parse_filter(made.text).conjunctions == made.conjunctions


def test_the_peers_are_asked_the_same() -> None:
    rule_engine = pytest.importorskip("rule_engine")
    filter = parse_filter(TEXT)
    rule = rule_engine.Rule(in_rule_engine(filter))
    fitting = {"name": "text", "price": 1.5, "sector": "x", "symbol": "b", "volume": 6, "tag": "t"}
    for change in ({}, {"name": "x"}, {"price": 20.5}, {"sector": "y"}, {"symbol": "c"}, {"volume": 5}):
        attributes = fitting | change
        event = make_event(attributes, source="s", id="1")
        assert rule.matches(attributes) is accepts(filter, event) is (not change)

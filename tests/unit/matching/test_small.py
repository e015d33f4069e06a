"""The plain-Python index: each kind of entry point, and what has none."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.matching.matcher import Matcher, Matches
from tidings.matching.naive import NaiveMatcher
from tidings.matching.small import SmallMatcher
from tidings.model.event import Event, make_event


def event(topic: str | None = None, type: Any = None, **attributes: Any) -> Event:
    return make_event(attributes, source="s", id="1", topic=topic, type=type)


def loaded(*texts: str) -> SmallMatcher:
    matcher = SmallMatcher()
    for text in texts:
        matcher.add(parse_filter(text))
    return matcher


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("a = 1 AND b > 2", "by value"), ("a IN (1, 'x')", "by value"),
        ("type IS A Cat AND b > 2", "by name"),
        ("a LIKE 'x%' AND b > 2", "by start"), ("topic = 'a/+' AND b > 2", "by level"),
        ("topic = '+/a'", "by present"),
        ("b > 2", "by present"), ("a != 5", "by present"), ("type IS NOT A Cat", "by present"),
        ("EXISTS a", "by present"),
        ("a IS NULL", "everywhere"), ("a + b > 2", "everywhere"), ("TRUE", "everywhere"),
    ],
)  # fmt: skip
def test_a_conjunction_is_filed_under_its_best_entry_point(text: str, entry: str) -> None:
    stats = loaded(text).stats()
    assert stats[entry] >= 1
    assert sum(v for k, v in stats.items() if k not in ("engine", "filters", entry)) == 0


def test_the_less_crowded_value_is_chosen() -> None:
    matcher = loaded(*["kind = 'x' AND n = 1"] * 1, *[f"kind = 'x' AND n = {n}" for n in range(2, 50)])
    probe = event(kind="x", n=7)
    assert matcher.match(probe) == [6]
    by_value = [index.values.values() for index in matcher._attributes.values()]
    assert max(len(bucket) for buckets in by_value for bucket in buckets) <= 2


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("a = 1", event(a=1.0), event(a=True)), ("a = TRUE", event(a=True), event(a=1)),
        ("a IN (1, TRUE, 'x')", event(a="x"), event(a="y")), ("a LIKE 'ab%'", event(a="abc"), event(a="a")),
        ("topic MATCHES 'a/#'", event("a"), event("b")), ("topic = '+/b'", event("a/b"), event("b")),
        ("type IS A Animal", event(type=("Cat", "Animal")), event(type="Cat")),
        ("a IS NULL AND b = 1", event(b=1), event(a=0, b=1)), ("a IS NULL", event(), event(a=0)),
        ("a < b", event(a=1, b=2), event(a=1)), ("NOT a = 1", event(a=2), event()),
        ("a = 1 OR b = 1", event(a=1, b=1), event(a=2)), ("TRUE", event(), None), ("FALSE", None, event()),
    ],
)  # fmt: skip
def test_it_matches_what_the_filter_says(text: str, yes: Event | None, no: Event | None) -> None:
    matcher = loaded(text)
    assert yes is None or matcher.match(yes) == [0]
    assert no is None or matcher.match(no) == []


def test_removing_leaves_nothing_behind() -> None:
    matcher: Matcher = SmallMatcher()
    empty = matcher.stats()
    texts = (
        "a = 1",
        "a IN (1, 2)",
        "a LIKE 'x%'",
        "a LIKE 'y%'",
        "topic = 'a/+'",
        "b > 1",
        "b IS NULL",
        "TRUE",
        "FALSE",
    )
    handles = [matcher.add(parse_filter(text)) for text in texts]
    for handle in handles:
        matcher.remove(handle)
    assert matcher.stats() == empty
    assert matcher.match(event("a/b", a="xy", b=5)) == []
    with pytest.raises(KeyError):
        matcher.remove(0)
    assert matcher.add(parse_filter("TRUE")) == 0


def test_a_batch_and_upkeep() -> None:
    matcher = loaded("a = 1", "b = 1")
    assert matcher.match_batch([event(a=1, b=1), event(), event(b=1)]) == Matches([0, 2, 2, 3], [0, 1, 1])
    assert matcher.maintain(10) == 0


def test_a_cesql_filter_is_tested_by_its_own_meaning() -> None:
    small, naive = SmallMatcher(), NaiveMatcher()
    filter = parse_filter("HOP < 10", dialect="cesql")
    for matcher in (small, naive):
        matcher.add(filter)
        assert matcher.match(event(hop="5")) == [0]
        assert matcher.match(event(hop="x")) == []


@pytest.mark.parametrize("text", ["a >= 0", "a >= 0 OR topic = 'x'", "a IS NULL", "data.id = 'own'"])
def test_a_body_is_read_as_it_is_only_where_filters_see_the_same(text: str) -> None:
    small, naive = loaded(text), NaiveMatcher()
    naive.add(parse_filter(text))
    bodies: list[dict[str, Any]] = [
        {"a": 1},
        {"a": 1.5},
        {"a": float("nan")},
        {"a": None},
        {"a": {"b": 1}},
        {"a": [1]},
        {"b": 1},
        {"id": "own", "a": 1},
    ]
    for body in bodies:
        for topic in (None, "x"):
            published = make_event(body, source="p", id="1", topic=topic)
            assert small.match(published) == naive.match(published), body
    small.remove(0)
    assert small.add(parse_filter("a = 1")) == 0
    assert small.match(make_event({"a": 1}, source="p", id="1")) == [0]

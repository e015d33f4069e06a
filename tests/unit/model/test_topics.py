"""Topics and their patterns; the relations are held against all topics of a small world."""

from __future__ import annotations

from itertools import product

import pytest

from tidings.errors import EventError, FilterError
from tidings.model.topic import (
    check_pattern,
    check_topic,
    is_pattern,
    supertopics,
    topic_matches,
)

LEVELS = ("a", "b", "c")
TOPICS = ["/", *("/".join(parts) for n in (1, 2, 3, 4) for parts in product(LEVELS, repeat=n))]
PATTERNS = ["/", "#", *(
    "/".join((*parts, *end))
    for n in (0, 1, 2, 3)
    for parts in product(("a", "b", "+"), repeat=n)
    for end in ((), ("#",))
    if parts or end
)]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("#", ["/", "a", "a/b"], []), ("/", ["/"], ["a", "a/b"]), ("a", ["a"], ["/", "b", "a/b"]),
        ("+", ["a", "b"], ["/", "a/b"]), ("a/+", ["a/b"], ["a", "a/b/c", "b/a"]),
        ("a/#", ["a", "a/b", "a/b/c"], ["b", "/", "ab"]),
        ("+/b", ["a/b"], ["a", "b/a", "a/b/c"]), ("+/#", ["a", "a/b"], ["/"]),
        ("a/+/#", ["a/b", "a/b/c"], ["a"]),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(pattern: str, matches: list[str], others: list[str]) -> None:
    check_pattern(pattern)
    assert all(topic_matches(pattern, topic) for topic in matches)
    assert not any(topic_matches(pattern, topic) for topic in others)


def test_supertopics_lead_to_the_root() -> None:
    assert supertopics("a/b/c") == ["a/b", "a", "/"]
    assert supertopics("a") == ["/"]
    assert supertopics("/") == []


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("", "empty level"), ("/a", "empty level"), ("a/", "empty level"), ("a//b", "empty level"),
        ("a/+", "holds"), ("#", "holds"),
        ("a\n", "control"), ("/".join("a" * 33), "33 levels"), ("x" * 100 + "/", r"\.\.\."),
    ],
)  # fmt: skip
def test_topics_that_cannot_be(topic: str, problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        check_topic(topic)


@pytest.mark.parametrize(
    ("pattern", "problem"), [("a/#/b", "before its end"), ("a+", "stand alone"), ("a/b#", "stand alone")]
)
def test_patterns_that_cannot_be(pattern: str, problem: str) -> None:
    with pytest.raises(FilterError, match=problem):
        check_pattern(pattern)


def test_good_ones_come_back() -> None:
    assert check_topic("/".join("a" * 32))
    assert [check_topic("/"), check_topic("a/b"), check_pattern("a/+/#")] == ["/", "a/b", "a/+/#"]
    assert [is_pattern("a/+"), is_pattern("#"), is_pattern("a")] == [True, True, False]

"""Patterns as automata: exact answers, witnesses, and the budget."""

from __future__ import annotations

import pytest

from tidings.algebra import intervals as iv
from tidings.algebra import strings
from tidings.algebra.intervals import FULL
from tidings.algebra.strings import LIKE, REGEXP, TOPIC, Pattern, decide_empty
from tidings.model.pattern import like_matches, regexp_matches


def like(text: str, negated: bool = False) -> Pattern:
    return Pattern(LIKE, text, negated)


def topic(text: str, negated: bool = False) -> Pattern:
    return Pattern(TOPIC, text, negated)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((like("%a"), like("%b")), True),
        ((like("a%"), like("%b")), False),
        ((like("_"), like("__")), True),
        ((like("%a%"), like("%b%"), like("_")), True),
        ((like("%a%"), like("%b%"), like("__")), False),
        ((like("%a%"), like("%", negated=True)), True),
        ((like("a%b"), like("%a%", negated=True)), True),
        ((like("%ab%"), like("%a%", negated=True)), True),
        ((like("%a%"), like("%ab%", negated=True)), False),
        ((topic("+"), like("%/%")), True),
        ((topic("+/+"), topic("+/b/#")), False),
        ((topic("+/+"), topic("+/+/+")), True),
        ((topic("a/+/#"), like("%/%/%", negated=True)), False),  # a/b itself
        ((topic("a/+/#"), like("%/%", negated=True)), True),
        ((topic("+/+"), like("/")), True),  # the root has no levels
        ((topic("+/+", negated=True), like("_%"), like("%/%"), like("%/%/%", negated=True)), False),
        ((topic("+/+", negated=True), like("a/%"), like("%/%/%", negated=True)), True),
    ],
)
def test_whether_a_string_fits_all(patterns: tuple[Pattern, ...], expected: bool) -> None:
    assert decide_empty(FULL, patterns) is expected


def test_intervals_take_part() -> None:
    assert decide_empty(iv.prefixed("b"), (like("%a"), like("a%"))) is True
    assert decide_empty(iv.between("b", "bb", False, True), (like("__"),)) is False
    assert decide_empty(iv.between("ba", "bb", True, True), (like("__"),)) is True
    assert decide_empty(iv.between("b", "b\0", False, False), (like("%b"),)) is False


def test_a_long_pattern_is_decided() -> None:
    word = "the quick brown fox jumps over the lazy dog"
    assert decide_empty(FULL, (like(f"%{word}%"), like("%fox%", negated=True))) is True
    assert decide_empty(FULL, (like(f"%{word}%"), like("%cat%"), like("t%"))) is False


def test_past_the_budget_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "BUDGET", 10)
    assert decide_empty(FULL, (like("%abcabc%"), like("%abc%", negated=True))) is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc", "%abc%"),
        ("^abc", "abc%"),
        ("abc$", "%abc"),
        ("^a_c$", "a\\_c"),
        ("a.c", None),
        ("", "%%"),
        ("^$", ""),
    ],
)
def test_a_literal_regular_expression_is_a_like(pattern: str, expected: str | None) -> None:
    found = strings.literal_regexp(pattern)
    assert found == expected
    for text in ("", "abc", "xabcx", "a_c", "abc\n", "%"):
        assert found is None or like_matches(found, text) is regexp_matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("^ab.*", "ab"),
        ("^abc*", "ab"),
        ("^abc+", "abc"),
        ("^ab?c", "a"),
        ("^a{0}b", ""),
        ("^a|b", ""),
        ("ab", ""),
        ("^(a)", ""),
    ],
)
def test_the_prefix_of_a_regular_expression(pattern: str, prefix: str) -> None:
    assert strings.regexp_prefix(pattern) == prefix


def test_opaque_patterns_exclude_their_negation_and_judge_witnesses() -> None:
    digits = Pattern(REGEXP, "^[0-9]+$")
    assert decide_empty(FULL, (digits, digits.negation())) is True
    assert decide_empty(FULL, (digits.negation(),)) is False
    assert decide_empty(iv.prefixed("x"), (digits,)) is None
    assert decide_empty(iv.points(["x", "12"]), (digits,)) is False
    assert decide_empty(iv.points(["x", "y"]), (digits,)) is True

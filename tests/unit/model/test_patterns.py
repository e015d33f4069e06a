"""LIKE and regular expressions: meaning against a dumb oracle, and time that stays linear."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import FilterError
from tidings.model.pattern import (
    check_regexp,
    escape_like,
    like_is_prefix,
    like_literal,
    like_matches,
    like_prefix,
    regexp_matches,
)


def oracle(pattern: str, text: str) -> bool:
    """LIKE by trying every way."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(oracle(pattern[1:], text[n:]) for n in range(len(text) + 1))
    if pattern[0] == "\\" and pattern[1:2] in ("%", "_"):
        return text[:1] == pattern[1] and oracle(pattern[2:], text[1:])
    return bool(text) and pattern[0] in ("_", text[0]) and oracle(pattern[1:], text[1:])


@settings(max_examples=300)
@given(st.text("ab%_\\.\né", max_size=6), st.text("ab%_\\.\né", max_size=6))
def test_like_is_what_trying_every_way_gives(pattern: str, text: str) -> None:
    assert like_matches(pattern, text) is oracle(pattern, text)
    if (literal := like_literal(pattern)) is not None:
        assert like_matches(pattern, literal)
    if like_is_prefix(pattern):
        assert like_matches(pattern, text) is text.startswith(like_prefix(pattern))
    assert like_matches(escape_like(text), text)
    assert like_literal(escape_like(text)) == text or "\\" in text


@pytest.mark.parametrize(
    ("pattern", "prefix", "literal"),
    [
        ("abc", "abc", "abc"),
        ("ab%", "ab", None),
        ("a_c", "a", None),
        ("%x", "", None),
        ("a\\%b", "a%b", "a%b"),
        ("a\\b", "a\\b", "a\\b"),
    ],
)
def test_the_beginning_of_a_pattern(pattern: str, prefix: str, literal: str | None) -> None:
    assert like_prefix(pattern) == prefix
    assert like_literal(pattern) == literal


def test_one_underscore_is_one_character_not_one_byte() -> None:
    assert like_matches("_", "🙂")
    assert not like_matches("_", "")


def test_a_backslash_before_text_that_ends_in_one() -> None:
    assert like_matches(escape_like("50\\"), "50\\")
    assert not like_matches("\\%", "\\x")


def test_regexp_is_found_anywhere() -> None:
    assert regexp_matches("b+", "abbc")
    assert not regexp_matches("^b", "abbc")
    assert check_regexp("a|b") == "a|b"


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=x)", r"(a)\1", "*"])
def test_what_re2_refuses_is_a_filter_error(pattern: str) -> None:
    with pytest.raises(FilterError, match="no look-around, no back-references"):
        check_regexp(pattern)


def test_hostile_patterns_take_linear_time() -> None:
    """By backtracking none of them would end."""
    text = "a" * 20_000
    assert not regexp_matches("(a+)+$b", text)
    assert not regexp_matches("(a|a)*c", text)
    assert not like_matches("%a" * 50 + "%b", text)

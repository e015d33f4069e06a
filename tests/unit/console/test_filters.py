"""Filters as they are written: where the mistake is, and which words there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.console import filters


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("change < AND volume > 3", "AND"),
        ("change <", "<"),
        ("a == 3", "="),
        ("'open", "'open"),
        ("x = 1 y", "y"),
    ],
)
def test_the_mistake_is_underlined(text: str, underlined: str) -> None:
    delivered = filters.checked(text, "tidings")
    assert not delivered["ok"]
    problem = delivered["problem"]
    assert text[problem["offset"] : problem["end"]].startswith(underlined[0])
    assert problem["detail"]


def test_a_good_filter_is_told_in_its_normal_form() -> None:
    reported = filters.checked("NOT (change >= -3) AND StockName IN ('IBM')", "tidings")
    assert reported["ok"]
    assert reported["normal"] == "StockName = 'IBM' AND change < -3"
    assert reported["names"] == ["StockName", "change"]
    assert filters.checked("x > 3 AND x < 1", "tidings")["is_never_true"]


@given(st.text(max_size=60))
def test_any_text_is_answered_with_a_place_inside_it(text: str) -> None:
    delivered = filters.checked(text, "tidings")
    if not delivered["ok"]:
        problem = delivered["problem"]
        assert 0 <= problem["offset"] < problem["end"]
        assert problem["offset"] <= len(text)


def test_the_words_hold_what_events_have() -> None:
    words = filters.words(["change"], ["quotes/eu"], [])
    assert {"change", "topic", "id"} <= set(words["attributes"])
    assert "BETWEEN" in words["keywords"]
    assert {"name": "LENGTH", "takes": ["string"], "returns": "integer"} in words["functions"]

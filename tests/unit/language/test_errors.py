"""Mistakes: where, what was expected, and the nearest word."""

from __future__ import annotations

import pytest

from tidings.errors import FilterError, FilterSyntaxError, UnknownFunctionError
from tidings.language import parse, parse_filter


def mistake(text: str) -> FilterSyntaxError:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "suggestion", "column"),
    [
        ("chnge LIEK 'a'", "LIKE", 7),
        ("a = 1 ADN b = 2", "AND", 7),
        ("a = 1 ORR b = 2", "OR", 7),
        ("NTO a = 1", "NOT", 1),
        ("EXIST a", "EXISTS", 1),
        ("a BETWEN 1 AND 2", "BETWEEN", 3),
        ("a NOT LIK 'x'", "LIKE", 7),
        ("a IS NUL", "NULL", 6),
        ("a == 1", "=", 3),
        ("a && b", "AND", 3),
        ("a || b", "OR", 3),
        ("a =< 1", "<=", 3),
        ("a => 1", ">=", 3),
        ("!a", "NOT", 1),
        ("a = NULL", "IS NULL", 5),
    ],
)
def test_the_nearest_word_is_suggested(text: str, suggestion: str, column: int) -> None:
    error = mistake(text)
    assert error.suggestion == suggestion
    assert error.column == column
    assert f"did you mean {suggestion}?" in str(error)


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 1, "an attribute"),
        ("a = ", 4, "a value"),
        ("a = 1 AND", 10, "an attribute"),
        ("(a = 1", 7, ")"),
        ("a IN (1, 2", 11, ")"),
        ("a IN 1", 6, "("),
        ("a IN ()", 7, "a value"),
        ("a LIKE b", 8, "a pattern in quotes"),
        ("a BETWEEN 1 OR 2", 13, "AND"),
        ("EXISTS 5", 8, "the name of an attribute"),
        ("a = 1 b", 7, "the end of the filter"),
        ("a = 1)", 6, "the end of the filter"),
        ("a IS 5", 6, "NULL"),
        ("a = 'x", 5, "'"),
        ("`a = 1", 1, "`"),
        ("ABC(", 5, "an attribute"),
    ],
)
def test_the_place_and_what_was_expected(text: str, column: int, expected: str) -> None:
    error = mistake(text)
    assert (error.line, error.column) == (1, column)
    assert expected in error.expected


def test_the_place_in_many_lines_with_a_caret() -> None:
    error = mistake("a = 1\n  AND b ~ 2\n  AND c = 3")
    assert (error.line, error.column) == (2, 9)
    assert error.caret() == "  AND b ~ 2\n        ^"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 9223372036854775808", "outside 64 bits"),
        ("a = -9223372036854775809", "outside 64 bits"),
        ("a = " + "9" * 5000, "outside 64 bits"),
        ("a = 1e400", "beyond what a double can hold"),
        ("a = 1.5.2", "a number that cannot be read"),
        ("a = 5.", "a number that cannot be read"),
        ("TIMESTAMP '2026-01-31' < t", "has no time zone"),
        ("TIMESTAMP 'soon' < t", "is no timestamp"),
        ("TIMESTAMP '0001-01-01T00:00:00+14:00' < t", "outside the years"),
        ("a REGEXP '(('", "RE2"),
        ("a REGEXP '(?=x)'", "RE2"),
        ("a MATCHES 'x/#/y'", "# before its end"),
        ("a MATCHES '//'", "empty level"),
        ("a ; b", "has no meaning here"),
    ],
)
def test_what_is_wrong_with_a_value(text: str, words: str) -> None:
    assert words in str(mistake(text))


def test_a_wildcard_topic_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(FilterError, match="stand alone in their level"):
        parse_filter("topic = 'a+b'")


def test_an_unknown_function_is_shown_where_it_stands() -> None:
    with pytest.raises(
        UnknownFunctionError, match=r"there is no function LENGHT at line 1, column 7"
    ) as caught:
        parse_filter("a AND LENGHT(a) > 3")
    assert (caught.value.suggestion, caught.value.code) == ("LENGTH", "missingFunction")
    with pytest.raises(FilterError, match="the functions are"):
        parse_filter("QQQ(a)")
    for text in ("SUM(lines.price) > 100", "avg(a) > 1"):
        with pytest.raises(UnknownFunctionError, match="has no aggregates: publish the result as a field"):
            parse_filter(text)
    with pytest.raises(UnknownFunctionError, match="LENGTH counts the elements of a list"):
        parse_filter("COUNT(lines) > 2")
    with pytest.raises(
        FilterError, match=r"LENGTH does not take 2 arguments at line 1, column 1 \(it takes 1\)"
    ):
        parse_filter("LENGTH(a, b) = 1")
    assert parse_filter("LENGHT(a) > 3", dialect="cesql").conjunctions  # CESQL tells at evaluation


def test_an_unknown_dialect_is_named() -> None:
    with pytest.raises(FilterError, match="no dialect 'sql'"):
        parse_filter("a = 1", dialect="sql")


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(FilterError, match="not Unicode"):
        parse_filter("a = '\ud800'")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(FilterError, match="a string, not int"):
        parse_filter(5)  # type: ignore[arg-type]


def test_a_message_does_not_repeat_a_text_of_any_length() -> None:
    assert len(str(mistake("a = 1 " + "x" * 9_000))) < 200
    assert len(str(mistake("TIMESTAMP '" + "x" * 9_000 + "' < t"))) < 200


HABITS = [
    ("WHERE price > 3", 0, "leave out WHERE"),
    ("select * where a = 1", 0, "leave out SELECT"),
    ("StockName IN ()", 14, "an empty list accepts nothing"),
    ("StockName = \u2018IBM\u2019", 12, "a straight '"),
    ("StockName = \u201cIBM\u201d", 12, 'a straight "'),
    ("price > 1,000", 9, "write 1000"),
    ("+price > 3", 0, "a plus sign stands before numbers only"),
    ("a = 1 AND +price > 3", 10, "a plus sign stands before numbers only"),
]


@pytest.mark.parametrize(("text", "offset", "hint"), HABITS)
def test_habits_from_elsewhere_get_a_hint(text: str, offset: int, hint: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    assert caught.value.offset == offset
    assert hint in str(caught.value)


BROKEN_TOPICS = [
    ("topic = '+5'", 8),
    ("a = 1 AND '+5' != topic", 10),
    ("topic IN ('a/b', 'a/#/b')", 17),
    ("topic MATCHES '#a'", 14),
]


@pytest.mark.parametrize(("text", "offset"), BROKEN_TOPICS)
def test_a_broken_topic_pattern_is_shown_where_it_stands(text: str, offset: int) -> None:
    for read in (parse, parse_filter):
        with pytest.raises(FilterSyntaxError) as caught:
            read(text)
        assert caught.value.offset == offset

"""The table of functions, function by function."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tidings.language import accepts, functions, parse_filter
from tidings.language.functions import FUNCTIONS, Failure, string_of
from tidings.model.event import make_event
from tidings.model.value import INT_MAX, INT_MIN


def run(name: str, *arguments: Any) -> Any:
    result = FUNCTIONS[name].run(*arguments)
    return None if type(result) is Failure else result


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("LENGTH", ("añ🙂",), 3),
    ("CONCAT", (), ""), ("CONCAT", ("a", "b"), "ab"),
    ("CONCAT_WS", ("-",), ""), ("CONCAT_WS", ("-", "a", "b"), "a-b"),
    ("LOWER", ("AbÇ",), "abç"), ("UPPER", ("abç",), "ABÇ"),
    ("TRIM", ("\u2003 a b\t\n",), "a b"), ("TRIM", ("\x1fa\x1c",), "\x1fa\x1c"),
    ("LEFT", ("abc", 2), "ab"), ("LEFT", ("abc", 0), ""), ("LEFT", ("abc", 9), "abc"),
    ("LEFT", ("abc", -1), None),
    ("RIGHT", ("abc", 2), "bc"), ("RIGHT", ("abc", 0), ""), ("RIGHT", ("abc", 9), "abc"),
    ("RIGHT", ("abc", -1), None),
    ("SUBSTRING", ("hello", 2), "ello"), ("SUBSTRING", ("hello", -2), "lo"), ("SUBSTRING", ("hello", 0), ""),
    ("SUBSTRING", ("hello", 6), None), ("SUBSTRING", ("hello", -6), None), ("SUBSTRING", ("", 1), None),
    ("SUBSTRING", ("hello", 2, 3), "ell"), ("SUBSTRING", ("hello", -3, 2), "ll"),
    ("SUBSTRING", ("hello", 4, 9), "lo"),
    ("SUBSTRING", ("hello", 2, 0), ""), ("SUBSTRING", ("hello", 2, -1), None),
    ("SUBSTRING", ("hello", 0, -1), None),
    ("ABS", (-3,), 3), ("ABS", (-2.5,), 2.5), ("ABS", (INT_MIN,), None),
    ("INT", ("-12",), -12), ("INT", ("+7",), 7), ("INT", ("1_0",), None), ("INT", (" 1",), None),
    ("INT", ("٣",), None),
    ("INT", ("1.5",), None), ("INT", ("",), None), ("INT", (True,), 1), ("INT", (-1.9,), -1),
    ("INT", (math.inf,), None),
    ("INT", (str(INT_MAX),), INT_MAX), ("INT", (str(INT_MAX + 1),), None), ("INT", ("9" * 500,), None),
    ("INT", (1e19,), None), ("INT", (datetime(2026, 1, 1, tzinfo=UTC),), None),
    ("TIMESTAMP", ("2026-01-31T12:00:00Z",), NOON),
    ("TIMESTAMP", ("2026-01-31 13:00:00.0000009+01:00",), NOON),
    ("TIMESTAMP", (NOON,), NOON), ("TIMESTAMP", ("2026-02-30T12:00:00Z",), None),
    ("TIMESTAMP", ("2026-01-31",), None),
    ("TIMESTAMP", ("0001-01-01T00:00:00+01:00",), None), ("TIMESTAMP", (1_700_000_000,), None),
    ("LOWER", ("\ua7c0",), None), ("UPPER", ("x\u019b",), None),
    ("FLOAT", ("1.5e3",), 1500.0), ("FLOAT", (".5",), 0.5), ("FLOAT", ("nan",), None), ("FLOAT",
    ("1e999",), None),
    ("DECIMAL", ("0.10",), Decimal("0.10")), ("DECIMAL", (0.5,), Decimal("0.5")), ("DECIMAL",
    ("x",), None), ("DECIMAL", (True,), None),
    ("DECIMAL", ("1E99999999999999999999",), None), ("DECIMAL", ("0E-99999999999999999999",), None),
    ("MOD", (10**400, 1.5), None), ("MOD", (1.5, 10**400), None),
    ("DECIMAL", ("1e999",), None), ("FLOAT", ("0x1p3",), None), ("FLOAT", (3,), 3.0), ("FLOAT", (True,), 1.0),
    ("BOOL", ("TrUe",), True), ("BOOL", ("false",), False), ("BOOL", ("yes",), None), ("BOOL", (0,), False),
    ("BOOL", (0.5,), True), ("BOOL", (datetime(2026, 1, 1, tzinfo=UTC),), None),
    ("STRING", (True,), "true"), ("STRING", (12,), "12"), ("STRING", ("x",), "x"), ("STRING", (1.5,), "1.5"),
    ("IS_INT", ("5",), True), ("IS_INT", ("5x",), False), ("IS_INT", (True,), True),
    ("IS_BOOL", ("True",), True), ("IS_BOOL", ("1",), False), ("IS_BOOL", (1,), True),
    ("FLOOR", (-1.5,), -2), ("CEIL", (-1.5,), -1), ("FLOOR", (5,), 5), ("FLOOR", (1e300,), None),
    ("CEIL", (math.inf,), None),
    ("ROUND", (2.5,), 3.0), ("ROUND", (-2.5,), -3.0), ("ROUND", (0.49999999999999994,), 0.0),
    ("ROUND", (7,), 7),
    ("ROUND", (math.inf,), math.inf), ("ROUND", (4503599627370497.5,), 4503599627370498.0),
    ("MOD", (-7, 3), -1), ("MOD", (7.5, -2), 1.5), ("MOD", (1, 0), None), ("MOD", (math.inf, 2), None),
    ("LEAST", (3, 1.5, 2), 1.5), ("GREATEST", ("a", "c", "b"), "c"), ("LEAST", (1, "a"), None),
    ("GREATEST", (True, False), None),
    ("COALESCE", (None, None), None), ("COALESCE", (None, 0, 1), 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES)
def test_function(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    assert FUNCTIONS[name].takes_count(len(arguments))
    result = run(name, *arguments)
    assert result == expected
    assert type(result) is type(expected)


def test_every_function_is_tried_above() -> None:
    assert {name for name, _, _ in CASES} == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("LENGTH", 0), ("LENGTH", 2), ("CONCAT_WS", 0), ("SUBSTRING", 1), ("SUBSTRING", 4), ("COALESCE", 0)],
)
def test_wrong_numbers_of_arguments(name: str, wrong: int) -> None:
    assert not FUNCTIONS[name].takes_count(wrong)


def test_times_are_written_as_rfc_3339() -> None:
    assert string_of(datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)) == "2026-01-02T03:04:05.000600Z"
    assert string_of(datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-02T00:00:00+02:00"


def test_many_filters_compute_a_function_of_a_long_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    class Newer:
        def search(self, text: str) -> None:
            looked_at.append(text)

    monkeypatch.setattr(functions, "_NEWER", Newer())
    first, second = ("Xy" * 1000 + end for end in "ab")
    for text in (first, second, first):
        event = make_event({"a": text}, source="s", id="1")
        wanted = text.lower()
        verdicts = [
            accepts(parse_filter(f"LOWER(a) = '{wanted}' AND b{n} IS NULL"), event) for n in range(50)
        ]
        assert all(verdicts)
    assert looked_at == [first, second, first]

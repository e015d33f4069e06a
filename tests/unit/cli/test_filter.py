"""`tidings filter`: the contracts of eval and covers, and what people see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
STOCK = "StockName = 'IBM' AND change < -3"
FALLEN = {"StockName": "IBM", "change": -4.5}
DEEP = "/".join("+" * 31)  # one level less than a topic may have
CLOUD_EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}


@pytest.fixture
def quote(tmp_path: Path) -> str:
    path = tmp_path / "quote.json"
    path.write_text(json.dumps(FALLEN))
    return str(path)


def evaluated(tidings: Run, *cases: Any) -> list[Any]:
    lines = [case if isinstance(case, str) else json.dumps(case) for case in cases]
    rows: list[Any] = tidings("filter", "eval", stdin="\n".join(lines) + "\n").rows
    return rows


class TestCheck:
    def test_a_filter_is_shown_in_normal_form(self, tidings: Run) -> None:
        ran = tidings("filter", "check", "NOT (change >= -3) AND StockName IN ('IBM')")
        assert (ran.code, ran.out) == (0, "StockName = 'IBM' AND change < -3\n")
        assert "1 conjunction, 2 constraints, 0 residuals" in ran.err

    def test_one_that_can_never_be_true_is_a_no(self, tidings: Run) -> None:
        ran = tidings("filter", "check", "a = 1 AND a = 2")
        assert ran.code == 1
        assert "can never be true" in ran.err

    def test_one_that_does_not_parse_shows_where(self, tidings: Run) -> None:
        ran = tidings("filter", "check", "change < AND x")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines()[1:3] == ["  change < AND x", "           ^"]

    def test_json_says_it_all(self, tidings: Run) -> None:
        (fine,) = tidings("filter", "check", f"{STOCK} OR a + b > 1", "--json").rows
        assert (fine["ok"], fine["conjunctions"], fine["constraints"], fine["residuals"]) == (True, 2, 2, 1)
        (wrong,) = tidings("filter", "check", "a BETWEN 1 AND 2", "--json").rows
        assert (wrong["ok"], wrong["error"]["column"], wrong["error"]["suggestion"]) == (False, 3, "BETWEEN")


class TestEval:
    def test_one_expression_on_one_event(self, tidings: Run, quote: str) -> None:
        assert tidings("filter", "eval", STOCK, "--event", quote).rows == [{"value": True, "errors": []}]
        assert tidings("filter", "eval", "change - 1", "--event", quote).rows[0]["value"] == -5.5
        assert tidings("filter", "eval", STOCK, "--event", "-", stdin="{}").rows[0]["value"] is None

    def test_one_line_out_for_each_line_in(self, tidings: Run) -> None:
        rows = evaluated(
            tidings,
            {"expression": STOCK, "event": FALLEN},
            {"expression": STOCK, "event": {**FALLEN, "change": 0}},
            {"expression": STOCK, "event": {}},
            {"expression": "ABC(", "event": {}},
            {"expression": "ABC(", "event": {}, "dialect": "cesql"},
        )
        assert [row["value"] for row in rows] == [True, False, None, None, False]
        assert [row["errors"] for row in rows] == [[], [], [], ["parse"], ["parse"]]

    def test_broken_lines_are_answered_too_and_end_in_2(self, tidings: Run) -> None:
        lines = ["nonsense", "", "[1]", '{"event": {}}', '{"expression": "a = 1", "dialect": "sql"}']
        good = '{"expression": "TRUE"}'
        ran = tidings("filter", "eval", stdin="\n".join([*lines, good]) + "\n")
        assert [row["errors"] for row in ran.rows] == [["input"]] * 5 + [[]]
        assert ran.code == 2
        assert "line 3: a JSON object was expected, not an array" in ran.err

    @pytest.mark.parametrize(
        ("expression", "event", "value", "errors"),
        [
            ("id", {"id": "7"}, "7", []),
            ("id", {"a": 1}, "0", []),  # the number of its line
            ("source", {"a": 1}, "command line", []),
            ("d < 0", {"d": None, "kinds": {"d": "-inf"}}, True, []),
            ("-5 IN d.f", {"d": {"f": [None, [None]]}, "kinds": {"d.f.1.0": "inf"}}, None, []),
            ("ANY(f > 5)", {"f": [1, None], "kinds": {"f.1": "inf"}}, True, []),
            ("kinds.d", {"d": 1, "kinds": {"d": "inf"}}, "inf", []),  # d is no null: an attribute of its own
            ("time > TIMESTAMP '2025-01-01T00:00:00Z'", {"time": "2026-01-01T00:00:00Z"}, True, []),
            ("type IS A 'Order'", {"type": ["Trade", "Order"]}, True, []),
            ("topic MATCHES 'a/#'", {"topic": "a/b"}, True, []),
            ("name.accuracy > 0.5", {"name": {"accuracy": 0.75}}, True, []),
            ("EXISTS tags", {"tags": ["x"]}, True, []),
            ("'x' IN tags AND LENGTH(tags) = 1", {"tags": ["x"]}, True, []),
            ("ANY(lines.price > 100)", {"lines": [{"price": 5}, {"price": 101.5}]}, True, []),
            ("ALL(lines.price > 100)", {"lines": [{"price": 5}, {"price": 101.5}]}, False, []),
            ("ALL(lines.price > 100)", {"lines": [{"price": 200}, {}]}, None, []),
            ("data.id = 7 AND id = 'e'", {"id": "e", "data": {"id": 7}}, True, []),
            ("1 / 0", {}, None, []),
        ],
    )
    def test_what_a_filter_sees(
        self, expression: str, event: Any, value: Any, errors: list[str], tidings: Run
    ) -> None:
        (row,) = evaluated(tidings, {"expression": expression, "event": event})
        assert row == {"value": value, "errors": errors}

    @pytest.mark.parametrize(
        ("expression", "event", "value", "errors"),
        [
            ("1 / 0", {}, 0, ["math"]),
            ("missing", {}, False, ["missingAttribute"]),
            ("'x' + 1", {}, 1, ["cast"]),
            ("NOPE(1)", {}, False, ["missingFunction"]),
            ("AGE = '7'", {"age": 7}, True, []),
        ],
    )
    def test_the_cesql_dialect_lists_errors(
        self, expression: str, event: Any, value: Any, errors: list[str], tidings: Run
    ) -> None:
        (row,) = evaluated(tidings, {"expression": expression, "event": event, "dialect": "cesql"})
        assert row == {"value": value, "errors": errors}

    @pytest.mark.parametrize(
        ("expression", "event", "dialect", "accepted"),
        [
            ("a.b = '5'", {"a": {"b": "5"}}, "cesql", True),
            ("hop = 5", {**CLOUD_EVENT, "data": {"hop": 5}}, "cesql", True),
            ("topic = 'a'", {**CLOUD_EVENT, "topic": "a"}, "cesql", False),  # `topic` is the envelope's
            ("extension.topic = 'a'", {**CLOUD_EVENT, "topic": "a"}, "cesql", True),
            ("subject = 'a' AND topic = 'a'", {**CLOUD_EVENT, "subject": "a"}, "cesql", True),
            ("EXISTS source AND id = '0'", {"a": 1}, "cesql", True),
            ("EXISTS source AND id = '0'", {"a": 1}, "tidings", True),
            ("type IS A 'T' AND NOT EXISTS time", {"type": "T"}, "tidings", True),
            ("d > 5", {"d": float("inf")}, "tidings", True),
        ],
    )
    def test_eval_match_and_explain_see_one_event(
        self, expression: str, event: Any, dialect: str, accepted: bool, tidings: Run
    ) -> None:
        text = json.dumps(event).replace("Infinity", "1e400")
        (value,) = tidings("filter", "eval", expression, "--event", "-", "-d", dialect, stdin=text).rows
        (story,) = tidings(
            "filter", "explain", expression, "--event", "-", "-d", dialect, "--json", stdin=text
        ).rows
        matched = tidings("match", "--where", expression, "-d", dialect, stdin=text)
        assert value["value"] is accepted or (value["errors"] and not accepted)
        assert (story["accepted"], matched.code) == (accepted, 0 if accepted else 1)

    @pytest.mark.parametrize(
        ("expression", "value", "over"),
        [
            ("NOT (x = 2 XOR s LIKE '%zz')", None, True),  # each part of XOR is in the normal form twice
            ("s LIKE '%a%' OR s LIKE '%a%'", True, False),  # and what is said twice there once
            ("s LIKE '%%%%%%a%'", True, False),
            ("x = 1 OR (s LIKE '%aaaaaa%' AND FALSE)", True, False),
            ("(s LIKE '%aaaaaa%' AND FALSE) OR x = 2", False, False),
            ("x = 1 OR s LIKE '%aaaaaa%'", True, False),  # a part without a weight decides
            ("x = 2 OR s LIKE '%aaaaaa%'", None, True),
            ("LENGTH(s) > 3", True, False),
            ("LENGTH(CONCAT(s, s, s, s, s, s)) + 1", None, True),  # a number, by its text
        ],
    )
    def test_eval_match_and_explain_have_one_work_budget(
        self, expression: str, value: bool | None, over: bool, tidings: Run
    ) -> None:
        text = json.dumps({"s": "a" * 200_000, "x": 1})
        (row,) = tidings("filter", "eval", expression, "--event", "-", stdin=text).rows
        (story,) = tidings("filter", "explain", expression, "--event", "-", "--json", stdin=text).rows
        matched = tidings("match", "--where", expression, "--count", stdin=text)
        assert row == {"value": value, "errors": ["budget"] if over else []}
        assert (story["accepted"], int(matched.out)) == (value is True, int(value is True))

    def test_a_filter_past_the_limit_of_its_normal_form_still_has_a_value(self, tidings: Run) -> None:
        text = " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(12))
        assert tidings("filter", "check", text).code == 2
        event = json.dumps({f"a{n}": 1 for n in range(12)})
        (row,) = tidings("filter", "eval", text, "--event", "-", stdin=event).rows
        assert row == {"value": True, "errors": []}

    def test_an_infinity_is_null_with_its_kind_and_the_run_goes_on(self, tidings: Run) -> None:
        events = [("d", "1e400"), ("d", "-1e400"), ("d > 1", "1e400")]
        cases = [f'{{"expression": "{text}", "event": {{"d": {d}}}}}' for text, d in events]
        ran = tidings("filter", "eval", stdin="\n".join(cases) + "\n")
        assert ran.code == 0
        assert ran.rows == [
            {"value": None, "errors": [], "kinds": {"value": "inf"}},
            {"value": None, "errors": [], "kinds": {"value": "-inf"}},
            {"value": True, "errors": []},
        ]

    def test_an_event_without_an_expression_is_a_usage_error(self, tidings: Run, quote: str) -> None:
        assert tidings("filter", "eval", "--event", quote).code == 2

    def test_a_missing_file_is_named(self, tidings: Run) -> None:
        ran = tidings("filter", "eval", "TRUE", "--event", "nowhere.json")
        assert ran.code == 2
        assert "nowhere.json: No such file" in ran.err


class TestExplain:
    def test_it_goes_constraint_by_constraint(self, tidings: Run, quote: str) -> None:
        ran = tidings("filter", "explain", "StockName = 'MSFT' AND change < -3", "--event", quote)
        assert ran.code == 1
        assert "no  StockName = 'MSFT': 'IBM' (not equal)" in ran.out
        assert "yes change < -3: -4.5" in ran.out

    def test_json_holds_the_verdict(self, tidings: Run, quote: str) -> None:
        ran = tidings("filter", "explain", "change > 0", "--event", quote, "--json")
        assert ran.code == 0
        assert ran.rows[0]["accepted"] is False
        assert ran.rows[0]["conjunctions"][0]["constraints"][0]["reason"] == "out of range"

    def test_an_accepted_event_is_a_yes(self, tidings: Run, quote: str) -> None:
        assert tidings("filter", "explain", STOCK, "--event", quote).code == 0


class TestCovers:
    @pytest.mark.parametrize(
        ("wide", "narrow", "json_answer", "word", "code"),
        [
            ("price > 5", "price > 10", True, "yes", 0),
            ("price > 10", "price > 5", False, "no", 1),
            ("a + b > 1", "a + b > 2", "unknown", "unknown", 1),
            ("a = 1", "`time.x` = 1", "unknown", "unknown", 1),
            (f"topic MATCHES '{DEEP}/+'", f"topic MATCHES '{DEEP}/#' AND topic NOT MATCHES '{DEEP}'",
                "unknown", "unknown", 1),
        ],
    )  # fmt: skip
    def test_the_contract(
        self, wide: str, narrow: str, json_answer: Any, word: str, code: int, tidings: Run
    ) -> None:
        as_json = tidings("filter", "covers", wide, narrow, "--json")
        assert (as_json.code, as_json.rows) == (0, [{"covers": json_answer}])
        for_people = tidings("filter", "covers", wide, narrow)
        assert (for_people.code, for_people.out) == (code, f"{word}\n")

    def test_a_wrong_filter_is_shown(self, tidings: Run) -> None:
        assert tidings("filter", "covers", "a >", "a > 1").code == 2


class TestCoveredInAFile:
    LINES = (
        {"id": "wide", "filter": "price > 5"},
        {"id": 2, "filter": "price > 7 AND qty = 1"},
        {"id": "never", "filter": "price > price"},
        {"id": "again", "filter": "price > 5"},
    )

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        path = tmp_path / "subscriptions.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.LINES))
        return str(path)

    def test_the_covered_ones_are_named_with_one_that_stays(self, file: str, tidings: Run) -> None:
        ran = tidings("filter", "covers", "--subscriptions", file)
        assert (ran.code, ran.out) == (
            0,
            "2: covered by wide\nnever: can never match\nagain: covered by wide\n",
        )
        assert "1 filter of 4 accept" in ran.err
        (row,) = tidings("filter", "covers", "--subscriptions", file, "--json").rows
        assert row["kept"] == ["wide"]
        assert row["redundant"] == [
            {"id": 2, "covered_by": "wide"},
            {"id": "never", "covered_by": None},
            {"id": "again", "covered_by": "wide"},
        ]

    def test_two_filters_or_a_file(self, file: str, tidings: Run) -> None:
        for given in ((), ("a = 1",), ("a = 1", "--subscriptions", file)):
            assert tidings("filter", "covers", *given).code == 2


class TestWarnings:
    @pytest.mark.parametrize(
        ("text", "never", "can"),
        [("price > price", True, False), ("price > 5", False, True), ("price * qty > 5", False, "unknown")],
    )
    def test_check_says_whether_it_can_match(self, text: str, never: bool, can: Any, tidings: Run) -> None:
        (row,) = tidings("filter", "check", text, "--json").rows
        assert (row["never_true"], row["can_match"]) == (never, can)
        assert any(warning["code"] == "never" for warning in row["warnings"]) is never
        ran = tidings("filter", "check", text)
        assert (ran.code, "can never be true" in ran.err) == (int(never), never)

    @pytest.mark.parametrize(
        ("text", "code"),
        [("5 < price < 10", 1), ("time > '2026-01-01'", 1), ("topic = 'a.b.>'", 0), ("StockName = IBM", 0)],
    )
    def test_check_warns_and_refuses_when_it_is_strict(self, text: str, code: int, tidings: Run) -> None:
        ran = tidings("filter", "check", text)
        assert ran.code == code
        assert "warning: " in ran.err
        assert tidings("filter", "check", text, "--strict").code == 1
        (row,) = tidings("filter", "check", text, "--json").rows
        assert row["ok"] is True
        assert row["warnings"][0]["column"] >= 1

    def test_an_example_says_which_names_are_attributes(self, tidings: Run, quote: str) -> None:
        assert "warning" not in tidings("filter", "check", "StockName = change", "--event", quote).err
        assert "Change is read" in tidings("filter", "check", "StockName = Change", "--event", quote).err


class TestOneAnswer:
    """`topic = '+5'` and unknown functions: eval, match and check say the same."""

    def test_a_broken_pattern_is_refused_everywhere(self, tidings: Run) -> None:
        (row,) = evaluated(tidings, {"expression": "topic = '+5'", "event": {"topic": "a"}})
        assert row == {"value": None, "errors": ["parse"]}
        assert "column 9" in tidings("filter", "check", "topic = '+5'").err
        ran = tidings("match", "--where", "topic = '+5'", stdin='{"topic": "a"}\n')
        assert ran.code == 2
        assert "column 9" in ran.err

    def test_an_unknown_function_is_named(self, tidings: Run) -> None:
        rows = evaluated(
            tidings, {"expression": "LENGHT(a) = 1", "event": {"a": "x"}}, {"expression": "LENGTH() = 1"}
        )
        assert [row["errors"] for row in rows] == [["missingFunction"], ["missingFunction"]]

    def test_a_parse_error_of_cesql_has_a_value(self, tidings: Run) -> None:
        cases = [
            {"expression": text, "dialect": "cesql"} for text in ("x LIKE 123", "2147483648 + 1", "ABC(")
        ]
        rows = evaluated(tidings, *cases)
        assert [(row["value"], row["errors"]) for row in rows] == [
            (False, ["parse"]),
            (0, ["parse"]),
            (False, ["parse"]),
        ]

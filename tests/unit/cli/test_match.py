"""`tidings match`: a grep for events, and the contract for outside judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidings.cli import match

Run = Callable[..., Any]
QUOTES = [
    {"StockName": "IBM", "change": -4.5},
    {"StockName": "MSFT", "change": 2},
    {"id": "q3", "StockName": "ORCL", "change": 0},
]


def written(path: Path, rows: Sequence[Any]) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def quotes(tmp_path: Path) -> str:
    return written(tmp_path / "quotes.jsonl", QUOTES)


@pytest.fixture
def subscriptions(tmp_path: Path) -> str:
    rows = [
        {"id": "moved", "filter": "change < -3 OR change > 1"},
        {"id": "ms", "filter": "StockName LIKE 'M%' AND change >= 1"},
        {"id": "never", "filter": "change = 1 AND change = 2"},
        {"id": 7, "filter": "change > 1"},
    ]
    return written(tmp_path / "subscriptions.jsonl", rows)


class TestWhere:
    def test_accepted_lines_come_out_as_they_went_in(self, tidings: Run, quotes: str) -> None:
        ran = tidings("match", "--where", "change < -3", quotes)
        assert (ran.code, ran.out) == (0, json.dumps(QUOTES[0]) + "\n")

    def test_standard_input_is_read_when_no_file_is_named(self, tidings: Run) -> None:
        text = '{"change": 1}\n\n{"change":   5}\n'
        assert tidings("match", "-w", "change > 3", stdin=text).out == '{"change":   5}\n'

    def test_nothing_found_ends_with_1_as_grep_does(self, tidings: Run, quotes: str) -> None:
        assert tidings("match", "-w", "change > 100", quotes) == (1, "", "")

    def test_any_of_several(self, tidings: Run, quotes: str) -> None:
        ran = tidings("match", "-w", "change < -3", "-w", "change > 1", "--json", quotes)
        assert ran.rows == [
            {"event": "0", "subscriptions": ["change < -3"]},
            {"event": "1", "subscriptions": ["change > 1"]},
        ]

    def test_count_and_invert(self, tidings: Run, quotes: str) -> None:
        assert tidings("match", "-w", "change > 1", "--count", quotes).out == "1\n"
        assert tidings("match", "-w", "change > 1", "-c", "-v", quotes).out == "2\n"
        assert tidings("match", "-w", "change > 1", "-c", "--json", quotes).rows == [{"count": 1}]

    def test_a_line_that_is_no_event_is_reported_and_the_rest_is_matched(self, tidings: Run) -> None:
        ran = tidings("match", "-w", "a = 1", stdin='nonsense\n[1, 2]\n{"a": 1}\n')
        assert (ran.code, ran.out) == (2, '{"a": 1}\n')
        assert "standard input, line 1: not JSON" in ran.err
        assert "standard input, line 2" in ran.err

    def test_a_wrong_filter_shows_where(self, tidings: Run, quotes: str) -> None:
        ran = tidings("match", "-w", "change >", quotes)
        assert ran.code == 2
        assert "^" in ran.err

    def test_the_cesql_dialect(self, tidings: Run) -> None:
        assert tidings("match", "-d", "cesql", "-w", "AGE = '7'", stdin='{"age": 7}\n').code == 0
        assert tidings("match", "-w", "age = '7'", stdin='{"age": 7}\n').code == 1
        assert tidings("match", "-d", "sql", "-w", "a", stdin="").code == 2

    def test_text_that_is_no_unicode_is_no_reason_to_fail(self, tidings: Run) -> None:
        ran = tidings("match", "-w", "a = 1", "--json", stdin='{"a": 1, "id": "\\ud800"}\n{"a": 1}\n')
        assert ran.rows[-1] == {"event": "1", "subscriptions": ["a = 1"]}
        assert ran.code in (0, 2)

    def test_a_line_is_answered_before_the_next_one_comes(self) -> None:
        """As behind `tail -f`: the answer must not wait for a buffer to fill."""
        command = [sys.executable, "-m", "tidings", "match", "-w", "a = 1"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin
            assert process.stdout
            for line in (b'{"a": 1, "n": 1}\n', b'{"a": 1, "n": 2}\n'):
                process.stdin.write(line)
                process.stdin.flush()
                assert process.stdout.readline() == line


class TestSubscriptions:
    @pytest.mark.parametrize("compiled", [False, True], ids=["plain", "columns"])
    def test_many_subscriptions(
        self, compiled: bool, tidings: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TIDINGS_KERNELS", "numpy")  # the same answers, nothing to compile
        monkeypatch.setattr(match, "COMPILE_FROM", 100 if compiled else 1000)
        many = written(
            tmp_path / "many.jsonl", [{"id": n, "filter": f"a = {n} OR b > {n}"} for n in range(500)]
        )
        ran = tidings("match", "-s", many, "--json", stdin='{"a": 3, "b": 2}\n{"a": 499, "b": 1}\n')
        assert [row["subscriptions"] for row in ran.rows] == [[0, 1, 3], [0, 499]]

    def test_the_contract(self, tidings: Run, quotes: str, subscriptions: str) -> None:
        ran = tidings("match", "--subscriptions", subscriptions, "--events", quotes, "--json")
        assert ran.code == 0
        assert ran.rows == [
            {"event": "0", "subscriptions": ["moved"]},
            {"event": "1", "subscriptions": ["moved", "ms", 7]},
        ]

    def test_for_people(self, tidings: Run, quotes: str, subscriptions: str) -> None:
        assert tidings("match", "-s", subscriptions, quotes).out == "0: moved\n1: moved, ms, 7\n"

    def test_no_match_is_a_fine_answer(self, tidings: Run, subscriptions: str) -> None:
        ran = tidings("match", "-s", subscriptions, "--json", stdin='{"change": 0}\n')
        assert (ran.code, ran.out) == (0, "")

    def test_blank_lines_count(self, tidings: Run, subscriptions: str) -> None:
        ran = tidings("match", "-s", subscriptions, "--json", stdin='\n{"change": -9}\n')
        assert ran.rows == [{"event": "1", "subscriptions": ["moved"]}]

    @pytest.mark.parametrize(
        "line",
        [
            '{"id": "x", "filter": "change >"}',
            '{"id": "x"}',
            "nonsense",
            '{"id": 1, "filter": "a", "dialect": "sql"}',
        ],
    )
    def test_a_wrong_subscription_ends_the_run_before_it_begins(
        self, line: str, tidings: Run, quotes: str, tmp_path: Path
    ) -> None:
        wrong = written(tmp_path / "wrong.jsonl", [{"id": "a", "filter": "TRUE"}, line])
        ran = tidings("match", "-s", wrong, quotes)
        assert (ran.code, ran.out) == (2, "")
        assert "wrong.jsonl, line 2: " in ran.err
        assert ("JSON lines are expected" in ran.err) == (line == "nonsense")


# filter -> what is said of it; nothing is found, and standard output and the exit code are as without doubts
DOUBTFUL = {
    "StockName = IBM": "IBM is read as the name of an attribute at column 13; for the text write 'IBM'",
    "5 < change < 10": "5 < change is a truth value, and it is compared by order",
    "time > '2026-01-01'": "write TIMESTAMP '2026-01-01T00:00:00Z'",
    "first-name = 'x'": "a name with a hyphen stands in backquotes: `first-name`",
    "topic = 'a.b.>'": "write topic MATCHES 'a/b/#'",
    "change BETWEEN 0 AND -5": "the filter can never be true",
}


class TestDoubts:
    @pytest.mark.parametrize("filter", DOUBTFUL)
    def test_a_filter_that_was_not_meant_so_is_warned_of_once(
        self, filter: str, tidings: Run, quotes: str
    ) -> None:
        ran = tidings("match", "-w", filter, quotes, quotes)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("warning: ")
        assert ran.err.count("warning: ") == 1
        assert DOUBTFUL[filter] in ran.err

    def test_several_filters_are_told_apart(self, tidings: Run, quotes: str) -> None:
        doubtful = ("-w", "StockName = IBM")
        ran = tidings("match", *doubtful, "-w", "change > 1", *doubtful, quotes)
        assert (ran.code, ran.out) == (0, json.dumps(QUOTES[1]) + "\n")
        (line,) = ran.err.splitlines()
        assert line.startswith("warning: StockName = IBM: IBM is read as the name")

    def test_subscriptions_are_named_by_their_line(
        self, tidings: Run, quotes: str, subscriptions: str
    ) -> None:
        ran = tidings("match", "-s", subscriptions, quotes, "--json")
        assert ran.code == 0
        assert len(ran.rows) == 2
        assert "subscriptions.jsonl, line 3: the filter can never be true" in ran.err

    def test_of_many_the_first_are_shown_and_the_others_counted(
        self, tidings: Run, quotes: str, tmp_path: Path
    ) -> None:
        many = written(tmp_path / "many.jsonl", [{"id": n, "filter": "StockName = IBM"} for n in range(37)])
        ran = tidings("match", "-s", many, quotes)
        lines = ran.err.splitlines()
        assert (ran.code, ran.out, len(lines)) == (0, "", 11)
        assert "many.jsonl, line 10: IBM is read" in lines[9]
        assert lines[10].startswith("warning: 27 more about these filters")

    def test_strict_refuses_before_anything_is_matched(
        self, tidings: Run, quotes: str, subscriptions: str
    ) -> None:
        ran = tidings("match", "--strict", "-w", "change > 1", "-w", "StockName = IBM", quotes)
        assert (ran.code, ran.out) == (2, "")
        assert "error: StockName = IBM: IBM is read as the name of an attribute" in ran.err
        ran = tidings("match", "--strict", "-s", subscriptions, quotes)
        assert (ran.code, ran.out) == (2, "")
        assert "subscriptions.jsonl, line 3: the filter can never be true" in ran.err
        assert tidings("match", "--strict", "-w", "change > 1", quotes).code == 0

    def test_cesql_casts_and_has_no_doubts(self, tidings: Run, quotes: str) -> None:
        assert tidings("match", "--strict", "-d", "cesql", "-w", "StockName = IBM", quotes) == (1, "", "")


@pytest.mark.parametrize(
    "words", [(), ("-w", "a", "-s", "x"), ("-s", "x", "--invert")], ids=["neither", "both", "invert"]
)
def test_wrong_usage(words: tuple[str, ...], tidings: Run) -> None:
    assert tidings("match", *words).code == 2


CLOUD = {
    "specversion": "1.0",
    "id": "c-1",
    "source": "/exchange",
    "type": "quote",
    "time": "2026-01-31T12:00:00Z",
    "subject": "stocks/IBM",
    "region": "eu",
    "data": {"change": -4.5, "id": "inner", "depth": {"bid": 7}, "tags": ["a"]},
}


@pytest.mark.parametrize(
    "filter",
    [
        "change < -3 AND region = 'eu'",
        "topic MATCHES 'stocks/+' AND type = 'quote' AND source = '/exchange'",
        "id = 'c-1' AND data.id = 'inner'",  # the context wins; the member stays in reach
        "depth.bid = 7 AND EXISTS tags AND NOT EXISTS specversion",
        "time = TIMESTAMP '2026-01-31T12:00:00Z'",
    ],
)
def test_a_cloud_event_is_seen_as_an_event(filter: str, tidings: Run) -> None:
    ran = tidings("match", "--where", filter, "--json", stdin=json.dumps(CLOUD) + "\n")
    assert ran.rows == [{"event": "c-1", "subscriptions": [filter]}], ran.err


def test_a_subject_that_is_no_topic_is_an_attribute(tidings: Run) -> None:
    cloud = json.dumps({**CLOUD, "subject": "/a//b"})
    assert tidings("match", "-w", "subject = '/a//b' AND NOT EXISTS topic", stdin=cloud).code == 0

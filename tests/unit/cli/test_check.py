"""`tidings check`: verdicts, stories, the contract of `--json`, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from tests.unit.history.play import Play

from tidings.cli import output
from tidings.cli.check import register
from tidings.history.files import write_history

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """The command as `tidings` runs it, whatever else is registered."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")

    def run(*words: str) -> tuple[int, str, str]:
        output.console.cache_clear()
        output.errors.cache_clear()
        app = typer.Typer()
        app.callback()(lambda: None)
        register(app)
        code = output.guarded(
            lambda: typer.main.get_command(app)(args=["check", *words], prog_name="tidings")
        )
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def history(path: Path, *, good: bool) -> str:
    play = Play().sub(1, "alice", "x > 0", "alice/news").pub(2, "e").told(3, "alice", "e", "alice/news")
    play.usub(11.9, "alice", "alice/news")
    if not good:
        play.told(12.5, "alice", "e", "alice/news")
    write_history(path, play.rows)
    return str(path)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_good_history_ends_with_0(tmp_path: Path, check: Check, ending: str) -> None:
    code, out, _ = check(history(tmp_path / f"run.{ending}", good=True))
    assert code == 0
    assert "keeps all 8 properties judged, as Tidings promises" in " ".join(out.split())
    assert "t_sub and t_diff not given" in out


def test_a_bad_one_tells_the_story_and_ends_with_1(tmp_path: Path, check: Check) -> None:
    code, out, _ = check(history(tmp_path / "run.jsonl", good=False))
    assert code == 1
    flat = " ".join(out.split())
    assert "At 12.5 s alice (subscription alice/news) received e of press" in flat
    assert "breaks 3 of the 8 properties judged: legality, minimality, lp4" in flat


def test_json_is_the_contract(tmp_path: Path, check: Check) -> None:
    code, out, _ = check(
        history(tmp_path / "run.jsonl", good=False), "--json", "--t-sub", "0.5", "--t-diff", "1"
    )
    found: dict[str, Any] = json.loads(out)
    assert code == 1
    properties = found["properties"]
    assert len(properties) == 13
    assert properties["legality"]["holds"] is False
    assert properties["legality"]["counterexample"]["time"] == 12.5
    assert properties["validity"]["holds"] is True
    assert properties["validity"]["counterexample"] is None
    assert properties["liveness"]["holds"] is True
    assert properties["lp2"]["holds"] is None


def test_null_alone_is_no_failure(tmp_path: Path, check: Check) -> None:
    code, out, _ = check(history(tmp_path / "run.jsonl", good=True), "--contract", "siena", "--json")
    assert code == 0
    assert json.loads(out)["properties"]["completeness"]["holds"] is None


def test_until_says_where_the_recording_ends(tmp_path: Path, check: Check) -> None:
    path = tmp_path / "cut.jsonl"
    write_history(path, Play().sub(1, "p", "x = 1").pub(5, "e").rows)
    times = ("--t-sub", "1", "--t-diff", "1")
    assert check(str(path), *times)[0] == 1
    assert check(str(path), *times, "--until", "5.5")[0] == 0


@pytest.mark.parametrize(
    ("name", "content", "words", "problem"),
    [
        ("absent.jsonl", None, (), "no such file"),
        ("run.csv", "x", (), ".csv"),
        ("torn.jsonl", '{"time": 1, "proc', (), "line 1"),
        ("odd.jsonl", '{"time": 1, "process": "p", "op": "pub"}', (), "names no event"),
        ("fine.jsonl", "", ("--contract", "Nobody"), "no contract is called"),
        ("fine.jsonl", "", ("--t-sub", "-1"), "t_sub is -1"),
    ],
)
def test_bad_input_ends_with_2_and_says_what(
    tmp_path: Path, check: Check, name: str, content: str | None, words: tuple[str, ...], problem: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    code, out, err = check(str(path), *words)
    assert code == 2
    assert out == ""
    assert problem in " ".join(err.split())


def test_stories_may_hold_any_text(tmp_path: Path, check: Check) -> None:
    path = tmp_path / "odd.jsonl"
    write_history(path, Play().told(1, "[red]eve[/]", "[bold]").rows)
    code, out, _ = check(str(path))
    assert code == 1
    assert "[red]eve[/] received [bold]" in " ".join(out.split())


def test_several_files_are_joined_first(check: Check, tmp_path: Path) -> None:
    code, _, told = check(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))
    assert code == 2
    assert "cat a.jsonl" in " ".join(told.split())

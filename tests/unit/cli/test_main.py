"""The command line as a whole: help, version, exit codes, errors without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer.main

from tidings import errors
from tidings.cli import COMMANDS, admin, build, command_names, output
from tidings.cli.output import Exit, guarded

Run = Callable[..., Any]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def leaves(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command that can be called, by its words."""
    inner = getattr(command, "commands", None)
    if not inner:
        return {path: command}
    return {p: c for name, sub in inner.items() for p, c in leaves(sub, (*path, name)).items()}


ALL = leaves(typer.main.get_command(build(command_names())))


def test_help_lists_every_command(tidings: Run) -> None:
    ran = tidings("--help")
    assert ran.code == 0
    assert all(name in ran.out for name in COMMANDS)


def test_version(tidings: Run) -> None:
    assert tidings("--version").out.startswith("tidings ")
    assert tidings("version", "--json").rows[0]["packages"]["msgspec"]
    assert "not installed" not in tidings("version").out.split("msgspec")[1].split("\n")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_stand_ins_say_what_the_commands_say(name: str) -> None:
    root = typer.main.get_command(build(command_names()))
    own = root.commands[name].help or ""  # type: ignore[attr-defined]
    assert own.split("\n")[0] == COMMANDS[name]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_help_with_examples_and_json(words: tuple[str, ...], tidings: Run) -> None:
    ran = tidings(*words, "--help")
    assert ran.code == 0
    assert "Examples:" in ran.out
    assert f"$ tidings {' '.join(words)}" in ran.out or f"| tidings {' '.join(words)}" in ran.out
    assert any("--json" in param.opts for param in ALL[words].params)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("filtr",), "filter"),  # a near word is suggested
        (("version", "--jsn"), "--json"),
        (("version", "surplus"), "surplus"),
    ],
)
def test_wrong_usage_ends_with_2(words: tuple[str, ...], said: str, tidings: Run) -> None:
    ran = tidings(*words)
    assert ran.code == Exit.BAD_INPUT
    assert said in ran.err
    assert "Traceback" not in ran.err


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (errors.EventError("too large", hint="make it smaller"), Exit.BAD_INPUT, "hint: make it smaller"),
        (errors.ClosedError("closed"), Exit.BAD_INPUT, "error: closed"),
        (errors.StoreFullError("no room"), Exit.ENVIRONMENT, "error: no room"),
        (errors.MissingDependencyError("no numba"), Exit.ENVIRONMENT, "no numba"),
        (
            FileNotFoundError(2, "No such file or directory", "x.jsonl"),
            Exit.BAD_INPUT,
            "x.jsonl: No such file",
        ),
        (PermissionError(13, "Permission denied", "x"), Exit.ENVIRONMENT, "x: Permission denied"),
        (ZeroDivisionError("by zero"), Exit.DEFECT, "Please report it"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, ""),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, BaseException) else "",
)
def test_errors_become_a_message_and_an_exit_code(
    error: BaseException,
    code: Exit,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TIDINGS_TRACEBACK", raising=False)
    output.errors.cache_clear()
    assert guarded(raising(error)) == code
    printed = capsys.readouterr().err
    assert said in printed
    assert "Traceback" not in printed


def test_the_place_in_a_filter_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    output.errors.cache_clear()
    text = "change < AND x"
    wrong = errors.FilterSyntaxError("expected a value", text=text, offset=9, suggestion="ANY")
    assert guarded(raising(wrong)) == Exit.BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "  change < AND x"
    assert lines[2] == "           ^"
    assert lines[3] == "  hint: did you mean ANY?"


def test_the_traceback_is_there_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.errors.cache_clear()
    monkeypatch.setenv("TIDINGS_TRACEBACK", "1")
    assert guarded(raising(ZeroDivisionError("by zero"))) == Exit.DEFECT
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings", "version"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()  # before anything was printed: Python takes longer than this to start
    data = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), data) == (0, b"")


def test_completion_knows_the_commands() -> None:
    environment = {
        **ENVIRONMENT,
        "_TIDINGS_COMPLETE": "complete_bash",
        "COMP_WORDS": "tidings ver",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tidings"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["version"], done.stderr


HOSTILE = "ann/\x1b[2J\x9b31m\u202egnp"
SHOWN = "ann/\\u001b[2J\\u009b31m\\u202egnp"


def test_a_terminal_acts_upon_no_name_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    """A subscription of anybody could clear the screen of an operator who listed it."""
    for cached in (output.console, output.errors):
        cached.cache_clear()
    output.show(f"{HOSTILE}\nFORGED")
    output.console().print(HOSTILE, markup=False)
    output.say(HOSTILE)
    output.say_error(HOSTILE)
    output.show_error(errors.FilterSyntaxError("wrong", text=HOSTILE, offset=0, suggestion=HOSTILE))
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [f"{SHOWN}\\nFORGED", SHOWN]
    assert not set("\x1b\x9b\u202e") & set(printed.out + printed.err)
    assert printed.err.count(SHOWN) == 4


def test_rows_of_administration_show_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.console.cache_clear()
    admin._table([{"name": f"{HOSTILE}\nFORGED"}], ("name",))
    assert capsys.readouterr().out.splitlines()[1].rstrip() == f"{SHOWN}\\nFORGED"

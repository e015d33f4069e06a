"""Commands run as a user does, without a process for each: a fixture for tests of commands.

from tidings.testing.commands import tidings  # in conftest.py
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tidings.cli import main, output


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def tidings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CommandResult]:
    """`tidings("filter", "check", "a = 1", stdin="...")` -> exit code and both outputs."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str, stdin: str = "") -> CommandResult:
        output.console.cache_clear()  # consoles hold the streams of their time
        output.errors.cache_clear()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(words)
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run

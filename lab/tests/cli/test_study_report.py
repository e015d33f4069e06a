"""`tidings study report`: runs what was not run, keeps it, and writes the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_the_command_keeps_what_was_run(tidings: Run, tmp_path: Path) -> None:
    first = tidings("study", "report", "--quick", "--only", "policies", "--to", str(tmp_path), "--json")
    assert first.rows[0]["studies"]["policies"][0] == first.rows[0]["studies"]["policies"][1]
    before = (tmp_path / "studies" / "policies.json").stat().st_mtime_ns
    again = tidings("study", "report", "--quick", "--only", "policies", "--to", str(tmp_path), "--json")
    assert again.rows == first.rows
    assert (tmp_path / "studies" / "policies.json").stat().st_mtime_ns == before
    page = (tmp_path / "index.html").read_text()
    assert page.count("data:image/svg+xml;base64,") >= 1
    anchors = {*re.findall(r"id=([\w-]+)", page)}
    assert {*re.findall(r"href=#([\w-]+)", page)} <= anchors  # of studies that were not run too


def test_a_study_that_is_not_there(tidings: Run, tmp_path: Path) -> None:
    ran = tidings("study", "report", "--only", "nonsense", "--to", str(tmp_path))
    assert ran.code != 0
    assert "no study is called 'nonsense'" in ran.err

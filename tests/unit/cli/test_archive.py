"""`tidings archive`: what it shows, what it joins, and what is no archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tidings.archive.state import Archive
from tidings.archive.writing import ArchiveEntry, ArchiveWriter
from tidings.model.event import FOREVER, make_event

Run = Callable[..., Any]


def fill(path: Path) -> None:
    archive = Archive(path)
    with archive.locked():
        writer = ArchiveWriter(archive, policy="n = 1")
        for n in (1, 2):
            event = make_event({"n": n, "word": "w"}, source="s", id=str(n), lifetime=FOREVER)
            writer.append("b1#1", [ArchiveEntry(n, 1.8e9, event)], n)


def test_an_archive_is_shown_and_its_small_files_are_joined(tidings: Run, tmp_path: Path) -> None:
    fill(tmp_path)
    (shown,) = tidings("archive", "show", str(tmp_path), "--json").rows
    assert (shown["events"], shown["files"], shown["places"]) == (2, 2, {"b1#1": 2})
    assert shown["columns"] == {"n": "int", "word": "str"}
    assert tidings("archive", "compact", str(tmp_path)).out == "2 files were joined\n"
    ran = tidings("archive", "show", str(tmp_path))
    assert "2 events in 1 files" in ran.out
    assert "b1#1: up to 2" in ran.out


def test_what_is_no_archive_is_told(tidings: Run, tmp_path: Path) -> None:
    ran = tidings("archive", "show", str(tmp_path / "nothing"))
    assert ran.code == 2
    assert "is no archive" in ran.err

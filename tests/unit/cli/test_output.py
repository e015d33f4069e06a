"""Tables on a pipe keep each row on one line."""

from __future__ import annotations

import pytest
from rich.table import Table

from tidings.cli.output import console, print_table


def _table() -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "since"):
        table.add_column(heading, overflow="fold")
    table.add_row("n" * 300, "2026-11-19T21:44:00Z")
    return table


def test_a_table_on_a_pipe_has_no_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console.cache_clear()
    before = console().width
    print_table(_table())
    assert capsys.readouterr().out.splitlines()[1].split() == ["n" * 300, "2026-11-19T21:44:00Z"]
    assert console().width == before, "other lines have the width that they had"
    console.cache_clear()


def test_columns_bound_a_table_where_they_are_stated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    console.cache_clear()
    print_table(_table())
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
    console.cache_clear()

"""The page of promises names tests that exist: a case without its test is not shown."""

from __future__ import annotations

import ast
import re

from tests.tidy._sources import ROOT

PAGE = ROOT / "docs" / "reliability.md"
NAMED = re.compile(r"`((?:\w+/)?tests/[\w/]+\.py)::(\w+)`")


def test_every_case_is_a_test_by_name() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 40
    missing = [f"{file}::{test}" for file, test in named if test not in functions(file)]
    assert not missing, missing


def test_every_row_of_cases_names_one() -> None:
    """Tables of cases, that is; those of figures name none."""
    tables = PAGE.read_text(encoding="utf-8").split("\n\n")
    rows = [row for table in tables if table.startswith("| case |") for row in table.splitlines()[2:]]
    assert len(rows) > 40
    bare = [row for row in rows if not NAMED.search(row)]
    assert not bare, bare


def functions(file: str) -> set[str]:
    path = ROOT / file
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}

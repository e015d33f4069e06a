"""The page of promises names tests that exist: a case without its test is not shown."""

from __future__ import annotations

import ast
import re

from tests.tidy._sources import ROOT

PAGE = ROOT / "docs" / "reliability.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_case_is_a_test_by_name() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 40
    missing = [f"{file}::{test}" for file, test in named if test not in functions(file)]
    assert not missing, missing


def test_every_row_names_one() -> None:
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| case", "|---"))
    ]
    figures = {"acknowledged", "lost", "kills", "stops", "seconds", "measured"}
    bare = [row for row in rows if not NAMED.search(row) and row[2:].split()[0].rstrip(",;") not in figures]
    assert not bare, bare


def functions(file: str) -> set[str]:
    path = ROOT / file
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}

"""Assertions have no effect: `python -O` leaves them out, and nothing else may change by that."""

from __future__ import annotations

import ast

import pytest
from tests.tidy._sources import SOURCES, name_of, python_files, tree_of

EFFECTS = ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom
READS = frozenset(("append", "get", "pop", "popleft", "read", "readline", "receive", "recv", "send", "step"))


def with_effects(tree: ast.AST) -> list[int]:
    """Lines of assertions that wait, bind a name, or call a method without arguments that takes or reads."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and any(map(_has_effect, ast.walk(node.test)))
    ]


def _has_effect(node: ast.AST) -> bool:
    if isinstance(node, EFFECTS):
        return True
    called = node.func if isinstance(node, ast.Call) and not node.args else None
    return isinstance(called, ast.Attribute) and called.attr in READS


def test_assertions_have_no_effect() -> None:
    found = {
        name_of(path): lines
        for path in python_files(*SOURCES, "scripts")
        if "assert " in path.read_text() and (lines := with_effects(tree_of(path)))
    }
    assert found == {}, "`python -O` would leave the effect out: put it on a line of its own"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("assert await one()", [1]),
        ("assert (n := one())", [1]),
        ("1\nassert pipe.readline() == 'x'", [2]),
        ("assert pipe.returncode == 0, pipe.readline()", []),
        ("assert table.get(name) is None", []),
    ],
)
def test_the_rule_bites(text: str, lines: list[int]) -> None:
    assert with_effects(ast.parse(text)) == lines

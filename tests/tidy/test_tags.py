"""Names that frames and stores hold are written out, so a class can be renamed and its bytes stay."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest
from tests.tidy._sources import SOURCES, name_of, python_files, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

BASE = "src/tidings/protocol/messages.py: Message"  # an extension may leave the tag of a message out


def _trees() -> dict[str, ast.Module]:
    return {name_of(path): tree_of(path) for path in python_files(*SOURCES)}


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def _states_tag(node: ast.ClassDef) -> bool:
    tags = [each.value for each in node.keywords if each.arg == "tag"]
    return any(isinstance(tag, ast.Constant) and isinstance(tag.value, str) for tag in tags)


def untagged(trees: Mapping[str, ast.Module]) -> list[str]:
    """Tagged classes, those that inherit a tag too, whose tag is not a string in the line of the class."""
    found = ((file, node) for file, tree in trees.items() for node in ast.walk(tree))
    classes = {(file, node.name): node for file, node in found if isinstance(node, ast.ClassDef)}
    tagged = {
        key
        for key, node in classes.items()
        if any(each.arg in ("tag", "tag_field") for each in node.keywords)
    }
    before = 0
    while len(tagged) > before:
        before, names = len(tagged), {name for _, name in tagged}
        for (file, name), node in classes.items():
            here = {base for base in _bases(node) if (file, base) in classes}
            if any((file, base) in tagged for base in here) or names & (_bases(node) - here):
                tagged.add((file, name))
    return [f"{file}: {name}" for file, name in sorted(tagged) if not _states_tag(classes[file, name])]


def test_every_tagged_struct_states_its_tag() -> None:
    assert untagged(_trees()) == [BASE], 'write tag="…" in the line of the class'


def test_a_tag_that_comes_from_the_name_is_found() -> None:
    first = "class Message(Struct, tag=True): ...\nclass A(Message, tag='A'): ...\nclass B(Message): ..."
    second = "class C(m.B, frozen=True): ...\nclass A: ...\nclass D(A): ...\nclass E(S, tag=str.lower): ..."
    found = untagged({"first": ast.parse(first), "second": ast.parse(second)})
    assert found == ["first: B", "first: Message", "second: C", "second: E"]


def _decides(node: ast.AST) -> list[ast.expr]:
    """Expressions of this node that decide: both sides of a comparison, a key, the subject of a match."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if isinstance(node, ast.Match):
        return [node.subject]
    is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    return list(node.args) if isinstance(node, ast.Call) and is_get else []


def decided_by_name(tree: ast.Module) -> list[int]:
    """Lines that decide by the name of an object's class."""
    parts = [part for node in ast.walk(tree) for part in _decides(node)]
    return sorted(
        each.lineno
        for part in parts
        for each in ast.walk(part)
        if isinstance(each, ast.Attribute)
        and each.attr in ("__name__", "__qualname__")
        and ast.unparse(each.value).startswith("type(")
    )


def test_no_code_decides_by_the_name_of_a_class() -> None:
    found = [f"{file}:{line}" for file, tree in _trees().items() for line in decided_by_name(tree)]
    assert found == [], "compare classes, which a rename leaves alone"


def test_a_decision_by_name_is_found() -> None:
    text = (
        "a = type(x).__name__ == 'A'\nb = T.get(type(x).__name__)\nc = T[type(x).__name__]\nd = "
        "type(x).__name__"
    )
    assert decided_by_name(ast.parse(text)) == [1, 2, 3]

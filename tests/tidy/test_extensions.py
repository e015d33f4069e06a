"""The packages beside the product use the documented extension interface, and the product knows
none of them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.tidy._sources import ROOT, name_of, python_files, tree_of

from tidings.extensions import GROUPS

PAGE = ROOT / "docs" / "extending.md"
OTHERS = ("tidings_lab", "tidings_quality", "tidings_bench")
ROW = re.compile(r"^\| `(tidings[\w.]*)` \| (.+) \|$", re.MULTILINE)


def imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, module, name) of each import; the name of `import a.b` is empty."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


def documented() -> dict[str, set[str]]:
    """The interface as the page lists it: names by module."""
    listed: dict[str, set[str]] = defaultdict(set)
    for module, names in ROW.findall(PAGE.read_text(encoding="utf-8").split("## The interface")[1]):
        listed[module] |= set(re.findall(r"`(\w+)`", names))
    return listed


def test_the_product_imports_none_of_the_other_packages() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for path in python_files("src/tidings")
        for line, module, _ in imported(path)
        if module.split(".")[0] in OTHERS
    ]
    assert not wrong, "\n".join(wrong)


def test_the_laboratory_and_the_application_use_the_documented_interface() -> None:
    listed = documented()
    wrong = [
        f"{name_of(path)}:{line} imports {module}.{name}"
        for path in python_files("lab/src", "quality/src")
        for line, module, name in imported(path)
        if module.split(".")[0] == "tidings" and module != "tidings" and name not in listed[module]
    ]
    assert not wrong, "list them in docs/extending.md, or do without:\n" + "\n".join(wrong)


def test_no_private_name_of_the_product_is_used() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {module}.{name}"
        for path in python_files("lab/src", "quality/src", "benchmarks/src")
        for line, module, name in imported(path)
        if module.split(".")[0] == "tidings"
        and any(part.startswith("_") for part in f"{module}.{name}".split("."))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_documented_name_exists() -> None:
    missing = []
    for module, names in documented().items():
        stored = import_module(module)
        missing += [
            f"{module}.{name}" for name in names if not hasattr(stored, name) and not _is_module(module, name)
        ]
    assert not missing, missing


def _is_module(module: str, name: str) -> bool:
    try:
        import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


def test_the_page_lists_every_group() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [group for group in GROUPS if f"| `{group}` |" not in text] == []

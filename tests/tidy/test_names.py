"""Names: a class name stands for one class, a module has a word of the field, tests are found by their
folder."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest
from tests.tidy._sources import PACKAGE, ROOT, SOURCES, TESTS, name_of, python_files, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

# Module names of an earlier dialect, as a regular expression for the whole name; a test of such a module
# counts too.
BANNED = re.compile(
    r"(test_)?(\w+_)?(words|asking|late|guests|drafts|drives|desks|doors?|proving|bells|kin|cousins|circles|crowds|quests"
    r"|detours|courier|held|heard|told|holding|ledger|moves|farewells|reception|telling)"
)
DEPRECATED = {"src/tidings/gateway/doors.py"}  # the old name of a documented module, which warns

# Words of that dialect as parts of identifiers (`_held`, `was_told`). Those that are left: a claim or a
# condition that held, the quota `held_bytes` of users files, and the old name `Bus.hear`, which warns.
DIALECT = frozenset(
    {
        "courier", "cousin", "crowd", "desk", "detour", "door", "doors", "farewell", "guest", "guests",
        "hear", "heard", "hearer", "hears", "held", "kin", "lane", "lanes", "ledger", "quest",
        "reception", "told",
    }
)  # fmt: skip
MOST_DIALECT = 48  # occurrences; lower it when fewer are left


def reused(trees: Iterable[tuple[str, ast.Module]]) -> dict[str, list[str]]:
    """Class names, without leading underscores, that stand for more than one class at the top of a module."""
    positions = defaultdict(list)
    for file, tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                positions[node.name.lstrip("_")].append(file)
    return {name: files for name, files in positions.items() if len(files) > 1}


def banned(files: Iterable[Path]) -> list[str]:
    names = [name_of(path) for path in files if BANNED.fullmatch(path.stem)]
    return sorted(set(names) - DEPRECATED)


def dialect(trees: Iterable[ast.Module]) -> Counter[str]:
    """Identifiers with a word of the earlier dialect, and how often each occurs."""
    found: Counter[str] = Counter()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    found[name] += 1
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found[name] += 1
    return Counter({name: count for name, count in found.items() if DIALECT & set(name.lower().split("_"))})


def strays(tests: Iterable[Path], modules: Iterable[Path]) -> list[str]:
    """Unit tests outside their folder, by paths below tests/unit and below the package.

    A test lies in a folder of the package. One that has the name of a module below its folder lies beside it.
    """
    known = {module.with_suffix("") for module in modules}
    folders = {folder for module in known for folder in module.parents}
    found = []
    for test in tests:
        name = test.stem.removeprefix("test_")
        beside = {module.parent for module in known if module.name == name} | {
            folder.parent for folder in folders if folder.name == name
        }
        deeper = {folder for folder in beside if test.parent in folder.parents}
        if test.parent not in folders or (deeper and test.parent not in beside):
            found.append(str(test))
    return sorted(found)


def test_a_class_name_stands_for_one_class() -> None:
    found = reused((name_of(path), tree_of(path)) for path in python_files(*SOURCES))
    assert found == {}, "give each its own precise name"


def test_no_module_has_a_name_of_the_old_dialect() -> None:
    assert banned(python_files(*SOURCES, *TESTS)) == [], "say it in a word of the field"


def test_identifiers_have_words_of_the_field() -> None:
    found = dialect(tree_of(path) for path in python_files(*SOURCES))
    assert found.total() <= MOST_DIALECT, f"say it in a word of the field: {found.most_common()}"


def test_unit_tests_are_in_the_folder_of_their_package() -> None:
    tests = [path.relative_to(ROOT / "tests" / "unit") for path in python_files("tests/unit")]
    modules = [path.relative_to(PACKAGE) for path in python_files("src/tidings")]
    found = strays([test for test in tests if test.name.startswith("test_")], modules)
    assert found == [], "a unit test lies in the folder of its module (CONTRIBUTING.md, Tests)"


@pytest.mark.parametrize(
    ("module", "name", "new"),
    [
        ("tidings.gateway.doors", "Gateway", "tidings.gateway.listeners"),
        ("tidings.model.constraint", "told_apart", "exact_key"),
        ("tidings.simulation.topology", "Overlay", "OverlayGraph"),
    ],
)
def test_old_documented_names_warn(module: str, name: str, new: str) -> None:
    sys.modules.pop("tidings.gateway.doors", None)  # it warns when it is imported
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(import_module(module), name)


def test_the_ratchets_bite() -> None:
    trees = [("a", ast.parse("class _A: ...\nclass B: ...")), ("b", ast.parse("class A: ...\ndef B(): ..."))]
    assert reused(trees) == {"A": ["a", "b"]}
    wrong = [
        ROOT / "src/tidings/runtime/words.py",
        ROOT / "src/tidings/x/swap_words.py",
        ROOT / "src/tidings/x/sword.py",
    ]
    assert banned(wrong) == ["src/tidings/runtime/words.py", "src/tidings/x/swap_words.py"]
    old = ast.parse("def was_told(held): return held.upheld + _lanes")
    assert dialect([old]) == {"was_told": 1, "held": 2, "_lanes": 1}
    modules = [Path("protocol/node.py"), Path("protocol/delivery/cursor.py")]
    right = [
        Path("protocol/test_node.py"),
        Path("protocol/delivery/test_cursor.py"),
        Path("protocol/test_queues.py"),
    ]
    assert strays(right, modules) == []
    assert strays([Path("protocol/test_cursor.py"), Path("nowhere/test_x.py")], modules) == [
        "nowhere/test_x.py",
        "protocol/test_cursor.py",
    ]

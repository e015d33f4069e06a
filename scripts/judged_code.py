"""Digest of the code that a part of the campaign judges: its tests, and all that they import.

Rules
- Imports are followed through the source, those inside functions included. `import_module` with a name is
  not followed: such modules are named by the part.
- The `__init__.py` files above an imported module count, and of their imports those that run with them.
- A part whose tests start processes judges the whole product: a process is started by its name.
- Comments, docstrings and formatting do not count: the digest is of the syntax trees.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "tidings": ROOT / "src" / "tidings",
    "tidings_lab": ROOT / "lab" / "src" / "tidings_lab",
    "tidings_quality": ROOT / "quality" / "src" / "tidings_quality",
    "tidings_bench": ROOT / "benchmarks" / "src" / "tidings_bench",
    "tests": ROOT / "tests",
    "suite": ROOT / "suite",
    "lab": ROOT / "lab",
    "quality": ROOT / "quality",
    "benchmarks": ROOT / "benchmarks",
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def digest(paths: Iterable[str], *, modules: Iterable[str] = (), whole: bool = False) -> str:
    """Digest of what these tests, files or folders below the root, judge. `modules`: loaded by name;
    `whole`: with all of the product."""
    roots = {ROOT / "conftest.py", *_files(PACKAGES["suite"])}
    for path in paths:
        roots |= set(_files(ROOT / path))
        roots |= {parent / "conftest.py" for parent in (ROOT / path).parents if parent.is_relative_to(ROOT)}
    for name in modules:
        roots |= {file for file, _ in _module_files(name)}
    if whole:
        roots |= set(_files(PACKAGES["tidings"]))
    judged = blake2b(digest_size=8)
    for file in sorted(closure(root for root in roots if root.exists())):
        judged.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + _text(file))
    return judged.hexdigest()


def closure(roots: Iterable[Path]) -> set[Path]:
    """These files and all files of the repository that they import, directly or not."""
    found: set[tuple[Path, bool]] = set()
    left = [(root, True) for root in roots]
    while left:
        file, with_lazy = each = left.pop()
        if each not in found:
            found.add(each)
            left += _imports(file, with_lazy=with_lazy)
    return {file for file, _ in found}


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _text(file: Path) -> bytes:
    return normalised(file.read_text(encoding="utf-8")).encode()


def normalised(program: str) -> str:
    """A program without comments, docstrings and formatting."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


@cache
def _imports(file: Path, *, with_lazy: bool) -> tuple[tuple[Path, bool], ...]:
    """The imported files, each with whether its lazy imports count too."""
    found: dict[tuple[Path, bool], None] = {}
    for node in ast.walk(_tree(file)) if with_lazy else _tree(file).body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = _package(file)
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            found.update(dict.fromkeys(_module_files(name)))
    return tuple(found)


def _package(file: Path) -> list[str]:
    """Names of the package that holds a file; empty outside the packages."""
    for name, folder in PACKAGES.items():
        if file.is_relative_to(folder):
            return [name, *file.relative_to(folder).parts[:-1]]
    return []


@cache
def _module_files(name: str) -> tuple[tuple[Path, bool], ...]:
    """The file of a module, or of the module that has this name as an attribute, and the `__init__.py` files
    above it; none for what is not ours."""
    first, *rest = name.split(".")
    if first not in PACKAGES:
        return ()
    folder, found = PACKAGES[first], []
    for part in rest:
        found.append((folder / "__init__.py", False))
        if (folder / part).with_suffix(".py").exists():
            return (*_existing(found), ((folder / part).with_suffix(".py"), True))
        if not (folder / part).is_dir():  # an attribute of the package
            break
        folder /= part
    return (*_existing(found), *_existing([(folder / "__init__.py", True)]))


def _existing(files: list[tuple[Path, bool]]) -> list[tuple[Path, bool]]:
    return [each for each in files if each[0].exists()]


def _files(path: Path) -> Iterator[Path]:
    return iter([path] if path.suffix == ".py" else sorted(path.rglob("*.py")))

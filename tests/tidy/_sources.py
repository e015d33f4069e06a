"""The files that the tidy tests look at."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tidings"
SOURCES = ("src", "lab/src", "quality/src", "benchmarks/src")
TESTS = ("tests", "lab/tests", "quality/tests", "benchmarks/tests")


@lru_cache
def tracked() -> tuple[Path, ...]:
    """Every file of the repository: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    files = (ROOT / name for name in listed.split("\0") if name)
    return tuple(sorted(path for path in files if path.is_file()))


@cache
def script(name: str) -> ModuleType:
    """A script of ours as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python_files(*folders: str) -> list[Path]:
    roots = [ROOT / folder for folder in folders]
    return [path for path in tracked() if path.suffix == ".py" and any(path.is_relative_to(r) for r in roots)]


@cache
def pages() -> tuple[Path, ...]:
    """The pages that users read: README and the docs of every package."""
    packages = [ROOT, *(ROOT / name for name in ("lab", "quality", "benchmarks"))]
    return tuple(
        path
        for path in tracked()
        if path.suffix == ".md"
        and any(path.parent == package or path.is_relative_to(package / "docs") for package in packages)
    )


def _roots() -> list[Path]:
    return [ROOT / source for source in SOURCES]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """src/tidings/model/event.py -> tidings.model.event"""
    [parts] = [path.relative_to(root).with_suffix("").parts for root in _roots() if path.is_relative_to(root)]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=name_of(path))

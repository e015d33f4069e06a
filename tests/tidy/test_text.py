"""What the text of the repository must hold and must not hold."""

from __future__ import annotations

import ast
import re

import pytest
from tests.tidy._sources import PACKAGE, ROOT, SOURCES, name_of, python_files, tracked, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

REQUIRED = (
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "Makefile", ".ci/run",
    "constraints.txt", "pyproject.toml", "docs/index.md", "src/tidings/py.typed",
)  # fmt: skip

# Each is put together here, so that this file does not complain of itself.
FORBIDDEN = {
    "a path of somebody's machine": r"(?<![\w.<>$-])/(?:home|root|Users|work)/[\w.]",
    "the address of a package index": r"pypi\."
    + r"org|pythonhosted\."
    + r"org|https?://\S*/simple\b|https?://\S*\.whl\b",
    "an unfinished mark": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b",
}
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".sh",
    ".yaml",
    ".yml",
    ".json",
    ".jsonl",
    ".play",
    ".js",
    ".css",
    ".html",
    "",
}


def test_what_a_repository_needs_is_there() -> None:
    missing = [name for name in REQUIRED if not (ROOT / name).is_file()]
    assert not missing, missing
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_no_file_holds_what_does_not_belong_there() -> None:
    texts = {
        path: path.read_text(errors="replace").splitlines()
        for path in tracked()
        if path.suffix in TEXT and path.name != "LICENSE"
    }
    found = [
        f"{name_of(path)}:{number} {what}: {line.strip()[:80]}"
        for what, pattern in FORBIDDEN.items()
        for path, lines in texts.items()
        for number, line in enumerate(lines, 1)
        if re.search(pattern, line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_patterns_bite() -> None:
    for what, line in (
        ("a path of somebody's machine", "see /" + "home/ann/notes"),
        ("the address of a package index", "https://example.com/root/" + "simple/"),
        ("an unfinished mark", "# TO" + "DO: later"),
    ):
        assert re.search(FORBIDDEN[what], line), what


def test_nothing_in_the_package_is_left_unwritten() -> None:
    stubs = [
        name_of(path) for path in python_files(*SOURCES) if "NotImplemented" + "Error" in path.read_text()
    ]
    assert not stubs, stubs


def test_pins_hold_no_addresses() -> None:
    pin = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9._!+-]+( ; .+)?")
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    wrong = [line for line in lines if line and not line.startswith("#") and not pin.fullmatch(line)]
    assert not wrong, wrong


def test_the_architecture_names_every_package() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert not {package for package in packages if f"{package}/" not in text}


def test_files_and_classes_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    below = (PACKAGE, PACKAGE / "protocol", PACKAGE / "pipeline", ROOT, ROOT / "scripts", ROOT / "docs")
    paths = set(re.findall(r"`([\w/]+(?:\.py|/))`", text))
    assert len(paths) > 60
    assert not [path for path in sorted(paths) if not any((folder / path).exists() for folder in below)]
    classes = {
        node.name
        for path in python_files(*SOURCES)
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }
    assert not {name for name in re.findall(r"`([A-Z][a-z]\w+)`", text) if name not in classes}


def test_the_changelog_knows_this_version() -> None:
    version = re.search(r'"(.+)"', (PACKAGE / "_version.py").read_text())
    assert version
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()

"""A sweep answers from finished points only while all that its points run is unchanged."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tidings.pipeline import program_text
from tidings.pipeline.program_text import program

Put = Callable[[str, str], None]


def digest(package: str = "product") -> str:
    """The digest as the next process finds it."""
    importlib.invalidate_caches()
    return program.__wrapped__(package)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product without text, and the distributions of a test alone: hashing all of ours takes seconds."""
    found = program_text.entry_points
    monkeypatch.setattr(program_text, "OWN", "product")
    monkeypatch.setattr(
        program_text,
        "entry_points",
        lambda group: [each for each in found(group=group) if each.name == "two"],
    )


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Writes a file of a folder on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def written(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    return written


def install(put: Put, name: str, *files: str, entry: str = "") -> None:
    """A distribution that lists these files; `entry` is what it offers as a system."""
    put(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    put(f"{name}-1.0.dist-info/RECORD", "".join(f"{file},sha256=1,1\n" for file in files))
    if entry:
        put(f"{name}-1.0.dist-info/entry_points.txt", f"[tidings.systems]\n{name} = {entry}\n")


def test_the_program_is_every_package_that_a_point_may_run(put: Put) -> None:
    named = {place for name in ("tidings_lab", "tidings_quality") for _, place in program_text._sources(name)}
    assert {"studies/study.py", "overlay/__init__.py", "state.py"} <= named
    put("alone.py", "")
    seen = [digest(name) for name in ("tidings_lab", "alone", "gone")]
    assert seen[0] == seen[2]  # the laboratory offers extensions, so it is part of every program
    assert seen[1] != seen[0]


def test_the_package_of_the_function_counts(put: Put, small: None) -> None:
    put("pointed/__init__.py", "")
    put("alone.py", "")
    seen = [digest(name) for name in ("product", "pointed", "alone", "gone")]
    assert seen[0] == seen[3]
    put("pointed/more.py", "x = 1")
    put("alone.py", "x = 1")
    changed = [digest(name) for name in ("product", "pointed", "alone")]
    assert changed[0] == seen[0]
    assert changed[1] != seen[1]
    assert changed[2] != seen[2]


def test_a_second_module_of_a_distribution_counts_without_an_import(put: Put, small: None) -> None:
    install(put, "two", "two.py", "two_help.py", entry="two:SYSTEM")
    put("two.py", "from importlib import import_module\ngo = import_module('two_' + 'help')\n")
    put("two_help.py", "x = 1")
    before = digest()
    put("two_help.py", "x = 2")
    assert digest() != before


@pytest.mark.parametrize(
    "text", ["import far", "def late():\n    from far.inner import x", "import far.a as b"]
)
def test_modules_that_are_imported_over_several_steps_count(put: Put, small: None, text: str) -> None:
    install(put, "two", entry="two:SYSTEM")  # it lists no files: an editable installation
    put("two.py", "import two_help")
    put("two_help.py", text)
    put("far/__init__.py", "")
    put("far/inner.py", "x = 1")
    before = digest()
    assert digest() == before
    put("far/inner.py", "x = 2")
    changed = digest()
    assert changed != before
    put("far/inner.py", "x = 1")
    assert digest() == before


def test_a_library_counts_by_its_list_of_files(put: Put, small: None) -> None:
    install(put, "two", "two.py", entry="two:SYSTEM")
    put("two.py", "import lib")
    put("lib.py", "")
    install(put, "lib", "lib.py")
    before = digest()
    put("lib-1.0.dist-info/RECORD", "lib.py,sha256=2,1\n")
    assert digest() != before


def test_a_source_that_cannot_be_read_as_python_is_no_error(put: Put, small: None) -> None:
    install(put, "two", "two.py", entry="two:SYSTEM")
    put("two.py", "def (:\n")
    before = digest()
    put("two.py", "def (:\n\n")
    assert digest() != before

"""Distributions of one module or more, installed for one test."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings import extensions
from tidings import systems as known
from tidings.cli import main
from tidings.console import pages
from tidings.history import contracts, properties

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution of one module, for one test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def installed(name: str, code: str, **groups: str) -> None:
        """`group="entry = object, ..."` for each group, without its prefix."""
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = []
        for group, entries in groups.items():
            lines.append(f"[tidings.{group}]")
            for entry in entries.split(", "):
                word, _, value = entry.partition(" = ")
                lines.append(f"{word} = {name}:{value}")
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.py").write_text(code)
        importlib.invalidate_caches()
        forget()

    yield installed
    monkeypatch.undo()
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]
    forget()


def forget() -> None:
    """Look for extensions anew."""
    caches: tuple[Any, ...] = (
        *(extensions._points, extensions._packages, extensions.load, known._collected, known.systems),
        *(contracts._collected, contracts.known_contracts, properties.known_properties, pages.table),
    )
    for each in caches:
        each.cache_clear()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err

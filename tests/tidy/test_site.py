"""The docs as a site: every page is there, and every link and picture leads to a file of the site."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.tidy._sources import ROOT, pages

pytest.importorskip("markdown_it")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_script", ROOT / "scripts" / "site.py")
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_every_page_is_there_and_every_link_leads_somewhere(script: ModuleType, tmp_path: Path) -> None:
    assert script.write_site(tmp_path) >= len(list(pages()))
    written = [file for file in tmp_path.rglob("*.html") if "report" not in file.parts]
    links = {
        (file, target)
        for file in written
        for target in re.findall(r'(?:href|src)="([^"#:]+)["#]', file.read_text())
    }
    assert len(links) > 100
    assert not [(file.name, to) for file, to in links if not (file.parent / to).exists()]


def test_nothing_comes_from_outside(script: ModuleType) -> None:
    page = script.written(ROOT / "README.md", script.converter(), Path("README.html"))
    assert not re.findall(r'(?:src|<link[^>]*href)="https?:', page)

"""The docs as a site: every page is there, and every link and picture leads to a file of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, pages, script

pytest.importorskip("markdown_it")


def test_every_page_is_there_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    assert script("site").write_site(tmp_path) >= len(list(pages()))
    written = [file for file in tmp_path.rglob("*.html") if "report" not in file.parts]
    links = {
        (file, target)
        for file in written
        for target in re.findall(r'(?:href|src)="([^"#:]+)["#]', file.read_text())
    }
    assert len(links) > 100
    assert not [(file.name, to) for file, to in links if not (file.parent / to).exists()]


def test_nothing_comes_from_outside() -> None:
    site = script("site")
    page = site.written(ROOT / "README.md", site.converter(), Path("README.html"))
    assert not re.findall(r'(?:src|<link[^>]*href)="https?:', page)

"""The documentation site:

MkDocs builds it in strict mode, each page is there, and no page needs another host.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, name_of, pages

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")

pytestmark = pytest.mark.xdist_group("site")  # one build for all tests
SEARCHED = (
    "Consumer groups", "Dead letters", "Retention", "Replay", "Backpressure", "Timeouts", "ACLs", "TLS",
    "Backup",
    "Upgrade", "Monitoring", "Kubernetes", "MQTT", "CloudEvents", "Spark Structured Streaming",
)  # fmt: skip


def build(to: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(to)]
    around = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(
        command, cwd=ROOT, env=around, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a version 9.10, built once. A broken link or heading fails the build."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder / "9.10", VERSION="9.10")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "9.10"


def written(site: Path) -> list[Path]:
    return [file for file in site.rglob("*.html") if "report" not in file.parts]


def address(page: Path) -> str:
    return re.sub(r"\.md$", ".html", name_of(page).removeprefix("docs/"))


def test_every_page_is_there(site: Path) -> None:
    missing = [name_of(page) for page in pages() if not (site / address(page)).is_file()]
    assert not missing, missing


def test_every_link_and_picture_leads_to_a_file(site: Path) -> None:
    links = {
        (file, target)
        for file in written(site)
        if file.name != "404.html"
        for target in re.findall(r'(?:href|src)="([^"#:?]+)["#?]', file.read_text())
    }
    assert len(links) > 1000
    assert not [(file.name, to) for file, to in links if not (file.parent / to).exists()]


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loads = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    found = [(file.name, each) for file in written(site) for each in loads.findall(file.read_text())]
    assert not found, found[:5]
    styles = [
        file for file in site.rglob("*.css") if re.search(r"url\(['\"]?(?:https?:)?//", file.read_text())
    ]
    assert not styles, styles


def test_words_that_users_search_for_are_headings_in_the_index(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    titles = " ".join(re.findall(r'"title":"([^"]*)"', index)).lower()
    assert not [word for word in SEARCHED if word.lower() not in titles]


def test_the_reference_is_made_from_the_docstrings(site: Path) -> None:
    page = (site / "reference" / "python" / "bus.html").read_text()
    for name in ("tidings.Bus.publish", "tidings.Bus.subscribe", "tidings.Listener.get"):
        assert f'id="{name}"' in page, name
    assert 'id="tidings.errors.TidingsError"' in (site / "reference" / "python" / "errors.html").read_text()


def test_the_version_is_in_the_header_and_in_the_list_of_versions(site: Path) -> None:
    assert '<span class="release">9.10</span>' in (site / "index.html").read_text()
    assert '"version": "9.10"' in (site.parent / "versions.json").read_text()
    assert "9.10/index.html" in (site.parent / "index.html").read_text()


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    start = settings.index("hooks:")
    page = tmp_path / "docs" / "index.md"
    page.parent.mkdir()
    page.write_text("# A page\n\n[nowhere](missing.md)\n")
    validation = settings[settings.index("validation:") : settings.index("not_in_nav:")]
    (tmp_path / "mkdocs.yml").write_text(f"{settings[:start]}\n{validation}")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(tmp_path / "mkdocs.yml")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode != 0
    assert "missing.md" in done.stdout + done.stderr

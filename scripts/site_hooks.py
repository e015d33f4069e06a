"""MkDocs hooks: collect the pages of all packages, name the version, list the versions beside it.

Rules
- A page keeps the path that it has in the repository as its source, so links between pages are those that a
  forge follows. Its address drops the leading `docs/`.
- The version is `VERSION` of the environment, or that of the package. It stands in the header of every page.
- `site/versions.json` and `site/index.html` are written after a build into `site/VERSION`; a build into any
  other folder writes below that folder alone.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lab", "quality", "benchmarks")
STATIC = ("docs/images", "docs/assets", "lab/docs/images", "examples", "report")
SINGLE = ("LICENSE",)
FORWARD = (
    '<!doctype html><meta charset=utf-8><title>Tidings</title><meta http-equiv=refresh content="0; '
    'url={to}">\n'
)


def on_config(config: Any) -> Any:
    config.extra["release"] = os.environ.get("VERSION") or package_version()
    if is_versioned(config):
        config.extra["version"] = {"provider": "mike"}  # the theme's selector, which reads ../versions.json
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages and their pictures, each under its path in the repository."""
    kept = [file for file in files if not Path(file.abs_src_path or "").is_relative_to(ROOT / "docs")]
    return Files([*kept, *(file_of(path, config) for path in sources())])


def sources() -> list[Path]:
    """Every file of the site, in the order of its path."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for package in PACKAGES:
        pages += [*(ROOT / package).glob("*.md"), *(ROOT / package / "docs").rglob("*.md")]
    static = [path for folder in STATIC for path in (ROOT / folder).rglob("*") if path.is_file()]
    unwanted = {"__pycache__"}
    return sorted(
        path
        for path in [*pages, *static, *(ROOT / name for name in SINGLE)]
        if not unwanted & set(path.parts)
    )


def file_of(path: Path, config: Any) -> File:
    source = path.relative_to(ROOT).as_posix()
    return File(source, str(ROOT), config.site_dir, config.use_directory_urls, dest_uri=address_of(source))


def address_of(source: str) -> str:
    """The address of a file below the version's folder."""
    address = source.removeprefix("docs/")
    return re.sub(r"\.md$", ".html", address)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A block that is a file of the reader's own (`python file=mine.py`) has that name as its title."""
    return re.sub(r"^(```\w+) file=(\S+)$", r'\1 title="\2"', markdown, flags=re.MULTILINE)


def on_post_page(output: str, config: Any, **_: Any) -> str:
    """The version beside the name; the theme's selector takes its place where there are several."""
    shown = f'<span class="release">{config.extra["release"]}</span>'
    return output.replace(
        f'<span class="md-ellipsis">\n            {config.site_name}\n',
        f'<span class="md-ellipsis">\n            {config.site_name} {shown}\n',
        1,
    )


def on_post_build(config: Any) -> None:
    if not is_versioned(config):
        return
    site = Path(config.site_dir).parent
    versions = sorted(
        (path.parents[1].name for path in site.glob("*/search/search_index.json")), key=order_of
    )
    listed = [{"version": name, "title": name, "aliases": []} for name in reversed(versions)]
    (site / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (site / "index.html").write_text(FORWARD.format(to=f"{versions[-1]}/index.html"))


def is_versioned(config: Any) -> bool:
    return bool(Path(config.site_dir).name == config.extra["release"])


def order_of(version: str) -> list[tuple[int, str]]:
    """Numbers compare as numbers: 0.10 comes after 0.9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.-]", version)]


def package_version() -> str:
    found = re.search(r'"(.+)"', (ROOT / "src/tidings/_version.py").read_text())
    assert found
    return found[1]

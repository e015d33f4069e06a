"""Write the docs as a site: HTML pages that need no server and nothing from outside.

    python scripts/site.py --to site

Every page of `docs/` and of the project's root becomes one page, with the index at its side. The report is published with
them when `make studies` has written it (`report/`).
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
from pathlib import Path

from markdown_it import MarkdownIt
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "index.md"
STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:16px/1.55 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:19rem minmax(0,50rem);gap:3rem}
nav{padding:1.5rem;border-right:1px solid var(--line);height:100vh;overflow:auto;position:sticky;top:0;box-sizing:border-box;font-size:.9rem}
nav h1{font-size:1.2rem}nav h2{font-size:.95rem;margin:1.2rem 0 .3rem}nav ul{list-style:none;padding:0;margin:0}nav li{margin:.25rem 0}
main{padding:1.5rem 1rem 4rem}main img{max-width:100%}a{color:#2563eb}@media(prefers-color-scheme:dark){a{color:#8ab4f8}}
pre{background:var(--soft);padding:.8rem 1rem;overflow:auto;border-radius:6px}code{font:.9em ui-monospace,monospace}
table{border-collapse:collapse;display:block;overflow:auto}td,th{border-bottom:1px solid var(--line);padding:.35rem .8rem;text-align:left;vertical-align:top}
nav a[aria-current]{font-weight:700}
@media(max-width:60rem){body{display:block}nav{position:static;height:auto;border:0}}
"""


def pages() -> list[Path]:
    folders = [ROOT / name for name in ("docs", "lab", "quality", "benchmarks")]
    return [
        *sorted(ROOT.glob("*.md")),
        *(page for folder in folders for page in sorted(folder.rglob("*.md"))),
    ]


def place_of(page: Path) -> Path:
    """Where a page goes, below the site's folder: docs/index.md is its first page."""
    if page == INDEX:
        return Path("index.html")
    return page.relative_to(ROOT).with_suffix(".html")


def coloured(code: str, language: str, _: str) -> str:
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True, noclasses=False)))


def converter() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"highlight": coloured, "html": True}).enable("table")
    made.add_render_rule("heading_open", _heading)
    return made


def _heading(_renderer: object, tokens: list, number: int, _options: object, _env: object) -> str:  # type: ignore[type-arg]
    """Headings get the anchors that links between pages use."""
    text = tokens[number + 1].content
    anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    return f'<{tokens[number].tag} id="{html.escape(anchor)}">'


LINK = re.compile(r'(href|src)="([^"#:]*)(#[^"]*)?"')


def relinked(body: str, page: Path, place: Path) -> str:
    """Links between pages lead to their HTML, wherever that went."""

    def new(found: re.Match[str]) -> str:
        kind, target, anchor = found[1], found[2], found[3] or ""
        if not target:
            return found[0]
        file = (page.parent / target).resolve()
        goes = place_of(file) if file.suffix == ".md" else file.relative_to(ROOT)
        return f'{kind}="{"../" * (len(place.parts) - 1)}{goes.as_posix()}{anchor}"'

    return LINK.sub(new, body)


def written(page: Path, made: MarkdownIt, place: Path) -> str:
    text = page.read_text()
    title = next(iter(re.findall(r"^# +(.+)$", text, re.MULTILINE)), page.stem)
    body = relinked(made.render(text), page, place)
    aside = relinked(made.render(INDEX.read_text()), INDEX, place)
    here = f'href="{"../" * (len(place.parts) - 1)}{place.as_posix()}"'
    aside = aside.replace(here, f'{here} aria-current="page"')
    colours = HtmlFormatter().get_style_defs("pre")
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}@media(prefers-color-scheme:light){{{colours}}}</style>"
        f"<nav>{aside}</nav><main>{body}</main></html>\n"
    )


def write_site(to: Path) -> int:
    """How many pages were written."""
    made, count = converter(), 0
    for page in pages():
        place = place_of(page)
        (to / place).parent.mkdir(parents=True, exist_ok=True)
        (to / place).write_text(written(page, made, place))
        count += 1
    for images in ("docs/images", "lab/docs/images"):
        shutil.copytree(ROOT / images, to / images, dirs_exist_ok=True)
    for name in ("LICENSE", "examples", "report"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, to / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        elif source.exists():
            shutil.copy(source, to / name)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--to", type=Path, default=ROOT / "site", help="a folder; what lies there is replaced"
    )
    wanted = parser.parse_args()
    count = write_site(wanted.to)
    report = (
        "with the report"
        if (wanted.to / "report" / "index.html").exists()
        else "make studies would add the report"
    )
    print(f"{wanted.to}/index.html: {count} pages, {report}")


if __name__ == "__main__":
    main()

"""README and docs say what is so: code runs as written, commands exist and print what is shown,
generated pages are those that the code generates, links lead somewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, name_of, pages, script
from tests.tidy.run_page import blocks

RUNNER = Path(__file__).with_name("run_page.py")
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(
    r'^```text title="Output"\n(.*?)^```', re.DOTALL | re.MULTILINE
)  # of the python blocks above
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "src"),
    "NO_COLOR": "1",
    "COLUMNS": "100",
    "TIDINGS_PYTHON": sys.executable,
}


def with_code() -> list[Path]:
    return [page for page in pages() if list(blocks(page.read_text()))]


@pytest.mark.parametrize("page", with_code(), ids=name_of)
def test_code_runs_as_written(page: Path, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr
    for shown in OUTPUT.findall(page.read_text()):
        assert shown in done.stdout, f"{name_of(page)} shows\n{shown}and prints\n{done.stdout}"


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(RUNNER), str(page)]
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False
    )


PAGE = """
```python
import asyncio
total = 1
```
Prose, and code that is not ours to run:
```text
not python
```
```python
await asyncio.sleep(0)
total += 1
```
```python
asyncio.run(asyncio.sleep(0))
assert total == 2, "blocks share one namespace"
```
"""


def test_a_page_may_await_and_share_names(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run_page(page, tmp_path).returncode == 0
    page.write_text(PAGE.replace("== 2", "== 3"))
    wrong = run_page(page, tmp_path)
    assert wrong.returncode == 1
    assert "line 16" in wrong.stderr  # the page's own line


def sessions() -> list[tuple[Path, str]]:
    """Each ```console block that shows our own commands, with its page."""
    found = ((page, block) for page in pages() for block in CONSOLE.findall(page.read_text()))
    return [(page, block) for page, block in found if re.search(r"^\$ .*\btidings ", block, re.MULTILINE)]


def turns(block: str) -> list[tuple[str, str]]:
    """A console block as (command, output shown) pairs; a command may go on after a backslash."""
    result = []
    for turn in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = re.sub(r"\\\n", "", turn).partition("\n")
        result.append((command, shown))
    return result


@pytest.mark.parametrize(
    ("page", "block"), sessions(), ids=lambda x: name_of(x) if isinstance(x, Path) else ""
)
def test_commands_print_what_is_shown(page: Path, block: str, tmp_path: Path) -> None:
    for command, shown in turns(block):
        if command.startswith(("make ", "git ", "pip ")):
            continue
        script = f'tidings() {{ "$TIDINGS_PYTHON" -m tidings "$@"; }}\n{command}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=600
        )
        printed = done.stdout + done.stderr
        assert same(shown, printed), f"{name_of(page)}: $ {command}\nshown:\n{shown}\nprinted:\n{printed}"
        assert done.returncode not in (3, 70), printed


def same(shown: str, printed: str) -> bool:
    """Equal line by line but for spaces at the ends; a shown line `...` stands for any lines."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()) + r"[ ]*\n"
        for line in shown.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None


def test_make_targets_of_the_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    pattern = re.compile(r"(?:^\$ |`)make ([a-z]+)", flags=re.MULTILINE)
    named = {name_of(page): set(pattern.findall(page.read_text())) for page in pages()}
    assert {"setup", "test", "lint"} <= named["CONTRIBUTING.md"]
    assert not {page: missing for page, found in named.items() if (missing := found - targets)}


def test_the_readme_shows_its_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert {"make demo", "make test"} <= {command for b in CONSOLE.findall(text) for command, _ in turns(b)}


def test_generated_pages_are_up_to_date() -> None:
    assert not script("docs").stale(), "run make docs"


def test_links_lead_somewhere() -> None:
    assert not script("docs").broken_links()


def test_a_wrong_output_is_seen() -> None:
    assert same("a\n...\nz\n", "a\nb\nc\nz\n")
    assert not same("a\n", "b\n")
    assert not same("a\n", "a\nb\n")

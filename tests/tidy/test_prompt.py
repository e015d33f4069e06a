"""Blocks of the pages can be pasted at a prompt (`python -m asyncio`); each function of a page is called.

A prompt of Python up to 3.12 reads line by line: a line without indentation that follows an indented one
needs a blank line before it, and a blank line ends a block.
"""

from __future__ import annotations

import ast
import codeop
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, name_of, pages
from tests.tidy.run_page import blocks

FILE = re.compile(r"^```\w+ file=\S+$", re.MULTILINE)

# Functions that no block of their page calls, and the test that takes them from the page and runs them: they
# need brokers at known addresses, or a file of the reader's own.
CALLED_BY = {
    "docs/extending.md": "tests/together/test_extending.py",  # its files
    "docs/how-to/spark-structured-streaming.md": "tests/pipeline/test_pages_with_brokers.py",
    "docs/meeting.md": "tests/pipeline/test_pages_with_brokers.py",
}

# Functions that no test takes from their page.
NOT_RUN = {"docs/extending.md": {"strategies"}}  # needs a site of a network; the overlay in it has tests


def whole_classes(code: str) -> list[str]:
    """The lines of a block without the blank lines in its classes: the format of the sources wants one before
    a method, and a class with methods goes into a file."""
    lines = dict(enumerate(code.splitlines(), 1))
    for each in ast.parse(code).body:
        if isinstance(each, ast.ClassDef):
            inside = range(each.lineno, (each.end_lineno or 0) + 1)
            lines = {number: line for number, line in lines.items() if line or number not in inside}
    return list(lines.values())


def refused(code: str) -> str | None:
    """The first line of a block at which a prompt reports an error of syntax."""
    read = codeop.CommandCompiler()
    read.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    waiting: list[str] = []
    for line in [*whole_classes(code), ""]:  # and Enter at the end
        waiting.append(line)
        try:
            complete = read("\n".join(waiting), "<prompt>", "single")
        except SyntaxError:
            return line
        if complete is not None:
            waiting.clear()
    return waiting[0] if waiting else None


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_blocks_can_be_pasted_at_a_prompt(page: Path) -> None:
    found = {line + 1: refused(code) for line, code in blocks(page.read_text())}
    assert not {line: text for line, text in found.items() if text is not None}, "block: refused line"


FINE = "async with bus() as one:\n    print(one)\n\nprint('end')\n"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (FINE, None),
        (FINE.replace("\n\n", "\n"), "print('end')"),
        ("for n in (1, 2):\n    print(n)\n\n    print(-n)\n", "    print(-n)"),
    ],
)
def test_the_prompt_itself_refuses_the_same_lines(code: str, line: str | None) -> None:
    """Found by a user: a block of the tutorial that ran in the tests was no Python at the prompt it names."""
    assert refused(code) == line
    start = (
        "import contextlib\n"
        "@contextlib.asynccontextmanager\n"
        "async def bus():\n"
        "    yield 'open'\n\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=start + code + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(?:Syntax|Indentation)Error", done.stderr, re.MULTILINE)
    if sys.version_info < (3, 13):
        assert bool(errors) == (line is not None), done.stderr


def uncalled(text: str) -> set[str]:
    """Functions that the blocks of a page define at their top level, and that none of them names again."""
    made: set[str] = set()
    named: set[str] = set()
    for _, code in blocks(text):
        tree = ast.parse(code)
        made |= {
            each.name
            for each in tree.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.decorator_list
        }
        named |= {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    return made - named


def test_what_a_page_only_defines_is_run_by_a_test() -> None:
    """Found by a user: the one function of a page was defined, never called, and did not end when called."""
    needy = {name_of(page) for page in pages() if uncalled(page.read_text()) or FILE.search(page.read_text())}
    assert needy == set(CALLED_BY)
    assert uncalled((ROOT / "docs" / "extending.md").read_text()) == NOT_RUN["docs/extending.md"]
    for page, test in CALLED_BY.items():
        assert Path(page).name in (ROOT / test).read_text(), f"{test} does not read {page}"


def test_an_uncalled_function_is_seen() -> None:
    assert uncalled("```python\ndef one(): ...\n```\n```python\nasync def two():\n    one()\n```\n") == {
        "two"
    }

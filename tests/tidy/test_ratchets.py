"""Files and functions stay short, and the lists of exceptions only shrink."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.tidy._sources import SOURCES, TESTS, name_of, python_files, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

LONGEST_FILE = 600
LONGEST_FUNCTION = 70

# What is longer today, with its length. An entry may be lowered or removed, never raised.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {
    "src/tidings/runtime/driver.py:hand": 73,  # every input passes it: a call less for each
}


def files() -> list[Path]:
    return python_files(*SOURCES, *TESTS, "scripts")


def functions(path: Path) -> dict[str, int]:
    """`file:name` -> lines, for every function of the file."""
    return {
        f"{name_of(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_file_is_longer_than_the_ratchet() -> None:
    lengths = {name_of(path): path.read_text().count("\n") for path in files()}
    _check(lengths, LONGEST_FILE, LONG_FILES)


def test_no_function_is_longer_than_the_ratchet() -> None:
    lengths = {name: length for path in files() for name, length in functions(path).items()}
    _check(lengths, LONGEST_FUNCTION, LONG_FUNCTIONS)


def _check(lengths: dict[str, int], limit: int, allowed: dict[str, int]) -> None:
    longer = {name: n for name, n in lengths.items() if n > max(limit, allowed.get(name, 0))}
    assert not longer, f"over {limit} lines: {longer}"
    slack = {name: lengths.get(name, 0) for name, n in allowed.items() if lengths.get(name, 0) < n}
    assert not slack, f"these have become shorter; lower or remove their entries: {slack}"


def test_nothing_sleeps_in_tests() -> None:
    """A test waits for a condition; only `asyncio.sleep(0)`, which yields, is allowed."""
    asleep = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files("tests")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and _sleeps(node)
    ]
    assert not asleep, asleep


def _sleeps(call: ast.Call) -> bool:
    if ast.unparse(call.func) not in ("time.sleep", "asyncio.sleep"):
        return False
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


LEAST_CAP = 60  # seconds; on a busy machine a wait for something that does come takes many
WAITS = {"get", "wait_for", "timeout", "collect"}


def test_waits_have_caps_that_a_busy_machine_never_reaches() -> None:
    """A wait for something that comes may take a minute and more. A wait below a second is for something that
    must not come, and fails on no machine."""
    short = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)[:80]}"
        for path in python_files("tests")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and _is_short(node)
    ]
    assert not short, f"give these at least {LEAST_CAP} seconds:\n" + "\n".join(short)


def _is_short(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    whole = ast.unparse(call.func)
    if (name == "timeout" and whole != "asyncio.timeout") or name not in WAITS:
        return False
    given = [word.value for word in call.keywords if word.arg == "timeout"]
    if whole == "asyncio.timeout":
        given = call.args[:1]
    elif whole == "asyncio.wait_for":
        given = [*given, *call.args[1:2]]
    return any(
        isinstance(cap, ast.Constant) and isinstance(cap.value, int | float) and 1 <= cap.value < LEAST_CAP
        for cap in given
    )


def test_no_error_is_swallowed() -> None:
    swallowed = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files(*SOURCES, "scripts")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and all(isinstance(line, ast.Pass) for line in node.body)
    ]
    assert not swallowed, swallowed


def test_every_module_says_what_it_is_for() -> None:
    """Empty `__init__` files apart, the head of a file gives its rules."""
    silent = [
        name_of(path)
        for path in files()
        if path.read_text().strip() and not ast.get_docstring(tree_of(path)) and path.name != "_version.py"
    ]
    assert not silent, silent


@pytest.mark.parametrize(
    ("lengths", "allowed"),
    [
        ({"a": 71}, {}),  # grew past the limit
        ({"a": 91}, {"a": 90}),  # grew past its exception
        ({"a": 80}, {"a": 90}),  # shrank: the exception must follow
        ({}, {"a": 90}),  # went away: so must the exception
    ],
)
def test_the_ratchet_bites(lengths: dict[str, int], allowed: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        _check(lengths, LONGEST_FUNCTION, allowed)

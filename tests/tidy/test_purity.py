"""protocol/ and availability/ are pure: no clock, no I/O, no chance of their own.

Time comes in as `now`, chance as `rng`, disk and network are effects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.tidy._sources import name_of, python_files, tree_of

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

IMPURE_MODULES = {
    "asyncio", "concurrent", "ctypes", "fileinput", "glob", "io", "logging", "multiprocessing", "os",
    "pathlib", "queue", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "ssl",
    "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "hash", "id"}  # hash of text differs by process
CLOCKS = {"now", "utcnow", "today"}  # of datetime and date


def impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, what) for what in _imported(node))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "random" and node.attr != "Random":
                yield node.lineno, f"random.{node.attr}: draw from the rng that was handed in"
            if node.value.id in ("datetime", "date") and node.attr in CLOCKS:
                yield node.lineno, f"{node.value.id}.{node.attr}: time comes in as `now`"
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                yield node.lineno, f"{node.func.id}(...)"
            if _is_unseeded_random(node):
                yield node.lineno, "Random() without a seed"


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        if node.level == 0 and (node.module or "").split(".")[0] in IMPURE_MODULES:
            yield f"from {node.module} import ..."
        if node.module == "random":
            yield from (f"random.{a.name}" for a in node.names if a.name != "Random")
    else:
        yield from (f"import {a.name}" for a in node.names if a.name.split(".")[0] in IMPURE_MODULES)


def _is_unseeded_random(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "Random" and not call.args and not call.keywords


def test_the_core_is_pure() -> None:
    wrong = [
        f"{name_of(path)}:{line} {what}"
        for path in python_files("src/tidings/protocol", "src/tidings/availability")
        for line, what in impurities(tree_of(path))
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_impurities_are_seen_and_a_handed_in_rng_is_none() -> None:
    for code in (
        "import asyncio",
        "from time import monotonic",
        "import os.path",
        "import random\nrandom.random()",
        "from random import choice",
        "from random import Random\nRandom()",
        "open('x')",
        "datetime.now(UTC)",
    ):
        assert list(impurities(ast.parse(code))), code
    code = "import random\nfrom random import Random\ndef f(rng: random.Random): return Random(rng.random())"
    assert not list(impurities(ast.parse(code)))

"""Processes from which optional modules are hidden, as if they were not installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from tidings.errors import FOLDERS

Words: TypeAlias = tuple[str, ...]
Ended: TypeAlias = tuple[int, str, str]  # exit code, standard output, standard error
Ran: TypeAlias = dict[Words, Ended]

HIDING = """
import sys
from importlib.machinery import PathFinder

HIDDEN = {hidden!r}
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in HIDDEN else find(name, *rest)

from tidings import extensions

points = extensions.entry_points  # a package that is not there offers nothing
extensions.entry_points = lambda group: [
    p for p in points(group=group) if p.module.partition(".")[0] not in HIDDEN
]
"""
RUNNING = """
import contextlib, io, json
from tidings.cli import main

for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    print(json.dumps([words, int(code), out.getvalue(), err.getvalue()]))
"""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "COLUMNS": "200",
}


def python_without(
    hidden: Iterable[str], code: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Python code in a process from which these modules are hidden."""
    return subprocess.run(
        [sys.executable, "-c", HIDING.format(hidden={*hidden}) + code, *arguments],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
    )  # fmt: skip


def commands_without(hidden: Iterable[str], commands: Iterable[Words], folder: Path) -> Ran:
    """Result of each command of `tidings`, all in one process."""
    done = python_without(hidden, RUNNING, json.dumps([*commands]), folder=folder)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(words): (code, out, err) for words, code, out, err in rows}


def assert_names(requirement: str, ended: Ended) -> None:
    """The command ended for want of a package, and its only error says what to install."""
    code, out, err = ended
    assert code == 3, err
    package, bracket, extra = requirement.partition("[")
    name = f"({package}|{FOLDERS[package]})" if package in FOLDERS else ""  # its folder in a clone
    assert re.search(rf"hint: pip install (-e )?'\S*{name}{re.escape(bracket + extra)}'", err), err
    assert err.count("error:") == 1
    assert "Traceback" not in out + err
    assert "defect" not in err

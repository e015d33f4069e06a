"""Python calls per event on each path of an event: a figure that the machine and its load do not change.

An event is counted from `publish` until the last `get` that it causes, with the client and every broker on
its way (`counting.py` says how, `cost_paths.py` which paths). `cost.json` holds the counts of CPython 3.11 as
they were last written; a test fails when a path rises above them. `tidings bench cost --write` writes them
anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidings.errors import InputError, TidingsError

TABLE = Path(__file__).with_name("cost.json")
ROUNDS, QUICK_ROUNDS = 5, 3
RISE, FALL = 0.01, 0.05  # of the table: a rise fails, a fall is to be written down
UNIT = "calls an event"
SIZES = {"content": 1_000}  # subscriptions, of which ten match
Row = dict[str, Any]


def is_comparable() -> bool:
    """True when this interpreter makes the same calls as the one of the table."""
    return sys.implementation.name == "cpython" and list(sys.version_info[:2]) == _read()["python"]


def table() -> dict[str, float]:
    """Calls per event by path, as they were last written."""
    calls: dict[str, float] = _read()["calls"]
    return calls


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def count(*paths: str, rounds: int = QUICK_ROUNDS) -> Iterator[tuple[str, float]]:
    """Calls per event of these paths, or of all of them, counted in a process of their own."""
    left_out = ("PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONWARNINGS")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    seen = {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "tidings_bench.counting", str(rounds), *paths],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**kept, **seen},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            path, calls = json.loads(line)
            yield path, calls
        problem = process.stderr.read().strip()
    if process.returncode:
        raise TidingsError(f"counting ended with {process.returncode}: {problem}")


def judge(found: Mapping[str, float], written: Mapping[str, float]) -> list[str]:
    """Lines that say which counts rose above the table, fell far below it, or are missing on one side."""
    stated = [f"{path}: counted and not in the table" for path in found if path not in written]
    for path, before in written.items():
        now = found.get(path)
        if now is None:
            stated.append(f"{path}: in the table and not counted")
        elif now > before * (1 + RISE):
            stated.append(
                f"{path}: {now:,.1f} calls an event, {now / before - 1:+.1%}; the table allows {before:,.1f}"
            )
        elif now < before * (1 - FALL):
            stated.append(f"{path}: {now:,.1f} calls an event, {now / before - 1:+.1%}: lower the table")
    return stated


def run(*, quick: bool = False, only: str | None = None, write: bool = False) -> Iterator[Row]:
    """Rows of counts; `write` writes those of the paths that were counted to the table."""
    paths = _chosen(only)
    found: dict[str, float] = {}
    for path, calls in count(*paths, rounds=QUICK_ROUNDS if quick else ROUNDS):
        found[path] = calls
        yield {"work": path, "size": SIZES.get(path, 1), "engine": "tidings", "figure": calls, "unit": UNIT}
    if write:
        calls_of = {**(table() if only and is_comparable() else {}), **found}
        fields = {"python": list(sys.version_info[:2]), "calls": calls_of}
        TABLE.write_text(json.dumps(fields, indent=1) + "\n")


def _chosen(only: str | None) -> list[str]:
    """Paths that were asked for; none: all of them."""
    known = list(table())
    paths = [part.strip() for part in (only or "").split(",") if part.strip()]
    for path in paths:
        if path not in known:
            near = get_close_matches(path, known, n=1, cutoff=0.3)
            raise InputError(
                f"no path is called {path!r}", hint=f"did you mean {near[0]!r}?" if near else None
            )
    return paths

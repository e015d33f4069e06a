"""Python calls and allocations per event on each path of an event: figures that the machine and its load do
not change.

An event is counted from `publish` until the last `get` that it causes, with the client and every broker on
its way (`counting.py` says how, `cost_paths.py` which paths). `cost.json` holds the counts of CPython 3.11 as
they were last written, by kind and path; a test fails when one rises above them. `tidings bench cost --write`
writes them anew.
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
CALLS, ALLOCATIONS = KINDS = ("calls", "allocations")
RISES = {CALLS: 0.01, ALLOCATIONS: 0.03}  # of the table: a larger rise fails ...
FALL = 0.05  # ... and a larger fall is to be written down
SIZES = {"content": 1_000}  # subscriptions, of which ten match
Row = dict[str, Any]
Counts = dict[str, float]  # of one path, by kind


def is_comparable() -> bool:
    """True when this interpreter makes the same calls as the one of the table."""
    return sys.implementation.name == "cpython" and list(sys.version_info[:2]) == _read()["python"]


def table() -> dict[str, Counts]:
    """Counts by path, as they were last written."""
    read = _read()
    return {path: {kind: read[kind][path] for kind in KINDS if path in read[kind]} for path in read[CALLS]}


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def count(*paths: str, rounds: int = QUICK_ROUNDS) -> Iterator[tuple[str, Counts]]:
    """Counts of these paths, or of all of them, in a process of their own."""
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
            path, *counts = json.loads(line)
            yield path, dict(zip(KINDS, counts, strict=True))
        problem = process.stderr.read().strip()
    if process.returncode:
        raise TidingsError(f"counting ended with {process.returncode}: {problem}")


def judge(found: Mapping[str, Counts], written: Mapping[str, Counts]) -> list[str]:
    """Lines that say which counts rose above the table, fell far below it, or are missing on one side."""
    stated = [f"{path}: counted and not in the table" for path in found if path not in written]
    for path, counts in written.items():
        if path not in found:
            stated.append(f"{path}: in the table and not counted")
            continue
        for kind, before in counts.items():
            now = found[path][kind]
            here = f"{path}: {now:,.1f} {kind} an event, {now / before - 1:+.1%}"
            if now > before * (1 + RISES[kind]):
                stated.append(f"{here}; the table allows {before:,.1f}")
            elif now < before * (1 - FALL):
                stated.append(f"{here}: lower the table")
    return stated


def run(*, quick: bool = False, only: str | None = None, write: bool = False) -> Iterator[Row]:
    """Rows of counts; `write` writes those of the paths that were counted to the table."""
    paths = _chosen(only)
    found: dict[str, Counts] = {}
    for path, counts in count(*paths, rounds=QUICK_ROUNDS if quick else ROUNDS):
        found[path] = counts
        for kind, figure in counts.items():
            work = path if kind == CALLS else f"{path}, {kind}"
            yield {
                "work": work, "size": SIZES.get(path, 1), "engine": "tidings", "figure": figure,
                "unit": f"{kind} an event",
            }  # fmt: skip
    if write:
        kept = {**(table() if only and is_comparable() else {}), **found}
        fields: dict[str, Any] = {"python": list(sys.version_info[:2])}
        fields |= {kind: {path: counts[kind] for path, counts in kept.items()} for kind in KINDS}
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

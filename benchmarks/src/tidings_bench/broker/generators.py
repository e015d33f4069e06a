"""The load generators: ours for our protocol, `pubsubload` for the peers', both compiled when they are
needed.

Ours, `load.c`, lies beside this file. `pubsubload.c` is no part of the package: it is taken from where
TIDINGS_PUBSUBLOAD says, or from `shared/tools` beside the project's folder. Without a compiler, or without
that file, what needs it is left out, and a row says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidings.errors import MissingDependencyError, TidingsError
from tidings_bench.broker.plan import LoadPlan

OWN = Path(__file__).with_name("load.c")
VARIABLE = "TIDINGS_PUBSUBLOAD"
COMPILERS = ("cc", "gcc", "clang")
WAIT_SECONDS = 900.0

Figures = dict[str, Any]


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def compiled(source: Path) -> Path:
    """The program of a C file; compiled once for each text of it."""
    found = compiler()
    if found is None:
        raise MissingDependencyError("the load generator needs a C compiler", hint="install gcc or clang")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = _cache()
    program = folder / f"{source.stem}-{digest}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / source.stem
            words = [found, "-O2", "-w", "-o", str(made), str(source)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                raise MissingDependencyError(f"{source.name} cannot be compiled: {done.stderr.strip()[:500]}")
            made.replace(program)
    return program


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tidings" / "bench"


def pubsubload() -> Path | None:
    """Path of the peers' load generator; None: it is not installed."""
    text = os.environ.get(VARIABLE)
    if text:
        return Path(text)
    root = Path(__file__).resolve().parents[4]
    paths = [folder / "shared" / "tools" / "pubsubload.c" for folder in (root.parent, root.parent.parent)]
    return next((path for path in paths if path.exists()), None)


def load_ours(plan: LoadPlan, folder: Path, pids: Iterable[int], **options: float) -> Figures:
    """Run `load.c` by a plan; what it found."""
    file = folder / "plan"
    plan.write(file)
    words = [str(compiled(OWN)), "--plan", str(file), "--broker-pids", ",".join(map(str, pids))]
    return _run([*words, *_options(options)])


def load_peer(protocol: str, port: int, pids: Iterable[int], *flags: str, **options: float) -> Figures:
    """Run `pubsubload`; what it found."""
    source = pubsubload()
    if source is None:
        raise MissingDependencyError(
            "pubsubload.c is not there", hint=f"say where it is by the variable {VARIABLE}"
        )
    words = [str(compiled(source)), "--proto", protocol, "--port", str(port)]
    words += ["--broker-pid", str(next(iter(pids))), *flags]
    return _run([*words, *_options(options)])


def _options(options: dict[str, float]) -> list[str]:
    return [
        word
        for name, value in options.items()
        for word in (f"--{name}", f"{value:g}" if value < 1e6 else str(int(value)))
    ]


def _run(words: list[str]) -> Figures:
    done = subprocess.run(  # noqa: S603
        words, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    if done.returncode:
        raise TidingsError(f"the load generator failed: {done.stderr.strip()[-500:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures

"""Build every package, install it into an empty environment, and run its own tests from its source
distribution.

    python scripts/packages.py                       # build, install, measure
    python scripts/packages.py --tests lab,quality   # and run those packages' tests from their source
    distributions python scripts/packages.py --json

Rules
- pip's own index serves the dependencies; the packages themselves come from the folder that was just built.
- The size of an installation leaves out pip, setuptools and byte code.
- The import time is the median of nine processes, less that of an interpreter without imports.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"product": ".", "lab": "lab", "quality": "quality", "benchmarks": "benchmarks"}
NAMES = {
    "product": "tidings",
    "lab": "tidings-lab",
    "quality": "tidings-quality",
    "benchmarks": "tidings-bench",
}
MODULES = {
    "product": "tidings",
    "lab": "tidings_lab",
    "quality": "tidings_quality",
    "benchmarks": "tidings_bench",
}
TESTED_WITH = {
    "product": "tidings[all,dev]",
    "benchmarks": "tidings-bench[peers]",
    "quality": "tidings-quality[spark,studies]",
}
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def build(to: Path) -> dict[str, tuple[Path, Path]]:
    """The source distribution and the wheel of each package."""
    return {key: build_one(key, to) for key in FOLDERS}


def build_one(key: str, to: Path) -> tuple[Path, Path]:
    run(sys.executable, "-m", "hatchling", "build", "-d", to, cwd=ROOT / FOLDERS[key])
    stem = NAMES[key].replace("-", "_")
    (source,), (wheel,) = to.glob(f"{stem}-[0-9]*.tar.gz"), to.glob(f"{stem}-[0-9]*.whl")
    return source, wheel


def install(what: list[str], dist: Path, into: Path) -> Path:
    """An environment with these requirements; the packages come from `dist`."""
    run(sys.executable, "-m", "venv", "--without-pip", into)
    python = into / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    run(*pip, "install", "--no-compile", "--find-links", dist, *CONSTRAINTS, *what)
    return python


def size_of(environment: Path) -> int:
    """Bytes of installed packages, without pip, setuptools and byte code."""
    (site,) = environment.glob("lib/python*/site-packages")
    return sum(
        path.stat().st_size
        for path in site.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not path.relative_to(site).parts[0].startswith(NOT_OURS)
    )


def import_seconds(python: Path, module: str) -> float:
    def median(code: str) -> float:
        seconds = []
        for _ in range(9):
            began = time.perf_counter()
            run(python, "-c", code)
            seconds.append(time.perf_counter() - began)
        return statistics.median(seconds)

    run(python, "-c", f"import {module}")  # writes the byte code
    return median(f"import {module}") - median("pass")


def tests(key: str, source: Path, dist: Path, folder: Path) -> dict[str, Any]:
    """The package's own tests, from its unpacked source distribution, in an environment with what it asks
    for."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (each for each in folder.iterdir() if each.is_dir())
    python = install([TESTED_WITH.get(key, NAMES[key]), "tidings[dev]"], dist, folder / ".environment")
    began = time.monotonic()
    command = [python, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup", "-m", "not soak"]
    done = subprocess.run(
        [*map(str, command)], cwd=unpacked, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    (dist / f"{key}.log").write_text(done.stdout)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return {"tests": lines[-1] if lines else "", "code": done.returncode, "seconds": time.monotonic() - began}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", default="", help="packages whose own tests run, separated by commas")
    parser.add_argument("--folder", type=Path, help="keep what is built here")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    requested = [key for key in chosen.tests.split(",") if key]
    if set(requested) - set(FOLDERS):
        parser.error(f"--tests knows {', '.join(FOLDERS)}")
    rows = []
    with tempfile.TemporaryDirectory() as made:
        dist = (chosen.folder or Path(made) / "dist").resolve()
        dist.mkdir(parents=True, exist_ok=True)
        for old in dist.glob("tidings*"):
            old.unlink()
        built = build(dist)
        for key, (source, wheel) in built.items():
            folder = Path(made) / key
            python = install([NAMES[key]], dist, folder / "environment")
            row: dict[str, Any] = {
                "package": NAMES[key],
                "wheel_kb": wheel.stat().st_size // 1000,
                "sdist_kb": source.stat().st_size // 1000,
                "installed_mb": round(size_of(folder / "environment") / 1e6, 1),
                "import_ms": round(1000 * import_seconds(python, MODULES[key])),
            }
            if key in requested:
                (folder / "sdist").mkdir()
                row |= tests(key, source, dist, folder / "sdist")
            rows.append(row)
            print(
                json.dumps(row) if chosen.json else "  ".join(f"{k} {v}" for k, v in row.items()), flush=True
            )
    return max((row.get("code", 0) for row in rows), default=0)


if __name__ == "__main__":
    sys.exit(main())

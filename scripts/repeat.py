"""Run the default suite several times and print a table: the same verdict is expected every time.

    python scripts/repeat.py                  five runs, one on one worker and one beside busy processes
    python scripts/repeat.py --runs plain,one,busy,plain,plain
    python scripts/repeat.py -- tests/unit    what follows `--` is handed to pytest

Rules
- Each run is `make test` with its own settings, so that the very command of the README is judged.
- `one` is one worker. `busy` runs beside one spinning process for each core, at the same priority.
- The exit code is 0 when every run passed and all runs counted the same tests.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "artefacts" / "repeat"
KINDS = {"plain": "as the README has it", "one": "WORKERS=1", "busy": "beside a busy machine"}
COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
LEFT_OUT = "left out: "


class Run(NamedTuple):
    number: int
    kind: str
    code: int
    seconds: float
    counts: dict[str, int]
    left_out: str

    @property
    def is_good(self) -> bool:
        return self.code == 0 and not self.counts.get("failed") and not self.counts.get("error")

    def row(self) -> str:
        counted = ", ".join(f"{count:,} {what}" for what, count in self.counts.items()) or "no verdict"
        minutes, seconds = divmod(round(self.seconds), 60)
        verdict = "passed" if self.is_good else f"FAILED ({self.code})"
        return f"{self.number:>3}  {KINDS[self.kind]:<22} {minutes:>3}:{seconds:02}  {verdict:<10}  {counted}"


def read(number: int, kind: str, code: int, seconds: float, output: str) -> Run:
    """Summary in the last lines of pytest."""
    lines = output.splitlines()
    summary = next((line for line in reversed(lines) if COUNTED.search(line) and " in " in line), "")
    counts = {
        what.removesuffix("s") if what == "errors" else what: int(n) for n, what in COUNTED.findall(summary)
    }
    left_out = next((line for line in reversed(lines) if line.startswith(LEFT_OUT)), LEFT_OUT + "unknown")
    return Run(number, kind, code, seconds, counts, left_out.removeprefix(LEFT_OUT))


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that spin until the block ends."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def run(number: int, kind: str, arguments: str) -> Run:
    command = ["make", "--no-print-directory", "test", f"ARGS={arguments}"]
    if kind == "one":
        command.append("WORKERS=1")
    log = FOLDER / f"run-{number}.log"
    began = time.monotonic()
    with busy_processes(os.cpu_count() or 1 if kind == "busy" else 0), log.open("w") as out:
        code = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode
    return read(number, kind, code, time.monotonic() - began, log.read_text(errors="replace"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", default="plain,plain,one,busy,plain", help=", ".join(KINDS))
    parser.add_argument("rest", nargs="*", help="for pytest")
    options = parser.parse_args()
    kinds = options.runs.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"there is no run {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    runs = []
    for number, kind in enumerate(kinds, 1):
        runs.append(run(number, kind, " ".join(options.rest)))
        print(runs[-1].row(), flush=True)
    same = len({tuple(sorted(each.counts.items())) for each in runs}) == 1
    good = sum(each.is_good for each in runs)
    print(f"{good} of {len(runs)} runs passed; {'all counted the same' if same else 'THE COUNTS DIFFER'}")
    print(f"left out: {'; '.join(sorted({each.left_out for each in runs}))}")
    print(f"output: {FOLDER.relative_to(ROOT)}/run-N.log")
    return 0 if same and good == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())

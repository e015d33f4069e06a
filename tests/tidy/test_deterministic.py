"""The default suite draws the same examples in every run, whatever was imported before; a seed draws others.
Tests may come in any order, because a test that leaves changed state behind fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts.repeat import read
from tests.tidy._sources import ROOT

DRAWS = """
import importlib, os, sys
from pathlib import Path
from hypothesis import given, strategies as st

for name in os.environ["IMPORTED"].split():
    importlib.import_module(name)

@given(st.lists(st.integers()), st.floats(), st.text())
def test_draws(some, number, text):
    with Path(os.environ["DRAWN"]).open("a") as lines:
        lines.write(f"{some!r} {number!r} {text!r}\\n")
"""


def drawn(folder: Path, *imported: str, **environment: str) -> str:
    """The examples that one run of pytest draws, with the profile of this suite."""
    file = folder / "test_draws.py"
    file.write_text(DRAWS)
    (folder / "planted.py").write_text(f"NUMBERS = {[*range(10_000_000, 10_000_300)]}\n")
    output = folder / "drawn"
    output.write_text("")
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT, folder)))
    bare = {name: value for name, value in os.environ.items() if name not in ("TEST_SEED", "PYTHONHASHSEED")}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", str(file)],
        cwd=ROOT,
        env={
            **bare,
            "PYTHONPATH": paths,
            "IMPORTED": " ".join(imported),
            "DRAWN": str(output),
            **environment,
        },
        capture_output=True,
        check=True,
    )
    return output.read_text()


def test_draws_depend_on_neither_imports_nor_hashes_but_on_a_seed(tmp_path: Path) -> None:
    first = drawn(tmp_path, PYTHONHASHSEED="1")
    assert len(first.splitlines()) >= 100
    assert drawn(tmp_path, "planted", PYTHONHASHSEED="2") == first
    assert drawn(tmp_path, TEST_SEED="7") != first


LEAKS = """
import decimal, os, subprocess, signal, sys, threading
from suite import leaks

RELEASE, leaks.GRACE = threading.Event(), 0.1

def test_environment(): os.environ["LEFT"] = "1"
def test_directory(tmp_path): os.chdir(tmp_path)
def test_handler(): signal.signal(signal.SIGTERM, signal.SIG_IGN)
def test_path(): sys.path.append("left")
def test_context(): decimal.getcontext().prec = 5
def test_thread(): threading.Thread(target=RELEASE.wait, name="left").start()
def test_process(): globals()["left"] = subprocess.Popen(["sleep", "60"])
def test_end(): RELEASE.set(); left.kill(); left.wait()
"""


def test_a_test_that_leaves_changed_state_behind_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_leaks.py"
    file.write_text(LEAKS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "suite.leaks", str(file)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "8 passed, 7 errors" in done.stdout, done.stdout
    for leak in (
        "environment: {} became {'LEFT': '1'}",
        "current directory: ",
        "signal handlers: ",
        "sys.path: ",
        "decimal context: (28, ",
        "thread: left",
        "process: ",
    ):
        assert f"this test leaves behind:\n{leak}" in done.stdout, leak


def test_the_table_of_repeated_runs_reads_verdicts() -> None:
    good = read(
        1, "one", 0, 61.0, "x\nleft out: 667 soak tests (make soak)\n= 6000 passed, 2 skipped in 61.00s =\n"
    )
    assert good.is_good
    assert good.counts == {"passed": 6000, "skipped": 2}
    assert good.row() == "  1  WORKERS=1                1:01  passed      6,000 passed, 2 skipped"
    bad = read(2, "busy", 1, 5.0, "left out: nothing\n= 1 failed, 3 passed, 2 errors in 5.00s (0:00:05) =\n")
    assert not bad.is_good
    assert bad.counts == {"failed": 1, "passed": 3, "error": 2}
    assert not read(3, "plain", 2, 1.0, "killed").is_good

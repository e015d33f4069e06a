"""The last lines of a test run name every test that was left out or is expected to fail, with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT

SCRATCH = """
import pytest
from pytest import mark  # written so, this file is not taken for a long test

def test_run(): pass

@pytest.mark.skipif(True, reason="no server is installed")
def test_needs_a_server(): raise AssertionError

def test_needs_root(): pytest.skip("not root")

@pytest.mark.parametrize("case", [])
def test_of_no_case(case): raise AssertionError

@pytest.mark.xfail(reason="an open point", strict=True)
def test_of_an_open_point(): raise AssertionError

@mark.soak
def test_long(): raise AssertionError
"""
BY_HAND = "import pytest\npytest.importorskip('no_such_module', reason='no_such_module is not installed')\n"


def lines(folder: Path, *options: str) -> list[str]:
    """What a run of the scratch tests prints, without the line of counts that ends it."""
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_names_all_that_it_left_out_and_expected_to_fail(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_scratch.py").write_text(SCRATCH)
    (tmp_path / "test_module.py").write_text(BY_HAND)
    printed = lines(tmp_path, "-n", workers, "-m", "not soak")
    (stated,) = (line for line in printed if line.startswith("left out: "))
    assert sorted(stated.removeprefix("left out: ").split("; ")) == [
        "1 skipped (got empty parameter set for (case))",
        "1 skipped (no server is installed)",
        "1 skipped (no_such_module is not installed)",
        "1 skipped (not root)",
        "1 soak tests (make soak)",
    ]
    assert "known failures: 1 (an open point)" in printed


def test_a_run_of_everything_says_so(tmp_path: Path) -> None:
    (tmp_path / "test_scratch.py").write_text("def test_run(): pass\n")
    printed = lines(tmp_path, "-n", "0")
    assert "left out: nothing" in printed
    assert not [line for line in printed if line.startswith("known failures")]

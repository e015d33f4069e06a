"""Use of the machine by the default suite: the number of workers, and compiled kernels before the first test.

Rules
- One worker more than cores: tests of processes and browsers wait most of their time, and a core would idle.
- The first process that needs a compiled kernel compiles it and leaves it on disk for the others. Workers
  that begin together would all compile the same ones (46 s of processor time each), so a run of the whole
  suite does it once, while its workers collect.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MATCHING = "from tidings.matching.columnar.warm import warm; warm()"
ROUNDS = """
from tidings_lab.simulation.rounds import Scheme, chain, damulticast, disseminate
disseminate(damulticast(chain(2, 3), Scheme()), seed=1)
"""
COMPILING = pytest.StashKey[list[subprocess.Popen[bytes]]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


def pytest_configure(config: pytest.Config) -> None:
    is_controller = bool(config.getoption("tx", None)) and not hasattr(config, "workerinput")
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    config.stash[COMPILING] = (
        [_start(code) for code in (MATCHING, ROUNDS)] if is_controller and is_whole else []
    )


def _start(code: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen([sys.executable, "-c", code], env=environment)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: object) -> None:
    for process in node.config.stash[COMPILING]:  # type: ignore[attr-defined]
        process.wait()


def pytest_unconfigure(config: pytest.Config) -> None:
    for process in config.stash[COMPILING]:
        process.kill()
        process.wait()

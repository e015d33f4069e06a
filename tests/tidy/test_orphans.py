"""Processes that tests started end when the run of the tests is killed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from tests.tidy._sources import ROOT

PATIENCE = 120.0
RUN = """
import os, signal, subprocess, sys
from suite.orphans import watch

assert watch() is not None
child = "import signal; signal.alarm(600); print('ready', flush=True); signal.pause()"
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, start_new_session=True)
assert process.stdout.readline() == b"ready\\n"
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's death on Linux alone")
def test_a_killed_run_leaves_no_process_behind() -> None:
    """The child holds standard error open, so the call returns when it has ended too."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")

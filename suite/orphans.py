"""Processes that tests started end with the process that ran the tests, also when that one is killed.

A run that is ended with SIGKILL (by a time limit, or by the kernel when memory is short) ends no fixture, so
its brokers would run on and slow down the next run.

Rules
- Each process that runs tests has a watcher, which the kernel signals when that process dies. A run that ends
  by itself ends its watcher first: what is left then is a leak, and `leaks.py` reports it.
- Processes of a run are known by a variable of their environment. One that was started with an environment of
  its own making is not found.
- Only where `/proc` and `prctl` are: on Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

MARK = "TEST_RUN"  # the variable; names that begin with TIDINGS_ are settings
WATCHER = """
import ctypes, os, signal, sys

run, parent, died = f"{sys.argv[1]}={sys.argv[2]}".encode(), int(sys.argv[3]), {signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, died)
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == parent:
    signal.sigwait(died)
for _ in range(3):  # one may have started another meanwhile
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if pid != os.getpid() and run in file.read().split(b"\\0"):
                    os.kill(pid, signal.SIGKILL)
        except OSError:  # it has ended, or is another user's
            pass
"""
WATCHING = pytest.StashKey["subprocess.Popen[bytes] | None"]()


def watch() -> subprocess.Popen[bytes] | None:
    """A watcher that ends what this process starts from now on when it dies; None: not on this system."""
    if not (sys.platform == "linux" and Path("/proc/self/environ").exists()):
        return None
    os.environ[MARK] = run = uuid.uuid4().hex
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WATCHER, MARK, run, str(os.getpid())],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[WATCHING] = watch()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    watcher = config.stash.get(WATCHING, None)
    if watcher is not None:
        watcher.kill()
        watcher.wait()

"""A guard around every test: state of the process that a test changes and does not restore fails that test.

The next test on the same worker would inherit it, so the verdict would depend on the order of tests and on
the number of workers. A test with a fixture of wider scope may leave threads and processes: servers that
tests share are started when they are first needed, and some tests restart one.

Rules
- The guard takes 0.3 ms for a test that restores all state. It waits only for threads and processes that are
  still there, since a loop or an executor that was closed ends its threads a little later.
- Warning filters, captured output and `monkeypatch` are restored by pytest; the `tidings` logger by a fixture
  of `conftest.py`.
"""

from __future__ import annotations

import decimal
import gc
import locale
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SET_BY_OTHERS = frozenset({"PYTEST_CURRENT_TEST", "_RJEM_MALLOC_CONF"})  # by pytest, by the import of polars
GRACE = 5.0  # seconds for threads and processes that were told to end
WRITTEN_BY_TOOLS = frozenset(
    {"artefacts", ".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache", "__pycache__"}
)
KEPT_CHILDREN = ("resource_tracker", "forkserver")  # of multiprocessing: they end with this process
# Without SIGALRM: pytest-timeout removes its handler when a test fails.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


def state() -> dict[str, object]:
    """The settings of this process that any test could change, by name."""
    context = decimal.getcontext()
    return {
        "environment": {name: value for name, value in os.environ.items() if name not in SET_BY_OTHERS},
        "current directory": _directory(),
        "signal handlers": [signal.getsignal(number) for number in SIGNALS],
        "sys.path": list(sys.path),
        "decimal context": (context.prec, context.rounding, context.Emin, context.Emax, str(context.traps)),
        "locale": locale.setlocale(locale.LC_ALL),
        "time zone": time.tzname,
        "default socket timeout": socket.getdefaulttimeout(),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "recursion limit": sys.getrecursionlimit(),
        "exception hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "files of the repository": _files(),
    }


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a path of text is cheaper
    except FileNotFoundError:
        return "a directory that was removed"


def _files() -> set[str]:
    return set(os.listdir(ROOT)) - WRITTEN_BY_TOOLS  # noqa: PTH208 - names alone are cheaper


def threads() -> set[threading.Thread]:
    """Threads that keep this process alive."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def _ends(thread: threading.Thread) -> bool:
    thread.join(GRACE)
    return not thread.is_alive()


def children() -> set[int]:
    """Processes that this one started and did not wait for; none on a system that does not list them."""
    found: set[int] = set()
    tasks = Path("/proc/self/task")
    if tasks.is_dir():
        for task in os.listdir(tasks):  # noqa: PTH208
            try:
                found.update(map(int, (tasks / task / "children").read_bytes().split()))
            except OSError:  # the thread has ended, or the kernel does not list children
                continue
    return found


def _left(pids: set[int]) -> list[tuple[int, str]]:
    """(process id, command) of processes that a test may not leave running."""
    commands = [(pid, _command(pid)) for pid in sorted(pids)]
    return [(pid, command) for pid, command in commands if not any(kept in command for kept in KEPT_CHILDREN)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")[:200]
    except OSError:
        return ""  # it has ended


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """One line for each setting that is not what it was."""
    found = []
    for name, old in before.items():
        new = after[name]
        if old != new:
            if isinstance(old, dict) and isinstance(new, dict):
                old, new = dict(old.items() - new.items()), dict(new.items() - old.items())
            elif isinstance(old, set) and isinstance(new, set):
                old, new = old - new, new - old
            found.append(f"{name}: {old!r} became {new!r}")
    return found


def shares_servers(test: pytest.Item) -> bool:
    """Does the test use a fixture of ours that outlives it?"""
    info = getattr(test, "_fixtureinfo", None)
    fixtures = info.name2fixturedefs.values() if info else ()
    return any(each.scope != "function" and each.baseid for found in fixtures for each in found)


@pytest.fixture(autouse=True)
def leaks_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a changed setting, a thread or a process to the next test."""
    settings, running, started = state(), threads(), children()
    yield
    leaks = differences(settings, state())
    if not shares_servers(request.node):
        leaks += _left_running(running, started)
    if leaks:
        pytest.fail("this test leaves behind:\n" + "\n".join(leaks), pytrace=False)


def _left_running(running: set[threading.Thread], started: set[int]) -> list[str]:
    """One line for each thread and process that is new and does not end."""
    found = [f"thread: {thread.name}" for thread in threads() - running if not _ends(thread)]
    deadline, pause = time.monotonic() + GRACE, threading.Event()
    while (left := _left(children() - started)) and time.monotonic() < deadline:
        pause.wait(0.01)
    return found + [f"process: {pid} {command}" for pid, command in left]

"""Shared by every test of the repository: one Hypothesis profile, Spark tests on one worker, and last lines
that say which tests are expected to fail and what this run left out, and why.

Rules
- The default suite draws the same examples in every run, on any number of workers. `TEST_SEED=<number>` draws
  anew from that seed, as `make nightly` and `make soak` do; the seed is printed, and a failure prints the
  line that repeats its example.
- No verdict depends on the order of tests. `TEST_ORDER=<number>` shuffles them, which finds the tests that
  do.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, core, settings
from hypothesis.internal.conjecture import providers

pytest_plugins = ("suite.leaks", "suite.orphans", "suite.spark", "suite.workers")

Figures = Callable[..., None]

_SHARED = {
    "deadline": None,  # a shared machine is slow at random
    "database": None,  # a run depends on the code alone, not on the failures of earlier runs
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("fixed", derandomize=True, **_SHARED)
settings.register_profile("fresh", derandomize=False, print_blob=True, **_SHARED)
SEED = os.environ.get("TEST_SEED")
ORDER = os.environ.get("TEST_ORDER")
settings.load_profile("fresh" if SEED else "fixed")
if not SEED:
    # Hypothesis mixes constants of every module imported so far into its draws: an order of tests, or a line
    # of code elsewhere, would change the examples.
    providers._get_local_constants = providers.Constants

WAYS = {"soak": "make soak"}  # marker -> how to run what it leaves out
LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a run in the background: programs under test inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if SEED:
        core.global_force_seed = int(SEED)


def pytest_report_header() -> str:
    examples = f"drawn anew, TEST_SEED={SEED}" if SEED else "the same in every run"
    return f"examples: {examples}" + (f"; order: TEST_ORDER={ORDER}" if ORDER else "")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("spark"))  # one session, started once
    if ORDER:
        Random(int(ORDER)).shuffle(items)  # the same order on every worker


def pytest_deselected(items: Iterable[pytest.Item]) -> None:
    for item in items:
        marker = next((name for name in WAYS if item.get_closest_marker(name)), "")
        item.config.stash[LEFT_OUT][marker] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # a worker of xdist: hand the counts to the controller
        output["left_out"] = dict(session.config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    counts: dict[str, int] = getattr(node, "workeroutput", {}).get("left_out", {})
    stash = node.config.stash[LEFT_OUT]  # type: ignore[attr-defined]
    for marker, count in counts.items():  # every worker collects everything
        stash[marker] = max(stash[marker], count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    parts = [
        f"{count} {marker} tests ({WAYS[marker]})" if marker else f"{count} tests not selected"
        for marker, count in terminalreporter.config.stash[LEFT_OUT].items()
    ]
    skipped = Counter(
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "no reason"
        for report in terminalreporter.stats.get("skipped", [])
    )
    parts += [f"{count} skipped ({reason})" for reason, count in skipped.items()]
    known = Counter(report.wasxfail for report in terminalreporter.stats.get("xfailed", []))
    if known:
        failures = "; ".join(f"{count} ({reason or 'no reason'})" for reason, count in known.items())
        terminalreporter.write_line(f"known failures: {failures}")
    terminalreporter.write_line("left out: " + ("; ".join(parts) if parts else "nothing"))


@pytest.fixture(autouse=True)
def restored_broker_settings() -> Iterator[None]:
    """Undo what a broker inside the test's own process did: it stops the propagation of the `tidings` logger,
    so that a later test on the same worker would find no record in `caplog`, and it tunes garbage collection.
    """
    logger = logging.getLogger("tidings")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    thresholds = gc.get_threshold()
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
    gc.set_threshold(*thresholds)


@pytest.fixture
def seed() -> int:
    """A seed for a test that draws by itself: the same in every run, or that of `TEST_SEED`."""
    return int(SEED or 4711)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """What a long test held: `figures(events=…, lost=…)`. The campaign of `make soak` adds them up."""

    def tell(**held: float) -> None:
        print(json.dumps(held), flush=True)
        file = os.environ.get("TIDINGS_FIGURES")
        if file:
            with Path(file).open("a") as lines:
                lines.write(json.dumps({"test": request.node.nodeid, **held}) + "\n")

    return tell

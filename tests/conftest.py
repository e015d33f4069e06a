"""What every test shares: one Hypothesis profile, Spark tests on one worker, and a last line
that says what this run left out and why.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

Figures = Callable[..., None]

settings.register_profile(
    "tidings",
    deadline=None,  # a shared machine is slow at random
    derandomize=bool(os.environ.get("CI")),  # a change is judged on its own, not on its luck
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tidings")

WAYS = {"soak": "make soak"}  # marker -> how to run what it leaves out
LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))  # one session, started once


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
    terminalreporter.write_line("left out: " + ("; ".join(parts) if parts else "nothing"))


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

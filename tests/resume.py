"""Long runs that go on where they were stopped: a plugin of pytest, `-p tests.resume`.

What passes is written down in the file that `TIDINGS_PASSED` names, a line each, and left out by the next
run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest


def passed(file: Path) -> set[str]:
    """The tests that a run has finished well, by their ids."""
    return {line["test"] for line in lines(file) if "test" in line}


def wanted(file: Path) -> int:
    """How many the last run began with, finished ones included; 0 before it has counted them."""
    return max((line["tests"] for line in lines(file) if "tests" in line), default=0)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _write(line: dict[str, Any]) -> None:
    with Path(os.environ["TIDINGS_PASSED"]).open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.hookimpl(trylast=True)  # after the choice by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _write({"tests": len(items)})
    before = passed(Path(os.environ["TIDINGS_PASSED"]))
    done = [item for item in items if item.nodeid in before]
    items[:] = [item for item in items if item.nodeid not in before]
    if done:
        config.hook.pytest_deselected(items=done)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _write({"test": report.nodeid, "seconds": round(report.duration, 1)})

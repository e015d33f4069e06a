"""Parts of every study: claims, figures to draw, and one function that runs.

A study module exposes `STUDY`, a `Study`. Its `run(setting)` gives an `StudyOutcome`: claims with
the paper's value beside ours, tables of what was measured, and pictures described as data, so
that measuring needs no plotting library and drawing happens in one place (`draw.py`).
A claim of a paper that is false counts as reproduced when we show it false: `expected` is then
the corrected value, and `erratum` says what was wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from tidings.errors import ExtensionError, SettingsError
from tidings.extensions import blamed, load, offered, pass_over


class PaperClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a paper and our answer to it."""

    id: str  # catalogue id, e.g. VIR3-7
    claim: str  # in our own words
    paper: float | str | None  # as printed
    expected: float | str | None  # as printed, or corrected
    erratum: str | None = None
    ours: float | str | None
    tolerance: float | str | None = None  # absolute, or the rule in words
    reproduced: bool


def close(id: str, claim: str, *, expected: float, ours: float, tolerance: float, paper: float | None = None,
          erratum: str | None = None) -> PaperClaim:  # fmt: skip
    """A claim that holds when ours is within `tolerance` of what is expected."""
    held = math.isfinite(ours) and abs(ours - expected) <= tolerance
    return PaperClaim(
        id=id, claim=claim, paper=expected if paper is None else paper, expected=expected,
        erratum=erratum, ours=ours, tolerance=tolerance, reproduced=held,
    )  # fmt: skip


def judged(id: str, claim: str, *, paper: float | str | None, ours: float | str, rule: str, held: bool,
           expected: float | str | None = None, erratum: str | None = None) -> PaperClaim:  # fmt: skip
    """A claim that is judged by a rule in words (an order, a band, a slope)."""
    return PaperClaim(
        id=id, claim=claim, paper=paper, expected=paper if expected is None else expected,
        erratum=erratum, ours=ours, tolerance=rule, reproduced=bool(held),
    )  # fmt: skip


class Curve(msgspec.Struct, frozen=True):
    """A line or a set of points in a picture."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    points: bool = False  # markers only: the paper's values
    dashed: bool = False


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as data."""

    name: str  # file name without ending
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    x_log: bool = False
    y_log: bool = False


class StudyTable(msgspec.Struct, frozen=True):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class StudyOutcome(msgspec.Struct, kw_only=True):
    claims: list[PaperClaim]
    pictures: list[Picture] = []
    tables: list[StudyTable] = []


Runner = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


class StudySetting(msgspec.Struct, frozen=True, kw_only=True):
    """How to run: `quick` in seconds, full in minutes; the seed moves the figures."""

    quick: bool = False
    seed: int = 1
    progress: Callable[[str], None] | None = None
    runner: Runner | None = None  # runs points in processes or on Spark

    def say(self, words: str) -> None:
        if self.progress is not None:
            self.progress(words)

    def measure(self, function: Callable[..., Any], points: Sequence[tuple[Any, ...]]) -> list[Any]:
        """`function(*point)` for each point, in order: here one by one, or wherever the runner likes.

        The function belongs to a module and its result is what JSON can hold, so that a point's
        result is the same wherever it was found, and can be kept."""
        if self.runner is not None:
            return self.runner(function, points)
        found = []
        for number, point in enumerate(points, 1):
            self.say(f"{function.__name__.strip('_')} {number} of {len(points)}")
            found.append(json.loads(json.dumps(function(*point))))
        return found


class Study(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    answers: str  # which tables and figures
    run: Callable[[StudySetting], StudyOutcome]


GROUP = "tidings.studies"


def _own_names() -> set[str]:
    package = import_module("tidings_lab.studies")
    names = [module.name for module in iter_modules(package.__path__)]
    return {n.replace("_", "-") for n in names if n not in ("study", "draw") and n[0] != "_"}


def study_names() -> list[str]:
    """Every study by its command-line name: the modules of this package, then the group `tidings.studies`."""
    own = _own_names()
    return sorted([*own, *offered(GROUP, own)])


def studies() -> dict[str, Study]:
    """Every study that can be loaded, by its command-line name."""
    found = {}
    for name in study_names():
        try:
            found[name] = find_study(name)
        except ExtensionError as error:
            pass_over(error)
    return found


def find_study(name: str) -> Study:
    if name not in study_names():
        raise SettingsError(f"no study is called {name!r}", hint=f"there are: {', '.join(study_names())}")
    if name in _own_names():
        own: Study = import_module(f"tidings_lab.studies.{name.replace('-', '_')}").STUDY
        return own
    study: Study = load(GROUP, name)
    return msgspec.structs.replace(study, run=blamed(GROUP, name, study.run))

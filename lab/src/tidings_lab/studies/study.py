"""Parts of every study: claims, figures to draw, and one function that runs.

A study module exposes `STUDY`, a `Study`. Its `run(setting)` gives a `StudyOutcome`: claims with the paper's
value beside ours and a verdict (`_claims.py` has the rules), tables of what was measured, and pictures
described as data, so that measuring needs no plotting library and drawing happens in one place (`draw.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from tidings.errors import ExtensionError, SettingsError
from tidings.extensions import blamed, load, offered, pass_over
from tidings_lab.studies._claims import ABOVE_ZERO as ABOVE_ZERO
from tidings_lab.studies._claims import ClaimKind as ClaimKind
from tidings_lab.studies._claims import ClaimVerdict as ClaimVerdict
from tidings_lab.studies._claims import PaperClaim as PaperClaim
from tidings_lab.studies._claims import SeedEstimate as SeedEstimate
from tidings_lab.studies._claims import estimate as estimate
from tidings_lab.studies._claims import everywhere as everywhere
from tidings_lab.studies._claims import exact as exact
from tidings_lab.studies._claims import incomparable as incomparable
from tidings_lab.studies._claims import jackknife as jackknife
from tidings_lab.studies._claims import judged as judged
from tidings_lab.studies._claims import measured as measured


class Curve(msgspec.Struct, frozen=True):
    """A line or a set of points in a picture."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    points: bool = False  # markers only: the paper's values
    dashed: bool = False  # computed, not measured: no markers
    spread: Sequence[float] = ()  # half of the 95% interval at each point, drawn as error bars


def curve_of(label: str, x: Sequence[float], found: Sequence[SeedEstimate], scale: float = 1.0) -> Curve:
    """A measured curve with its error bars."""
    return Curve(
        label, x, [each.mean * scale for each in found], spread=[each.half * scale for each in found]
    )


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
    seed: int = 1  # the first of those that are run
    seeds: int | None = None  # how many; None: as many as the study's verdicts need
    progress: Callable[[str], None] | None = None
    runner: Runner | None = None  # runs points in processes or on Spark

    def seed_range(self, quick: int, full: int) -> range:
        """The seeds to run: so many, unless the setting names a number."""
        count = self.seeds if self.seeds is not None else quick if self.quick else full
        return range(self.seed, self.seed + count)

    def over_seeds(
        self, function: Callable[..., Any], cases: Sequence[tuple[Any, ...]], seeds: Sequence[int]
    ) -> list[list[Any]]:
        """`function(*case, seed)` for each case and seed: the results of each case, seed by seed."""
        found = self.measure(function, [(*case, seed) for case in cases for seed in seeds])
        return [found[position : position + len(seeds)] for position in range(0, len(found), len(seeds))]

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


class SweepTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a study for `tidings study sweep`: figures of some knobs and a seed."""

    point: Callable[[dict[str, Any], int], dict[str, float]]
    knobs: dict[str, Any]  # by name: the default


class Study(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    answers: str  # which tables and figures
    run: Callable[[StudySetting], StudyOutcome]
    sweep: SweepTarget | None = None


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

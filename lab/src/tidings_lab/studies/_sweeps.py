"""Sweeps of a study's own knobs: every combination with every seed, as a table in Parquet and pictures with
error bars.

A study offers a `SweepTarget`: one function of knobs and seed, the knobs with their defaults, and the figures
that it returns. Points run where the options say (here, in processes, on Spark), and finished ones are kept,
so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings_lab.studies._claims import SeedEstimate, estimate
from tidings_lab.studies.study import Picture, StudyTable, curve_of, find_study

Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs with the values to try, and how many seeds."""

    study: str
    values: dict[str, list[Any]]
    seeds: int = 5
    seed: int = 1

    @property
    def combinations(self) -> list[dict[str, Any]]:
        names = list(self.values)
        return [dict(zip(names, each, strict=True)) for each in itertools.product(*self.values.values())]

    @property
    def points(self) -> list[tuple[Any, ...]]:
        return [
            (self.study, knobs, seed)
            for knobs in self.combinations
            for seed in range(self.seed, self.seed + self.seeds)
        ]


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    plan: SweepPlan
    figures: list[list[dict[str, float]]]  # by combination, then by seed

    def estimates(self, figure: str) -> list[SeedEstimate]:
        return [estimate([float(run[figure]) for run in runs]) for runs in self.figures]

    @property
    def names(self) -> list[str]:
        return list(self.figures[0][0])


def read_values(settings: Sequence[str]) -> dict[str, list[Any]]:
    """`knob=a,b,c` as values: numbers and true or false where they are such, text otherwise."""
    found: dict[str, list[Any]] = {}
    for text in settings:
        name, equals, values = text.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise SettingsError(f"--set {text!r} names no values", hint="write it as knob=a,b,c")
        if name.strip() in found:
            raise SettingsError(f"--set {name.strip()} is given twice", hint="put all its values into one")
        found[name.strip()] = [_value(each.strip()) for each in values.split(",")]
    if not found:
        raise SettingsError("no knob is swept", hint="say --set knob=a,b,c")
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def sweep_point(study: str, knobs: dict[str, Any], seed: int) -> dict[str, float]:
    """One point: the study's function with these knobs and its defaults for the others."""
    target = find_study(study).sweep
    if target is None:
        raise SettingsError(
            f"study {study!r} offers no sweep", hint="`tidings study list` names those that do"
        )
    return target.point({**target.knobs, **knobs}, seed)


def checked(plan: SweepPlan) -> SweepPlan:
    """The plan, if the study has these knobs."""
    target = find_study(plan.study).sweep
    if target is None:
        raise SettingsError(
            f"study {plan.study!r} offers no sweep", hint="`tidings study list --json` names those that do"
        )
    for name in plan.values:
        if name not in target.knobs:
            raise SettingsError(
                f"study {plan.study!r} has no knob {name!r}", hint=f"there are: {', '.join(target.knobs)}"
            )
    return plan


def run_sweep(plan: SweepPlan, run: Run) -> SweepResult:
    found = run(sweep_point, checked(plan).points)
    return SweepResult(
        plan=plan, figures=[found[place : place + plan.seeds] for place in range(0, len(found), plan.seeds)]
    )


def write_parquet(result: SweepResult, file: Path) -> Path:
    """A row for each point: its knobs, its seed, its figures."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    plan = result.plan
    rows = [
        {**knobs, "seed": plan.seed + place, **{name: float(value) for name, value in figures.items()}}
        for knobs, runs in zip(plan.combinations, result.figures, strict=True)
        for place, figures in enumerate(runs)
    ]
    columns = {
        name: [row[name] if _alike(rows, name) else str(row[name]) for row in rows] for name in rows[0]
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), file, compression="zstd")
    return file


def _alike(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({type(row[name]) for row in rows}) == 1


def table_of(result: SweepResult) -> StudyTable:
    names = list(result.plan.values)
    figures = result.names
    rows = []
    for place, knobs in enumerate(result.plan.combinations):
        found = [result.estimates(figure)[place] for figure in figures]
        texts = [f"{each.mean:.4g} ± {each.half:.2g}" for each in found]
        rows.append([*(knobs[name] for name in names), *texts])
    return StudyTable(f"{result.plan.study}, {result.plan.seeds} seeds", [*names, *figures], rows)


def pictures_of(result: SweepResult, figures: Sequence[str] = ()) -> list[Picture]:
    """Each figure over the first knob that has numbers; a curve for each combination of the others."""
    plan = result.plan
    numeric = [name for name, values in plan.values.items() if all(_is_number(value) for value in values)]
    if not numeric:
        return []
    along = numeric[0]
    others = [name for name in plan.values if name != along]
    groups: dict[str, list[int]] = {}
    for place, knobs in enumerate(plan.combinations):
        label = ", ".join(f"{name} {knobs[name]}" for name in others) or plan.study
        groups.setdefault(label, []).append(place)
    pictures = []
    for figure in figures or result.names:
        if figure not in result.names:
            raise SettingsError(
                f"there is no figure {figure!r}", hint=f"there are: {', '.join(result.names)}"
            )
        found = result.estimates(figure)
        curves = [
            curve_of(label, [float(plan.combinations[p][along]) for p in places], [found[p] for p in places])
            for label, places in groups.items()
        ]
        pictures.append(
            Picture(
                name=f"sweep-{plan.study}-{figure.replace(' ', '-')}", title=f"{plan.study}: {figure}",
                x_label=along, y_label=figure, curves=curves,
            )
        )  # fmt: skip
    return pictures


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

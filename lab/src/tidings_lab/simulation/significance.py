"""Comparisons over seeds: means with intervals, and which differences are more than chance.

Systems see the same workloads seed by seed, so differences are paired. The test flips their signs: if two
systems were alike, a difference would be as likely with the other sign. With up to twelve seeds all sign
patterns are tried, with more some thousands are drawn. Many comparisons find something by chance: p-values
are Holm's, over all systems that are compared with the first one in a measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from statistics import fmean

import msgspec

from tidings_lab.simulation.comparing import Measures
from tidings_lab.studies._claims import SeedEstimate, estimate

ALL_SIGNS = 12  # seeds up to which every pattern of signs is tried
DRAWS = 20_000
LEVEL = 0.05
COMPARED = (
    "event_messages", "hops", "control_messages", "bytes", "latency_p50", "latency_p99", "entries",
    "imbalance",
    "t_sub", "t_diff", "d",
)  # fmt: skip


class MeasureOverSeeds(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one system, and its difference from the first system."""

    mean: float
    low: float
    high: float
    difference: float | None = None  # from the first system; None: it is the first, or cannot be compared
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = None  # after Holm
    significant: bool = False


class SystemOverSeeds(msgspec.Struct, frozen=True, kw_only=True):
    system: str
    seeds: int
    refused: str | None = None
    exact: int = 0  # seeds whose deliveries were exactly right
    measures: dict[str, MeasureOverSeeds] = {}


def sign_flip(differences: Sequence[float], seed: int = 1) -> float:
    """Chance of a mean difference at least as large when signs are arbitrary; two-sided."""
    if not any(differences):
        return 1.0
    wanted = abs(sum(differences)) * (1 - 1e-12)
    if len(differences) <= ALL_SIGNS:
        sums = [
            abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in product((1, -1), repeat=len(differences))
        ]
        return fmean(total >= wanted for total in sums)
    rng = Random(seed)
    hits = sum(abs(sum(d if rng.random() < 0.5 else -d for d in differences)) >= wanted for _ in range(DRAWS))
    return (hits + 1) / (DRAWS + 1)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction: p-values that hold for all of them together."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found, most = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, values[place] * (len(values) - rank)))
        found[place] = most
    return found


def over_seeds(runs: Sequence[Sequence[Measures]]) -> list[SystemOverSeeds]:
    """A line for each system; `runs` has one list of lines for each seed."""
    systems = [row.system for row in runs[0]]
    by_system = {name: [rows[place] for rows in runs] for place, name in enumerate(systems)}
    tables = {name: _values(rows) for name, rows in by_system.items()}
    first = next((name for name in systems if by_system[name][0].refused is None), None)
    chances = _chances(tables, first)
    found = []
    for name, rows in by_system.items():
        refused = next((row.refused for row in rows if row.refused is not None), None)
        measures = {
            measure: _line(values, tables[first].get(measure) if first and name != first else None,
                           chances.get((name, measure)))
            for measure, values in tables[name].items()
        } if refused is None else {}  # fmt: skip
        exact = sum(row.verdict == "exact" for row in rows)
        found.append(
            SystemOverSeeds(system=name, seeds=len(rows), refused=refused, exact=exact, measures=measures)
        )
    return found


def _values(rows: Sequence[Measures]) -> dict[str, list[float]]:
    """Measures that every seed has."""
    if any(row.refused is not None for row in rows):
        return {}
    found = {name: [getattr(row, name) for row in rows] for name in COMPARED}
    return {name: [float(value) for value in values] for name, values in found.items() if None not in values}


def _chances(tables: dict[str, dict[str, list[float]]], first: str | None) -> dict[tuple[str, str], float]:
    if first is None:
        return {}
    found: dict[tuple[str, str], float] = {}
    for measure, base in tables[first].items():
        names = [name for name in tables if name != first and measure in tables[name]]
        raw = [sign_flip(_less(tables[name][measure], base)) for name in names]
        found.update({(name, measure): p for name, p in zip(names, holm(raw), strict=True)})
    return found


def _less(values: Sequence[float], base: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(values, base, strict=True)]


def _line(values: list[float], base: list[float] | None, p: float | None) -> MeasureOverSeeds:
    own = estimate(values)
    if base is None or p is None:
        return MeasureOverSeeds(mean=own.mean, low=own.low, high=own.high)
    gap: SeedEstimate = estimate(_less(values, base))
    return MeasureOverSeeds(
        mean=own.mean, low=own.low, high=own.high, difference=gap.mean, difference_low=gap.low,
        difference_high=gap.high, p=p, significant=p < LEVEL,
    )  # fmt: skip

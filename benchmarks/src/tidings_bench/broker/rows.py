"""Rows of the broker benchmark, and the ratios between them.

A figure of ours stands beside that of every peer in the same run. A ratio above 1 is better than the best
peer, whether more is better (events a second) or less (CPU, latency, memory). A failed measurement is a row
of its own that says why; its figure is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from tidings.errors import InputError

Row: TypeAlias = dict[str, Any]
OURS = "tidings"


class Unit(NamedTuple):
    name: str
    is_more_better: bool


WANTED = Unit("wanted/s", True)
DELIVERED = Unit("deliveries/s", True)
KEPT = Unit("acknowledged/s", True)
BROKER_CPU = Unit("broker CPU us/event", False)
ALL_CPU = Unit("broker+client CPU us/event", False)
P50, P99 = Unit("us p50", False), Unit("us p99", False)


def row(
    work: str, size: int, engine: str, figure: float | None, unit: str, ratio: float | None = None
) -> Row:
    return {
        "work": work,
        "size": size,
        "engine": engine,
        "figure": None if figure is None else round(figure, 2),
        "unit": unit,
        "ratio_to_best_peer": None if ratio is None else round(ratio, 3),
    }


def left_out(work: str, size: int, engine: str, why: str) -> Row:
    return row(work, size, engine, None, f"left out: {why}")


def compared(work: str, size: int, unit: Unit, figures: dict[str, float]) -> Iterator[Row]:
    """A row for each engine, then how many times better ours is than each peer."""
    peers = {engine: figure for engine, figure in figures.items() if not engine.startswith(OURS)}
    pick = max if unit.is_more_better else min
    best = pick(peers.values(), default=None)
    for engine, figure in figures.items():
        ratio = None if best is None else better(figure, best, unit)
        yield row(work, size, engine, figure, unit.name, ratio)
    for engine, figure in peers.items():
        if OURS in figures:
            ratio = better(figures[OURS], figure, unit)
            yield row(work, size, f"{OURS} : {engine}", ratio, f"times better in {unit.name}")


def better(figure: float, other: float, unit: Unit) -> float | None:
    """How many times better; None without a measurement."""
    above, below = (figure, other) if unit.is_more_better else (other, figure)
    return above / below if below else None


def chosen_works(only: str | None, works: tuple[str, ...]) -> tuple[str, ...]:
    """The works that `only` names, with commas between them; None: all. Raises `InputError`."""
    chosen = works if only is None else tuple(only.split(","))
    for name in chosen:
        if name not in works:
            raise InputError(
                f"no work of this benchmark is called {name!r}", hint=f"there are {', '.join(works)}"
            )
    return chosen

"""Drawings of a run of `tidings bench matching`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, int]  # workload and number of subscriptions

OURS = "tidings, one by one"
ENGINES = {OURS: "-", "tidings, counting": ":", "tidings, tree": "--"}


def plot(rows: Iterable[Row], folder: str) -> list[Path]:
    """Cost of an event against the number of subscriptions, and against its number of matches."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "tidings"  # the same drawing from the same rows
    mpl.rcParams["svg.fonttype"] = "none"  # texts stay texts
    stored = list(rows)
    matches = {_key(r): r["figure"] for r in stored if r["unit"] == "matches/event"}
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [
        _drawn(
            stored,
            Path(folder) / "cost-by-subscriptions.svg",
            "subscriptions",
            lambda key: key[1],
            list(ENGINES),
        ),
        _drawn(
            stored, Path(folder) / "cost-by-matches.svg", "matches an event", lambda key: matches[key], [OURS]
        ),
    ]


def _key(row: Row) -> Key:
    return row["work"], row["size"]


def _drawn(
    rows: Sequence[Row], path: Path, label: str, position: Callable[[Key], float], engines: Sequence[str]
) -> Path:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots()
    works = sorted({r["work"] for r in rows if r["engine"] == OURS and not r["work"].startswith("W4 ")})
    for colour, work in enumerate(works):
        for engine in engines:
            mine = {
                _key(r): 1e6 / r["figure"] for r in rows if r["engine"] == engine and r["unit"] == "events/s"
            }
            keys = sorted((key for key in mine if key[0] == work), key=position)
            if keys:
                name = work if engine == OURS else f"{work}, {engine.removeprefix('tidings, ')}"
                style = ENGINES[engine]
                positions, costs = [position(k) for k in keys], [mine[k] for k in keys]
                axes.loglog(positions, costs, style, marker="o", color=f"C{colour}", label=name)
    axes.set_xlabel(label)
    axes.set_ylabel("CPU microseconds an event")
    axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path

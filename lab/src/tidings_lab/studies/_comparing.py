"""A comparison of systems as one picture: a panel for each measure, a bar for each system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidings.errors import MissingDependencyError
from tidings_lab.simulation.comparing import Measures

PANELS: tuple[tuple[str, str, float], ...] = (  # a measure, its title, and what to multiply it by
    ("event_messages", "messages with an event, per event", 1.0),
    ("hops", "hops per event", 1.0),
    ("control_messages", "other messages", 1.0),
    ("bytes", "kilobytes between brokers", 1e-3),
    ("entries", "table entries", 1.0),
    ("imbalance", "busiest broker / mean", 1.0),
    ("latency_p50", "latency, median, ms", 1e3),
    ("t_sub", "T_sub, ms", 1e3),
    ("t_diff", "T_diff, ms", 1e3),
    ("d", "notification probability d", 1.0),
)
COLUMNS = 5
LOGARITHMIC = frozenset({"event_messages", "hops", "control_messages", "bytes"})


def draw_comparison(rows: Sequence[Measures], folder: Path, title: str) -> list[Path]:
    """Draw it as PNG and SVG; the files that were written. Systems that were not run are left out."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependencyError(
            "matplotlib is not installed, so no picture can be drawn",
            hint="pip install 'tidings[studies]', or leave --plot out",
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tidings"  # the same drawing from the same figures
    matplotlib.rcParams["svg.fonttype"] = "none"  # texts stay texts
    from matplotlib import pyplot

    shown = [row for row in rows if row.refused is None][::-1]  # the first on top
    lines = -(-len(PANELS) // COLUMNS)
    figure, grid = pyplot.subplots(
        lines,
        COLUMNS,
        figsize=(4 + 3 * COLUMNS, lines * (1.2 + 0.22 * len(shown))),
        sharey=True,
        layout="constrained",
    )
    for axes, (measure, words, factor) in zip(grid.flat, PANELS, strict=True):
        found = [getattr(row, measure) for row in shown]
        values = [(value or 0.0) * factor for value in found]
        bars = axes.barh([row.system for row in shown], values, color="#31688e")
        words_of = ["?" if value is None else _figure(value * factor) for value in found]
        axes.bar_label(bars, words_of, padding=2, fontsize="x-small")
        axes.margins(x=0.18)
        axes.set_title(words, fontsize="medium")
        axes.grid(axis="x", alpha=0.3)
        if measure in LOGARITHMIC and max(values, default=0.0) > 0.0:
            axes.set_xscale("symlog")
    figure.suptitle(title)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"comparison.{ending}" for ending in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=90, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

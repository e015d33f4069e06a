"""A comparison of systems as one picture: a panel for each measure, a bar for each system, with error bars
where there are several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidings.errors import MissingDependencyError, install_command
from tidings_lab.simulation.comparing import Measures
from tidings_lab.simulation.significance import SystemOverSeeds
from tidings_lab.studies.draw import COLOURS, STYLE

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


Bars = dict[str, tuple[float, float]]  # by measure: the value, and half of its 95% interval
NO_VALUE = (0.0, 0.0)


def draw_comparison(rows: Sequence[Measures], folder: Path, title: str) -> list[Path]:
    """Draw one seed as PNG and SVG; the files that were written. Systems that were not run are left out."""
    names = [measure for measure, _, _ in PANELS]
    shown = {row.system: {name: (float(value), 0.0) for name in names
                          if (value := getattr(row, name)) is not None}
             for row in rows if row.refused is None}  # fmt: skip
    return _draw(shown, folder, title)


def draw_over_seeds(lines: Sequence[SystemOverSeeds], folder: Path, title: str) -> list[Path]:
    """The same of several seeds: means, and 95% intervals as error bars."""
    shown = {line.system: {name: (each.mean, (each.high - each.low) / 2)
                           for name, each in line.measures.items()}
             for line in lines if line.refused is None}  # fmt: skip
    return _draw(shown, folder, title)


def _draw(systems: dict[str, Bars], folder: Path, title: str) -> list[Path]:
    try:
        import matplotlib
    except ImportError:
        raise MissingDependencyError(
            "matplotlib is not installed, so no picture can be drawn",
            hint=f"leave --plot out, or {install_command('tidings-lab')}",
        ) from None
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        return _panels(list(systems.items())[::-1], folder, title)  # the first on top


def _panels(shown: list[tuple[str, Bars]], folder: Path, title: str) -> list[Path]:
    from matplotlib import pyplot

    lines = -(-len(PANELS) // COLUMNS)
    figure, grid = pyplot.subplots(
        lines,
        COLUMNS,
        figsize=(4 + 3 * COLUMNS, lines * (1.2 + 0.22 * len(shown))),
        sharey=True,
        layout="constrained",
    )
    for axes, (measure, words, factor) in zip(grid.flat, PANELS, strict=True):
        found = [bars_of.get(measure) for _, bars_of in shown]
        values = [(each or NO_VALUE)[0] * factor for each in found]
        spread = [(each or NO_VALUE)[1] * factor for each in found]
        bars = axes.barh(
            [name for name, _ in shown], values, xerr=spread if any(spread) else None, capsize=2,
            color=COLOURS[0],
        )  # fmt: skip
        words_of = ["?" if each is None else _figure(each[0] * factor) for each in found]
        axes.bar_label(bars, words_of, padding=2, fontsize="x-small")
        axes.margins(x=0.18)
        axes.set_title(words)
        axes.grid(visible=False, axis="y")
        if measure in LOGARITHMIC and max(values, default=0.0) > 0.0:
            axes.set_xscale("symlog")
    figure.suptitle(title)
    paths = [folder / f"comparison.{ending}" for ending in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=90, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

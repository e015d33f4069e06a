"""Pictures of studies as SVG (for print) and PNG (for screens), through matplotlib, in one style.

Rules: colours that the colour-blind tell apart, and a marker for each curve so that print without colour
does, too; a marker stands only where something was measured, with its 95% interval as error bar; curves that
are computed are dashed and have none; the paper's own values are hollow circles.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidings.errors import MissingDependencyError, install_command
from tidings_lab.studies.study import Curve, Picture

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#999999",
)  # Okabe and Ito
MARKERS = "osD^vPX*"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.hashsalt": "tidings",  # the same picture is the same file
    "svg.fonttype": "none",  # texts stay texts
}
SIZE = (6.3, 4.2)  # inches: the width of a printed page's text


def draw(pictures: Iterable[Picture], folder: Path) -> list[Path]:
    """Draw each picture into `folder`; the files that were written."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependencyError(
            "matplotlib is not installed, so no picture can be drawn",
            hint=f"run with --no-plots, or {install_command('tidings-lab')}",
        ) from None
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        return [path for picture in pictures for path in _draw_one(picture, folder)]


def _draw_one(picture: Picture, folder: Path) -> list[Path]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=SIZE, layout="constrained")
    for position, curve in enumerate(picture.curves):
        _draw_curve(axes, curve, COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)])
    axes.set(title=picture.title, xlabel=picture.x_label, ylabel=picture.y_label)
    if picture.x_log:
        axes.set_xscale("log")
    if picture.y_log:
        axes.set_yscale("log")
    axes.legend()
    paths = [folder / f"{picture.name}.{ending}" for ending in ("png", "svg")]
    for path in paths:
        how: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 110}
        figure.savefig(path, **how)
    pyplot.close(figure)
    return paths


def _draw_curve(axes: Any, curve: Curve, colour: str, marker: str) -> None:
    if curve.points:
        axes.plot(
            curve.x, curve.y, "o", color=colour, markersize=7, markerfacecolor="none", label=curve.label
        )
    elif curve.dashed:
        axes.plot(curve.x, curve.y, "--", color=colour, linewidth=1.1, label=curve.label)
    else:
        spread = list(curve.spread) or None
        axes.errorbar(
            curve.x, curve.y, yerr=spread, fmt=f"{marker}-", color=colour, capsize=2, elinewidth=0.8,
            label=curve.label
        )  # fmt: skip

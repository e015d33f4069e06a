"""Pictures of studies as PNG and SVG, through matplotlib."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidings.errors import MissingDependencyError
from tidings_lab.studies.study import Picture


def draw(pictures: Iterable[Picture], folder: Path) -> list[Path]:
    """Draw each picture into `folder`; the files that were written."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependencyError(
            "matplotlib is not installed, so no picture can be drawn",
            hint="pip install 'tidings[studies]', or run with --no-plots",
        ) from None
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    return [path for picture in pictures for path in _draw_one(picture, folder)]


def _draw_one(picture: Picture, folder: Path) -> list[Path]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for curve in picture.curves:
        if curve.points:
            axes.plot(curve.x, curve.y, "o", markersize=7, markerfacecolor="none", label=curve.label)
        else:
            axes.plot(curve.x, curve.y, "--" if curve.dashed else "-", linewidth=1.6, label=curve.label)
    axes.set(title=picture.title, xlabel=picture.x_label, ylabel=picture.y_label)
    if picture.x_log:
        axes.set_xscale("log")
    if picture.y_log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    paths = [folder / f"{picture.name}.{ending}" for ending in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return paths

"""Sweeps from the command line: where the points run, and how their progress is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.cli.output import progress, say
from tidings.errors import SettingsError

if TYPE_CHECKING:
    from tidings.pipeline.sweeps import Done

SPARK_HELP = "Run the points on Spark."
PROCESSES_HELP = "Run the points in so many processes of this machine."
POINTS_HELP = "The folder for finished points, as Parquet: they are not run again."


def runner_for(
    folder: Path, spark: bool, processes: int | None
) -> Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]] | None:
    """Runs the points of a study where the options say; None: here, one after the other."""
    if not spark and processes is None:
        return None

    def run(function: Callable[..., Any], points: Sequence[tuple[Any, ...]]) -> list[Any]:
        from tidings.pipeline.sweeps import results

        return results(run_points(function, points, folder, spark=spark, processes=processes))

    return run


def run_points(
    function: Callable[..., Any],
    points: Sequence[tuple[Any, ...]],
    folder: Path,
    *,
    spark: bool,
    processes: int | None,
) -> list[Done]:
    """A sweep with a bar on the terminal; says where it was cut short and how to go on."""
    if spark and processes is not None:
        raise SettingsError("--spark and --processes exclude one another", hint="give one of them")
    from tidings.pipeline.sweeps import sweep

    session = None
    if spark:
        from tidings.pipeline.session import session as start

        session = start(quick=True)
    what = function.__name__.strip("_").replace("_", " ")
    try:
        with progress(what, len(points)) as advance:
            done = sweep(
                function, points, folder=folder, spark=session, processes=processes, progress=advance
            )
    except KeyboardInterrupt:
        say(f"Stopped. Finished points are in {folder}; the same command goes on from there.")
        raise
    known = sum(each.again for each in done)
    if known:
        say(f"{known:,} of {len(done):,} points were finished before and not run again.")
    return done

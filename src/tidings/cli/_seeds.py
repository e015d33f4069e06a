"""`tidings simulate --seeds N`: one experiment at many seeds, and what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tidings.cli.output import Exit, console, print_json, say
from tidings.cli.sweeps import run_points

if TYPE_CHECKING:
    from tidings.pipeline.sweeps import Done
    from tidings.simulation.experiment import Experiment

SHOWN = 10  # seeds that are reported at length


def run_seeds(
    experiment: Experiment,
    seeds: Sequence[int],
    points: Path,
    spark: bool,
    processes: int | None,
    as_json: bool,
) -> None:
    """Run them all; ends with 1 when a seed broke a property or failed."""
    import msgspec

    from tidings.pipeline.sweeps import simulate_point
    from tidings.systems import find_system

    find_system(experiment.system)  # an unknown one is an error now, not of each seed
    experiment.build_overlay()
    text = msgspec.json.encode(msgspec.structs.replace(experiment, seed=0)).decode()
    folder = points / f"simulate-{experiment.system}"
    where = None if spark else processes
    done = run_points(simulate_point, [(text, seed) for seed in seeds], folder, spark=spark, processes=where)
    found = _summary(experiment, done)
    if as_json:
        print_json(found)
    else:
        _show(found, folder)
    if found["broken"] or found["failed"]:
        raise typer.Exit(Exit.NO)


def _summary(experiment: Experiment, done: Sequence[Done]) -> dict[str, Any]:
    fine = [each.result for each in done if each.error is None]
    return {
        "system": experiment.system,
        "seeds": len(done),
        "handled": sum(each["handled"] for each in fine),
        "published": sum(each["published"] for each in fine),
        "delivered": sum(each["delivered"] for each in fine),
        "worst_latency_seconds": max((each["latency"].get("max", 0.0) for each in fine), default=0.0),
        "broken": [{"seed": each["seed"], "stories": each["broken"]} for each in fine if each["broken"]],
        "failed": [{"seed": each.point[1], "error": each.error} for each in done if each.error is not None],
    }


def _show(found: dict[str, Any], folder: Path) -> None:
    from rich.markup import escape

    console().print(
        f"[bold]{found['system']}[/], {found['seeds']:,} seeds: {found['published']:,} events published, "
        f"{found['delivered']:,} notifications, {found['handled']:,} steps"
    )
    for each in found["broken"][:SHOWN]:
        for name, story in each["stories"].items():
            console().print(f"[red]broken[/] at seed {each['seed']}: {name}: {escape(str(story))}")
    for each in found["failed"][:SHOWN]:
        console().print(f"[red]failed[/] at seed {each['seed']}: {escape(each['error'])}")
    bad = len(found["broken"]) + len(found["failed"])
    if bad > 2 * SHOWN:
        console().print(f"... and more: {len(found['broken']):,} broken, {len(found['failed']):,} failed")
    if not bad:
        console().print("[green]every seed keeps what the system promises[/]")
    say(f"Each seed is a row of the Parquet files in {folder}; run one again with --seed.")

"""`tidings simulate SYSTEM`: run a system on a simulated network, with faults, and judge it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli._seeds import run_seeds
from tidings.cli._wide import WIDE_HELP, run_wide
from tidings.cli.output import Exit, console, print_json, progress, say
from tidings.cli.sweeps import POINTS_HELP, PROCESSES_HELP, SPARK_HELP
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import SettingsError

if TYPE_CHECKING:
    from tidings.simulation.experiment import Experiment, ExperimentOutcome

Rate = Annotated[float, typer.Option(min=0.0, max=1.0)]


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings simulate siena --brokers 100 --events 1000",
        "tidings simulate siena --seed 7 --loss 0.05 --record run.parquet --json",
        "tidings simulate network-of-servers --overlay ring --incidents 10 --fault crash",
        "tidings simulate --play figure.play",
        "tidings simulate --wide --seed 17",
        "tidings simulate siena --seeds 10000 --incidents 5 --spark",
    )
    app.command("simulate", epilog=shown)(simulate)


def simulate(
    system: Annotated[str | None, typer.Argument(help="Name of a system; see `tidings systems`.")] = None,
    brokers: Annotated[int, typer.Option(min=1, help="Brokers in the overlay.")] = 20,
    events: Annotated[int, typer.Option(min=0, help="Events that are published.")] = 1000,
    subscriptions: Annotated[int, typer.Option(min=0, help="Subscribers, one subscription each.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed is the same run, byte for byte.")] = 1,
    overlay: Annotated[str, typer.Option(help="tree, line, ring, star, hierarchy, cliques or random.")] = "",
    fan_out: Annotated[int, typer.Option("--fan-out", min=1, help="Links of a broker at most.")] = 10,
    network: Annotated[str, typer.Option(help="Latencies from a network: transit-stub or flat.")] = "",
    hosts: Annotated[int, typer.Option(help="Hosts of that network; 0: one for each broker.")] = 0,
    workload: Annotated[str, typer.Option(help="stocks, rectangles or patterns.")] = "stocks",
    rate: Annotated[float, typer.Option(min=0.001, help="Events a second.")] = 100.0,
    churn: Annotated[float, typer.Option(min=0.0, max=1.0, help="Subscription changes per event.")] = 0.0,
    durable: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of durable subscriptions.")] = 0.0,
    lifetime: Annotated[list[float] | None, typer.Option(help="Seconds; may be repeated.")] = None,
    loss: Rate = 0.0,
    duplication: Rate = 0.0,
    reordering: Rate = 0.0,
    corruption: Rate = 0.0,
    incidents: Annotated[int, typer.Option(min=0, help="Crashes, partitions …, drawn from the seed.")] = 0,
    fault: Annotated[list[str] | None, typer.Option(help="Draw only these; may be repeated.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="A knob of the system: name=value.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Run every invariant after each step.")] = False,
    record: Annotated[Path | None, typer.Option(help="Write the history here (.parquet or .jsonl).")] = None,
    play: Annotated[Path | None, typer.Option(help="Perform a play instead.")] = None,
    wide: Annotated[bool, typer.Option("--wide", help=WIDE_HELP)] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="So many runs, from --seed on.")] = None,
    spark: Annotated[bool, typer.Option("--spark", help=SPARK_HELP)] = False,
    processes: Annotated[int | None, typer.Option(min=1, help=PROCESSES_HELP)] = None,
    points: Annotated[Path, typer.Option(help=POINTS_HELP)] = Path("artefacts/sweeps"),
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run a system on a simulated network, with faults, and check its promises.

    Ends with 1 when a property that the system promises does not hold. With --seeds it runs one
    seed after the other on all cores, or on Spark, and names those that violate a property.
    """
    if play is not None:
        _play(play, seed, as_json)
        return
    if wide:
        run_wide(range(seed, seed + (seeds or 1)), system, as_json)
        return
    if system is None:
        raise typer.BadParameter("name a system, or give --play or --wide", param_hint="SYSTEM")
    _check_several(seeds, record, spark=spark, processes=processes)
    from tidings.simulation.experiment import Experiment, settled
    from tidings.simulation.faults import INCIDENTS, Rates, incident_kinds
    from tidings.simulation.workloads import Plan

    plan = Plan(
        subscriptions=subscriptions, events=events, rate=rate, churn=churn, durable=durable,
        lifetimes=tuple(lifetime or (0.0,)), leave=True,
    )  # fmt: skip
    rates = Rates(loss, duplication, reordering, corruption)
    experiment = Experiment(
        system=system, seed=seed, brokers=brokers, overlay=overlay, fan_out=fan_out, network=network,
        hosts=hosts, workload=workload, plan=settled(plan) if rates.any or incidents else plan, rates=rates,
        incidents=incidents, kinds=_kinds(fault, INCIDENTS, incident_kinds()), options=_options(option or ()),
        check=check, bytes=corruption > 0,
    )  # fmt: skip
    if seeds is not None:
        run_seeds(experiment, range(seed, seed + seeds), points, spark, processes, as_json)
        return
    _run_one(system, experiment, record, as_json)


def _run_one(system: str, experiment: Experiment, record: Path | None, as_json: bool) -> None:
    outcome = _run(experiment, record)
    if as_json:
        print_json({"system": system, "seed": experiment.seed, **_plain(outcome)})
    else:
        _show(system, outcome, record)
    if outcome.report is not None and not outcome.report.holds:
        raise typer.Exit(Exit.NO)


def _check_several(seeds: int | None, record: Path | None, *, spark: bool, processes: int | None) -> None:
    if seeds is not None and record is not None:
        raise typer.BadParameter("one history is of one seed", param_hint="--record")
    if seeds is None and (spark or processes is not None):
        raise typer.BadParameter("several runs are wanted for that: give --seeds", param_hint="--seeds")


def _kinds(wanted: list[str] | None, usual: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The faults that are drawn from; those beyond the usual ones when they are named."""
    for name in wanted or ():
        if name not in known:
            raise SettingsError(f"no fault is called {name!r}", hint=f"there are: {', '.join(known)}")
    return tuple(wanted or usual)


def _options(pairs: Iterable[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise SettingsError(f"--option {pair!r} has no value", hint="write --option name=value")
        options[name] = {"true": True, "false": False}.get(value, value)
    return options


def _run(experiment: Experiment, record: Path | None) -> ExperimentOutcome:
    from tidings.simulation.experiment import run_experiment

    done = 0
    with progress("simulating", None) as advance:

        def tell(_at: float, steps: int) -> None:
            nonlocal done
            advance(steps - done)
            done = steps

        if record is None:
            return run_experiment(experiment, progress=tell)
        from tidings.history.recorder import FileRecorder

        recorder = FileRecorder(record, run=f"{experiment.system}/{experiment.seed}")
        try:
            return run_experiment(experiment, progress=tell, on_row=recorder.record)
        finally:
            recorder.close()


def _plain(outcome: ExperimentOutcome) -> dict[str, Any]:
    return {
        "handled": outcome.handled,
        "published": outcome.published,
        "delivered": outcome.delivered,
        "messages": outcome.sent,
        "hops_per_event": round(outcome.hops, 4),
        "latency_seconds": {name: round(value, 6) for name, value in outcome.latency.items()},
        "faults": outcome.faults,
        "fingerprint": outcome.fingerprint,
        **({} if outcome.report is None else outcome.report.to_json()),
    }


def _show(system: str, outcome: ExperimentOutcome, record: Path | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    rows = [
        ("published", f"{outcome.published:,}"),
        ("delivered", f"{outcome.delivered:,}"),
        ("messages", ", ".join(f"{name} {count:,}" for name, count in outcome.sent.items()) or "none"),
        ("hops per event", f"{outcome.hops:.2f}"),
        ("latency", ", ".join(f"{name} {s * 1000:.1f} ms" for name, s in outcome.latency.items()) or "-"),
        ("faults", ", ".join(f"{name} {count}" for name, count in outcome.faults.items()) or "none"),
        ("fingerprint", outcome.fingerprint),
    ]
    for row in rows:
        table.add_row(*row)
    console().print(f"[bold]{system}[/], {outcome.seconds:.1f} simulated seconds, {outcome.handled:,} steps")
    console().print(table)
    report = outcome.report
    if report is not None:
        judged = [name for name, each in report.verdicts.items() if each.holds and each.is_shown]
        if judged:
            console().print(f"[green]holds[/]: {', '.join(judged)}")
        for name in report.broken:
            console().print(f"[red]broken[/]: {name}: {escape(str(report.verdicts[name].story))}")
        for name in report.open:
            console().print(f"[yellow]not judged[/]: {name}: {escape(str(report.verdicts[name].reason))}")
    if record is not None:
        say(f"The history is in {record}; judge it again with: tidings check {record}")


def _play(path: Path, seed: int, as_json: bool) -> None:
    from tidings.simulation.play import perform

    world = perform(path.read_text(), seed=seed)
    received = {client: len(world.received(client)) for client in world.applications}
    if as_json:
        print_json({"play": str(path), "holds": True, "received": received})
        return
    console().print(f"[green]{path}: every expectation was met[/]")
    for client, count in received.items():
        console().print(f"  {client} received {count}")

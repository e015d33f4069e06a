"""`tidings compare`: the same events and subscriptions through several systems, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import Exit, console, errors, print_json
from tidings.cli.usage import JSON_HELP, examples

if TYPE_CHECKING:
    from tidings.systems import System
    from tidings_lab.simulation.comparing import Comparison, Measures

COST = ("system", "told", "oracle", "msgs/ev", "hops/ev", "other", "kB", "entries", "most", "max/mean")
LEGEND = (
    "msgs/ev: messages between brokers with an event, per event; hops/ev: wires that they crossed; "
    "other: messages "
    "without events; entries: of routing tables, and most at one broker; max/mean: of messages "
    "that brokers handled"
)
SEEDED = (
    ("event_messages", "msgs/ev", 1.0), ("hops", "hops/ev", 1.0), ("control_messages", "other", 1.0),
    ("bytes", "kB", 1e-3), ("entries", "entries", 1.0), ("imbalance", "max/mean", 1.0),
    ("latency_p50", "p50 ms", 1e3),
    ("latency_p99", "p99 ms", 1e3), ("d", "d", 1.0),
)  # fmt: skip
SIGNIFICANT = (
    "*: differs from the first system by more than chance (paired sign flips, p < 0.05 after Holm; six "
    "seeds at "
    "least can show it)"
)
SPEED = ("system", "p50 ms", "p99 ms", "T_sub ms", "T_diff ms", "d")


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings compare --systems all",
        "tidings compare --systems siena,gryphon,hermes --workload markets --brokers 50 --plots pictures",
        "tidings compare --systems tib-rv,scribe --workload subjects --seed 7 --json",
    )
    app.command("compare", epilog=shown)(compare)


def compare(
    systems: Annotated[
        str, typer.Option(help="`all`, or names with commas; `tidings systems` lists them.")
    ] = "all",
    workload: Annotated[
        str,
        typer.Option(help="markets, subjects, stocks, rectangles or patterns; or a trace, FILE.jsonl."),
    ] = "markets",
    brokers: Annotated[int, typer.Option(min=1, help="Brokers, the same for every system.")] = 20,
    events: Annotated[int, typer.Option(min=1, help="Events that are published.")] = 300,
    subscriptions: Annotated[int, typer.Option(min=0, help="Subscribers, one subscription each.")] = 100,
    churn: Annotated[float, typer.Option(min=0.0, max=1.0, help="Subscription changes per event.")] = 0.0,
    rate: Annotated[float, typer.Option(min=0.001, help="Events a second.")] = 50.0,
    seed: Annotated[int, typer.Option(help="The same seed is the same comparison.")] = 1,
    seeds: Annotated[
        int, typer.Option(min=1, help="So many seeds, with intervals; differences from the first system.")
    ] = 1,
    overlay: Annotated[
        str, typer.Option(help="tree, line, star or hierarchy; others for some systems.")
    ] = "tree",
    fan_out: Annotated[int, typer.Option("--fan-out", min=2, help="Links of a broker at most.")] = 4,
    t_on: Annotated[
        float, typer.Option("--t-on", min=0.001, help="Seconds a subscription stays, for d.")
    ] = 1.0,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", "--plot", metavar="DIR", help="Draw the comparison into this folder."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run the same events and subscriptions through several systems, and compare what they cost.

    Ends with 1 when a system did not deliver exactly what it should, by an oracle that knows only who
    subscribed to what.
    """
    from tidings.simulation.workloads import Plan
    from tidings_lab.simulation.comparing import Comparison, chosen_systems

    plan = Plan(subscriptions=subscriptions, events=events, rate=rate, churn=churn)
    comparison = Comparison(
        workload=workload, seed=seed, brokers=brokers, overlay=overlay, fan_out=fan_out, plan=plan, t_on=t_on
    )
    chosen = chosen_systems(systems)
    if seeds > 1:
        _over_seeds(chosen, comparison, seeds, plots, as_json)
        return
    rows = _run(chosen, comparison)
    drawn: list[Path] = []
    if plots is not None:
        from tidings_lab.studies._comparing import draw_comparison

        drawn = draw_comparison(
            rows, plots, f"{workload}: {events} events, {subscriptions} subscriptions, {brokers} brokers"
        )
    if as_json:
        _print_json(comparison, rows, drawn)
    else:
        _show(comparison, rows, drawn)
    if any(row.refused is None and row.verdict != "exact" for row in rows):
        raise typer.Exit(Exit.NO)


def _run(systems: list[System], comparison: Comparison) -> list[Measures]:
    from tidings.simulation.workloads import content_named
    from tidings_lab.simulation.comparing import compare as run
    from tidings_lab.simulation.traces import is_trace, read_trace

    overlay = comparison.build_overlay()
    if is_trace(comparison.workload):  # a wrong name is told before anything runs
        read_trace(Path(comparison.workload), overlay.brokers)
    else:
        content_named(comparison.workload)
    if not errors().is_terminal:
        return run(systems, comparison)
    with errors().status("comparing ...") as status:
        return run(systems, comparison, lambda name: status.update(f"comparing: {name} ..."))


def _over_seeds(
    systems: list[System], comparison: Comparison, seeds: int, plots: Path | None, as_json: bool
) -> None:
    """The same for several seeds: means, intervals, and differences from the first system."""
    import msgspec

    from tidings_lab.simulation.significance import over_seeds

    runs = [
        _run(systems, msgspec.structs.replace(comparison, seed=comparison.seed + number))
        for number in range(seeds)
    ]
    lines = over_seeds(runs)
    title = (
        f"{comparison.workload}, {comparison.brokers} brokers, {seeds} seeds: mean ± half of the 95% interval"
    )
    drawn: list[Path] = []
    if plots is not None:
        from tidings_lab.studies._comparing import draw_over_seeds

        drawn = draw_over_seeds(lines, plots, title)
    if as_json:
        print_json(
            {"workload": comparison.workload, "seed": comparison.seed, "seeds": seeds,
             "brokers": comparison.brokers, "systems": msgspec.to_builtins(lines),
             "plots": [str(path) for path in drawn]}
        )  # fmt: skip
    else:
        rows = [
            (
                line.system,
                f"{line.exact} of {line.seeds}" if line.refused is None else "not run",
                *(_mean(line.measures.get(name), factor) for name, _, factor in SEEDED),
            )
            for line in lines
        ]
        _print_table(title, ("system", "exact", *(words for _, words, _ in SEEDED)), rows)
        console().print(SIGNIFICANT)
        for path in drawn:
            console().print(f"picture: {path}")
    if any(line.refused is None and line.exact < line.seeds for line in lines):
        raise typer.Exit(Exit.NO)


def _mean(found: Any, factor: float) -> str:
    if found is None:
        return "-"
    mark = "*" if found.significant else ""
    return f"{found.mean * factor:.4g} ± {(found.high - found.low) / 2 * factor:.2g}{mark}"


def _print_json(comparison: Comparison, rows: list[Measures], drawn: list[Path]) -> None:
    import msgspec

    fields = {"workload": comparison.workload, "seed": comparison.seed, "brokers": comparison.brokers}
    measured: Any = msgspec.to_builtins(rows)
    print_json({**fields, "systems": measured, "plots": [str(path) for path in drawn]})


def _show(comparison: Comparison, rows: list[Measures], drawn: list[Path]) -> None:
    plan = comparison.plan
    title = (
        f"{comparison.workload}: {plan.events:,} events, {plan.subscriptions:,} subscriptions, "
        f"{comparison.brokers} brokers ({comparison.overlay}), seed {comparison.seed}"
    )
    _print_table(title, COST, [_cost(row) for row in rows])
    text = f"how quick it is; d for subscriptions of {comparison.t_on:g} s"
    _print_table(text, SPEED, [_speed(row) for row in rows if row.refused is None])
    for row in rows:
        if row.refused is not None:
            console().print(f"{row.system} was not run: {row.refused}")
    console().print(LEGEND)
    for path in drawn:
        console().print(f"picture: {path}")


def _print_table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        is_text = column in ("system", "oracle")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=column == "system")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def _cost(row: Measures) -> tuple[str, ...]:
    if row.refused is not None:
        return row.system, "-", "not run"
    verdict = f"[green]{row.verdict}[/]" if row.verdict == "exact" else f"[red]{row.verdict}[/]"
    return (
        row.system, f"{row.delivered:,}", verdict, f"{row.event_messages:.2f}", f"{row.hops:.2f}",
        f"{row.control_messages:,}", f"{row.bytes / 1000:,.0f}", _count(row.entries), _count(row.entries_max),
        "-" if row.imbalance is None else f"{row.imbalance:.2f}",
    )  # fmt: skip


def _speed(row: Measures) -> tuple[str, ...]:
    return (
        row.system, _ms(row.latency_p50), _ms(row.latency_p99), _ms(row.t_sub, "long"), _ms(row.t_diff),
        "-" if row.d is None else f"{row.d:.3f}",
    )  # fmt: skip


def _ms(seconds: float | None, absent: str = "-") -> str:
    return absent if seconds is None else f"{seconds * 1000:.0f}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"

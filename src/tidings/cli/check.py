"""`tidings check`: judge a recorded history by the formal properties.

With `--json` this is a contract (see ARCHITECTURE.md, contracts for outside judges). The exit code is
1 only when a property is broken; a property that was not judged says why.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidings.cli.output import Exit, console, errors, print_json, say
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import require
from tidings.history.report import CheckReport, PropertyVerdict

MARKS = {True: "[green]holds[/]", False: "[red]broken[/]", None: "[dim]-[/]"}


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings check run.parquet",
        "tidings check run.jsonl --t-sub 0.5 --t-diff 0.5 --json",
        "tidings check run.parquet --contract SIENA",
        "tidings check --spark runs/ 'more/*.parquet'",
    )
    app.command("check", epilog=shown)(check)


def check(
    history: Annotated[
        list[str],
        typer.Argument(
            metavar="HISTORY", help="A history: .jsonl or .parquet; with --spark also several, and globs."
        ),
    ],
    t_sub: Annotated[
        float | None, typer.Option("--t-sub", help="Seconds until all brokers know a subscription.")
    ] = None,
    t_diff: Annotated[
        float | None, typer.Option("--t-diff", help="Seconds until all subscribers have an event.")
    ] = None,
    contract: Annotated[
        str, typer.Option("--contract", metavar="SYSTEM", help="Judge by the promises of this system.")
    ] = "Tidings",
    until: Annotated[
        float | None,
        typer.Option("--until", help="End of the recording: later deliveries are not judged."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="On Spark: for histories in Parquet of any size.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Check a recorded history by the formal properties.

    Prints a verdict for each property, with the first counterexample as a short story. Without
    --t-sub and --t-diff liveness is not judged, and completeness takes the largest delay seen.
    """
    report = _judged(history, spark, t_sub=t_sub, t_diff=t_diff, contract=contract, until=until)
    if as_json:
        print_json(report.to_json())
    else:
        _show(", ".join(history), report)
    if not report.holds:
        raise typer.Exit(Exit.NO)


def _judged(history: list[str], spark: bool, **settings: Any) -> CheckReport:
    from tidings.matching.engine import MatchingEngine

    if spark:
        require("pyspark", "a check on Spark")
        from tidings.pipeline.checks import check_on_spark

        tell = say if errors().is_terminal else None
        return check_on_spark(history, matcher=MatchingEngine, say=tell, **settings)
    if len(history) > 1:
        raise typer.BadParameter(
            "several files are one history with --spark only; join files of JSON lines first "
            "(cat a.jsonl b.jsonl > all.jsonl)",
            param_hint="HISTORY",
        )
    from tidings.history.check import check as judged

    return judged(history[0], matcher=MatchingEngine, instances=True, **settings)


def _show(history: str, report: CheckReport) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=None)
    table.add_column("property")
    table.add_column("verdict")
    table.add_column("why", overflow="fold")
    for name, verdict in report.verdicts.items():
        table.add_row(name, MARKS[verdict.holds if verdict.is_shown else None], escape(_why(verdict)))
    console().print(table)
    console().print()
    console().print(escape(_summary(history, report)), style="bold red" if report.broken else "bold green")


def _why(verdict: PropertyVerdict) -> str:
    if verdict.counterexample is None:
        return verdict.reason or ""
    run = verdict.counterexample.run
    first = f"In run {run}: {verdict.story}" if run else str(verdict.story)
    more = verdict.violations - 1
    return f"{first} ({more:,} more like it.)" if more else first


def _summary(history: str, report: CheckReport) -> str:
    judged = sum(verdict.is_shown for verdict in report.verdicts.values())
    if report.broken:
        return (
            f"{history} breaks {len(report.broken)} of the {judged} properties judged: "
            f"{', '.join(report.broken)}."
        )
    if not judged:
        return f"{history} was judged by no property: {report.contract} promises none that applies to it."
    return f"{history} keeps all {judged} properties judged, as {report.contract} promises."

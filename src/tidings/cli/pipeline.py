"""`tidings pipeline`: run, check and explain flows, which are TOML files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import console, print_json, say
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import SettingsError, require

if TYPE_CHECKING:
    from tidings.pipeline.flow_metrics import BatchMetrics
    from tidings.pipeline.flows import Flow

app_help = "Run, check and explain flows on Spark: TOML files of sources, matches and sinks."

File = Annotated[Path, typer.Argument(metavar="FILE", help="A flow: see docs/flows.md.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help=app_help)
    shown = examples(
        "tidings pipeline run alerts.toml --once",
        "tidings pipeline run alerts.toml --continuous --metrics-port 9100",
        "tidings pipeline run alerts.toml --once --set data=/srv/data --json",
    )
    group.command("run", epilog=shown)(run)
    group.command("check", epilog=examples("tidings pipeline check alerts.toml"))(check)
    shown = examples(
        "tidings pipeline explain alerts.toml", "tidings pipeline explain alerts.toml --as svg > alerts.svg"
    )
    group.command("explain", epilog=shown)(explain)
    app.add_typer(group, name="pipeline", help=app_help)


def run(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="Process the present input, then end.")] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Run until stopped.")] = False,
    set_: Set = None,
    metrics: Annotated[Path | None, typer.Option(help="Append a JSON line for each batch here.")] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=0, max=65535, help="Serve metrics for Prometheus here."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a flow: once, or until SIGINT or SIGTERM; it goes on where it left off.

    Without --once and --continuous a flow with schedules runs on, and one without ends.
    """
    if once and continuous:
        raise SettingsError("--once and --continuous exclude one another", hint="give one of them")
    flow = _read(file, set_)
    observers: list[Callable[[BatchMetrics], None]] = [_printer(as_json)]
    if metrics is not None:
        from tidings.pipeline.flow_metrics import JsonLinesMetrics

        observers.append(JsonLinesMetrics(metrics))
    with _prometheus(metrics_port) as serving:
        _run(flow, [*observers, *serving], once=once or not (continuous or flow.schedules))


def _run(flow: Flow, observers: list[Callable[[BatchMetrics], None]], *, once: bool) -> None:
    require("pyspark", "a flow that runs")
    from tidings.pipeline.flow_run import RunningFlow
    from tidings.pipeline.session import session

    running = RunningFlow(flow, session(quick=once), observers=observers)
    with _stopped_by(running.stop):
        say(f"The flow {flow.name} runs{' once' if once else '; stop it with Ctrl-C'}.")
        running.start(once=once).wait()
    say(f"The flow {flow.name} has ended. Its checkpoint is {flow.checkpoint}.")


@contextmanager
def _stopped_by(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask for a clean stop while the block runs."""
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _prometheus(port: int | None) -> Iterator[list[Any]]:
    if port is None:
        yield []
        return
    from tidings.pipeline.flow_metrics import PrometheusMetrics

    serving = PrometheusMetrics(port)
    say(f"Metrics: http://127.0.0.1:{serving.port}/metrics")
    try:
        yield [serving]
    finally:
        serving.close()


def _printer(as_json: bool) -> Callable[[BatchMetrics], None]:
    from tidings.pipeline import flow_metrics

    def show(batch: BatchMetrics) -> None:
        if as_json:
            print_json(flow_metrics.as_json(batch))
            sys.stdout.flush()
            return
        problems = f", {batch.problems:,} problems" if batch.problems else ""
        what = "was published before" if batch.replayed else (
            f"{batch.events:,} events, {batch.matches:,} matches{problems} in {batch.seconds:.2f} s"
        )  # fmt: skip
        console().print(f"{batch.match} batch {batch.batch} (subscriptions v{batch.version}): {what}")

    return show


def check(
    file: File,
    set_: Set = None,
    static: Annotated[
        bool, typer.Option("--static", help="Check only the file: start no Spark, open no source.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a flow without running it: keys, names, files, columns, filters."""
    flow = _read(file, set_)
    notes: list[str] = []
    if not static:
        require("pyspark", "a flow that is checked with its files")
        from tidings.pipeline.flow_run import check_flow
        from tidings.pipeline.session import session

        notes = check_flow(flow, session(quick=True))
    if as_json:
        print_json({"flow": flow.name, "notes": notes})
        return
    for note in notes:
        print(note)
    print(f"{file}: the flow {flow.name} is fine")


def explain(
    file: File,
    set_: Set = None,
    format: Annotated[str, typer.Option("--as", help="text, mermaid or svg.")] = "text",
    as_json: Json = False,
) -> None:
    """Show a flow's graph, its strategies and sizes."""
    from tidings.pipeline import flow_picture

    if format not in flow_picture.FORMATS:
        known = ", ".join(flow_picture.FORMATS)
        raise SettingsError(f"a picture cannot be {format!r}", hint=f"there are: {known}")
    flow = _read(file, set_)
    if as_json:
        print_json(flow_picture.as_json(flow))
        return
    draw = {"text": flow_picture.as_text, "mermaid": flow_picture.as_mermaid, "svg": flow_picture.as_svg}
    print(draw[format](flow))


def _read(file: Path, pairs: list[str] | None) -> Flow:
    from tidings.pipeline.flows import read_flow

    given: dict[str, str] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign:
            raise SettingsError(f"--set {pair!r} has no value", hint="write --set name=value")
        given[name] = value
    return read_flow(file, given)

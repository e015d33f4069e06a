"""`tidings bench NAME`: run a benchmark beside its peers and print the ratios.

A benchmark is a module `tidings_bench.NAME` with `run(...)`, which yields rows
{"work", "size", "engine", "figure", "unit", "ratio_to_best_peer"}. The parameters of `run` are the options of
a benchmark; any other option is an error that says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer

from tidings.cli.output import console, errors, print_json, say
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import InputError, require

BENCHES = {
    "broker": "a broker process beside mosquitto, NATS, Redis and amqtt, driven by load generators in C",
    "checks": "history checks on Spark beside the plain checker, rows a second",
    "client": "the Python client beside nats-py, redis-py, aiomqtt and aio-pika, each with its own server",
    "cost": "Python calls and allocations per event on each path, which no load of the machine changes",
    "filters": "from text to normal form, filters a second",
    "gateway": "MQTT beside mosquitto, aedes and amqtt; HTTP, WebSocket and SSE beside bare Starlette",
    "matching": "events a second against 10k to 1M subscriptions, beside installable peers",
    "meeting": "brokers and Spark together: reading, a round trip, an archive for late subscribers",
    "pipeline": "tables and streams on Spark, beside joins of Spark SQL, DuckDB and Polars",
    "quality": "the quality of a table on Spark: objects evaluated a second, first and again",
    "recovery": "what recovery costs while nothing is lost, events per CPU second",
    "simulator": "handled messages a second on a simulated network, beside SimPy",
    "store": "synced events a second, and what a restart costs",
}
PEERS = "tidings-bench[peers]"
NEEDS = {  # modules that a benchmark cannot do without; the extra `peers` brings them
    "matching": ("tidings_lab",),
    "quality": ("tidings_quality", "pyspark"),
    "recovery": ("tidings_lab",),
    "simulator": ("tidings_lab", "simpy"),
}
COLUMNS = ("work", "size", "engine", "figure", "unit", "ratio_to_best_peer")
Row = Mapping[str, Any]


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings bench filters",
        "tidings bench matching --quick --json",
        "tidings bench broker --only topic,durable --rounds 7",
        "tidings bench --list",
    )
    app.command("bench", epilog=shown)(bench)


def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which one; see --list.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every benchmark, one after the other.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name the benchmarks and what they measure.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: seconds instead of minutes.")] = False,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="WORKS", help="Some works of the benchmark, with commas between."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Draw the workload from this seed.")
    ] = None,
    subscriptions: Annotated[
        str | None,
        typer.Option("--subscriptions", metavar="FILE", help='Your own, as lines {"id", "filter"}.'),
    ] = None,
    events: Annotated[
        str | None, typer.Option("--events", metavar="FILE", help="Your own, as JSON lines.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", min=1, help="How many rows the workload has.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            metavar="N",
            min=1,
            help="Measure so often, the engines in turn; medians count (broker, client, gateway).",
        ),
    ] = None,
    plots: Annotated[
        str | None, typer.Option("--plots", metavar="FOLDER", help="Draw the costs there, as SVG.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the counts of `cost` to the table that its test reads.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run a benchmark beside its peers and print the ratios.

    Machines differ: compare by the ratio, which comes from one run on one machine.
    """
    if list_:
        _list(as_json)
        return
    if (name is None) is not all_:
        raise typer.BadParameter("give the NAME of a benchmark, or --all", param_hint="NAME")
    options = {
        "quick": quick or None,
        "only": only,
        "seed": seed,
        "subscriptions": subscriptions,
        "events": events,
        "rows": rows,
        "rounds": rounds,
        "plots": plots,
        "write": write or None,
    }
    given = {option: value for option, value in options.items() if value is not None}
    wanted = list(BENCHES) if all_ else [_known(str(name))]
    for chosen in wanted:  # told before any of them has run
        for module in NEEDS.get(chosen, ()):
            require(module, f"the benchmark {chosen}", brought_by=PEERS)
    for chosen in wanted:
        figures = _rows(chosen, given)
        if as_json:
            print_json({"bench": chosen, "rows": [_row(row) for row in figures]})
        else:
            _table(chosen, figures)


def _list(as_json: bool) -> None:
    if as_json:
        print_json({"benches": [{"bench": name, "measures": what} for name, what in BENCHES.items()]})
        return
    for name, what in BENCHES.items():
        print(f"{name:<10} {what}")


def _known(name: str) -> str:
    if name in BENCHES:
        return name
    near = get_close_matches(name, BENCHES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BENCHES)}"
    raise InputError(f"no benchmark is called {name!r}", hint=hint)


def _rows(name: str, given: Mapping[str, Any]) -> list[Row]:
    run: Callable[..., Iterable[Row]] = import_module(f"tidings_bench.{name}").run
    taken = inspect.signature(run).parameters
    for option in given:
        if option not in taken:
            raise InputError(f"the benchmark {name} takes no --{option}")
    rows: list[Row] = []
    with errors().status(f"bench {name} ...") if errors().is_terminal else _nothing() as status:
        for row in run(**given):
            rows.append(row)
            if status is not None:
                status.update(f"bench {name}: {row['work']} {row['size']} {row['engine']} done ...")
    return rows


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def _row(row: Row) -> dict[str, Any]:
    """Exactly the columns of the contract, in order."""
    return {column: row.get(column) for column in COLUMNS}


def _table(name: str, rows: Iterable[Row]) -> None:
    from rich.table import Table

    table = Table(title=f"bench {name}", title_justify="left", box=None, pad_edge=False)
    for column in ("work", "size", "engine", "figure", "unit", "ratio to best peer"):
        table.add_column(
            column, justify="right" if column in ("size", "figure", "ratio to best peer") else "left"
        )
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in COLUMNS))
    console().print(table)
    say("A ratio above 1 is better than the best peer in this run.")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""`tidings cluster`: a network of brokers on this machine, with one command.

For development: the brokers listen on loopback and ask nobody who they are.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli._output import Exit, console, print_json, say, say_error
from tidings.cli._remote import HOME
from tidings.cli._usage import JSON_HELP, examples

HISTORY_SECONDS = 180.0  # that the console judges


def register(app: typer.Typer) -> None:
    cluster = typer.Typer(
        help="Run a network of brokers on this machine, for development.\n\n"
        "The brokers are processes of their own, linked as a tree. Whoever is on this machine may use them.",
        no_args_is_help=True,
    )
    shown = examples("tidings cluster up 3", "tidings cluster up 5 --store data --port 7200 --json")
    cluster.command("up", epilog=shown)(up)
    app.add_typer(cluster, name="cluster")


def up(
    count: Annotated[int, typer.Argument(metavar="N", help="How many brokers.")] = 3,
    port: Annotated[
        int, typer.Option("--port", "-p", help="Of the first; the others follow. 0: free ones.")
    ] = 7117,
    store: Annotated[
        Path | None,
        typer.Option("--store", "-s", metavar="DIR", help="Keep events here; without it: memory."),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Metrics and health of each, at a free port.")] = False,
    gateway_http: Annotated[
        str | None,
        typer.Option("--gateway-http", metavar="HOST:PORT", help="HTTP and CloudEvents at the first broker."),
    ] = None,
    gateway_mqtt: Annotated[
        str | None, typer.Option("--gateway-mqtt", metavar="HOST:PORT", help="MQTT at the first broker.")
    ] = None,
    console: Annotated[
        str | None,
        typer.Option("--console-at", metavar="HOST:PORT", help="The web console at the first broker."),
    ] = None,
    with_console: Annotated[bool, typer.Option("--console", help="The same, at 127.0.0.1:7180.")] = False,
    system: Annotated[
        str, typer.Option("--system", help="How the brokers work together; see `tidings systems`.")
    ] = "tidings",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Start N brokers that form a tree; Ctrl-C ends them.

    With --json prints one line with all addresses when they can be reached.
    """
    from tidings.console.doors import LISTEN
    from tidings.runtime.cluster import Cluster

    pages = console or (LISTEN if with_console else None)
    said = {"gateway.http": gateway_http, "gateway.mqtt": gateway_mqtt, "console.listen": pages}
    first = {name: where for name, where in said.items() if where is not None}
    options: dict[str, Any] = {"program": "tidings.console.doors"} if first else {}
    every: dict[str, Any] = {"system": system}
    if pages:
        every["trace.history_seconds"] = HISTORY_SECONDS
    made = Cluster(count, port=port, store=store, http=http, first=first, said=every, **options)
    failed = asyncio.run(_up(made, as_json))
    if failed is not None:
        say_error(f"broker {failed} ended by itself; the others were stopped")
        raise typer.Exit(Exit.ENVIRONMENT)


async def _up(cluster: Any, as_json: bool) -> str | None:
    """Until a signal comes (None), or a broker ends by itself (its name)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    starting = asyncio.ensure_future(cluster.__aenter__())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return None
    starting.result()
    try:
        _show(cluster, as_json)
        ended = asyncio.ensure_future(cluster.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        failed = ended.result().name if ended.done() and not stop.is_set() else None
        ended.cancel()
    finally:
        stopping.cancel()
        if not as_json:
            say("stopping the brokers")
        await cluster.stop()
    return failed


def _show(cluster: Any, as_json: bool) -> None:
    rows = [
        {
            "broker": member.name,
            "address": member.address,
            "joins": member.joined,
            "http": member.http,
            "gateways": member.gateways,
            "process": member.process.pid,
        }
        for member in cluster.members
    ]
    if as_json:
        print_json({"address": cluster.address, "brokers": rows})
    else:
        for row in rows:
            joins = f", joined to {row['joins']}" if row["joins"] else ""
            http = f", metrics at {row['http']}/metrics" if row["http"] else ""
            console().print(f"broker {row['broker']} at {row['address']}{joins}{http}", soft_wrap=True)
            for protocol, where in row["gateways"].items():
                console().print(f"  {protocol} at {where}", soft_wrap=True)
        at = "" if rows[0]["address"] == HOME else f" --broker {rows[0]['address']}"
        say(f"try: tidings sub{at} --where 'change < -3'   and elsewhere: tidings pub{at} change=-4.5")
        say("Ctrl-C ends them")
    import sys

    sys.stdout.flush()

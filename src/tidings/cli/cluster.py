"""`tidings cluster`: a network of brokers on this machine, with one command.

For development: the brokers listen on loopback and authenticate no client.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.output import console, print_json, say
from tidings.cli.remote import HOME
from tidings.cli.usage import JSON_HELP, examples

HISTORY_SECONDS = 180.0  # that the console judges
GATEWAYS = ("gateway.http", "gateway.mqtt", "gateway.mqtt_websocket", "console.listen")  # of the first broker
CHOSEN = (
    "name", "listen", "advertise", "join", "peers", "store", "archive", "http", "group", "security", "tls"
)  # fmt: skip


def register(app: typer.Typer) -> None:
    cluster = typer.Typer(
        help="Run a network of brokers on this machine, for development.\n\n"
        "The brokers are processes of their own, linked as a tree. Every client on this machine "
        "may use them.",
        no_args_is_help=True,
    )
    shown = examples("tidings cluster up 3", "tidings cluster up 5 --store data --port 7200 --json")
    cluster.command("up", epilog=shown)(up)
    app.add_typer(cluster, name="cluster")


def up(
    count: Annotated[int, typer.Argument(metavar="N", help="Number of brokers.")] = 3,
    port: Annotated[
        int, typer.Option("--port", "-p", help="First port; the others follow. 0: free ones.")
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
        str | None,
        typer.Option("--system", help="How the brokers work together (tidings); see `tidings systems`."),
    ] = None,
    restart: Annotated[
        float,
        typer.Option("--restart", metavar="SECONDS", min=0, help="Delay before a killed broker restarts."),
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Start N brokers that form a tree; Ctrl-C ends them.

    A broker that is killed is started again after --restart seconds, at its address and on its disk;
    the others go on meanwhile. Settings in the environment count (TIDINGS_GATEWAY_HTTP, say); gateways
    are opened at the first broker. With --json prints one line with all addresses when they can be
    reached.
    """
    from tidings.console.listeners import LISTEN
    from tidings.runtime.cluster import Cluster

    every, first = _from_environment()
    pages = console or (LISTEN if with_console else None)
    fields = {"gateway.http": gateway_http, "gateway.mqtt": gateway_mqtt, "console.listen": pages}
    first |= {name: where for name, where in fields.items() if where is not None}
    options: dict[str, Any] = {"program": "tidings.console.listeners"} if first else {}
    if system is not None:
        every["system"] = system
    if first.get("console.listen"):
        every.setdefault("trace.history_seconds", HISTORY_SECONDS)
    made = Cluster(count, port=port, store=store, http=http, first=first, fields=every, **options)
    asyncio.run(_up(made, restart, as_json))


def _from_environment() -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of every broker, and of the first one, that the environment gives."""
    from tidings.runtime.settings import said_by, variable_of

    every: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for name, value in said_by(os.environ).items():
        if name.partition(".")[0] in CHOSEN:
            say(f"{variable_of(tuple(name.split('.')))} does not count here: `cluster up` chooses it itself")
        elif name in GATEWAYS:
            first[name] = value
        else:
            every[name] = value
    return every, first


async def _up(cluster: Any, restart: float, as_json: bool) -> None:
    """Until a signal comes."""
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
        return
    starting.result()
    keeping = None
    try:
        _show(cluster, as_json)
        keeping = asyncio.ensure_future(cluster.keep_running(say, restart))
        await stopping
    finally:
        stopping.cancel()
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        if not as_json:
            say("stopping the brokers")
        await cluster.stop()


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
            at = f"broker {row['broker']} at {row['address']} is process {row['process']}"
            console().print(f"{at}{joins}{http}", soft_wrap=True)
            for protocol, where in row["gateways"].items():
                console().print(f"  {protocol} at {where}", soft_wrap=True)
        at = "" if rows[0]["address"] == HOME else f" --broker {rows[0]['address']}"
        say(f"try: tidings sub{at} --where 'change < -3'   and elsewhere: tidings pub{at} change=-4.5")
        say(
            f"Ctrl-C ends them; kill -9 {rows[-1]['process']} shows how the others go on without "
            f"{rows[-1]['broker']}"
        )
    import sys

    sys.stdout.flush()

"""`tidings bridge`: carry events between a broker and another bus, until a signal stops it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli import remote
from tidings.cli.output import say
from tidings.cli.usage import JSON_HELP, examples


def register(app: typer.Typer) -> None:
    shown = examples("tidings bridge bridge.toml", "tidings bridge bridge.toml --check")
    app.command("bridge", epilog=shown)(bridge)


def bridge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The routes, as TOML; see docs/bridges.md.")],
    check: Annotated[bool, typer.Option("--check", help="Only check the file and print its routes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Carry events between a broker and NATS, Redis or MQTT.

    Routes go in both directions. A side that is away is tried again; no event is skipped.
    """
    from tidings.gateway.bridges.bridge import Bridge, BridgeSettings, read_bridge, side_of

    settings: BridgeSettings = read_bridge(file)
    for number, route in enumerate(settings.route):
        side_of(route, f"{settings.name}-{route.name or number}")
        line = {"route": route.name or str(number), "from": route.from_ or settings.broker}
        line |= {"to": route.to or settings.broker, "filter": route.filter}
        print(json.dumps(line) if as_json else f"{line['from']} -> {line['to']}  {route.filter}", flush=True)
    if check:
        return
    made = Bridge(settings, lambda name: remote.bus(settings.broker, name))
    try:
        asyncio.run(made.run())
    except KeyboardInterrupt:
        say(f"carried {made.carried}")

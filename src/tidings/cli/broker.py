"""`tidings broker`: run one broker until a signal stops it.

SIGTERM and SIGINT let it drain: what was taken in is answered, then it ends. SIGHUP reads the
settings and the users file again; when they are wrong the old ones stay.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import Exit, say
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import SettingsError

if TYPE_CHECKING:
    from tidings.runtime.server import Server
    from tidings.runtime.service import Service
    from tidings.runtime.settings import BrokerSettings


LEVEL = "TIDINGS_LOG_LEVEL"

DevOption = Annotated[
    bool,
    typer.Option("--dev", help="For development: every local client is admitted; loopback, no TLS."),
]
CertsOption = Annotated[
    Path | None,
    typer.Option(
        "--certs", metavar="DIR", help="TLS by NAME.pem, NAME.key and revoked.txt there (`tidings certs`)."
    ),
]
ConsoleOption = Annotated[
    bool, typer.Option("--console", help="Serve the web console, at 127.0.0.1:7180 by default.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Join this group: one replicated log.")
]
MembersOption = Annotated[
    str | None,
    typer.Option("--members", metavar="NAMES", help="Founding members, this broker included: d1,d2,d3."),
]


ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--processes", metavar="N", min=1, help="Brokers on this machine as one unit: one for each core."
    ),
]


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings broker --dev",
        "tidings broker --dev --name b2 --listen 127.0.0.1:7118 --join 127.0.0.1:7117",
        "tidings broker --config broker.toml",
        "tidings broker --name b1 --listen 127.0.0.1:7117 --store data --users users.toml",
        "tidings broker --config broker.toml --console",
        "tidings broker --config broker.toml --processes 4",
        "tidings broker --name b2 --certs certs --users users.toml --listen 127.0.0.1:7118 --join "
        "127.0.0.1:7117",
        "tidings broker --name d1 --certs certs --users users.toml --store d1 --group news "
        "--members d1,d2,d3",
    )
    app.command("broker", epilog=shown)(broker)


def broker(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings as TOML.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Name of this broker, unique in its network.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help="Address for clients and brokers."),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option("--join", "-j", metavar="HOST:PORT", help="A broker to link with; repeatable."),
    ] = None,
    group: GroupOption = None,
    members: MembersOption = None,
    store: Annotated[
        str | None,
        typer.Option("--store", "-s", metavar="DIR", help="Durable store; nats://…/NAME: JetStream."),
    ] = None,
    dev: DevOption = False,
    users: Annotated[
        Path | None, typer.Option("--users", "-u", metavar="FILE", help="Users and permissions, as TOML.")
    ] = None,
    certs: CertsOption = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Address of /metrics, /healthz, /readyz."),
    ] = None,
    gateway_http: Annotated[
        str | None,
        typer.Option("--gateway-http", metavar="HOST:PORT", help="Address of HTTP, CloudEvents, WebSocket."),
    ] = None,
    gateway_mqtt: Annotated[
        str | None, typer.Option("--gateway-mqtt", metavar="HOST:PORT", help="Address of MQTT 3.1.1 and 5.")
    ] = None,
    console: ConsoleOption = False,
    console_at: Annotated[
        str | None, typer.Option("--console-at", metavar="HOST:PORT", help="Serve the web console here.")
    ] = None,
    processes: ProcessesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run a broker.

    It prints its addresses as soon as it accepts connections, and ends on SIGTERM or Ctrl-C after answering
    all accepted requests. SIGHUP reads settings and users again. Every setting: tidings settings.
    """
    from tidings.console.listeners import LISTEN

    fields: dict[str, Any] = {
        "name": name,
        "listen": listen,
        "join": join or None,
        "group.name": group,
        "group.members": [name.strip() for name in members.split(",")] if members else None,
        "store": store,
        "security.users": str(users) if users else None,
        **(_development(config) if dev else {}),
        **(_certified(certs, name) if certs is not None else {}),
        "http": http,
        "processes": processes,
        "gateway.http": gateway_http,
        "gateway.mqtt": gateway_mqtt,
        "console.listen": console_at or (LISTEN if console else None),
    }
    stated = {key: value for key, value in fields.items() if value is not None}
    _serve(config, stated, certs=certs, as_json=as_json)


def _development(config: Path | None) -> dict[str, Any]:
    """Settings of a development broker: it admits every client and logs no audit, unless a level is set."""
    level = {} if config is not None or LEVEL in os.environ else {"log.level": "warning"}
    return {"security.anonymous": True, **level}


def _certified(folder: Path, name: str | None) -> dict[str, str]:
    """The TLS settings that a folder made by `tidings certs` gives a broker."""
    if name is None:
        raise SettingsError("--certs looks for NAME.pem", hint="name the broker by --name NAME")
    of = {"certificate": f"{name}.pem", "key": f"{name}.key", "authority": "authority.pem"}
    return {f"tls.{setting}": str(folder / file) for setting, file in of.items()}


def _serve(config: Path | None, fields: dict[str, Any], *, certs: Path | None = None, as_json: bool) -> None:
    from tidings.console.listeners import ConsoleGateways
    from tidings.runtime.authority import with_revoked
    from tidings.runtime.processes import refuse_store_of_unit
    from tidings.runtime.service import Service
    from tidings.runtime.settings import read_settings

    def read() -> BrokerSettings:
        return with_revoked(
            lambda stated: read_settings(config, environment=os.environ, fields=stated), fields, certs
        )

    settings = read()
    if settings.processes > 1:
        task = {"config": str(config) if config else None, "said": fields}
        _serve_unit(settings, task | {"certs": str(certs) if certs else None}, as_json=as_json)
        return
    refuse_store_of_unit(settings)
    run_service(Service(settings, again=read, gateways=ConsoleGateways), as_json=as_json)


def _serve_unit(settings: BrokerSettings, task: dict[str, Any], *, as_json: bool) -> None:
    """Serve as several processes until a signal comes; exit code 1 when a request was left unanswered."""
    from tidings.runtime import logs
    from tidings.runtime.process import run
    from tidings.runtime.processes import ProcessUnit
    from tidings.runtime.service import default_name

    name = settings.name or default_name(settings)
    logs.set_up(settings.log, name)

    def ready(unit: ProcessUnit) -> None:
        http = unit.http.address if unit.http is not None else None
        rows = [unit.processes[number] for number in sorted(unit.processes)]
        if as_json:
            line = {"broker": name, "address": unit.address, "http": http, "process": os.getpid()}
            parts = [{"broker": row.name, "process": row.process.pid, "address": row.address} for row in rows]
            print(json.dumps(line | {"gateways": rows[0].gateways, "processes": parts}), flush=True)
            return
        print(f"unit {name} of {len(rows)} processes listens at {unit.address}", flush=True)
        for row in rows:
            print(f"  broker {row.name} is process {row.process.pid}", flush=True)
        if http is not None:
            print(f"metrics and health at {http}", flush=True)
        for protocol, address in rows[0].gateways.items():
            print(f"{protocol}{'' if protocol == 'console' else ' gateway'} at {address}", flush=True)

    program = [sys.executable, "-m", "tidings.cli._unit_process"]

    async def serve() -> bool:
        return await ProcessUnit(settings, name, program, task).run(ready, say)

    if not run(serve()):
        say("a process ended with requests that were not answered; their publishers will ask again")
        raise typer.Exit(Exit.NO)


def run_service(service: Service, *, as_json: bool) -> None:
    """Serve until a signal comes; exit code 1 when a request was left unanswered."""
    from tidings.runtime.process import run

    def ready(server: Server) -> None:
        if service.settings.security.anonymous:
            say("development: every process on this machine may use this broker; loopback only, no TLS")
        if service.settings.group.name:
            say("group: its replicated log is experimental; docs/distributors.md names the production path")
        http = service.http.address if service.http is not None else None
        gateways = service.gateways.addresses if service.gateways is not None else {}
        if as_json:
            line = {"broker": server.name, "address": server.address, "http": http, "process": os.getpid()}
            print(json.dumps(line | {"gateways": gateways}), flush=True)
            return
        print(f"broker {server.name} listens at {server.address}", flush=True)
        if http is not None:
            print(f"metrics and health at {http}", flush=True)
        for protocol, address in gateways.items():
            print(f"{protocol}{'' if protocol == 'console' else ' gateway'} at {address}", flush=True)

    if not run(service.run(ready)):
        say("some publishes were not answered before the time was over; their publishers will ask again")
        raise typer.Exit(Exit.NO)

"""`tidings settings`: every setting of a broker, its value here, and what it means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.output import console, print_json
from tidings.cli.usage import JSON_HELP, examples


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings settings",
        "tidings settings --config broker.toml",
        "TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS=30 tidings settings --json",
    )
    app.command("settings", epilog=shown)(settings)


def settings(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings as TOML.")
    ] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Check them as `tidings broker --dev` does.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Print the settings of a broker, with their documentation.

    Each can stand in a TOML file (table.key) or in the environment; the environment wins. The values of the
    file and the environment are checked as the broker checks them.
    """
    from tidings.runtime.settings import BrokerSettings, described, read_settings

    requested = config is not None or any(name.startswith("TIDINGS_") for name in os.environ)
    found = (
        read_settings(
            config,
            environment=os.environ,
            fields={"security.anonymous": True} if dev else {},
            checked=config is not None,
        )
        if requested
        else BrokerSettings()
    )
    if as_json:
        print_json({"settings": [_row(setting) for setting in described(found)]})
        return
    _show(list(described(found)))


def _row(setting: Any) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": setting.value,
        "default": setting.default,
        "meaning": setting.note,
        "variable": setting.variable,
    }


def _show(settings: list[Any]) -> None:
    from rich.markup import escape

    out, table = console(), None
    for setting in settings:
        head = setting.name.rpartition(".")[0]
        if head != table:
            table = head
            out.print(f"\n[bold]{escape(f'[{head}]')}[/]" if head else "", soft_wrap=True)
        key = setting.name.rpartition(".")[2]
        mark = (
            "" if setting.value == setting.default else f"   [yellow](default: {_toml(setting.default)})[/]"
        )
        out.print(f"[cyan]{key}[/] = {escape(_toml(setting.value))}{mark}", soft_wrap=True)
        out.print(f"    [dim]{escape(setting.note)}. {setting.variable}[/]", soft_wrap=True)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "none" if value is None else str(value)

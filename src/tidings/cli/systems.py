"""`tidings systems`: the table of systems, each a composition."""

from __future__ import annotations

from typing import Annotated

import typer

from tidings.cli._output import console, print_json
from tidings.cli._usage import JSON_HELP, examples


def register(app: typer.Typer) -> None:
    app.command("systems", epilog=examples("tidings systems", "tidings systems --json"))(systems)


def systems(as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False) -> None:
    """List the systems: what each is composed of, and what it promises."""
    from tidings.systems import SYSTEMS

    rows = [system.row() for system in SYSTEMS]
    if as_json:
        print_json({"systems": rows})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    console().print(table)

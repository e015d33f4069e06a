"""`tidings systems`: the table of systems, each a composition; or one of them, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import console, print_json
from tidings.cli.usage import JSON_HELP, examples

if TYPE_CHECKING:
    from tidings.systems import System


def register(app: typer.Typer) -> None:
    shown = examples("tidings systems", "tidings systems siena", "tidings systems --json")
    app.command("systems", epilog=shown)(systems)


def systems(
    name: Annotated[str | None, typer.Argument(help="Show only this system.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List the systems with their composition and promises.

    With a name: when to choose it, its price, and the strategy in each slot.
    """
    from tidings.errors import ExtensionError
    from tidings.extensions import pass_over
    from tidings.systems import find_system
    from tidings.systems import systems as known

    if name is not None:
        reported = about(find_system(name))
        print_json(reported) if as_json else _print(reported)
        return
    rows = []
    for system in known():
        try:
            rows.append(system.row())
        except ExtensionError as error:
            pass_over(error)
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


def about(system: System) -> dict[str, Any]:
    """Everything that is known of a system."""
    choice = system.choice
    return {
        "system": system.name,
        "source": choice.source,
        "promise": system.promise,
        "take it when": choice.take,
        "its price": choice.price,
        "subscriptions": system.model,
        "links": system.graph,
        "for real": real(system, choice.command),
        "options": list(system.options),
        "composition": [
            {"slot": slot, "strategy": strategy, "about": sentence}
            for slot, strategy, sentence in system.composition()
        ],
        "try": f"tidings simulate {system.name}",
    }


def real(system: System, command: str) -> str:
    """Commands that run its brokers as processes, if they can be."""
    if command or system.networked:
        return command or f"TIDINGS_SYSTEM={system.name} tidings broker"
    return "in the simulator only"


def _print(reported: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in reported.items():
        if name == "composition":
            for part in value:
                table.add_row(part["slot"], f"{part['strategy']}: {part['about']}")
        else:
            table.add_row(name, ", ".join(value) or "none" if isinstance(value, list) else value)
    console().print(table)

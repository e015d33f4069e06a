"""`tidings admin`: an operator lists, inspects and ends what others own at a broker, and purges its log.

Every command needs the right `admin` (docs/security.md) and is written to the broker's audit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from tidings.cli import remote
from tidings.cli.output import one_line, print_json, print_table, show
from tidings.cli.usage import JSON_HELP, examples

Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name or number, as `tidings admin list` shows it.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Numbers = Annotated[
    list[int] | None, typer.Option("--number", metavar="N", help="Only this dead letter; repeatable.")
]


class AdministeredKind(StrEnum):
    """AdministeredKinds of things that an operator can list, inspect and end."""

    SUBSCRIPTION = "subscription"
    GROUP = "group"
    HOLD = "hold"
    WEBHOOK = "webhook"
    SESSION = "session"


class AdministeredKinds(StrEnum):
    """The same in the plural, as lists have them."""

    SUBSCRIPTIONS = "subscriptions"
    GROUPS = "groups"
    HOLDS = "holds"
    WEBHOOKS = "webhooks"
    SESSIONS = "sessions"


COLUMNS: dict[AdministeredKinds, tuple[str, ...]] = {
    AdministeredKinds.SUBSCRIPTIONS: (
        "subscription",
        "durable",
        "listeners",
        "waiting",
        "unacknowledged",
        "lost",
        "dead_letters",
    ),
    AdministeredKinds.GROUPS: (
        "subscription",
        "durable",
        "listeners",
        "waiting",
        "unacknowledged",
        "lost",
        "dead_letters",
    ),
    AdministeredKinds.HOLDS: ("name", "upto", "entries", "bytes", "ends_at"),
    AdministeredKinds.WEBHOOKS: ("id", "owner", "sink", "status"),
    AdministeredKinds.SESSIONS: (
        "session",
        "principal",
        "client",
        "method",
        "peer",
        "connected",
        "since",
        "published",
        "delivered",
    ),
}
TIMES = ("since", "ends_at", "died")


def register(app: typer.Typer) -> None:
    admin = typer.Typer(
        help="List, inspect and end what others own at a broker, and purge its log.\n\n"
        "Needs the right `admin`; every command is written to the broker's audit. See docs/operating.md.",
        no_args_is_help=True,
    )
    shown: dict[str, tuple[Any, tuple[str, ...]]] = {
        "list": (list_, ("tidings admin list subscriptions", "tidings admin list sessions --json")),
        "inspect": (
            inspect,
            ("tidings admin inspect subscription ann/alerts", "tidings admin inspect session 12"),
        ),
        "end": (
            end,
            ("tidings admin end subscription ann/alerts", "tidings admin end session 12 --yes"),
        ),
        "pins": (pins, ("tidings admin pins", "tidings admin pins --broker tidings://127.0.0.1:7118 --json")),
        "letters": (letters, ("tidings admin letters", "tidings admin letters ann/jobs --json")),
        "redeliver": (
            redeliver,
            ("tidings admin redeliver ann/jobs", "tidings admin redeliver ann/jobs --number 3"),
        ),
        "discard": (discard, ("tidings admin discard ann/jobs --number 3 --yes",)),
        "purge": (
            purge,
            (
                "tidings admin purge \"topic = 'tests/#'\" --dry",
                'tidings admin purge "TRUE" --upto 5000 --yes',
            ),
        ),
    }
    for name, (command, lines) in shown.items():
        admin.command(name, epilog=examples(*lines))(command)
    app.add_typer(admin, name="admin")


def list_(
    what: Annotated[AdministeredKinds, typer.Argument(help="What to list.")],
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """List subscriptions, consumer groups, holds, webhooks or sessions of a broker.

    Of a subscription: `listeners` are its connected consumers, `waiting` the events that no consumer was sent
    yet, `unacknowledged` those that were sent and not acknowledged, `lost` those that a queue policy or a
    bound dropped. An absent MQTT session takes some events ahead: they are unacknowledged, not waiting.

    Of a session: `connected` says whether a connection carries it now (an MQTT session stays while its device
    is away; a webhook has none), `since` is when that connection began, `published` counts the publishes of
    its client, and `delivered` the events that its subscriptions were sent.
    """
    found = _asked(broker, timeout, do="list", kind=what.value[:-1])
    if as_json:
        print_json(found)
        return
    _table(found["rows"], COLUMNS[what])
    if found["count"] > len(found["rows"]):
        show(f"{len(found['rows'])} of {found['count']}")


def inspect(
    kind: Annotated[AdministeredKind, typer.Argument(help="What it is.")],
    name: Name,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Show all that a broker knows of one of them, and which part of the log it pins."""
    found = _asked(broker, timeout, do="inspect", kind=kind.value, name=name)
    if as_json:
        print_json(found)
        return
    for field, value in found[kind.value].items():
        show(f"{field}: {_cell(field, value)}")
    for pin in found["pins"]:
        show(f"pins the log from offset {pin['offset']}")


def end(
    kind: Annotated[AdministeredKind, typer.Argument(help="What it is.")],
    name: Name,
    yes: Yes = False,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """End a subscription, consumer group, hold, webhook or session of another principal.

    A durable subscription gives up what it is owed. A client whose session ends may connect again.
    """
    _confirm(yes, f"end the {kind.value} {name}?")
    found = _asked(broker, timeout, do="end", kind=kind.value, name=name)
    print_json(found) if as_json else show(f"{kind.value} {name} at {found['broker']}: ended")


def pins(broker: remote.Broker = remote.HOME, timeout: remote.Timeout = 10.0, as_json: Json = False) -> None:
    """Show the oldest offset of a broker's log and who pins it, the lowest need first.

    A pin is a durable subscription, a hold, a lifetime that has not ended, a broker that has not acknowledged
    the offset, or a subscription that replays the log.
    Beside it the bytes of the store and the bytes that are free.
    """
    found = _asked(broker, timeout, do="pins")
    if as_json:
        print_json(found)
        return
    store = found["store"]
    show(
        f"log {found.get('log', '-')}: offsets {found.get('oldest', '-')} to {found.get('next', 1) - 1}, "
        f"{found.get('entries', 0)} events; store {store['bytes']} bytes, {store.get('room', '-')} free"
    )
    _table(found["pins"], ("offset", "kind", "name"))


def letters(
    name: Annotated[str, typer.Argument(metavar="[SUBSCRIPTION]", help="Whose; all by default.")] = "",
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Show how many dead letters each subscription has, or those of one."""
    found = _asked(broker, timeout, do="letters", name=name)
    if as_json:
        print_json(found)
        return
    columns = ("number", "died", "attempts", "reason", "event") if name else ("id", "letters", "bytes")
    if found["rows"]:
        _table(found["rows"], columns)
    else:
        show(f"{name} has no dead letters" if name else "no subscription has dead letters")


def redeliver(
    name: Name,
    number: Numbers = None,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Deliver dead letters to their subscription again; each stays until it is acknowledged."""
    found = _asked(broker, timeout, do="redeliver", name=name, numbers=number or [])
    print_json(found) if as_json else show(f"{found['subscription']}: {found['redelivered']} redelivered")


def discard(
    name: Name,
    number: Numbers = None,
    yes: Yes = False,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Discard dead letters of a subscription for good."""
    _confirm(yes, f"discard {'all' if not number else len(number)} dead letters of {name}?")
    found = _asked(broker, timeout, do="discard", name=name, numbers=number or [])
    print_json(found) if as_json else show(f"{found['subscription']}: {found['discarded']} discarded")


def purge(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="Which events; TRUE for all.")],
    upto: Annotated[
        int | None, typer.Option("--upto", metavar="OFFSET", help="None beyond this offset.")
    ] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Count them and purge none.")] = False,
    yes: Yes = False,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 60.0,
    as_json: Json = False,
) -> None:
    """Forget events of a broker's log, also those that durable subscriptions are owed.

    They end for every reader, as if they had expired. Other brokers' logs keep theirs.
    """
    about: dict[str, Any] = {"do": "purge", "filter": filter, **({} if upto is None else {"upto": upto})}
    if not dry and not yes:
        found = _asked(broker, timeout, **about, dry=True)
        _confirm(yes, f"purge {found['matches']} events of {found['broker']}?")
    found = _asked(broker, timeout, **about, dry=dry)
    if as_json:
        print_json(found)
    else:
        show(f"{found['broker']}: {found['matches']} events match, {found['purged']} purged")


def _asked(broker: str, timeout: float, **about: Any) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with remote.bus(broker, timeout=timeout) as bus:
            found: dict[str, Any] = await bus.inquire("admin", timeout=timeout, **about)
            return found

    return remote.run(ask())


def _confirm(yes: bool, question: str) -> None:
    if not yes:
        typer.confirm(question, abort=True, err=True)


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(_cell(column, row.get(column)))) for column in columns))
    print_table(table)


def _cell(field: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if field in TIMES and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_cell(name, each)}" for name, each in value.items())
    return str(value)

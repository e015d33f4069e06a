"""`tidings quality`: organisations that share data and hear when its quality changes."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tidings.cli.output import Exit, json_line, print_json, say, timestamp
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import MissingDependencyError, SettingsError, UnreachableError, install_command
from tidings_quality.cli.data import add_commands

if TYPE_CHECKING:
    from tidings.model.event import Event
    from tidings_quality.client import OrganisationClient
    from tidings_quality.service import OrganisationServer

T = TypeVar("T")

app_help = "Evaluate the quality of shared data, and receive its changes."

At = Annotated[
    str, typer.Option("--at", metavar="URL", help="The organisation's service.", envvar="TIDINGS_QUALITY")
]
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help=app_help)
    group.command("serve", epilog=examples("tidings quality serve inps.toml"))(serve)
    shown = examples(
        "tidings quality watch 'ON Enterprise/Holder WHERE name.accuracy <= medium' --at "
        "http://127.0.0.1:8801",
        "tidings quality watch 'ON Enterprise FROM INPS, INAIL' --as inps-and-inail --json --count "
        "10 --wait 60",
    )
    group.command("watch", epilog=shown)(watch)
    add_commands(group)
    app.add_typer(group, name="quality", help=app_help)


def serve(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The organisation's settings; see quality/docs/quality-notification.md."
        ),
    ],
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Instead of the file's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an organisation's notification service, until it is told to stop.

    It serves the organisation's users and its quality factory, and speaks with the other organisations.
    """
    import msgspec

    from tidings_quality.settings import read_settings

    settings = read_settings(file)
    if listen is not None:
        settings = msgspec.structs.replace(settings, listen=listen)
    try:
        from tidings_quality.service import OrganisationServer
    except ImportError as error:
        raise MissingDependencyError(
            f"an organisation's service needs {error.name}", hint=install_command("tidings[server]")
        ) from None
    asyncio.run(_serve(OrganisationServer(settings), as_json))


async def _serve(service: OrganisationServer, as_json: bool) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await service.start()
    try:
        name = service.settings.name
        print_json({"organisation": name, "address": service.address}) if as_json else print(
            f"{name} answers at {service.address}"
        )
        sys.stdout.flush()
        await stopped.wait()
    finally:
        await service.close()


def watch(
    subscription: Annotated[
        str, typer.Argument(metavar="SUBSCRIPTION", help="ON class FROM sources WHERE condition")
    ],
    at: At = "http://127.0.0.1:8800",
    user: Annotated[str, typer.Option("--user", help="Whose subscription it is.")] = "watch",
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Under this name you come back; else it ends with you."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="End after so many changes.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option("--wait", help="End with 1 when nothing came for so many seconds.")
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End the subscription --as, and print nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Hear of changes of quality, one line each.

    A change is acknowledged when its line was written. With --as changes that come while no reader watches
    are kept. TIDINGS_QUALITY_TOKEN (or TIDINGS_QUALITY_TOKEN_FILE) is what the organisation's users show, if
    anything.
    """
    from tidings_quality.client import OrganisationClient, local_token
    from tidings_quality.subscription import parse_subscription

    parse_subscription(subscription)  # report an error in it before the service is asked
    if end and name is None:
        raise SettingsError("which subscription is to end?", hint="give --as NAME")
    with OrganisationClient(at, token=local_token()) as client:
        if end and name is not None:
            client.unsubscribe(f"{user}.{name}")
            say(f"{user}.{name} is ended")
            return
        found = client.subscribe(subscription, user=user, name=name or f"until-{_nonce()}")
        _introduce(found)
        try:
            received = _print_all(client, found["id"], count, wait, as_json)
        finally:
            if name is None:
                client.unsubscribe(found["id"])
    if not received:
        raise typer.Exit(Exit.NO)


def _nonce() -> str:
    import secrets

    return secrets.token_hex(4)


def _introduce(found: dict[str, Any]) -> None:
    resumed = ", resumed" if found["resumed"] else ""
    say(f"watching {found['subscription']} as {found['id']}{resumed}; Ctrl-C ends it")
    if found["pending"]:
        say(f"  not delivered yet, retried: {', '.join(found['pending'])}")
    for producer, why in found["refused"].items():
        say(f"  {producer} refuses: {why}")


def _print_all(
    client: OrganisationClient, id: str, count: int | None, wait: float | None, as_json: bool
) -> bool:
    """True: enough was heard."""
    from tidings_quality.client import POLL_SECONDS

    received, after = 0, 0
    while count is None or received < count:
        limit = 100 if count is None else min(100, count - received)
        requested = POLL_SECONDS if wait is None else wait
        found = _tried(partial(client.notifications, id, after=after, limit=limit, wait=requested), wait)
        if not found and wait is not None:
            return False
        for number, event in found:
            sys.stdout.write(_line(number, event, as_json))
            sys.stdout.flush()
            after = number
            received += 1
            _tried(partial(client.acknowledge, id, number), wait)
    return True


def _tried(ask: Callable[[], T], wait: float | None) -> T:
    """Repeat a request until the organisation answers: it may be about to restart."""
    end = None if wait is None else time.monotonic() + wait
    pause = 0.1
    while True:
        try:
            return ask()
        except UnreachableError as error:
            if end is not None and time.monotonic() >= end:
                raise
            if pause == 0.1:
                say(f"{error.message}; it is tried again")
            time.sleep(pause)
            pause = min(2 * pause, 5.0)


def _line(number: int, event: Event, as_json: bool) -> str:
    from tidings_quality.model import change_of

    change = change_of(event)
    if as_json:
        fields = {
            "number": number, "id": event.id, "class": change.data_class, "source": change.source,
            "object": change.object, "property": change.property, "dimension": change.dimension,
            "value": change.value, "before": change.before, "values": change.values,
            "time": None if change.time is None else timestamp(change.time),
        }  # fmt: skip
        return json_line(fields)
    before = "" if change.before is None else f" (was {change.before:.2f})"
    level = event.get("change.level")
    return (
        f"{change.source} {change.data_class} {change.object}: {change.attribute()} is {change.value:.2f}, "
        f"{level}{before}\n"
    )

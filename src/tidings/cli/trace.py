"""`tidings trace`: the path of an event, broker by broker, and why a subscription did not receive it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidings.cli import remote
from tidings.cli.output import Exit, console, one_line, print_json
from tidings.cli.usage import JSON_HELP, examples
from tidings.runtime.delivery_verdict import explain_elsewhere, why

WORDS = {
    "published": "published by",
    "received": "received from",
    "sent": "sent to",
    "delivered": "handed to",
    "withheld": "withheld by the rules from",
}


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings trace quote-17",
        "tidings trace quote-17 --source market --subscription ann/alerts",
        "tidings trace quote-17 --broker tidings://127.0.0.1:7118 --json",
    )
    app.command("trace", epilog=shown)(trace)


def trace(
    event: Annotated[str, typer.Argument(metavar="EVENT_ID", help="The event's id.")],
    source: Annotated[
        str | None, typer.Option("--source", help="The event's source, if several sources use this id.")
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(
            "--subscription", "-s", metavar="SUBSCRIBER/NAME", help="Explain why this one did not receive it."
        ),
    ] = None,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Show the path of an event, broker by broker, and why a subscription did not receive it.

    Queries one broker, then its neighbours in turn. Each remembers the last events that it saw
    (setting trace.events). The exit code is 1 when no broker remembers this one.
    """
    about = {"id": event, "source": source, "subscription": subscription}
    found = remote.run(remote.walk(broker, "trace", timeout=timeout, **about))
    explain_elsewhere(found)
    verdict = why(found, subscription) if subscription else None
    if as_json:
        print_json({"event": event, "brokers": found, "verdict": verdict})
    else:
        _show(event, found, verdict)
    if not any(one.get("steps") for one in found):
        raise typer.Exit(Exit.NO)


def _show(event: str, found: list[dict[str, Any]], verdict: str | None) -> None:
    from rich.markup import escape

    out = console()
    for one in found:
        if "problem" in one:
            out.print(
                f"[bold]{one['broker']}[/] could not be asked: {escape(one['problem'])}", soft_wrap=True
            )
            continue
        if not one["steps"]:
            reach = one["ring"]["seconds"]
            memory = f"; it remembers the last {reach:g} s" if reach is not None else ""
            out.print(f"[bold]{one['broker']}[/] did not see {escape(event)}{memory}", soft_wrap=True)
        else:
            out.print(f"[bold]{one['broker']}[/] at {one['address']}", soft_wrap=True)
        for step in one["steps"]:
            reported = f" as {step['subscription']}" if step["subscription"] else ""
            how = f" by {step['how']}" if step["how"] else ""
            line = f"  {_clock(step['time'])}  {WORDS[step['what']]} {step['peer']}{reported}{how}"
            out.print(escape(line), soft_wrap=True)
        _show_wanted(one)
    if verdict is not None:
        for one in found:
            text = one.get("subscription", {}).get("explanation")
            if text:
                out.print(escape(text), style="cyan", soft_wrap=True)
        out.print(escape(verdict), style="bold", soft_wrap=True)


def _show_wanted(one: dict[str, Any]) -> None:
    wanted = one.get("wanted")
    if wanted is None:
        return
    here = ", ".join(wanted["subscriptions"]) or "no subscription here"
    behind = ", ".join(link for link, is_wanted in wanted["links"].items() if is_wanted) or "no link"
    shown = one_line(f"accepted by {here}; wanted over {behind}")
    console().print(f"  {shown}", markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]

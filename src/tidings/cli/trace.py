"""`tidings trace`: what happened to an event, broker by broker, and why somebody did not hear it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidings.cli import _remote
from tidings.cli._output import Exit, console, print_json
from tidings.cli._usage import JSON_HELP, examples

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
        str | None, typer.Option("--source", help="Its source, when several have events of this id.")
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option("--subscription", "-s", metavar="SUBSCRIBER/NAME", help="Why did this one not hear it?"),
    ] = None,
    broker: _remote.Broker = _remote.HOME,
    timeout: _remote.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Tell what happened to an event, broker by broker, and why somebody did not hear it.

    One broker is asked, then its neighbours, and theirs. Each remembers the last events that it saw
    (setting trace.events). The exit code is 1 when no broker remembers this one.
    """
    about = {"id": event, "source": source, "subscription": subscription}
    found = _remote.run(_remote.walk(broker, "trace", timeout=timeout, **about))
    explain_elsewhere(found)
    verdict = why(found, subscription) if subscription else None
    if as_json:
        print_json({"event": event, "brokers": found, "verdict": verdict})
    else:
        _show(event, found, verdict)
    if not any(one.get("steps") for one in found):
        raise typer.Exit(Exit.NO)


def explain_elsewhere(found: list[dict[str, Any]]) -> None:
    """Where the broker that holds the subscription did not see the event: explain it here."""
    from tidings.language import parse_filter
    from tidings.matching.explain import explain
    from tidings.model.cloudevents import from_mapping

    events = [one["event"] for one in found if one.get("event")]
    for one in found:
        held = one.get("subscription")
        if events and held and held["is_here"] and held["accepts"] is None:
            story = explain(from_mapping(events[0]), parse_filter(held["filter"], dialect=held["dialect"]))
            held |= {"accepts": story.accepted, "explanation": str(story)}


def why(found: list[dict[str, Any]], subscription: str) -> str:
    """One sentence, from what all brokers say."""
    holders = [one for one in found if one.get("subscription", {}).get("is_here")]
    seen = [one for one in found if one.get("steps")]
    if not seen:
        return "no broker that was asked remembers the event"
    if not holders:
        return f"no broker that was asked holds the subscription {subscription}"
    holder = holders[0]
    if holder.get("steps"):
        return f"{subscription} at {holder['broker']}: {holder['subscription']['why']}"
    if holder["subscription"]["accepts"] is False:
        return f"{subscription} at {holder['broker']}: its filter does not accept the event"
    return f"it never came to {holder['broker']}, which holds {subscription}: {_not_sent(found, holder['broker'])}"


def _not_sent(found: list[dict[str, Any]], holder: str) -> str:
    """The broker that saw it and stands nearest to the holder on the tree."""
    links = {one["broker"]: sorted(one.get("links", {})) for one in found}
    seen = {one["broker"]: one for one in found if one.get("steps")}
    came: dict[str, str] = {holder: holder}
    order = [holder]
    for here in order:
        if here in seen:
            step = came[here]
            wanted = (seen[here].get("wanted") or {}).get("links", {}).get(step)
            reason = (
                "it is wanted there now, so the subscription is younger than the event"
                if wanted
                else f"nothing that {here} knows of behind {step} accepts it"
            )
            return f"{here} did not send it to {step}; {reason}"
        for there in links.get(here, ()):
            if there not in came:
                came[there] = here
                order.append(there)
    return "no linked broker saw it"


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
            told = f" as {step['subscription']}" if step["subscription"] else ""
            how = f" by {step['how']}" if step["how"] else ""
            line = f"  {_clock(step['time'])}  {WORDS[step['what']]} {step['peer']}{told}{how}"
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
    console().print(f"  accepted by {here}; wanted over {behind}", markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]

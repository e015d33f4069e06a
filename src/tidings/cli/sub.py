"""`tidings sub`: subscribe, and print each event as it comes.

An event is committed when its line has been written: a durable subscription that is ended by
Ctrl-C hears on its return what was not printed.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import typer

import tidings
from tidings.algebra import can_match
from tidings.cli import remote
from tidings.cli.filter import Strict, warn_of
from tidings.cli.output import Exit, json_line, say, timestamp
from tidings.cli.usage import JSON_HELP, Dialect, examples
from tidings.errors import SettingsError
from tidings.language import parse_filter
from tidings.language.doubts import doubts_of, refuse_doubtful


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings sub --where \"StockName = 'IBM' AND change < -3\"",
        "tidings sub --topic 'quotes/#' --as alerts --durable --json",
        "tidings sub --where 'change < -3' --count 10 --wait 60 --cloudevents",
    )
    app.command("sub", epilog=shown, context_settings=remote.NO_WORDS)(sub)


def sub(
    context: typer.Context,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", metavar="FILTER", help="Events to receive; repeatable: any filter."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="A pattern with + and #.")] = None,
    type: Annotated[str | None, typer.Option("--type", help="A type; its subtypes count too.")] = None,
    subscription: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The subscription's name, to resume it."),
    ] = None,
    durable: Annotated[
        bool, typer.Option("--durable", help="Keep events while disconnected; needs --as.")
    ] = False,
    group: Annotated[
        str | None, typer.Option("--group", help="Consumer group that shares the events.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="First replay available events, or only new ones.")
    ] = True,
    count: Annotated[int | None, typer.Option("--count", "-c", help="End after so many events.")] = None,
    wait: Annotated[
        float | None, typer.Option("--wait", help="End with 1 when no event came for so many seconds.")
    ] = None,
    end: Annotated[
        bool, typer.Option("--end", help="End the durable subscription --as without output.")
    ] = False,
    cloudevents: Annotated[
        bool, typer.Option("--cloudevents", help="Print CloudEvents as JSON lines.")
    ] = False,
    dialect: Annotated[
        Dialect, typer.Option("--dialect", "-d", help="Dialect of the filter: tidings or cesql.")
    ] = Dialect.TIDINGS,
    strict: Strict = False,
    broker: remote.Broker = remote.HOME,
    name: remote.Name = "",
    timeout: remote.CallTimeout = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Subscribe, and print each event as it comes.

    With --json each line can be read by tidings pub and tidings match. Ctrl-C ends it; a durable
    subscription stays until it is ended by --end.
    """
    remote.refuse_words(context.args, otherwise='a filter is given by --where "WORD"')
    if (durable or end) and not subscription:
        raise SettingsError("a durable subscription needs a name", hint="give --as NAME")
    options: dict[str, Any] = {"name": subscription, "topic": topic, "type": type, "group": group}
    options |= {"durable": durable or end or None, "replay": replay, "dialect": dialect.value}
    wanted = _any_of(where or [])
    if wanted is not None:  # report a bad filter before dialling the broker
        made = parse_filter(wanted, dialect=dialect.value)
        matches = can_match(made)
        if strict:
            refuse_doubtful(made, can_match=matches)
        if not made.is_never_true:  # the broker refuses that
            warn_of(doubts_of(made, can_match=matches))
    bus = remote.bus(broker, name, timeout=timeout)
    shown = "cloudevents" if cloudevents else "json" if as_json else "text"
    client_subscription = _SubscribeRun(options, wanted, count=count, wait=wait, shown=shown)
    found = remote.run(client_subscription.end(bus) if end else client_subscription.run(bus))
    if not found:
        raise typer.Exit(Exit.NO)


def _any_of(filters: list[str]) -> str | None:
    return filters[0] if len(filters) == 1 else " OR ".join(f"({text})" for text in filters) or None


class _SubscribeRun:
    def __init__(
        self,
        options: dict[str, Any],
        wanted: str | None,
        *,
        count: int | None,
        wait: float | None,
        shown: str,
    ) -> None:
        self._options = {name: value for name, value in options.items() if value is not None}
        self._wanted = () if wanted is None else (wanted,)
        self._count = count
        self._wait = wait
        self._shown = shown

    async def run(self, bus: tidings.Bus) -> bool:
        """True: it ended because enough events were received."""
        async with bus, bus.subscribe(*self._wanted, **self._options) as listener:
            if self._shown == "text":
                say(f"listening as {listener.id}{', resumed' if listener.resumed else ''}; Ctrl-C ends it")
            received = 0
            while self._count is None or received < self._count:
                try:
                    event = await listener.get(timeout=self._wait)
                except TimeoutError:
                    return False
                sys.stdout.write(_line(event, self._shown))
                sys.stdout.flush()
                await listener.ack()
                await asyncio.sleep(0)
                received += 1
        return True

    async def end(self, bus: tidings.Bus) -> bool:
        async with bus:
            listener = await bus.subscribe(*self._wanted, **self._options)
            was_there = listener.resumed
            await listener.unsubscribe()
        say(f"{listener.id} is ended" if was_there else f"there was no subscription {listener.id}")
        return was_there


def _line(event: tidings.Event, shown: str) -> str:
    if shown == "cloudevents":
        from tidings.model.cloudevents import to_structured

        return to_structured(event).decode() + "\n"
    if shown == "json":
        return json_line(plain(event))
    from tidings.model.textual import json_ready

    where = f" {event.topic}" if event.topic else ""
    kind = f" {event.type[0]}" if event.type else ""
    return f"{event.id}{where}{kind} {json_line(json_ready(event.attributes, is_finite=False))}"


def plain(event: tidings.Event) -> dict[str, Any]:
    """As `tidings pub` and `tidings match` read it: the event's own names beside its attributes."""
    own: dict[str, Any] = {"id": event.id, "source": event.source, "topic": event.topic}
    own |= {"type": list(event.type) or None, "time": timestamp(event.time) if event.time else None}
    from tidings.model.event import DATA, RESERVED
    from tidings.model.textual import json_ready

    body: dict[str, Any] = json_ready(event.attributes, is_finite=False)
    shadowed = {name: body.pop(name) for name in RESERVED if name in body}
    if shadowed:
        inner = body.get(DATA)
        body[DATA] = shadowed | (inner if isinstance(inner, dict) else {} if inner is None else {DATA: inner})
    return {name: value for name, value in own.items() if value is not None} | body

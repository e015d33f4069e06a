"""`tidings pub`: publish events, from the command line, a file or standard input.

A line without an id is numbered by this client, so publishing a file twice publishes its events
twice; a line with an id is published once, however often it is sent.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, NamedTuple

import typer

import tidings
from tidings.cli import remote
from tidings.cli.events import STDIN, batches, to_publish, whole_event
from tidings.cli.output import Exit, print_json, say, say_error, show_error
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import EventError, InputError, SettingsError, TidingsError
from tidings.model.event import Event
from tidings.protocol.messages import AckMode

MEANT = "events in files are given by --file FILE, and a filter is for `tidings sub --where`"
IN_FLIGHT = 256  # publishes that wait for their acknowledgement at once
MISSPELT = {"true": "true", "false": "false", "null": "null", "none": "null"}  # words of JSON, in lower case


class CommandEvent(NamedTuple):
    """One event to publish: its attributes, and the options that it gives itself."""

    attributes: dict[str, Any]
    options: dict[str, Any]


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings pub StockName=IBM change=-4.5 --topic quotes/ibm",
        "tidings pub StockName=IBM change=-4.5 --id quote-17",
        "tidings pub --file quotes.jsonl --lifetime 3600",
        "tail -f quotes.jsonl | tidings pub --broker tidings://127.0.0.1:7118 --json",
    )
    app.command("pub", epilog=shown)(pub)


def pub(
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="One event's attributes; a value is JSON, else text."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE", help="Events as JSON lines; - is standard input."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Topic of events that name none.")
    ] = None,
    type: Annotated[str | None, typer.Option("--type", help="Type of events that name none.")] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="Id of the event given as NAME=VALUE: retries publish it only once."),
    ] = None,
    lifetime: Annotated[
        str, typer.Option("--lifetime", help="Seconds to keep it for later subscribers, or forever.")
    ] = "0",
    key: Annotated[str | None, typer.Option("--key", help="Supersede older events of this key.")] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="When it is acknowledged: auto, 'best effort' or kept.")
    ] = "auto",
    broker: remote.Broker = remote.HOME,
    name: remote.Name = "",
    timeout: remote.CallTimeout = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Publish events.

    Without attributes and files, events are read from standard input: JSON lines, plain objects or
    CloudEvents. Ends when every event is acknowledged; prints the id of a single one, with --json one
    receipt for each. The exit code is 2 when a line was no event or was refused; the others are still
    published.
    """
    if id is not None and not attributes:
        raise SettingsError("--id names one event, and events are read", hint='give each line its own "id"')
    options = {
        "topic": topic,
        "type": type,
        "key": key,
        "mode": mode,
        "lifetime": _seconds(lifetime),
        "id": id,
    }
    if mode not in list(AckMode):
        raise SettingsError(f"--mode is {mode!r}", hint=f"one of {', '.join(map(repr, map(str, AckMode)))}")
    publisher = _Publisher(options, as_json=as_json)
    events = iter([_typed(attributes)]) if attributes else _read(files or [STDIN], publisher)
    remote.run(publisher.run(remote.bus(broker, name, timeout=timeout), events))
    publisher.finish()


def _seconds(text: str) -> float:
    if text == "forever":
        return tidings.FOREVER
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--lifetime is {text!r}: give seconds, or forever") from None


def _typed(words: list[str]) -> list[CommandEvent]:
    """One event from NAME=VALUE words."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if "://" in name or not equals or not name:
            meant = f"give the address by --broker {word}" if remote.looks_like_address(word) else MEANT
            raise SettingsError(f"{word!r} is not NAME=VALUE", hint=meant)
        if name != name.strip():
            meant = f"write {shlex.quote(f'{name.strip()}={text.strip()}')}" if name.strip() else MEANT
            raise EventError(f"the name {name!r} has a space at an end", hint=meant)
        given[name] = _value(name, text)
    return [_draft(given, whole_event(given))]


def _value(name: str, text: str) -> Any:
    """JSON, else text; a warning for text that is a word of JSON but for its spelling."""
    try:
        return json.loads(text)
    except RecursionError:
        raise EventError(f"attribute {name!r} is nested too deeply") from None
    except ValueError:
        meant = MISSPELT.get(text.lower())
        if meant is not None:
            say(f"warning: {name}={text} is published as the text {text!r}; as JSON it is {name}={meant}")
        return text


def _read(files: list[str], publisher: _Publisher) -> Iterator[list[CommandEvent]]:
    """As many events at once as are there: a line that is typed or piped is published at once."""
    for file in files:
        name = "standard input" if file == STDIN else file
        for batch in batches(file):
            yield list(_drafts(batch, name, publisher))


def _drafts(batch: list[tuple[int, str]], name: str, publisher: _Publisher) -> Iterator[CommandEvent]:
    for number, text in batch:
        if text.strip():
            try:
                yield _draft(*to_publish(text, f"{name}, line {number + 1}"))
            except InputError as error:
                publisher.failed(error)


class _Publisher:
    """Publishes in order, many at once, and counts."""

    def __init__(self, options: dict[str, Any], *, as_json: bool) -> None:
        self._options = {name: value for name, value in options.items() if value is not None}
        self._as_json = as_json
        self._published = 0
        self._last_id = ""
        self._failed = 0

    async def run(self, bus: tidings.Bus, events: Iterator[list[CommandEvent]]) -> None:
        async with bus:
            waiting: deque[asyncio.Task[tidings.Receipt]] = deque()
            try:
                async for requested in _without_blocking(events):
                    options = self._options | requested.options
                    waiting.append(asyncio.ensure_future(bus.publish(requested.attributes, **options)))
                    while waiting and (len(waiting) >= IN_FLIGHT or waiting[0].done()):
                        await self._finish_one(waiting.popleft())
                while waiting:
                    await self._finish_one(waiting.popleft())
            finally:  # the connection is gone for good, or Ctrl-C: the other answers are not awaited
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)

    async def _finish_one(self, task: asyncio.Task[tidings.Receipt]) -> None:
        try:
            receipt = await task
        except (tidings.errors.UnreachableError, tidings.ClosedError):
            raise
        except TidingsError as error:
            self.failed(error)
            return
        self._published += 1
        self._last_id = receipt.id
        if self._as_json:
            index = receipt.position
            position = None if index is None else {"log": index.log, "offset": index.offset}
            print_json({"source": receipt.source, "id": receipt.id, "position": position})
            sys.stdout.flush()

    def failed(self, error: TidingsError) -> None:
        self._failed += 1
        show_error(error)

    def finish(self) -> None:
        if not self._as_json and self._published == 1:
            say(f"published 1 event, {self._last_id}")
        elif not self._as_json:
            say(f"published {self._published} events")
        if self._failed:
            say_error(f"{self._failed} could not be published")
            raise typer.Exit(Exit.BAD_INPUT)


def _draft(given: dict[str, Any], event: Event) -> CommandEvent:
    """The draft of an object's event; it has only the options that the object gives itself."""
    own = {
        "topic": event.topic,
        "type": event.type or None,
        "time": event.time,
        "payload": event.payload,
        "content_type": event.content_type,
        "key": event.key,
        "expires": event.expires,
        "lifetime": event.lifetime or None,
        "id": event.id if given.get("id") is not None else None,
        "source": event.source if given.get("source") is not None else None,
    }
    return CommandEvent(event.attributes, {name: value for name, value in own.items() if value is not None})


async def _without_blocking(events: Iterator[list[CommandEvent]]) -> AsyncIterator[CommandEvent]:
    """Lines are read in a thread, so that acknowledgements are received while standard input is silent."""
    loop = asyncio.get_running_loop()
    while (batch := await loop.run_in_executor(None, next, events, None)) is not None:
        for requested in batch:
            yield requested

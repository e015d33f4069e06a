"""`tidings peer`: one peer of a network without brokers; it prints received events and publishes those that
it reads."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import Exit, json_line, print_json, say, show_error
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import InputError, TidingsError

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus
    from tidings.runtime.peer import PeerBroker


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings peer --topic a/b --listen 127.0.0.1:7200",
        "tidings peer --topic a/b --join 127.0.0.1:7200 --json",
        "tidings peer --topic a --join 127.0.0.1:7200 --publish events.jsonl",
    )
    app.command("peer", epilog=shown)(peer)


def peer(
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Subscribe to this topic and all below; repeatable."),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option("--join", "-j", metavar="HOST:PORT", help="Address of a running peer; repeatable."),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", "-l", metavar="HOST:PORT", help="Address for other peers (UDP); port 0: any."
        ),
    ] = "127.0.0.1:0",
    publish: Annotated[
        str | None,
        typer.Option("--publish", "-p", metavar="FILE", help="Events as JSON lines; - is standard input."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-c", help="End after so many events.")] = None,
    wait: Annotated[
        float | None, typer.Option("--wait", help="End with 1 when no event came for so many seconds.")
    ] = None,
    wanted: Annotated[
        float,
        typer.Option(
            "--reliability", help="Probability of full delivery; sets the fan-out by the measured loss."
        ),
    ] = 0.999,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run a peer: gossip over topics, without brokers.

    Prints its address first, for others to join, then each event that it receives. Events that it publishes
    without a topic are of its first topic. Delivery is probable, not certain. Ctrl-C ends it and notifies its
    peers.
    """
    from tidings.runtime.bus import Bus
    from tidings.runtime.peer import PeerBroker

    if not 0.0 < wanted < 1.0:
        raise typer.BadParameter(f"--reliability is {wanted}: give a number between 0 and 1")
    options = {"gossip": {"wanted": wanted}, "tables": {"wanted": wanted}}
    broker = PeerBroker(listen=listen, join=join or [], options=options)
    run = _PeerRun(broker, tuple(topic or ()), publish, count, wait, as_json=as_json)
    if not asyncio.run(run.go(Bus(broker, "peer"))):
        raise typer.Exit(Exit.NO)


class _PeerRun:
    def __init__(
        self, broker: PeerBroker, topics: tuple[str, ...], source: str | None, count: int | None,
        wait: float | None, *, as_json: bool,
    ) -> None:  # fmt: skip
        self._broker, self._topics, self._source = broker, topics, source
        self._count, self._wait, self._as_json = count, wait, as_json

    async def go(self, bus: Bus) -> bool:
        """True: it ended because enough events were received, or all were published."""
        async with bus:
            if self._as_json:
                print_json({"peer": self._broker.name, "topics": list(self._topics)})
            else:
                say(f"peer {self._broker.name}; others come with --join {self._broker.name}; Ctrl-C ends it")
            sys.stdout.flush()
            publishing = asyncio.ensure_future(self._publish(bus))
            try:
                if self._topics:
                    return await self._listen(bus)
                await publishing
                return True
            finally:
                publishing.cancel()
                await asyncio.gather(publishing, return_exceptions=True)

    async def _listen(self, bus: Bus) -> bool:
        wanted = " OR ".join(f"topic MATCHES '{_below(topic)}'" for topic in self._topics)
        received = 0
        async with bus.subscribe(wanted) as listener:
            while self._count is None or received < self._count:
                try:
                    event = await listener.get(timeout=self._wait)
                except TimeoutError:
                    return False
                sys.stdout.write(_line(event, as_json=self._as_json))
                sys.stdout.flush()
                await listener.ack()
                received += 1
        return True

    async def _publish(self, bus: Bus) -> None:
        from tidings.cli.events import lines, to_publish

        if self._source is None:
            return
        reading = lines(self._source)
        while (found := await asyncio.to_thread(next, reading, None)) is not None:
            number, text = found
            if not text.strip():
                continue
            try:
                _, event = to_publish(text, f"line {number + 1}")
                topic = event.topic or (self._topics[0] if self._topics else None)
                await bus.publish(event.attributes, topic=topic, type=event.type or None)
            except (InputError, TidingsError) as error:
                show_error(error)


def _below(topic: str) -> str:
    return "#" if topic == "/" else f"{topic}/#"


def _line(event: Any, *, as_json: bool) -> str:
    from tidings.cli.sub import plain
    from tidings.model.textual import json_ready

    return (
        json_line(plain(event))
        if as_json
        else f"{event.id} {event.topic} {json_line(json_ready(event.attributes, is_finite=False))}"
    )

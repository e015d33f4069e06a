"""The acts of `tidings demo`, on the public API alone.

The expected deliveries are computed beside the broker, by plain Python conditions; an act claims
only results on which the two agree.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import tidings
from tidings.cli._console_act import console
from tidings.cli._meeting_act import spark_acts
from tidings.cli._network_act import network
from tidings.cli.stage import Stage

IBM_FALLS = "StockName = 'IBM' AND change < -3"
M_RISES = "StockName LIKE 'M%' AND change >= 1"
HISTORY = "history.jsonl"
STORE = "store"
SILENCE = 0.2  # seconds without an event, after which a subscriber counts as drained
PATIENCE = 60.0  # seconds to wait for an event that is owed, on a loaded machine
T_SUB = 0.0  # an embedded broker knows a subscription when `subscribe` returns
T_DIFF = SILENCE / 2  # and every subscription of the acts lasts longer than this after a publish
KILL_AFTER = 60  # acknowledged events; then the child is ended in mid-stream


class DemoPerson(NamedTuple):
    name: str
    filter: str
    wants: Callable[[dict[str, Any]], bool]  # the same condition in plain Python


PEOPLE = (
    DemoPerson("ann", IBM_FALLS, lambda q: q["StockName"] == "IBM" and q["change"] < -3),
    DemoPerson("bob", M_RISES, lambda q: q["StockName"].startswith("M") and q["change"] >= 1),
    DemoPerson("eve", "TRUE", lambda q: True),
)
QUOTES: tuple[dict[str, Any], ...] = (
    {"StockName": "IBM", "change": -4.5},
    {"StockName": "MSFT", "change": 2.0},
    {"StockName": "MSFT", "change": 0.5},
    {"StockName": "IBM", "change": -1.0},
    {"StockName": "MOT", "change": 1.0},
    {"StockName": "ORCL", "change": -6.0},
    {"StockName": "IBM", "change": -3.0},
)


def shown(quote: Any) -> str:
    return f"{quote['StockName']} {quote['change']:+g}"


async def who_receives_what(stage: Stage, folder: Path) -> None:
    """Acts one and two, recorded as one history."""
    async with tidings.connect(record=folder / HISTORY, name="market") as bus:
        await content(stage, bus)
        await late(stage, bus)


async def content(stage: Stage, bus: tidings.Bus) -> None:
    stage.act(
        "Content filters",
        "Three subscribers state what they want; a market publishes quotes.",
        gain="Subscribe by content: you receive the events that you want, and no others",
    )
    stage.table(("subscriber", "filter"), [(person.name, person.filter) for person in PEOPLE])
    clients = [await bus.client(person.name) for person in PEOPLE]
    listeners = [await c.subscribe(p.filter, name="quotes") for c, p in zip(clients, PEOPLE, strict=True)]
    for quote in QUOTES:
        await bus.publish(quote)
    delivered = await asyncio.gather(*(taken(listener) for listener in listeners))
    received = [[shown(event) for event in events] for events in delivered]
    stage.table(
        ("quote", *(person.name for person in PEOPLE)),
        [(shown(q), *("received" if shown(q) in h else "" for h in received)) for q in QUOTES],
    )
    wanted = [[shown(quote) for quote in QUOTES if person.wants(quote)] for person in PEOPLE]
    total = sum(map(len, received))
    stage.claim(
        f"{total} notifications of {len(QUOTES)} quotes: every one that was asked for, in order, once",
        received == wanted,
        short=f"{total} notifications, each asked for, none missing, none twice",
    )
    for client in clients:
        await client.close()


async def taken(listener: tidings.Listener[tidings.Event], least: int = 0) -> list[tidings.Event]:
    """All events that can be received now: `least` events, however long a slow disk takes, and the rest."""
    events: list[tidings.Event] = []
    try:
        while True:
            events.append(await listener.get(timeout=SILENCE if len(events) >= least else PATIENCE))
    except TimeoutError:
        return events


async def late(stage: Stage, bus: tidings.Bus) -> None:
    stage.act(
        "A late subscriber catches up",
        "A publisher says for how long an event stays available to those who come later.",
        gain="Come late and still get the news: events stay available for a lifetime",
    )
    stated = ((0, "0"), (60, "60 seconds"), (tidings.FOREVER, "forever"))
    for lifetime, note in stated:
        await bus.publish({"StockName": "DEC", "change": 9.0, "note": note}, lifetime=lifetime)
    async with bus.client("carol") as carol:
        async with carol.subscribe("StockName = 'DEC'", name="history") as listener:
            first = [str(event["note"]) for event in await taken(listener)]
        async with carol.subscribe("StockName = 'DEC'", name="history") as listener:
            again = await taken(listener)
    stage.table(
        ("lifetime of an event that came before carol", "carol received it"),
        [(note, "yes" if note in first else "no") for _, note in stated],
    )
    stage.claim(
        f"a late subscriber receives the {len(first)} events that are still available, and no other",
        first == ["60 seconds", "forever"],
        short=f"{len(first)} of {len(stated)} earlier events caught up with",
    )
    stage.claim("a subscriber that returns under the same name receives nothing twice", not again)


async def why_not(stage: Stage, folder: Path) -> None:
    del folder
    bob = PEOPLE[1]
    event = tidings.make_event(QUOTES[2], source="market", id="quote-3")
    stage.act(
        "Why did bob not receive it?",
        f"bob wants {bob.filter}; the quote was {shown(QUOTES[2])}.",
        gain="Ask why an event did not match: the answer names the constraint",
    )
    story = tidings.explain(event, tidings.parse_filter(bob.filter))
    stage.say(str(story), style="cyan")
    failing = [part.wanted for way in story.conjunctions for part in way.constraints if not part.held]
    stage.claim(
        "an explanation names the one constraint that failed",
        failing == ["change >= 1"],
        short="bob: change >= 1 failed",
    )


async def killed_and_resumed(stage: Stage, folder: Path) -> None:
    stage.act(
        "A durable subscriber is killed and comes back",
        "A child process publishes into a store on disk and listens to it. It is killed without warning.",
        gain="Survive kill -9: acknowledged events stay, and a durable subscriber resumes",
    )
    acknowledged, received, positions = await child(folder / STORE)
    stage.say(f"killed: {len(acknowledged)} events acknowledged, {len(received)} received before the end")
    since = tidings.Position(*positions[-1]) if positions else None
    owed = len(set(acknowledged) - set(received))
    async with (
        tidings.connect(path=folder / STORE, name="desk") as bus,
        bus.subscribe("n > 0", name="alerts", durable=True, since=since) as listener,
    ):
        after = [event.id for event in await taken(listener, least=owed)]
    stage.say(f"resumed: {len(after)} more received in a new process")
    counts = Counter(received + after)
    missing = [id for id in acknowledged if id not in counts]
    repeated = [id for id, count in counts.items() if count > 1]
    stage.claim(
        f"kill -9 lost none of {len(acknowledged)} acknowledged events",
        bool(acknowledged) and not missing,
        short=f"{len(acknowledged)} acknowledged events survived kill -9",
    )
    stage.claim(
        f"the subscriber resumed at event {len(received) + 1}, without a gap and without a repeat",
        received + after == sorted(counts, key=lambda id: int(id[1:])) and not missing and not repeated,
        short=f"{len(after)} events received after the restart, without gap or repeat",
    )


async def child(store: Path) -> tuple[list[str], list[str], list[tuple[str, int]]]:
    """Run the child until enough is acknowledged, kill it by its own process id, read what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidings.cli._demo_child", str(store), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged: list[str] = []
    received: list[str] = []
    positions: list[tuple[str, int]] = []
    async for line in process.stdout:
        what, *rest = line.decode().split()
        if what == "acknowledged":
            acknowledged.append(rest[0])
        else:
            received.append(rest[0])
            positions.append((rest[1], int(rest[2])))
        if len(acknowledged) == KILL_AFTER:
            os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    return acknowledged, received, positions


async def judged(stage: Stage, folder: Path) -> None:
    from tidings.history.check import check

    stage.act(
        "The history is judged",
        "All that happened in the first two acts was recorded, row by row.",
        gain="Trust by checking: what happened is recorded and judged by formal properties",
    )
    history = folder / HISTORY
    report = check(history, t_sub=T_SUB, t_diff=T_DIFF)
    stage.table(
        ("property", "verdict"),
        [
            (name, "holds" if verdict.holds else f"broken: {verdict.story}")
            for name, verdict in report.verdicts.items()
            if verdict.holds is not None  # promised, and of a kind that this history can show
        ],
    )
    rows = history.read_text().splitlines(keepends=True)
    holding = [name for name, verdict in report.verdicts.items() if verdict.holds]
    stage.claim(
        f"{len(holding)} properties hold over {len(rows)} recorded rows",
        "completeness" in holding and not report.broken,
        short=f"{len(holding)} properties hold over {len(rows)} rows of history",
    )
    forged = folder / "forged.jsonl"
    first = next(number for number, row in enumerate(rows) if '"ntfy"' in row)
    forged.write_text("".join(rows[:first] + rows[first + 1 :]))
    verdict = check(forged, t_sub=T_SUB, t_diff=T_DIFF)
    stage.say(f"With one notification taken out of the history: {verdict.story or 'nothing is noticed'}")
    stage.claim(
        "a history that lacks one notification is rejected",
        verdict["completeness"].holds is False,
        short="a forged history is rejected",
    )


Act = Callable[[Stage, Path], Awaitable[None]]
ACTS: tuple[Act, ...] = (who_receives_what, why_not, killed_and_resumed, judged, network, console, spark_acts)

"""`tidings top`: the brokers of a network at work, once or again and again."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer

from tidings.cli import remote
from tidings.cli.output import Exit, console, print_json
from tidings.cli.usage import JSON_HELP, examples

# heading -> the figure, and whether it is shown as so many a second
COLUMNS = {
    "published": ("published", False),
    "/s": ("published", True),
    "delivered": ("delivered", False),
    "/s ": ("delivered", True),
    "subs": ("subscriptions", False),
    "waiting": ("waiting", False),
    "log": ("entries", False),
    "clients": ("connections", False),
    "refused": ("refused by rule", False),
}
TEXTS = ("broker", "address", "links")
DISPENSABLE = ("refused", "log", "address", "clients", "waiting", "published", "delivered", "subs")
GAP = 2  # spaces between two columns
LINKS_WIDTH = 12  # narrower than this, links wrap


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings top", "tidings top --broker tidings://127.0.0.1:7118", "tidings top --once --json"
    )
    app.command("top", epilog=shown, context_settings=remote.NO_WORDS)(top)


def top(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="Interval of polls.")] = 1.0,
    broker: remote.Broker = remote.HOME,
    timeout: remote.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Watch the brokers of a network at work.

    Queries one broker, then its neighbours in turn; so all linked brokers are shown. With --json
    prints {"brokers": [figures of each]} each time. On a narrow terminal some columns are left out. A broker
    that does not answer is shown with its problem, and the exit code of --once is then 1.
    """
    remote.refuse_words(
        context.args, otherwise="it watches a whole network; options: --once, --every, --broker"
    )
    if once:
        found = remote.run(remote.walk(broker, "figures", timeout=timeout))
        _print(found, as_json)
        if any("problem" in one for one in found):
            raise typer.Exit(Exit.NO)
        return
    remote.run(_watch(broker, timeout, max(every, 0.1), as_json))


def _print(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"brokers": found})
    else:
        console().print(_table(found, {}, 0.0))


async def _watch(broker: str, timeout: float, every: float, as_json: bool) -> None:
    from rich.live import Live

    before: dict[str, dict[str, Any]] = {}
    last = time.monotonic()
    if as_json:
        while True:
            _print(await remote.walk(broker, "figures", timeout=timeout), as_json)
            await asyncio.sleep(every)
    with Live(console=console(), auto_refresh=False, screen=console().is_terminal) as live:
        while True:
            found = await remote.walk(broker, "figures", timeout=timeout)
            now = time.monotonic()
            live.update(_table(found, before, now - last), refresh=True)
            before, last = {one["broker"]: one for one in found}, now
            await asyncio.sleep(every)


def _table(found: list[dict[str, Any]], before: dict[str, dict[str, Any]], seconds: float) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    troubles: list[str] = []
    rows: list[dict[str, str]] = []
    for one in found:
        name, problems = one["broker"], one.get("problems", {})
        troubles += [f"{name}: {why}" for why in (*problems.values(), *filter(None, [one.get("problem")]))]
        row = {"broker": name, "address": one["address"].removeprefix("tidings://")}
        for heading, (figure, rate) in COLUMNS.items():
            row[heading] = _cell(one, before.get(name), figure, rate, seconds)
        rows.append(row | {"p99": _slowest(one), "links": ", ".join(sorted(one.get("links", ())))})
    table = Table(box=None, pad_edge=False)
    shown = _fitting(rows, console().width)
    for heading in shown:
        is_text = heading in TEXTS
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading != "links")
    for row in rows:
        table.add_row(*(row[heading] for heading in shown))
    return Group(table, *(Text(trouble, style="red") for trouble in troubles))


def _fitting(rows: list[dict[str, str]], width: int) -> list[str]:
    """The columns that fit side by side; the dispensable ones are left out first. Links may wrap."""
    shown = ["broker", "address", *COLUMNS, "p99", "links"]
    for dispensable in DISPENSABLE:
        wide = {name: max(len(name), *(len(row[name]) for row in rows)) for name in shown}
        wide["links"] = min(wide["links"], LINKS_WIDTH)
        if sum(wide.values()) + GAP * (len(shown) - 1) <= width:
            break
        shown.remove(dispensable)
    return shown


def _slowest(one: dict[str, Any]) -> str:
    """Within what time 99 of 100 publishes were acknowledged, since the broker runs."""
    from tidings.runtime.histogram import quantile

    seconds = quantile(one.get("seconds to acknowledge", {}).get("buckets", []), 0.99)
    return "-" if seconds is None else f"{1000 * seconds:g}ms" if seconds < float("inf") else ">10s"


def _cell(one: dict[str, Any], before: dict[str, Any] | None, figure: str, rate: bool, seconds: float) -> str:
    value = one.get(figure)
    if not isinstance(value, int | float):
        return "-"
    if not rate:
        return f"{value:,}"
    if before is None or not seconds or not isinstance(before.get(figure), int | float):
        return "-"
    return f"{(value - before[figure]) / seconds:,.0f}"

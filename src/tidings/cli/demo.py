"""`tidings demo`: the product at work on one screen, ending in a line that says how much was proved.

The acts (`_acts.py`) use the public API alone. Every claim is counted, not assumed: a
claim that does not hold is shown, and the command ends with 1.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.output import Exit, console, print_json, say_error
from tidings.cli.stage import DemoClaim, Stage, side_by_side
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import InputError, require


def register(app: typer.Typer) -> None:
    app.command(
        "demo",
        epilog=examples(
            "tidings demo", "tidings demo --details", "tidings demo --console", "tidings demo --json"
        ),
    )(demo)


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Keep the histories and the store in this directory."),
    ] = None,
    with_console: Annotated[
        bool, typer.Option("--console", help="Leave the acts out: run five brokers and their web console.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Show each step with its tables and proofs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Show what Tidings does for you, on one screen, in one to two minutes.

    Each line names a gain and the counts that prove it; `--details` shows every step. Ten acts: content
    filters, a late subscriber, an explanation, a subscriber that is killed and comes back, the recorded
    history judged by the properties, three broker processes of which one is killed, the web console of a
    network, and (where Spark is installed) a table of events matched on Spark, events that go from brokers
    through Spark and back, with a late subscriber caught up from an archive, and three organisations that
    share dirty data. Ends with 1 if a claim fails.
    """
    began = time.monotonic()
    stage = Stage(console(), silent=as_json, details=details)
    if with_console:
        from tidings.cli._console_act import stay
        from tidings.console.listeners import LISTEN

        asyncio.run(stay(stage, LISTEN))
        return
    require("rocksdict", "the act with a store on disk")  # here, before any act is shown, not by its child
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="tidings-demo-") as folder:
            asyncio.run(_play(stage, Path(folder)))
    else:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise InputError(f"{keep} is not empty", hint="name a new directory")
        asyncio.run(_play(stage, keep))
    finish(stage, time.monotonic() - began, as_json)


async def _play(stage: Stage, folder: Path) -> None:
    from tidings.cli._acts import ACTS
    from tidings.cli._meeting_act import spark_acts

    with nullcontext() if stage.details else _set_aside(stage):
        plain = [act for act in ACTS if act is not spark_acts]

        async def without_spark(stage: Stage) -> None:
            for act in plain:
                await act(stage, folder)

        beside = [partial(spark_acts, folder=folder)] if spark_acts in ACTS else []
        await side_by_side(stage, [without_spark, *beside])  # Spark starts meanwhile


@contextmanager
def _set_aside(stage: Stage) -> Iterator[None]:
    """Keep standard error of this process and its children off the one screen; show it when an act fails.

    Brokers and Spark warn there of kills and reconnects, which the acts cause on purpose.
    """
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        is_well = False
        try:
            yield
            is_well = all(claim.holds for claim in stage.claims)
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
            if not is_well:
                aside.seek(0)
                sys.stderr.write(aside.read().decode(errors="replace"))


def finish(stage: Stage, seconds: float, as_json: bool) -> None:
    if as_json:
        print_json({"seconds": round(seconds, 1), "claims": [_claim(claim) for claim in stage.claims]})
    else:
        stage.bow(seconds)
    for claim in stage.claims:
        if not claim.holds:
            say_error(f"this did not hold: {claim.text}")
    if not all(claim.holds for claim in stage.claims):
        raise typer.Exit(Exit.NO)


def _claim(claim: DemoClaim) -> dict[str, Any]:
    return {"claim": claim.text, "holds": claim.holds}

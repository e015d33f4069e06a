"""`tidings doctor`: check what a broker needs, and say what to do."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli import remote
from tidings.cli.output import Exit, print_json
from tidings.cli.usage import JSON_HELP, examples

if TYPE_CHECKING:
    from tidings.runtime.checkup import Finding


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings doctor",
        "tidings doctor --config broker.toml",
        "tidings doctor --config broker.toml --broker tidings://127.0.0.1:7117 --json",
    )
    app.command("doctor", epilog=shown)(doctor)


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings of the broker to check.")
    ] = None,
    broker: Annotated[
        str | None, typer.Option("--broker", "-b", metavar="ADDRESS", help="A running broker to ask too.")
    ] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Check as for `tidings broker --dev`.")] = False,
    timeout: remote.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Check what a broker needs, and say what to do.

    Looks at versions, limits and the clock of this machine; with --config at settings, users,
    certificates, the disk and the neighbours; with --broker at all brokers of a running network (right
    `observe`). The exit code is 1 when there is a problem.
    """
    from tidings.runtime.checkup import OK, PROBLEM

    found = _findings(config, broker, timeout, dev)
    if as_json:
        rows = [finding._asdict() for finding in found]
        print_json({"ok": not any(row["state"] == PROBLEM for row in rows), "findings": rows})
    else:
        for finding in found:
            print(f"{finding.state:<8} {finding.check}: {finding.finding}")
            if finding.do and finding.state != OK:
                print(f"         -> {finding.do}")
    if any(finding.state == PROBLEM for finding in found):
        raise typer.Exit(Exit.NO)


def _findings(config: Path | None, broker: str | None, timeout: float, dev: bool) -> list[Finding]:
    from tidings.errors import TidingsError
    from tidings.runtime import checkup
    from tidings.runtime.settings import read_settings

    found = list(checkup.look_at_machine())
    if config is not None:
        try:
            fields = {"security.anonymous": True} if dev else {}
            settings = read_settings(config, environment=os.environ, fields=fields)
        except TidingsError as error:
            found.append(checkup.Finding("settings", checkup.PROBLEM, error.message, error.hint or ""))
        else:
            found += checkup.look_at_settings(settings)
            found += asyncio.run(checkup.look_at_neighbours(settings))
    if broker is not None:
        try:
            answers = remote.run(remote.walk(broker, "figures", timeout=timeout))
        except TidingsError as error:
            found.append(checkup.Finding("brokers", checkup.PROBLEM, error.message, error.hint or ""))
        else:
            found += checkup.look_at_brokers(answers, datetime.now(UTC))
    return found

"""`tidings simulate --wide`: seeds of the wide world, each with sizes, limits, clocks, disks and faults of
its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import typer

from tidings.cli.output import Exit, console, print_json
from tidings.errors import SettingsError

if TYPE_CHECKING:
    from tidings.simulation.wide.running import WideOutcome

WIDE_HELP = "The wide world: the seed draws system, sizes, limits, clocks, disks and faults."


def run_wide(seeds: Iterable[int], system: str | None, as_json: bool) -> None:
    """Run seeds one after the other; ends with 1 when a promise is broken."""
    from tidings.runtime.client_ingress import ClientIngress
    from tidings.simulation.wide.drawing import SYSTEMS
    from tidings.simulation.wide.running import run_seed

    if system not in (None, *SYSTEMS):
        raise SettingsError(f"the wide world has no {system}", hint=f"it has: {', '.join(SYSTEMS)}")
    outcomes = []
    for seed in seeds:
        outcome = run_seed(seed, ClientIngress, system=system)
        outcomes.append(outcome)
        if not as_json:
            _show(outcome)
    if as_json:
        print_json([msgspec.to_builtins(outcome) for outcome in outcomes])
    elif len(outcomes) > 1:
        _sum_up(outcomes)
    if any(outcome.broken for outcome in outcomes):
        raise typer.Exit(Exit.NO)


def _show(outcome: WideOutcome) -> None:
    verdict = f"[red]broken[/]: {outcome.broken}" if outcome.broken else "[green]holds[/]"
    console().print(
        f"seed {outcome.seed}, {outcome.system}: {outcome.published} published, {outcome.acked} "
        "acknowledged, "
        f"{outcome.delivered} delivered, {sum(outcome.faults.values())} faults, "
        f"{outcome.fingerprint}: {verdict}"
    )


def _sum_up(outcomes: list[WideOutcome]) -> None:
    met: Counter[str] = Counter()
    fired: Counter[str] = Counter()
    for outcome in outcomes:
        met.update(outcome.met.keys())
        fired.update(outcome.faults.keys())
    broken = sum(bool(outcome.broken) for outcome in outcomes)
    console().print(f"{len(outcomes)} seeds, {broken} broken")
    console().print("seeds that met each limit: " + _counts(met))
    console().print("seeds in which each fault acted: " + _counts(fired))


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"

"""Seeds of the wide world, with the gate of the runtime before every broker."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.runtime.client_ingress import ClientIngress
from tidings.simulation.wide.drawing import LEAST
from tidings.simulation.wide.running import WideOutcome, run_seed

TROUBLED_IN = 0.9  # of the seeds at least `LEAST` faults act


def run(seed: int, *, system: str | None = None, keyed: bool = True, returning: bool = True) -> WideOutcome:
    return run_seed(seed, ClientIngress, system=system, keyed=keyed, returning=returning)


def are_troubled(faults: Sequence[int]) -> bool:
    """Did at least `LEAST` faults act in nearly every seed, by their numbers? In a single seed fewer may act,
    since some of those that are drawn hit a broker that is down already."""
    return sum(count >= LEAST for count in faults) >= max(1.0, TROUBLED_IN * len(faults))

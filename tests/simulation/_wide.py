"""Seeds of the wide world, with the gate of the runtime before every broker."""

from __future__ import annotations

from tidings.runtime.client_ingress import ClientIngress
from tidings.simulation.wide.running import WideOutcome, run_seed


def run(seed: int, *, system: str | None = None, keyed: bool = True, returning: bool = True) -> WideOutcome:
    return run_seed(seed, ClientIngress, system=system, keyed=keyed, returning=returning)

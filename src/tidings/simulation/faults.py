"""Faults by name: what may go wrong in a simulated run, scripted or drawn from a seed.

Two sorts. *Rates* act on every message between brokers while they are on (loss, duplication,
reordering, corruption). *Incidents* begin at a moment and end at another (crash, stop,
partition, slow link, clock skew, disk trouble). A plan is a value: the same plan and the same
seed give the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.extensions import offered
from tidings.simulation.topology import OverlayGraph

LOSS = "loss"
DUPLICATION = "duplication"
REORDERING = "reordering"
CORRUPTION = "corruption"
CRASH = "crash"  # restarts with its disk
DISK_LOSS = "disk-loss"  # restarts with an empty disk
STOP = "stop"  # stands still, then goes on where it was
PARTITION_HALVES = "partition-halves"
PARTITION_RING = "partition-ring"  # each node reaches some neighbours, and no node reaches all
PARTITION_ONE_WAY = "partition-one-way"
ISOLATE_ONE = "isolate-one"
SLOW_LINK = "slow-link"
CLOCK_SKEW = "clock-skew"  # jumps under a running machine, and stays
CLOCK_JUMP = "clock-jump"  # restarts with its wall clock set back or forward
CLOCK_DRIFT = "clock-drift"  # runs too fast or too slow for a while
DISK_FULL = "disk-full"  # takes no event for a while
SYNC_FAILURE = "sync-failure"  # its disk fails at the next sync; it is started again

RATES = (LOSS, DUPLICATION, REORDERING, CORRUPTION)
INCIDENTS = (
    CRASH, DISK_LOSS, STOP, PARTITION_HALVES, PARTITION_RING, PARTITION_ONE_WAY, ISOLATE_ONE, SLOW_LINK,
    CLOCK_SKEW,
)  # fmt: skip
WIDER = (CLOCK_JUMP, CLOCK_DRIFT, DISK_FULL, SYNC_FAILURE)  # drawn when they are named
RESTARTS = (CRASH, DISK_LOSS, CLOCK_JUMP)  # gone with what it had not synced, and started again
OF_ONE = (*RESTARTS, STOP, CLOCK_SKEW, CLOCK_DRIFT, DISK_FULL, SYNC_FAILURE)  # hit one machine
GROUP = "tidings.faults"


class OwnFault(msgspec.Struct, frozen=True):
    """A fault of the group `tidings.faults`: two functions of (simulation, incident). It hits one machine."""

    begin: Callable[[Any, Any], None]
    end: Callable[[Any, Any], None]


def incident_kinds() -> tuple[str, ...]:
    """Every fault that begins and ends: the product's own, then those of installed extensions."""
    return (*INCIDENTS, *WIDER, *own_faults())


def own_faults() -> list[str]:
    """The faults of installed extensions."""
    return offered(GROUP, (*RATES, *INCIDENTS, *WIDER))


class Rates(msgspec.Struct, frozen=True):
    """Chances per message between brokers."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0  # held back by up to `reorder_seconds`
    corruption: float = 0.0  # one bit flips; the codec notices and the message is gone
    reorder_seconds: float = 0.5

    def __post_init__(self) -> None:
        for name in RATES:
            rate = getattr(self, name)
            if not 0.0 <= rate <= 1.0:
                raise SettingsError(f"{name} is {rate}", hint="a rate is between 0 and 1")

    @property
    def any(self) -> bool:
        return bool(self.loss or self.duplication or self.reordering or self.corruption)


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that begins at `at` and ends at `until`."""

    kind: str
    at: float
    until: float
    nodes: tuple[str, ...] = ()  # affected nodes
    cut: tuple[tuple[str, str], ...] = ()  # directed pairs that cannot talk
    amount: float = 0.0  # seconds by which a clock is set, its drift, or how many times slower

    def __post_init__(self) -> None:
        if self.kind not in incident_kinds():
            known = ", ".join(incident_kinds())
            raise SettingsError(f"no fault is called {self.kind!r}", hint=f"there are: {known}")
        if self.until < self.at:
            raise SettingsError(f"the fault {self.kind} ends at {self.until}, before it begins at {self.at}")


class FaultPlan(msgspec.Struct, frozen=True):
    """All that goes wrong in one run."""

    rates: Rates = Rates()
    incidents: tuple[Incident, ...] = ()
    rates_until: float = float("inf")  # a run has to become quiet before it is judged

    @property
    def over_at(self) -> float:
        """End of the last fault."""
        ends = [incident.until for incident in self.incidents]
        if self.rates.any:
            ends.append(self.rates_until)
        return max(ends, default=0.0)


NO_FAULTS = FaultPlan()


def halves(nodes: Sequence[str], rng: Random) -> tuple[tuple[str, str], ...]:
    """A random half cannot talk to the other."""
    order = list(nodes)
    rng.shuffle(order)
    middle = max(1, len(order) // 2)
    return _both_ways(order[:middle], order[middle:])


def isolated(node: str, nodes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return _both_ways([node], [other for other in nodes if other != node])


def ring_cut(nodes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Every node talks to the next ones round a ring only: majorities, but each sees another one."""
    count = len(nodes)
    reach = max(1, count // 4)
    return tuple(
        (nodes[a], nodes[b])
        for a in range(count)
        for b in range(count)
        if a != b and min((a - b) % count, (b - a) % count) > reach
    )


def _both_ways(some: Sequence[str], others: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for a in some for b in others for pair in ((a, b), (b, a)))


class FaultMix(msgspec.Struct, frozen=True, kw_only=True):
    """Faults that may be drawn for a seed."""

    kinds: tuple[str, ...] = RATES + INCIDENTS
    incidents: int = 10  # at least this many a run
    rate_up_to: float = 0.2
    longest: float = 5.0  # seconds an incident lasts at most


def drawn(overlay: OverlayGraph, rng: Random, *, until: float, mix: FaultMix | None = None) -> FaultPlan:
    """A plan drawn at random, all over by `until`."""
    mix = mix or FaultMix()
    chances = {
        kind: rng.uniform(0.0, mix.rate_up_to) for kind in RATES if kind in mix.kinds and rng.random() < 0.5
    }
    everything = incident_kinds()
    between = set(INCIDENTS) - set(OF_ONE)
    possible = everything if overlay.links else [kind for kind in everything if kind not in between]
    kinds = [kind for kind in possible if kind in mix.kinds]
    wanted = mix.incidents if kinds else 0
    incidents = [_incident(rng.choice(kinds), overlay, rng, until, mix.longest) for _ in range(wanted)]
    incidents.sort(key=lambda incident: incident.at)
    return FaultPlan(Rates(**chances), tuple(incidents), rates_until=until)


def _incident(kind: str, overlay: OverlayGraph, rng: Random, until: float, longest: float) -> Incident:
    at = rng.uniform(0.0, until * 0.9)
    end = min(until, at + rng.uniform(0.05, 1.0) * longest)
    brokers = overlay.brokers
    nodes: tuple[str, ...] = ()
    cut: tuple[tuple[str, str], ...] = ()
    amount = 0.0
    if kind not in INCIDENTS or kind in OF_ONE:
        nodes = (rng.choice(brokers),)
        if kind in (CLOCK_SKEW, CLOCK_JUMP):
            amount = rng.uniform(-3600.0, 3600.0)
        elif kind == CLOCK_DRIFT:
            amount = rng.uniform(-0.05, 0.05)
    elif kind == PARTITION_HALVES:
        cut = halves(brokers, rng)
    elif kind == PARTITION_RING:
        cut = ring_cut(brokers)
    elif kind == ISOLATE_ONE:
        cut = isolated(rng.choice(brokers), brokers)
    else:  # one link: one-way partition, slow link
        a, b = rng.choice(overlay.links)
        cut = ((a, b),) if rng.random() < 0.5 else ((b, a),)
        amount = rng.uniform(5.0, 50.0)
    return Incident(kind=kind, at=at, until=end, nodes=nodes, cut=cut, amount=amount)

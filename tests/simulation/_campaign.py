"""Seed n of the campaign: which system it tries, how many faults act, and what came of it.

Nine of ten seeds are of the wide world (two thirds `tidings`, one third `tidings-group`); the tenth is of
another system, each kind in its turn. A function of a module with one argument, so that a sweep can run it on
Spark's cores and never twice.
"""

from __future__ import annotations

from typing import Any

from lab.tests.simulation import test_epidemic
from tests.simulation import test_gossip_seeds
from tests.simulation._swapping import Restless
from tests.simulation._wide import run as run_wide

from tidings.simulation.experiment import ExperimentOutcome, run_experiment
from tidings.testing.seeds import NO_CRASH, run_seed

WIDE = "wide"
OTHERS = ("others", "epidemic", "gossip", "swaps")  # one after the other
OF_TEN = 9  # seeds that are of the wide world


def kind_of(number: int) -> str:
    return WIDE if number % 10 < OF_TEN else OTHERS[number // 10 % len(OTHERS)]


def campaign_seed(number: int) -> dict[str, Any]:
    """`faults` that fired, and what was `broken`, if anything: the story of each property."""
    kind = kind_of(number)
    if kind == WIDE:
        return {"number": number, "kind": kind, **_wide(number // 10 * OF_TEN + number % 10)}
    return {"number": number, "kind": kind, **_RUN[kind](20_000 + number // 10)}


def _wide(seed: int) -> dict[str, Any]:
    seen = run_wide(seed)
    broken = {"promise": f"seed {seed}: {seen.broken}"} if seen.broken else {}
    return {"system": seen.system, "faults": sum(seen.faults.values()), "met": seen.met, "broken": broken}


def _others(seed: int) -> dict[str, Any]:
    seen = run_seed(seed // len(OTHERS))  # every profile in its turn
    return _told(seen.profile.system, seen.outcome, seen.report)


def _epidemic(seed: int) -> dict[str, Any]:
    systems = test_epidemic.SYSTEMS
    system = systems[seed // len(OTHERS) % len(systems)]
    outcome = run_experiment(test_epidemic.experiment(system, seed, NO_CRASH))
    return _told(system, outcome, outcome.report)


def _gossip(seed: int) -> dict[str, Any]:
    system = test_gossip_seeds.SYSTEMS[seed // len(OTHERS) % 2]
    outcome = test_gossip_seeds.outcome_of(system, seed)
    return _told(system, outcome, outcome.report)


def _swaps(seed: int) -> dict[str, Any]:
    world = Restless(seed)
    world.open()
    for number in range(10):
        at = world.simulation.now + 0.5 * number
        victim = world.rng.choice(world.brokers)
        world.simulation.call_at(at, lambda victim=victim: world.crash(victim, 0.3))
    world.run(20)
    world.settle(10.0)  # until the last one is back
    first = world.published
    for _ in range(10):
        world.publish()
    world.settle(3.0)
    lost, doubled = world.lost_and_doubled(first)
    found = {"overlay": world.problems(), "lost": lost, "doubled": doubled}
    broken = {name: str(what) for name, what in found.items() if what}
    return {"system": "socbr", "faults": len(world.disturbed), "broken": broken}


def _told(system: str, outcome: ExperimentOutcome, report: Any) -> dict[str, Any]:
    broken = {name: v.story for name, v in report.verdicts.items() if v.holds is False}
    return {"system": system, "faults": sum(outcome.faults.values()), "broken": broken}


_RUN = {"others": _others, "epidemic": _epidemic, "gossip": _gossip, "swaps": _swaps}

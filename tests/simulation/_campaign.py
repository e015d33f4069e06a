"""Seed n of the campaign: which system it tries, with at least ten faults, and what came of it.

A function of a module with one argument, so that a sweep can run it on Spark's cores and never twice.
"""

from __future__ import annotations

from typing import Any

from tests.simulation import test_epidemic, test_gossip_seeds
from tests.simulation._seeds import NO_CRASH, run_seed
from tests.simulation._swapping import Restless
from tests.simulation._tidings import judge, play
from tests.simulation.test_tidings_faults import KINDS, trouble

from tidings.simulation.experiment import Outcome, run_experiment

KINDS_OF_SEED = ("others", "tidings", "tidings", "epidemic", "gossip", "swaps")  # one after the other


def campaign_seed(number: int) -> dict[str, Any]:
    """`faults` that fired, and what was `broken`, if anything: the story of each property."""
    kind, seed = KINDS_OF_SEED[number % len(KINDS_OF_SEED)], 20_000 + number
    return {"number": number, "kind": kind, **_RUN[kind](seed)}


def _others(seed: int) -> dict[str, Any]:
    seen = run_seed(seed // len(KINDS_OF_SEED))  # every profile in its turn
    return _told(seen.profile.system, seen.outcome, seen.report)


def _tidings(seed: int) -> dict[str, Any]:
    run = play(seed, faults=trouble(*KINDS), brokers=3 + seed % 9, absences=seed % 2 == 1)
    try:
        judge(run)
        broken = {}
    except AssertionError as error:
        broken = {"promise": str(error)}
    return {"system": "tidings", "faults": sum(run.world.simulation.fired.values()), "broken": broken}


def _epidemic(seed: int) -> dict[str, Any]:
    systems = test_epidemic.SYSTEMS
    system = systems[seed // len(KINDS_OF_SEED) % len(systems)]
    outcome = run_experiment(test_epidemic.experiment(system, seed, NO_CRASH))
    return _told(system, outcome, outcome.report)


def _gossip(seed: int) -> dict[str, Any]:
    system = test_gossip_seeds.SYSTEMS[seed // len(KINDS_OF_SEED) % 2]
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


def _told(system: str, outcome: Outcome, report: Any) -> dict[str, Any]:
    broken = {name: v.story for name, v in report.verdicts.items() if v.holds is False}
    return {"system": system, "faults": sum(outcome.faults.values()), "broken": broken}


_RUN = {"others": _others, "tidings": _tidings, "epidemic": _epidemic, "gossip": _gossip, "swaps": _swaps}

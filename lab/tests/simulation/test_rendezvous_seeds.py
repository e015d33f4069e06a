"""Systems of rendezvous through loss, crashes, lost disks, brokers that stand still and wrong clocks.

Their contract is safety: nobody hears what it did not want, what was not published, or what came after it
left. They also tell nobody twice, which best effort does not promise: a broker remembers what it took.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tidings.history.schema import NTFY
from tidings.simulation import faults as fault
from tidings.simulation.experiment import Experiment, ExperimentOutcome, run_experiment
from tidings.simulation.workloads import Plan

from ..simulation._rendezvous import LARGE, SYSTEMS, Scene

KINDS = (fault.LOSS, fault.CRASH, fault.DISK_LOSS, fault.STOP, fault.CLOCK_SKEW)
SEEDS = 3  # in every run of the tests, of each system
WORKLOADS = 1000  # of all systems together, in the long run of the tests


def run_seed(system: str, seed: int, kinds: tuple[str, ...] = KINDS) -> ExperimentOutcome:
    plan = Plan(subscriptions=10, events=60, rate=3.0, churn=0.15, publishers=4, leave=True)
    experiment = Experiment(
        system=system,
        seed=seed,
        brokers=10,
        workload="rectangles",
        plan=plan,
        incidents=14,
        kinds=kinds,
        check=True,
        bytes=True,
    )
    return run_experiment(experiment)


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_seed_breaks_the_contract(system: str) -> None:
    fired: Counter[str] = Counter()
    received = 0
    for seed in range(SEEDS):
        outcome = run_seed(system, seed)
        assert outcome.report is not None
        assert outcome.report.holds, f"seed {seed}: {outcome.report.story}"
        assert sum(outcome.faults.values()) >= 10
        fired.update(outcome.faults.keys())
        received += outcome.delivered
    assert fired.keys() == set(KINDS)
    assert received > 100


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_is_told_twice_while_brokers_keep_their_memory(system: str) -> None:
    outcome = run_seed(system, 1, (fault.LOSS, fault.STOP))
    delivered = Counter((r.subscription, r.source, r.event) for r in outcome.rows if r.op == NTFY)
    assert delivered
    assert max(delivered.values()) == 1


def test_a_seed_replays_byte_for_byte() -> None:
    for system in ("scribe", "partitioned-elastic"):
        assert run_seed(system, 1).fingerprint == run_seed(system, 1).fingerprint
    assert run_seed("scribe", 1).fingerprint != run_seed("scribe", 2).fingerprint


@pytest.mark.soak
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_random_workloads_are_delivered_exactly(system: str, part: int) -> None:
    """Of each part's 25 one has 50 brokers, 200 subscriptions, 500 events and churn."""
    share = WORKLOADS // len(SYSTEMS) // 10
    for seed in range(1000 + part * share, 1000 + (part + 1) * share):
        scene = Scene(system, seed, LARGE, check=False) if seed % share == 0 else Scene(system, seed)
        scene.play()
        assert scene.judge() > 0


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 1100, 100))
@pytest.mark.parametrize("system", SYSTEMS)
def test_no_seed_of_a_thousand_breaks_the_contract(system: str, first: int) -> None:
    for seed in range(first, first + 100):
        outcome = run_seed(system, seed)
        assert outcome.report is not None
        assert outcome.report.holds, f"seed {seed}: {outcome.report.story}"

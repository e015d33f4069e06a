"""Peers through everything that can go wrong: no seed breaks what they promise."""

from __future__ import annotations

import pytest

from tidings.simulation.experiment import Experiment, ExperimentOutcome, run_experiment
from tidings.simulation.workloads import Plan
from tidings.testing.seeds import EVERYTHING

SYSTEMS = ("damulticast", "gossip-broadcast")
RIVALS = ("publisher-groups", "subscriber-groups", "hierarchical-gossip", "pmcast", "hpcast")


def outcome_of(system: str, seed: int) -> ExperimentOutcome:
    plan = Plan(subscriptions=7, events=50, rate=2.5, churn=0.15, publishers=3, leave=True)
    return run_experiment(
        Experiment(
            system=system, seed=seed, brokers=6, fan_out=3, workload="rectangles", plan=plan, incidents=14,
            kinds=EVERYTHING, check=True, bytes=True,
        )
    )  # fmt: skip


def judge(system: str, seeds: range) -> None:
    delivered = 0
    for seed in seeds:
        outcome = outcome_of(system, seed)
        assert outcome.report is not None
        assert outcome.report.holds, f"seed {seed}: {outcome.report.story}"
        assert sum(outcome.faults.values()) >= 10
        delivered += outcome.delivered
    assert delivered > 10 * len(seeds), "there was something to tell"


@pytest.mark.parametrize("system", SYSTEMS)
def test_dam_3_no_seed_breaks_a_promise(system: str) -> None:
    judge(system, range(12))


@pytest.mark.parametrize("system", RIVALS)
def test_dam_8_no_seed_breaks_what_a_rival_promises(system: str) -> None:
    judge(system, range(3))


@pytest.mark.parametrize(
    ("system", "seed"),
    [("gossip-broadcast", 27_846), ("damulticast", 27_048), ("damulticast", 24_852), ("damulticast", 26_148)],
    ids=["told again by one that forgot", "the same, with topics", "a clock that jumped", "one set back"],
)
def test_seeds_that_broke_a_promise_once(system: str, seed: int) -> None:
    outcome = outcome_of(system, seed)
    assert outcome.report is not None
    assert outcome.report.holds, outcome.report.story


@pytest.mark.soak
@pytest.mark.parametrize("system", SYSTEMS + RIVALS)
@pytest.mark.parametrize("first", range(100, 1100, 100))
def test_dam_3_no_seed_of_a_thousand_breaks_a_promise(system: str, first: int) -> None:
    judge(system, range(first, first + 100))

"""Gryphon keeps its promise through faults: complete, once, in order (its own routing on the acknowledged
core)."""

from __future__ import annotations

import pytest

from tidings.history.check import check
from tidings.simulation import faults as fault
from tidings.simulation.experiment import T_DIFF, T_SUB, Experiment, ExperimentOutcome, run_experiment
from tidings.simulation.workloads import Plan

# a crash with an empty disk loses what only that disk held; a clock that jumps moves the broker's timers
KINDS = tuple(
    kind for kind in fault.RATES + fault.INCIDENTS if kind not in (fault.DISK_LOSS, fault.CLOCK_SKEW)
)
PLAN = Plan(
    subscriptions=12, events=70, rate=10.0, churn=0.1, durable=1.0, publishers=4, leave=True, rename=True
)


def run(seed: int) -> ExperimentOutcome:
    experiment = Experiment(
        system="gryphon", seed=seed, brokers=7, fan_out=3, workload="stocks", plan=PLAN, incidents=8,
        kinds=KINDS,
        calm=60.0, check=True,
    )  # fmt: skip
    return run_experiment(experiment, judge=False)


def judge(first: int, count: int) -> None:
    received = faults = 0
    for seed in range(first, first + count):
        outcome = run(seed)
        report = check(outcome.rows, contract="Gryphon", t_sub=T_SUB, t_diff=T_DIFF)
        assert report.holds, f"seed {seed}: {report.broken}: {report.story}"
        assert report["completeness"].holds
        received += outcome.delivered
        faults += sum(outcome.faults.values())
    assert received > 20 * count
    assert faults > 6 * count


def test_gryphon_is_complete_once_and_in_order_through_faults() -> None:
    judge(0, 10)


@pytest.mark.soak
def test_gryphon_is_complete_once_and_in_order_through_faults_in_a_thousand_seeds() -> None:
    judge(0, 1000)
